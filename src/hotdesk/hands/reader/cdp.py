"""The browser's protocol (CDP): commands and events. The peer is hostile.

There is one connection for the whole browser, and a session for each tab. Messages are read only while a command or a
wait is running; each is handled at once and not stored. A call has one deadline for all of it, even if the browser
keeps sending events.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import anyio

from hotdesk.errors import DeskError, make_printable
from hotdesk.hands.reader import BROWSER_PORT, Dial, PeerError, ProtocolError
from hotdesk.hands.reader.untrusted import UntrustedObject
from hotdesk.hands.reader.websocket import WebSocket, find_path
from hotdesk.strict import StrictError, parse_json

T = TypeVar("T")
Hear: TypeAlias = Callable[[str, str, UntrustedObject], None]
"""Handles an event: its session, name and parameters."""

_CONNECT_SECONDS = 10.0
CALL_SECONDS = 15.0
_MAX_PIECES = 2_000_000
"""Lists, objects and members in one message, which limits the memory it needs when parsed."""


class CdpError(Exception):
    """The browser could not carry out a command; the message is the browser's."""


class Cdp:
    def __init__(self, web: WebSocket, hear: Hear) -> None:
        self.web = web
        self.hear = hear
        self.last = 0

    async def call(
        self, method: str, session: str = "", seconds: float = CALL_SECONDS, /, **parameters: object
    ) -> UntrustedObject:
        """Send a command and return its result; handle events meanwhile. Raise `CdpError` if the browser refuses."""
        self.last += 1
        number = self.last
        message: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        with anyio.move_on_after(seconds):
            await self.web.send(json.dumps(message).encode())
            while True:
                reply = await self.read_next()
                if reply.data.get("id") == number and reply.read_text("sessionId") == session:
                    return answer(reply)
        raise DeskError(f"the browser did not respond to {method} within {seconds:g} seconds; try again")

    async def wait(self, until: Callable[[], bool], seconds: float) -> bool:
        """Handle events until a condition is true; return whether it became true in time."""
        with anyio.move_on_after(seconds):
            while not until():
                await self.read_next()
        return until()

    async def read_next(self) -> UntrustedObject:
        """Read one message; if it is an event, handle it."""
        message = UntrustedObject(parse(await self.web.receive()))
        if "id" not in message:
            self.hear(message.read_text("sessionId"), message.read_text("method"), message.read_object("params"))
        return message

    def close(self) -> None:
        self.web.close()


async def open_cdp(dial: Dial, hear: Hear, seconds: float = _CONNECT_SECONDS) -> Cdp:
    """Connect to a desk's browser. Dialling has its own time limit: the browser may have to be started first."""
    with await dial(BROWSER_PORT) as sock:
        path = await wait_within(seconds, find_path(sock))
    web = WebSocket(await dial(BROWSER_PORT), path)
    try:
        await wait_within(seconds, web.shake())
    except BaseException:
        web.close()
        raise
    return Cdp(web, hear)


async def wait_within(seconds: float, work: Awaitable[T]) -> T:
    with anyio.move_on_after(seconds):
        return await work
    raise PeerError(f"did not respond within {seconds:g} seconds; try again, or open another desk")


def parse(message: bytes) -> object:
    """Parse JSON from a hostile peer; refuse too many values, too deep nesting and invalid numbers."""
    if message.count(b",") + message.count(b"[") + message.count(b"{") > _MAX_PIECES:
        raise ProtocolError(
            f"one message has more than {_MAX_PIECES:,} JSON values; the page may be too large: use browser_read or "
            "browser_evaluate"
        )
    try:
        return parse_json(message, duplicates=True, overflow=True)
    except StrictError as e:
        raise ProtocolError("a message of the browser is not JSON") from e


def answer(message: UntrustedObject) -> UntrustedObject:
    if "error" in message:
        raise CdpError(make_printable(message.read_object("error").read_text("message", 300)))
    return message.read_object("result")
