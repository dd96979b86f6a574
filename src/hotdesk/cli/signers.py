"""Trusted signers: those given to a command, or those of the settings and this machine's own key."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from hotdesk import config
from hotdesk.drive.signing import compute_fingerprint, load_own_public, load_public
from hotdesk.errors import HotdeskError

_FINGERPRINT = re.compile(r"[0-9a-f]{32}")


def load_trusted_signers(named: Iterable[str] | None) -> dict[str, str]:
    if named:
        return {_resolve_fingerprint(each): "trusted by --signer" for each in named}
    settings = config.load()
    found = {_resolve_fingerprint(each): "trusted by the settings" for each in settings.signers}
    with suppress(HotdeskError, OSError):  # most machines only verify and have no key
        found[compute_fingerprint(load_own_public(settings.lib / "keys"))] = "this machine's own key"
    return found


def _resolve_fingerprint(text: str) -> str:
    return text if _FINGERPRINT.fullmatch(text) else compute_fingerprint(load_public(Path(text)))
