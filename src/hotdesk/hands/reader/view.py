"""Viewers of a desk's screen: each has its own connection to it, and one of them may have control."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import field

import anyio
import anyio.lowlevel

from hotdesk.dataclass import dataclass
from hotdesk.errors import DeskError
from hotdesk.hands.reader import SCREEN_PORT, Dial, ProtocolError, VerbResult
from hotdesk.hands.reader.relay import DeskSide, Side, ViewerInput, ViewerSide
from hotdesk.linux import sockets

_GREETING_TIMEOUT_S = 10.0
"""Seconds for the greetings of both sides."""
_RELEASE_TIMEOUT_S = 1.0
"""Seconds a screen may take to receive the release of keys."""
_ARRIVAL_TIMEOUT_S = 1.0
"""Seconds until a viewer that is not connected counts as gone."""
GONE = "the screen was disconnected; take over again when it is shown"
MAX_VIEWERS = 16


@dataclass(slots=True)
class Looking:
    """One viewer."""

    viewer: ViewerSide
    desk: socket.socket
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    writing: anyio.Lock = field(default_factory=anyio.Lock)
    """Serialises writing to the desk: the person's keys, or their release."""


class ScreenRelay:
    VERBS = frozenset({"present", "lease", "acted", "drop"})

    def __init__(self, dial: Dial) -> None:
        self.dial = dial
        self.looking: dict[int, Looking] = {}
        self.holder = 0
        self.acts = ViewerInput()
        """The input of the last viewer that had control."""

    async def join(self, viewer: socket.socket, number: int) -> None:
        """Relay to one viewer until either side ends, then close the sockets. Invalid data raises `ProtocolError`."""
        viewer.setblocking(False)
        with viewer:
            if number in self.looking or len(self.looking) >= MAX_VIEWERS:
                raise DeskError(f"{len(self.looking)} viewers already watch this desk, which is the limit")
            with await self.dial(SCREEN_PORT) as desk:
                screen = DeskSide()
                one = self.looking[number] = Looking(ViewerSide(screen), desk)
                try:
                    with one.scope, suppress(OSError):
                        await relay(one, screen, viewer)
                finally:
                    self.forget(number)
                    for sock in (viewer, desk):
                        anyio.notify_closing(sock)

    async def present(self, number: int) -> VerbResult:
        """Wait briefly until a viewer is connected to the screen: its connection may have arrived just now."""
        with anyio.move_on_after(_ARRIVAL_TIMEOUT_S):
            while number not in self.looking:  # noqa: ASYNC110 - it is a matter of milliseconds
                await anyio.sleep(_ARRIVAL_TIMEOUT_S / 50)
        if number not in self.looking:
            raise DeskError(GONE)
        return VerbResult()

    def forget(self, number: int) -> None:
        """Remove a viewer that is gone, and end its control."""
        one = self.looking.pop(number)
        if self.holder == number:
            self.holder, self.acts = 0, one.viewer.acts

    async def lease(self, number: int) -> VerbResult:
        """Give control to a viewer, or with 0 to none; the keys that the previous one holds down are released."""
        if number and number not in self.looking:
            raise DeskError(GONE)
        if number == self.holder:
            return VerbResult()
        before, self.holder = self.looking.get(self.holder), number
        if number:
            self.looking[number].viewer.drive(True)
        if before is not None:
            before.viewer.drive(False)
            self.acts = before.viewer.acts
            with anyio.move_on_after(_RELEASE_TIMEOUT_S) as moment:
                await let_go(before)
            if moment.cancelled_caught:
                before.scope.cancel()  # a screen that accepts no more keys will show nothing more
        return VerbResult()

    async def acted(self) -> VerbResult:
        """Return the input of the current or last viewer in control: how often and where, never which keys."""
        one = self.looking.get(self.holder)
        acts = one.viewer.acts if one is not None else self.acts
        return VerbResult({"clicks": acts.clicks, "keys": acts.keys, "places": [list(place) for place in acts.places]})

    async def drop(self, number: int) -> VerbResult:
        if one := self.looking.get(number):
            one.scope.cancel()
        return VerbResult()


async def relay(one: Looking, screen: DeskSide, viewer: socket.socket) -> None:
    try:
        with anyio.fail_after(_GREETING_TIMEOUT_S):
            await greet(screen, one.desk)
            await sockets.send(one.desk, screen.take_back())
            await sockets.send(viewer, one.viewer.take_back())
            await greet(one.viewer, viewer)
    except TimeoutError:
        raise ProtocolError(
            f"the screen or the viewer sent no RFB greeting within {_GREETING_TIMEOUT_S:.0f} s"
        ) from None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show, screen, one.desk, viewer, tasks.cancel_scope)
            await _steer(one, viewer)
            tasks.cancel_scope.cancel()
    except* ProtocolError as group:
        raise group.exceptions[0] from None
    except* OSError:
        pass  # either side disconnected


async def greet(side: Side, sock: socket.socket) -> None:
    while not side.ready:
        data = await receive(sock)
        if not data:
            raise ConnectionResetError("the connection was closed during the RFB greeting")
        side.feed(data)
        await sockets.send(sock, side.take_back())


async def show(screen: DeskSide, desk: socket.socket, viewer: socket.socket, scope: anyio.CancelScope) -> None:
    """Pass pictures on; if the viewer reads slowly, the desk has to wait."""
    while data := await receive(desk):
        screen.feed(data)
        await sockets.send(viewer, screen.take())
    scope.cancel()


async def _steer(one: Looking, viewer: socket.socket) -> None:
    await let_go(one)  # bytes that arrived with its greeting
    while data := await receive(viewer):
        one.viewer.feed(data)
        await let_go(one)


async def let_go(one: Looking) -> None:
    """Send the pending bytes to a desk, in order."""
    async with one.writing:
        with suppress(OSError):
            await sockets.send(one.desk, one.viewer.take())


async def receive(sock: socket.socket) -> bytes:
    """Read the available data; empty at the end. Other tasks may run first, in case a side sends without pause."""
    await anyio.lowlevel.checkpoint()
    return await sockets.receive(sock)
