"""The client of a desk's screen: sends requests to the reader, and starts screen and browser on first use."""

from __future__ import annotations

import functools
import itertools
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol, TypeAlias

import anyio
import anyio.lowlevel

from hotdesk.desk.owner.runtime import SESSION
from hotdesk.desk.seam import Desk
from hotdesk.errors import DeskError, DeskGone, HotdeskError, LinkError, make_printable
from hotdesk.hands.reader import (
    BROWSER_PORT,
    PARTS,
    SCREEN_PORT,
    PeerError,
    ProtocolError,
    VerbResult,
    make_reader_frames,
)
from hotdesk.ipc.calls import Calls
from hotdesk.ipc.child import send_now
from hotdesk.ipc.frames import FrameError, write
from hotdesk.ipc.tasks import Background
from hotdesk.linux.sockets import receive, send

STARTS = {SCREEN_PORT: (SESSION,), BROWSER_PORT: (SESSION, "/usr/local/lib/hotdesk/browser")}
"""Programs that make a port of the desk available; each returns at once if its service runs already."""
NAMES = {SCREEN_PORT: "screen", BROWSER_PORT: "browser"}
START_SECONDS = 60.0
_ASK_SECONDS = 600.0
"""Seconds a request may take at most; the requested operation has a limit of its own."""
_SAY_SECONDS = 10.0
"""Seconds a reader may take to receive a request."""
AT_ONCE = 8
"""Connections a reader may request at a time."""
_TOO_MANY = "too many connections to the screen and browser of this desk are being made; try again"
DISPLAY = {"DISPLAY": ":0"}
"""The variable by which programs find the screen."""

Lines: TypeAlias = tuple[socket.socket, socket.socket]
"""Our ends of a reader's sockets: one for messages, one to pass connections."""


class Seat(Protocol):
    """One desk's screen and browser, reached through its reader."""

    @property
    def desk(self) -> Desk:
        """Return the desk."""
        ...

    async def ask(self, verb: str, /, **arguments: object) -> VerbResult:
        """Send a request such as `screen.shot`. `DeskError`: the desk cannot do it; `LinkError`: invalid data."""
        ...

    def close(self) -> None:
        """End the reader and its viewers; the next `ask` starts another."""
        ...


class LocalSeat:
    """Reads in this very process, for tests: no wall separates it from the desk's data."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.parts: dict[str, Any] = {}

    async def ask(self, verb: str, /, **arguments: object) -> VerbResult:
        name, _, method = verb.partition(".")
        if name not in self.parts:
            module, _, kind = PARTS[name].partition(":")
            self.parts[name] = getattr(import_module(module), kind)(functools.partial(dial, self.desk))
        part = self.parts[name]
        assert method in part.VERBS, verb
        try:
            result: VerbResult = await getattr(part, method)(**arguments)
        except PeerError as e:
            raise _make_failed_error(self.desk, name, str(e)) from e
        except ProtocolError as e:
            raise make_malformed_error(self.desk, name, str(e)) from e
        return result

    def close(self) -> None:
        self.parts.clear()


_RETRY = "try again, or open another desk"
_REPORT = f"{_RETRY}; if it repeats, report it"


class DeskSeat:
    """The seat with a reader process of its own, started on first use, and again if it ends."""

    def __init__(
        self,
        desk: Desk,
        start: Callable[[], Awaitable[Lines]],
        tasks: Background,
        dismiss: Callable[[socket.socket], Awaitable[None]],
    ) -> None:
        self.desk = desk
        self.start = start
        self.tasks = tasks
        self.dismiss = dismiss
        """Ends the reader at a socket, even if it does not end by itself."""
        self.starting = anyio.Lock()
        self.reader: ReaderClient | None = None
        self.ended = False
        """Whether the desk has ended, so that no reader may be started any more."""

    async def ask(self, verb: str, /, **arguments: object) -> VerbResult:
        reader = await self.ensure_reader()
        name = verb.partition(".")[0]
        with anyio.move_on_after(_ASK_SECONDS):
            message, blob = await reader.ask(verb, arguments)
            match message:
                case {"ok": value}:
                    return VerbResult(value, blob)
                case {"error": "desk", "text": str(text)}:
                    raise DeskError(make_printable(text))
                case {"error": "failed", "text": str(text)}:
                    raise _make_failed_error(self.desk, name, text)
                case {"error": "defect", "text": str(text)}:
                    raise make_malformed_error(self.desk, name, text, _REPORT)
            raise make_malformed_error(self.desk, name, str(message.get("text")))
        reader.close()
        raise _make_failed_error(self.desk, name, f"did not respond within {_ASK_SECONDS:.0f} seconds; try again")

    async def join(self, viewer: socket.socket) -> int:
        """Pass a viewer's connection to the reader; return the viewer's number."""
        reader = await self.ensure_reader()
        number = next(NUMBERS)
        reader.hand({"view": number}, viewer)
        return number

    async def ensure_reader(self) -> ReaderClient:
        async with self.starting:
            if self.reader is None or self.reader.failure is not None:
                self.check_open()
                reader = ReaderClient(self.desk, await self.start())
                self.tasks.start(functools.partial(self.hear, reader))
                self.reader = reader
                if self.ended:
                    reader.close()
            self.check_open()
            return self.reader

    def check_open(self) -> None:
        if self.ended:
            raise DeskGone(f"desk {self.desk.id} has ended")

    async def hear(self, reader: ReaderClient) -> None:
        await reader.run()
        await self.dismiss(reader.line)

    def end(self) -> None:
        """End the reader for good: its desk has ended, though others may still have this seat."""
        self.ended = True
        self.close()

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()


class ReaderClient(Calls[tuple[dict[str, object], bytes]]):
    """An owner's end of the sockets to one reader. Its messages are untrusted: a desk may control the reader."""

    peer = "the reader"

    def __init__(self, desk: Desk, lines: Lines) -> None:
        super().__init__()
        self.desk = desk
        self.line, self.handing = lines
        for sock in lines:
            sock.setblocking(False)
        self.writing = anyio.Lock()
        self.connecting = 0

    async def ask(self, verb: str, arguments: Mapping[str, object]) -> tuple[dict[str, object], bytes]:
        """Send a request and wait for the reply; a request that is no longer wanted is cancelled."""
        number = self.begin_call()
        try:
            return await self.call(number, self.say({"n": number, "verb": verb, "arguments": dict(arguments)}))
        except anyio.get_cancelled_exc_class():
            with suppress(HotdeskError):
                await self.say({"cancel": number})
            raise

    async def say(self, message: Mapping[str, object]) -> None:
        if self.failure is not None:
            raise self.failure
        try:
            with anyio.fail_after(_SAY_SECONDS, shield=True):  # half a message would be worse than a late one
                async with self.writing:
                    await send(self.line, write(message))
        except (OSError, FrameError, TimeoutError) as e:
            self.close()
            raise LinkError(
                f"the screen and browser process of desk {self.desk.id} cannot be reached: {e}; try again"
            ) from e

    def hand(self, message: Mapping[str, object], *socks: socket.socket) -> None:
        try:
            send_now(self.handing, json.dumps(message).encode(), [sock.fileno() for sock in socks])
        except OSError as e:  # also if the socket is full: the reader is stuck, or was taken over
            self.fail(self.make_lost_error(str(e)))
            self.close()

    async def run(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                self.fail(self.make_lost_error(await self.listen(tasks)))
                tasks.cancel_scope.cancel()
        finally:
            self.fail(self.make_lost_error("hotdesk closed it"))
            for sock in (self.line, self.handing):
                anyio.notify_closing(sock)
                sock.close()

    async def listen(self, tasks: anyio.abc.TaskGroup) -> str:
        """Read from the reader until it ends; return why. A reader that sends without pause must not block others."""
        frames = make_reader_frames()
        try:
            while data := await receive(self.line):
                for message, blob in frames.feed(data):
                    self.hear(message, blob, tasks)
                await anyio.lowlevel.checkpoint()
        except (OSError, FrameError) as e:  # also a reset: it ended with unread requests
            return str(e)
        return "the process ended"

    def hear(self, message: dict[str, object], blob: bytes, tasks: anyio.abc.TaskGroup) -> None:
        """Handle a reply, or a request for a connection; anything else is ignored."""
        match message:
            case {"n": number} if self.resolve(number, (message, blob)):
                pass
            case {"dial": int(number), "port": int(port)} if port in STARTS:
                if self.connecting >= AT_ONCE:
                    self.hand({"dial": number, "text": _TOO_MANY})
                    return
                self.connecting += 1
                tasks.start_soon(self.connect, number, port)

    async def connect(self, number: int, port: int) -> None:
        try:
            with await dial(self.desk, port) as sock:
                self.hand({"dial": number}, sock)
        except DeskGone as e:
            self.fail(e)
            self.close()
        except (HotdeskError, OSError) as e:
            self.hand({"dial": number, "text": str(e)[:1000]})
        finally:
            self.connecting -= 1

    def make_lost_error(self, why: str) -> LinkError:
        where = f"the screen and browser process of desk {self.desk.id}"
        return LinkError(f"the connection to {where} was lost: {why}; try again")

    def close(self) -> None:
        """Disconnect; the reader ends by itself, or is ended if it is stuck."""
        self.fail(self.make_lost_error("hotdesk closed it"))
        for sock in (self.line, self.handing):
            with suppress(OSError):  # closed already, or by the reader
                sock.shutdown(socket.SHUT_RDWR)


NUMBERS = itertools.count(1)


async def dial(desk: Desk, port: int) -> socket.socket:
    try:
        sock = await desk.dial(port)
    except DeskError:
        await start(desk, port)
        sock = await desk.dial(port)
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a click must not wait for an acknowledgement
    return sock


async def start(desk: Desk, port: int) -> None:
    name = NAMES[port]
    for program in STARTS[port]:
        done = await desk.run([program], timeout=START_SECONDS)
        if done.exit_code == 127:
            raise DeskError(f"desk {desk.id} has no {name}: open a desk from the image `desktop`")
        if not done.ok:
            why = make_printable(done.stderr.decode("utf-8", "replace").strip()[-300:])
            raise DeskError(f"the {name} of desk {desk.id} does not start: {why or f'exit code {done.exit_code}'}")


def make_malformed_error(desk: Desk, part: str, why: str, remedy: str = _RETRY) -> LinkError:
    return LinkError(f"hotdesk rejected data from the {part} of desk {desk.id}: {make_printable(why)[:500]}; {remedy}")


def _make_failed_error(desk: Desk, part: str, why: str) -> LinkError:
    return LinkError(f"the {part} of desk {desk.id} {make_printable(why)[:500]}")
