"""Reads what a desk's screen and browser say: RFB and CDP, both hostile.

How it works: one throw-away process a desk, without files, network or privilege. It is handed connections into its
desk and asked in words (`screen.shot`, `browser.goto`); what it answers is small, typed and bounded. A part of it is a
class made with a `Dial`, whose `VERBS` name the methods that may be asked for. Nothing here imports a desk.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.ipc.frames import MAX_BLOB_BYTES, Frames

Dial: TypeAlias = Callable[[int], Awaitable[socket.socket]]
"""Gives a connection, not blocking, to a port on the desk's loopback; `DeskError` when no one listens there."""

SCREEN_PORT = 5900
BROWSER_PORT = 9222

MAX_ITEMS = 500_000
"""Lists, objects and members of a message between an owner and its reader."""

PARTS = {
    "screen": "hotdesk.hands.reader.display:Display",
    "browser": "hotdesk.hands.reader.chrome:Chrome",
    "view": "hotdesk.hands.reader.view:ScreenRelay",
}


@dataclass(frozen=True, slots=True)
class VerbResult:
    """The result of a verb: a JSON value, and bytes beside it."""

    value: object = None
    blob: bytes = b""


def make_reader_frames() -> Frames:
    """Return what reads messages between an owner and its reader: bounded, for a reader may be turned."""
    return Frames(MAX_BLOB_BYTES, MAX_ITEMS)


class ProtocolError(Exception):
    """The desk's side broke its protocol or exceeded a limit. The connection is closed."""
