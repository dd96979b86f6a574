"""Notes for users without root, whose state directory is not the machine's."""

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
    """Print on standard error whose state a command will read, if that may be unexpected."""
    if text := describe_own_state(command, os.geteuid(), os.environ, MACHINE.exists()):
        print(text, file=sys.stderr, flush=True)


def require_root_for_job(wall: str, settings: Config) -> None:
    """Refuse a job that needs root before anything is created for it; jobs on nodes do not need it."""
    if os.geteuid() != 0 and wall != "local" and find_node_identity(settings) is None:
        raise HostError(
            "Carrying out a brief needs root: use `sudo hotdesk work`. Without root, start the job at a "
            "server, on its web page or through its API with a key."
        )


def describe_own_state(command: str, uid: int, environ: Mapping[str, str], is_set_up: bool) -> str:
    """Return that note, or `""` if none is needed."""
    if uid == 0 or environ.get("HOTDESK_HOME") or not is_set_up or command not in OF_THE_MACHINE:
        return ""
    return (
        f"hotdesk: you are not root, so this is your own state directory; `sudo hotdesk {command}` uses the machine's"
    )
