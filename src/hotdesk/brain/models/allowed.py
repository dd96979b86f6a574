"""Restrict models to this machine if a switch is set, so that no test can cost money."""

from __future__ import annotations

import os
from ipaddress import ip_address
from urllib.parse import urlsplit

from hotdesk.errors import ModelError, make_printable

SWITCH = "HOTDESK_LOOPBACK_MODELS"


def is_loopback(url: str) -> bool:
    """Return whether a URL leads to this machine and nowhere else."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check(url: str, name: str) -> None:
    if os.environ.get(SWITCH) and not is_loopback(url):
        host = make_printable(urlsplit(url).hostname or "nowhere")[:200]
        raise ModelError(
            f"{name} was not called: its server is {host}, and {SWITCH} allows only models on this machine; "
            f"unset {SWITCH}, or use a model at 127.0.0.1"
        )
