"""The browser's protocol (CDP): ask, and hear what happens meanwhile. The other end is hostile.

One connection for the whole browser, a session a tab. Messages are read only while something is asked or waited for;
each is handed on at once and forgotten. Every call has a deadline over all of it, however busy the other end keeps us.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import anyio

from hotdesk.errors import DeskError, printable
from hotdesk.hands.reader import Dial, Strange
from hotdesk.hands.reader.web import WebSocket, connect

Hear: TypeAlias = Callable[[str, str, "Facts"], None]
"""Takes an event: its session, its name, what it says."""

CONNECT_SECONDS = 10.0
CALL_SECONDS = 15.0
MOST_PIECES = 2_000_000
"""Lists, objects and members in one message: what it costs in memory once it is read."""


class Refused(Exception):  # noqa: N818 - a result: the browser says no
    """The browser could not do what it was asked; says why, in its words."""


class Facts:
    """An object the other end sent: each fact is asked for by kind, so that a wrong one is found where it is used."""

    def __init__(self, told: object) -> None:
        if not isinstance(told, dict):
            raise Strange("something else where an object belongs")
        self.told: dict[str, Any] = told

    def text(self, name: str, longest: int = 4000) -> str:
        """Give a text, cut to a length; absent is empty."""
        return clip(self.told.get(name, ""), longest)

    def number(self, name: str) -> float:
        """Give a number; absent is 0."""
        value = self.told.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
            raise Strange(f"{name} is no number")
        return value

    def whole(self, name: str) -> int:
        """Give a whole number; absent is 0."""
        return math.floor(self.number(name))

    def flag(self, name: str) -> bool:
        """Give a truth; absent is false."""
        if not isinstance(value := self.told.get(name, False), bool):
            raise Strange(f"{name} is neither true nor false")
        return value

    def facts(self, name: str) -> Facts:
        """Give an object; absent is empty."""
        return Facts(self.told.get(name, {}))

    def each(self, name: str) -> list[Facts]:
        """Give a list of objects; absent is empty."""
        return [Facts(one) for one in self.items(name)]

    def items(self, name: str) -> list[Any]:
        """Give a list; absent is empty."""
        if not isinstance(value := self.told.get(name, []), list):
            raise Strange(f"{name} is no list")
        return value

    def __contains__(self, name: str) -> bool:
        return name in self.told


class Cdp:
    """One connection to a browser."""

    def __init__(self, web: WebSocket, hear: Hear) -> None:
        self.web = web
        self.hear = hear
        self.last = 0

    async def call(
        self, method: str, session: str = "", seconds: float = CALL_SECONDS, /, **parameters: object
    ) -> Facts:
        """Ask, and wait for the answer; what happens meanwhile is heard. `Refused`: the browser says no."""
        self.last += 1
        asked = self.last
        message: dict[str, object] = {"id": asked, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        with anyio.move_on_after(seconds):
            await self.web.send(json.dumps(message).encode())
            while True:
                told = await self.next()
                if told.told.get("id") == asked and told.text("sessionId") == session:
                    return answer(told)
        raise DeskError(f"the browser did not answer {method} within {seconds:g} seconds")

    async def wait(self, until: Callable[[], bool], seconds: float) -> bool:
        """Hear what happens until something is so; False: the time was up."""
        with anyio.move_on_after(seconds):
            while not until():
                await self.next()
        return until()

    async def next(self) -> Facts:
        """Read one message; an event is heard."""
        told = Facts(parse(await self.web.receive()))
        if "id" not in told:
            self.hear(told.text("sessionId"), told.text("method"), told.facts("params"))
        return told

    def close(self) -> None:
        """Let go of the browser, which goes on."""
        self.web.close()


async def open_cdp(dial: Dial, hear: Hear, seconds: float = CONNECT_SECONDS) -> Cdp:
    """Connect to a desk's browser."""
    with anyio.move_on_after(seconds):
        return Cdp(await connect(dial), hear)
    raise Strange(f"it does not answer within {seconds:g} seconds")


def parse(message: bytes) -> object:
    """Read JSON that was written to harm: too deep, too many pieces, numbers that are none."""
    if message.count(b",") + message.count(b"[") + message.count(b"{") > MOST_PIECES:
        raise Strange(f"a message of more than {MOST_PIECES} pieces")
    try:
        return json.loads(message.decode(), parse_constant=no_number)
    except (ValueError, RecursionError) as e:
        raise Strange("a message that is no JSON") from e


def no_number(text: str) -> NoReturn:
    """Refuse what JSON does not have."""
    raise ValueError(f"{text} is no number")


def answer(told: Facts) -> Facts:
    """Give what an answer says."""
    if "error" in told:
        raise Refused(printable(told.facts("error").text("message", 300)))
    return told.facts("result")


def clip(value: object, longest: int) -> str:
    """Cut a text to a length; what is no character is replaced."""
    if not isinstance(value, str):
        raise Strange("something else where a text belongs")
    return value[:longest].encode("utf-8", "replace").decode()
