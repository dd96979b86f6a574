"""One request to a guest and everything that belongs to it, with flow control both ways."""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol, TypeAlias

import anyio

from hotdesk.config import MIB
from hotdesk.dataclass import dataclass
from hotdesk.desk.link.clock import DeskClock
from hotdesk.errors import DeskGone, LinkError
from hotdesk_guest import wire

Body: TypeAlias = dict[str, object]

MAX_CREDIT = wire.WINDOW
"""Credit is what was there in the beginning, given back: more is a lie, and a writer with too much never rests."""
GRACE_S = 10.0
"""Seconds beyond what was agreed until we stop believing a guest."""
SILENCE_TIMEOUT_S = 60.0
"""Seconds a file operation may pass without a word from the guest."""
MAX_LISTING_BYTES = 32 * MIB
"""Bytes one listing may take."""
UNEXPECTED_FRAME = "hotdesk's process in the desk sent an unexpected frame; burn the desk and open another"


class ChannelOwner(Protocol):
    """A channel, as its link sees it."""

    over: bool

    def deliver(self, kind: int, payload: bytes) -> None:
        """Receive a frame of the guest; `LinkError` ends the link."""
        ...

    def wake(self) -> None:
        """Learn that the link ended."""
        ...


class Carrier(Protocol):
    """A link, as its channels see it."""

    failure: LinkError | DeskGone | None
    channels: dict[int, ChannelOwner]
    clock: DeskClock

    def may_be_silent(self) -> bool:
        """Return whether the guest was stopped on purpose."""
        ...

    async def send(self, kind: int, number: int, payload: bytes = b"") -> None:
        """Write one frame."""
        ...

    def make_lost_error(self) -> LinkError | DeskGone:
        """Return why the link ended."""
        ...


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream."""

    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class GuestEvent:
    """An event from the guest: a value of any shape."""

    value: object
    size: int
    """Bytes it came in."""


@dataclass(frozen=True, slots=True)
class GuestReply:
    """The guest's last word on a channel."""

    body: Body


Item: TypeAlias = Data | GuestEvent | GuestReply


class Channel:
    """One request and everything that belongs to it."""

    def __init__(self, link: Carrier) -> None:
        self.link = link
        self.number = 0
        self.items: deque[tuple[Item, int]] = deque()
        self.window = wire.WINDOW
        """What the guest may still send."""
        self.eaten = 0
        """What was consumed and not yet given back."""
        self.credit = wire.WINDOW
        """What we may still send."""
        self.over = False
        self.news: anyio.Event | None = None
        self.allowance: anyio.Event | None = None

    def deliver(self, kind: int, payload: bytes) -> None:
        if kind == wire.DATA:
            if len(payload) < 2:
                raise wire.WireError("unexpected empty frame")
            self.put(Data(payload[0], payload[1:]), wire.compute_cost(payload))
        elif kind == wire.EVENT:
            self.put(GuestEvent(wire.decode(payload, wire.MAX_PARTS), len(payload)), wire.compute_cost(payload))
        elif kind == wire.CREDIT:
            self.credit += int.from_bytes(payload[:4], "big")
            if self.credit > MAX_CREDIT:
                raise wire.WireError("the guest returned more flow-control credit than allowed")
            self.wake()
        elif kind == wire.REPLY:
            body = wire.decode(payload, wire.MAX_PARTS)
            if not isinstance(body, dict):
                raise wire.WireError("a reply of the guest is not an object")
            self.over = True
            self.items.append((GuestReply(body), 0))
            self.wake()

    def put(self, item: Item, cost: int) -> None:
        """Queue a frame's payload, within the window."""
        self.window -= cost
        if self.window < 0:
            raise wire.WireError("the guest sent more data than allowed")
        self.items.append((item, cost))
        if self.news is not None:
            self.news.set()

    async def receive(self) -> Item:
        """Return the next thing the guest sent; return credit back for it."""
        while not self.items:
            if self.link.failure is not None:
                raise self.link.make_lost_error()
            self.news = anyio.Event()
            await self.news.wait()
        item, cost = self.items.popleft()
        self.eaten += cost
        if self.eaten >= wire.WINDOW // 4 and not self.over:
            granted, self.eaten = self.eaten, 0
            self.window += granted
            await self.link.send(wire.CREDIT, self.number, granted.to_bytes(4, "big"))
        return item

    async def answer(self, silence: float = SILENCE_TIMEOUT_S) -> Item:
        """Wait for the guest, but not for ever; a paused one is given its time."""
        while True:
            with anyio.move_on_after(silence):
                return await self.receive()
            if not self.link.may_be_silent():
                raise LinkError(
                    f"hotdesk's process in the desk sent nothing for {silence:.0f} s; burn the desk, open another"
                )

    async def send(self, data: bytes, patience: float = math.inf) -> None:
        """Send bytes, waiting while the guest has no room; what a finished channel gets is dropped.

        A program may let its input wait as long as it likes; a guest that writes a file may not: `patience`.
        """
        view = memoryview(data)
        while view and not self.over:
            if self.credit <= 0:
                with anyio.move_on_after(patience) as scope:
                    await self.wait_for_credit()
                if scope.cancelled_caught and not self.link.may_be_silent():
                    raise LinkError(
                        f"hotdesk's process in the desk read nothing for {patience:.0f} s; burn the desk, open another"
                    )
                continue
            part = view[: min(wire.CHUNK, self.credit)]
            view = view[len(part) :]
            self.credit -= len(part)
            await self.link.send(wire.DATA, self.number, b"\0" + bytes(part))

    async def wait_for_credit(self) -> None:
        if self.link.failure is not None:
            raise self.link.make_lost_error()
        self.allowance = anyio.Event()
        await self.allowance.wait()

    async def end(self) -> None:
        if not self.over:
            await self.link.send(wire.END, self.number)

    async def order(self, body: Body) -> None:
        """Send a signal order; a channel or link that is over is no error."""
        if not self.over and self.link.failure is None:
            await self.link.send(wire.SIGNAL, self.number, wire.encode(body))

    async def drop(self) -> None:
        """Forget the channel; twice is no error."""
        if self.link.channels.pop(self.number, None) is not None and not self.over and self.link.failure is None:
            self.over = True
            await self.link.send(wire.DROP, self.number)

    async def end_tree(self) -> None:
        """Kill the program with all its descendants, and forget the channel even when the order is stuck."""
        try:
            await self.order({"signal": 9, "tree": True})
        finally:
            await self.drop()

    def wake(self) -> None:
        for event in (self.news, self.allowance):
            if event is not None:
                event.set()
