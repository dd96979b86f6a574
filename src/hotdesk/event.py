"""What happened: frozen, versioned, plain data; and `Note`, which takes it down."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from hotdesk.errors import HostError

VERSION = 1


@dataclass(frozen=True, slots=True)
class RootAct:
    """A program is about to run as root inside a desk."""

    desk: str
    by: Literal["owner", "sudo"]
    """Who asked: the desk's owner, or a program inside that called `sudo`."""
    argv: tuple[str, ...]
    cwd: str
    number: int = 0
    """Which of `sudo`'s acts it is."""


@dataclass(frozen=True, slots=True)
class RootActEnded:
    """What `sudo` ran is over. The exit code is the guest's word."""

    desk: str
    number: int
    exit_code: int


Event: TypeAlias = RootAct | RootActEnded
Note: TypeAlias = Callable[[Event], None]
"""Takes an event down; `HostError` when it cannot."""


def ignore(event: Event) -> None:
    """Take nothing down."""


def line(event: Event) -> bytes:
    """Write an event as its line in a journal."""
    told = {"version": VERSION, "at": round(time.time(), 3), "event": type(event).__name__, **asdict(event)}
    return json.dumps(told).encode() + b"\n"


class Journal:
    """Events as lines of one file. Opened before an owner gives up its privileges, and only ever added to."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def note(self, event: Event) -> None:
        """Write one event, whole; it survives this process, though not a loss of power."""
        told = line(event)
        try:
            if os.write(self.fd, told) == len(told):
                return
            os.write(self.fd, b"\n")  # so that the next line is one
            why = "only part of a line was written"
        except OSError as e:
            why = str(e.strerror)
        raise HostError(f"what root does in a desk cannot be noted: {why}; is the disk full?")

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)
