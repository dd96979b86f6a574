"""Reads the protocols of a desk's screen and browser: RFB and CDP, both from a hostile peer.

The reader is one disposable process for each desk, without files, network or privileges. It is given connections into
its desk and receives requests by name (`screen.shot`, `browser.goto`); its replies are small, typed and bounded. A part
of it is a class that is created with a `Dial`, whose `VERBS` are the methods that can be requested. Nothing here
imports a desk.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.ipc.frames import MAX_BLOB_BYTES, Frames

Dial: TypeAlias = Callable[[int], Awaitable[socket.socket]]
"""Returns a non-blocking connection to a port on the desk's loopback; raises `DeskError` if the port is closed."""

SCREEN_PORT = 5900
BROWSER_PORT = 9222

MAX_ITEMS = 500_000
"""Lists, objects and members in one message between an owner and its reader."""

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
    """Return a frame parser with limits for messages of a reader, which a hostile desk may have taken over."""
    return Frames(MAX_BLOB_BYTES, MAX_ITEMS)


class ProtocolError(Exception):
    """The desk's side violated its protocol or exceeded a limit. The connection is closed."""


class PeerError(ProtocolError):
    """The desk's side closed its connection or did not respond. The text continues "the browser of desk X"."""
