"""One request to a guest and its replies, with flow control in both directions."""

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
"""Maximum credit. A guest can only return credit: more would be a protocol violation, and disable back-pressure."""
GRACE_S = 10.0
"""Seconds beyond an agreed time after which the guest is no longer trusted to respond."""
SILENCE_TIMEOUT_S = 60.0
"""Seconds a file operation may last without a frame from the guest."""
MAX_LISTING_BYTES = 32 * MIB
"""Maximum bytes of one listing."""
UNEXPECTED_FRAME = "hotdesk's process in the desk sent an unexpected frame; burn the desk and open another"


def make_invalid_error(what: str) -> LinkError:
    """Return the error for a reply that a sound guest never sends."""
    return LinkError(f"hotdesk's process in the desk sent {what}; burn the desk and open another")


class ChannelOwner(Protocol):
    """A channel as its link sees it."""

    over: bool

    def deliver(self, kind: int, payload: bytes) -> None:
        """Handle a frame from the guest. A `LinkError` ends the link."""
        ...

    def wake(self) -> None:
        """Wake the waiting tasks because the link ended."""
        ...


class Carrier(Protocol):
    """A link as its channels see it."""

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
        """Return the reason why the link ended."""
        ...


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream."""

    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class GuestEvent:
    """An event from the guest: a decoded value of any shape."""

    value: object
    size: int
    """Size of the encoded event in bytes."""


@dataclass(frozen=True, slots=True)
class GuestReply:
    """The guest's final frame on a channel."""

    body: Body


Item: TypeAlias = Data | GuestEvent | GuestReply


class Channel:
    """A request and its replies."""

    def __init__(self, link: Carrier) -> None:
        self.link = link
        self.number = 0
        self.items: deque[tuple[Item, int]] = deque()
        self.window = wire.WINDOW
        """Bytes the guest may still send."""
        self.eaten = 0
        """Bytes that were consumed and not yet returned as credit."""
        self.credit = wire.WINDOW
        """Bytes that may still be sent to the guest."""
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
                raise wire.WireError("it returned more flow-control credit than allowed")
            self.wake()
        elif kind == wire.REPLY:
            body = wire.decode(payload, wire.MAX_PARTS)
            if not isinstance(body, dict):
                raise wire.WireError("its reply is not an object")
            self.over = True
            self.items.append((GuestReply(body), 0))
            self.wake()

    def put(self, item: Item, cost: int) -> None:
        """Queue a frame's payload, within the window."""
        self.window -= cost
        if self.window < 0:
            raise wire.WireError("it sent more data than allowed")
        self.items.append((item, cost))
        if self.news is not None:
            self.news.set()

    async def receive(self) -> Item:
        """Return the next item from the guest; return credit for it."""
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
        """Wait for the next item from the guest for `silence` seconds; while it is paused, wait on."""
        while True:
            with anyio.move_on_after(silence):
                return await self.receive()
            if not self.link.may_be_silent():
                raise LinkError(
                    f"hotdesk's process in the desk sent nothing for {silence:.0f} s; burn the desk and open another"
                )

    async def send(self, data: bytes, patience: float = math.inf) -> None:
        """Send bytes, waiting while the guest has no room. Data for a finished channel is discarded.

        A program may leave its input unread for any time. A guest that writes a file may not: `patience` is its limit
        in seconds.
        """
        view = memoryview(data)
        while view and not self.over:
            if self.credit <= 0:
                with anyio.move_on_after(patience) as scope:
                    await self.wait_for_credit()
                if scope.cancelled_caught and not self.link.may_be_silent():
                    raise LinkError(
                        f"hotdesk's process in the desk read nothing for {patience:.0f} s; "
                        "burn the desk and open another"
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
        """Send a signal frame. A channel or link that has ended is no error."""
        if not self.over and self.link.failure is None:
            await self.link.send(wire.SIGNAL, self.number, wire.encode(body))

    async def drop(self) -> None:
        """Close the channel. Calling it twice is no error."""
        if self.link.channels.pop(self.number, None) is not None and not self.over and self.link.failure is None:
            self.over = True
            await self.link.send(wire.DROP, self.number)

    async def end_tree(self) -> None:
        """Kill the program with all its descendants, and close the channel even if the signal cannot be sent."""
        try:
            await self.order({"signal": 9, "tree": True})
        finally:
            await self.drop()

    def wake(self) -> None:
        for event in (self.news, self.allowance):
            if event is not None:
                event.set()
