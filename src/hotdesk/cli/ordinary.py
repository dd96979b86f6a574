"""Notes for users without root: their state directory is not the machine's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from hotdesk.config import Config, find_node_identity
from hotdesk.errors import HostError

MACHINE = Path("/var/lib/hotdesk")
OF_THE_MACHINE = frozenset({"door", "image", "jobs", "journal", "key", "report", "show", "vault"})
"""Commands that read a state directory, in which an ordinary user mostly has nothing."""


def note_own_state(command: str) -> None:
    """Say on standard error whose state a command is about to read, where that may surprise."""
    if text := describe_own_state(command, os.geteuid(), os.environ, MACHINE.exists()):
        print(text, file=sys.stderr, flush=True)


def require_root_for_job(wall: str, settings: Config) -> None:
    """Refuse a job that needs a keeper, doors and keys of its own, before anything is made for it; not over nodes."""
    if os.geteuid() != 0 and wall != "local" and find_node_identity(settings) is None:
        raise HostError(
            "Carrying out a brief needs root: use `sudo hotdesk work`. Without root, start the job at a "
            "server, on its web page or through its API with a key."
        )


def describe_own_state(command: str, uid: int, environ: Mapping[str, str], is_set_up: bool) -> str:
    """Write that note; empty where there is nothing to say."""
    if uid == 0 or environ.get("HOTDESK_HOME") or not is_set_up or command not in OF_THE_MACHINE:
        return ""
    return (
        f"hotdesk: you are not root, so this is your own state directory; `sudo hotdesk {command}` uses the machine's"
    )
