"""The connection to a guest over any byte stream: channels with flow control. Every frame from the guest is hostile
input.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable

import anyio

from hotdesk.desk.link.channel import UNEXPECTED_FRAME, Body, Channel, ChannelOwner, GuestReply
from hotdesk.desk.link.clock import DeskClock
from hotdesk.errors import BriefError, DeskError, DeskGone, LinkError, make_printable
from hotdesk.linux.pace import scale_seconds
from hotdesk_guest import wire

READ = 1 << 16
_HELLO_SECONDS = 10.0
SILENT_SECONDS = 60.0
"""Seconds a writer waits for a guest that reads nothing."""
_SLICE_S = 0.002
"""Seconds the frames of one link may take before other tasks run."""
_PARK_SECONDS = 20.0
"""Seconds a guest may take to flush its output and disconnect, or to continue afterwards."""
STUCK_SECONDS = 1.0
"""Seconds a cancelled writer waits for a guest to take the rest of a frame."""
_NOT_CLOSED = "hotdesk's process in the desk did not close the connection; burn the desk and open another"
_NOT_READING = "hotdesk's process in the desk stopped reading; burn the desk and open another"


async def _make_hung_up_error() -> DeskGone:
    return DeskGone("the desk closed the connection: it was burnt, or its first process ended; open another")


async def explain_stop(desk: str) -> DeskGone:
    """Return the error for calls that were running when a desk was stopped."""
    return DeskGone(f"desk {desk} was stopped, and its programs ended; try again after it is resumed")


class LinkGap:
    """The time between two connections of one guest."""

    def __init__(self) -> None:
        self.parted = anyio.Event()
        """Set when the guest has disconnected."""
        self.joined = anyio.Event()
        """Set when it has connected again."""
        self.closed = anyio.Event()
        """Set when writers may continue."""


class Link:
    """The channels of one guest, over one connection at a time."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.reader = wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT)
        self.channels: dict[int, ChannelOwner] = {}
        self.last = 0
        self.failure: LinkError | DeskGone | None = None
        self.hello: Body | None = None
        self.greeted = anyio.Event()
        self.writing = anyio.Lock(fast_acquire=True)
        self.ended = anyio.Event()
        self.explain_end: Callable[[], Awaitable[DeskGone | LinkError]] = _make_hung_up_error
        """Returns the reason why the other end is gone."""
        self.ending: LinkError | None = None
        """The guest's protocol violation, if there was one."""
        self.paused = False
        """Whether the desk was stopped deliberately, so that silence is no failure."""
        self.suspended = False
        """Whether the guest is frozen because a person has control."""
        self.clock = DeskClock()
        """Stopped while the guest is suspended: a program's time limit does not run while a person has control."""
        self.carried = 0
        """Channels that carry connections to ports. An open connection alone does not count as use of the desk."""
        self.moves = 0
        """Frames in both directions so far; the owner sees from it that a desk is in use."""
        self.opening: Callable[[bytes], Awaitable[None]] | None = None
        """Called with every request before it is sent."""
        self.gap: LinkGap | None = None
        """Set while the guest is parked: no connection is open, channels remain, and writers wait."""

    async def run(self) -> None:
        """Read from the guest until the link ends; then every waiting task gets the reason.

        The event loop calls `listen` directly: waking a task for every read takes a tenth of the time of a short
        program.
        """
        loop = asyncio.get_running_loop()
        try:
            while True:
                over = anyio.Event()
                loop.add_reader(self.sock, self.listen, over)
                await over.wait()
                if self.gap is None or self.ending is not None or self.failure is not None:
                    break
                await self.bridge(self.gap)
                if self.sock.fileno() < 0:
                    break  # the link ended before the guest connected again
            self.fail(self.ending or await self.explain_end())
        finally:
            if self.sock.fileno() >= 0:
                loop.remove_reader(self.sock)
            self.close()

    async def bridge(self, gap: LinkGap) -> None:
        """Close the connection of a parked guest, and wait for its next one, or for the end of the link."""
        anyio.notify_closing(self.sock)
        self.sock.close()
        gap.parted.set()
        await gap.joined.wait()

    def listen(self, over: anyio.Event) -> None:
        """Read once, so that a flooding guest does not block other tasks."""
        try:
            data = self.sock.recv(READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.hear(data, over)
        else:
            self.stop(over)

    def stop(self, over: anyio.Event) -> None:
        """Stop reading: a socket at its end is always readable."""
        asyncio.get_running_loop().remove_reader(self.sock)
        over.set()

    def hear(self, data: bytes, over: anyio.Event) -> None:
        """Handle received bytes. A guest that breaks the protocol ends the link.

        Many small frames are handled in slices; while some are left nothing more is read.
        """
        self.reader.buffer += data
        end = time.perf_counter() + _SLICE_S
        try:
            while (frame := self.reader.read_next()) is not None:
                self.take(*frame)
                if time.perf_counter() > end:
                    self.pause(over)
                    break
        except wire.WireError as e:
            self.ending = LinkError(
                f"hotdesk's process in the desk broke the protocol: {e}; burn the desk and open another"
            )
        except LinkError as e:
            self.ending = e
        if self.ending is not None:
            self.stop(over)

    def pause(self, over: anyio.Event) -> None:
        """Let other tasks run before the next frame is handled."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.sock)
        loop.call_soon(self.resume, over)

    def resume(self, over: anyio.Event) -> None:
        if not over.is_set() and self.sock.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self.sock, self.listen, over)
            self.hear(b"", over)

    def take(self, kind: int, number: int, payload: bytes) -> None:
        if kind == wire.CREDIT and len(payload) != 4:
            raise wire.WireError(f"malformed flow-control credit of {len(payload)} bytes instead of 4")
        if kind == wire.HELLO:
            self.greet(payload)
            return
        if kind == wire.PONG:
            return
        channel = self.channels.get(number)
        if channel is not None and not channel.over:
            self.moves += 1
            channel.deliver(kind, payload)
        elif not 0 < number <= self.last:
            raise wire.WireError("a frame for a channel that is not open")

    def greet(self, payload: bytes) -> None:
        body = wire.decode(payload, wire.MAX_PARTS)
        if self.hello is not None or not isinstance(body, dict) or body.get("version") != wire.VERSION:
            raise LinkError(
                "hotdesk's process in the desk sent an invalid greeting, or one of another protocol version; burn the "
                "desk and open another"
            )
        self.hello = body
        self.greeted.set()

    async def wait_for_hello(self) -> Body:
        with anyio.move_on_after(scale_seconds(_HELLO_SECONDS)):
            await self.greeted.wait()
        if self.hello is None:
            if self.failure is not None:
                raise self.make_lost_error()
            raise LinkError("hotdesk's process in the desk did not start in time; open another desk")
        return self.hello

    async def open(self, body: Body) -> Channel:
        if self.failure is not None:
            raise self.make_lost_error()
        try:
            payload = wire.encode(body)
        except wire.WireError as e:
            raise BriefError(f"invalid request to the desk: {e}") from e
        if len(payload) > wire.HOST_LIMIT:
            raise BriefError(f"the request is too large for a desk ({len(payload)} bytes); put the data into a file")
        channel = Channel(self)
        channel.number = self.add(channel)
        try:
            await self.send(wire.OPEN, channel.number, payload)
        except BaseException:
            self.channels.pop(channel.number, None)
            raise
        return channel

    def add(self, channel: ChannelOwner) -> int:
        """Assign a channel its number. Numbers are never reused."""
        self.last += 1
        self.channels[self.last] = channel
        return self.last

    async def send(self, kind: int, number: int, payload: bytes = b"") -> None:
        """Write one frame completely: once part of it was written, a cancelled writer still writes the rest."""
        if kind == wire.OPEN and self.opening is not None:
            await self.opening(payload)
        data = wire.encode_frame(kind, number, payload)
        self.moves += 1
        sent = 0
        if self.gap is None and not self.writing.locked() and (sent := self.send_now(data)) == len(data):
            return
        while True:
            if not sent and self.gap is not None:
                await self.gap.closed.wait()
            async with self.writing:
                if sent or self.gap is None:
                    await self.write(data, sent)
                    return

    async def write(self, data: bytes, sent: int = 0) -> None:
        """Write the rest of a frame; the writer holds `writing`."""
        view = memoryview(data)[sent:]
        while view:
            try:
                view = view[self.sock.send(view) :]
            except BlockingIOError:
                await self.wait_until_writable(begun=len(view) < len(data))
            except (OSError, anyio.ClosedResourceError) as e:
                raise await self.reason() from e

    # -- parking the guest ------------------------------------------------------------------------------------

    async def park(self, token: str) -> None:
        """Make the guest disconnect while its memory is saved; it identifies itself with the token when it reconnects.

        Channels remain, and writers wait, until `rejoin` or the end of the link.
        """
        gap = self.gap = LinkGap()
        try:
            with anyio.fail_after(scale_seconds(_PARK_SECONDS)):
                await self.ask_beside({"op": "park", "token": token})
        except BaseException as e:
            self.end_gap()
            if isinstance(e, TimeoutError):
                raise LinkError(_NOT_CLOSED) from None
            raise
        self.paused = True
        with contextlib.suppress(OSError):  # the guest has disconnected already
            self.sock.shutdown(socket.SHUT_WR)  # a virtual machine's guest cannot; its supervisor does so now
        with anyio.move_on_after(scale_seconds(_PARK_SECONDS)):
            await gap.parted.wait()
        if not gap.parted.is_set():
            self.break_off(LinkError(_NOT_CLOSED))
            raise self.make_lost_error()

    async def rejoin(self, sock: socket.socket) -> None:
        gap = self.gap
        if gap is None or self.failure is not None:
            sock.close()
            raise self.make_lost_error()
        sock.setblocking(False)
        self.sock, self.reader = sock, wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT)
        gap.joined.set()
        try:
            with anyio.fail_after(scale_seconds(_PARK_SECONDS)):
                await self.ask_beside({"op": "rejoin", "same": True, "env": {}})
        except TimeoutError:
            self.break_off(LinkError("hotdesk's process in the desk did not continue; burn the desk and open another"))
            raise self.make_lost_error() from None
        self.paused = False
        self.end_gap()

    async def ask_beside(self, body: Body) -> None:
        """Send the guest a request while writers wait. Raise `DeskError` if it refuses."""
        channel = Channel(self)
        channel.number = self.add(channel)
        try:
            async with self.writing:
                await self.write(wire.encode_frame(wire.OPEN, channel.number, wire.encode(body)))
            match await channel.receive():
                case GuestReply(answer) if "error" not in answer:
                    return
                case GuestReply(answer):
                    raise DeskError(
                        "the desk's memory cannot be saved or resumed; hotdesk's process in the desk reported: "
                        f"{make_printable(str(answer.get('text'))[:200])}"
                    )
            raise LinkError(UNEXPECTED_FRAME)
        finally:
            self.channels.pop(channel.number, None)

    def end_gap(self) -> None:
        """Let writers continue, or fail with the reason."""
        gap, self.gap = self.gap, None
        if gap is not None:
            for event in (gap.parted, gap.joined, gap.closed):
                event.set()

    async def reason(self) -> DeskGone | LinkError:
        """Return the reason for a failed write, once the reading task has found it."""
        with anyio.move_on_after(scale_seconds(_HELLO_SECONDS)):
            await self.ended.wait()
        return self.make_lost_error()

    def is_over(self) -> bool:
        """Return whether the link ended, or the other end has closed it unnoticed."""
        if self.failure is not None:
            return True
        try:
            return self.sock.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def send_now(self, data: bytes) -> int:
        """Write as much as the socket takes at once, nearly always everything; return the number of bytes."""
        try:
            return self.sock.send(data)
        except OSError:
            return 0  # full or closed; the waiting task finds out which

    async def wait_until_writable(self, begun: bool) -> None:
        """Wait until the socket takes more. If cancelled within a frame, wait for the rest briefly, or end the link."""
        try:
            with anyio.fail_after(scale_seconds(SILENT_SECONDS)):
                await anyio.wait_writable(self.sock)
        except TimeoutError:
            if self.may_be_silent():
                return
            self.fail(LinkError(_NOT_READING))
            raise self.make_lost_error() from None
        except anyio.ClosedResourceError:
            raise self.make_lost_error() from None
        except BaseException:
            if begun and self.failure is None:
                await self.wait_for_drain()
            if not begun or self.failure is not None:
                raise

    def suspend(self, suspended: bool) -> None:
        self.suspended = suspended
        if suspended:
            self.clock.stop()
        else:
            self.clock.go_on()

    def may_be_silent(self) -> bool:
        return self.paused or self.suspended

    async def wait_for_drain(self) -> None:
        """Give a guest a moment to take the rest of a frame whose writer was cancelled, or end the link."""
        with contextlib.suppress(anyio.ClosedResourceError, OSError):  # the link ended meanwhile
            with anyio.move_on_after(STUCK_SECONDS, shield=True) as patience:
                await anyio.wait_writable(self.sock)
            if patience.cancelled_caught:
                self.fail(LinkError(_NOT_READING))
                self.sock.shutdown(socket.SHUT_RDWR)

    def fail(self, why: LinkError | DeskGone) -> None:
        if self.failure is None:
            self.failure = why
        self.ended.set()
        self.greeted.set()
        self.end_gap()
        for channel in self.channels.values():
            channel.wake()

    def make_lost_error(self) -> LinkError | DeskGone:
        """Return a new error with the reason: one object raised repeatedly would collect every caller's traceback."""
        why = self.failure or DeskGone("the desk closed the connection")
        return type(why)(*why.args)

    def hang_up(self) -> None:
        """End the link from this side; `run` then closes it."""
        self.break_off(DeskGone("the desk was burnt"))

    def break_off(self, why: LinkError | DeskGone) -> None:
        """End the link with a reason; `run` then closes it."""
        self.fail(why)
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was closed already

    def close(self) -> None:
        """Close the socket, and forget open channels. Only `run` calls it."""
        self.fail(DeskGone("the desk was burnt"))
        self.channels.clear()
        if self.sock.fileno() >= 0:
            anyio.notify_closing(self.sock)
            self.sock.close()
