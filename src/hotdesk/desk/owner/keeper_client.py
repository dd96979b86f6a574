"""An owner's end of the socketpair to its keeper: requests, replies and events."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import anyio

from hotdesk.desk.keeper.spawn import Started
from hotdesk.desk.request import KeeperRequest, describe_end, write
from hotdesk.errors import BriefError, DeskGone, HostError, HotdeskError, KeeperError, LinkError
from hotdesk.ipc.calls import PacketCalls, find_error, read_body
from hotdesk.ipc.child import MAX_PACKET_BYTES
from hotdesk.linux.pace import scale_seconds
from hotdesk.linux.syscalls import close_all

Answer: TypeAlias = tuple[dict[str, object], list[int]]

ANSWER_SECONDS = 60.0
"""Seconds to wait for a reply, longer than any request takes: a keeper silent for this long is stopped or broken."""
SAVE_SECONDS = 3600.0
"""Seconds an image may take to be saved."""
_MAX_ENDED = 1024
"""Maximum desks whose reason of ending is remembered."""
BURN_SECONDS = 20.0
_END_EVENT_TIMEOUT_S = 5.0
"""Seconds the keeper has to report a desk's end after its guest disconnected."""


class KeeperClient(PacketCalls):
    """An owner's end of the socketpair to its keeper."""

    peer = "the keeper"
    gone = "the keeper (the process that builds desks) ended unexpectedly; its desks are being burnt, open others"

    def __init__(self, started: Started) -> None:
        super().__init__(started.sock, started.pid)
        self.ahead = {started.ahead: self.begin_call()} if started.ahead else {}
        """The verb and number of a request that was sent before this client existed."""
        self.on_refused: dict[int, Callable[[HotdeskError], None]] = {}
        """Called if the keeper refuses a request that no caller waits for, by request number."""
        self.ended: dict[str, str] = {}
        """Why desks ended, as the keeper reported, by desk."""
        self.rootless: set[str] = set()
        """Desks whose guest for root ended."""
        self.changes: dict[str, anyio.Event] = {}
        """Set when a desk or its guest for root ends; all are set when the keeper is gone. "" is the keeper itself."""
        self.closing = False
        self.on_sudo: Callable[[str], None] = lambda desk: None
        """Called with a desk in which `sudo` is used while no guest for root runs."""
        self.on_end: Callable[[str, str], None] = lambda desk, why: None
        """Called with each desk that ended, and the reason."""

    async def run(self) -> None:
        """Read replies and events until the keeper is gone."""
        try:
            await super().run()
        finally:
            while self.ahead:
                self.drop_call(self.ahead.popitem()[1])

    def take(self, message: Mapping[str, object]) -> None:
        match message:
            case {"re": int(number)} if number in self.on_refused:
                refused = self.on_refused.pop(number)
                if (error := find_error(message, KeeperError)) is not None:
                    refused(error)
            case {"event": "ended", "desk": str(desk), "why": str(why)}:
                self.ended[desk] = why
                if len(self.ended) > _MAX_ENDED:
                    del self.ended[next(iter(self.ended))]
                self.rootless.discard(desk)
                self.notify(desk)
                self.on_end(desk, why)
            case {"event": "rootless", "desk": str(desk)}:
                self.rootless.add(desk)
                self.notify(desk)
            case {"event": "knock", "desk": str(desk)}:
                self.on_sudo(desk)
            case {"event": "unfit", "why": str(why)}:
                self.fail(HostError(f"this machine cannot open desks: {why}"))

    def notify(self, desk: str) -> None:
        if desk in self.changes:
            self.changes.pop(desk).set()

    async def wait_end(self, desk: str, seconds: float, root: bool = False) -> None:
        """Wait until a desk, or with `root` the guest for root in it, has ended, for at most this many seconds."""
        with anyio.move_on_after(seconds):
            while desk not in self.ended and self.failure is None and not (root and desk in self.rootless):
                await self.changes.setdefault(desk, anyio.Event()).wait()

    async def wait_gone(self) -> None:
        while self.failure is None:
            await self.changes.setdefault("", anyio.Event()).wait()

    def fail(self, error: HotdeskError) -> None:
        super().fail(error)
        while self.on_refused:
            self.on_refused.popitem()[1](self.failure or error)
        for event in self.changes.values():
            event.set()

    async def explain_end(self, desk: str, root: bool = False) -> DeskGone | LinkError:
        """Return why a guest disconnected: its keeper reports that within a moment."""
        await self.wait_end(desk, scale_seconds(_END_EVENT_TIMEOUT_S), root)
        if root and desk not in self.ended and desk in self.rootless:
            return LinkError(f"the process for root in desk {desk} ended; the next call as root starts another")
        why = self.ended.get(desk) or (
            str(self.failure) if self.failure else "hotdesk's process in the desk closed the connection"
        )
        return DeskGone(f"desk {desk} is gone: {describe_end(why)}; open another")

    async def ask(self, request: KeeperRequest, descriptors: int = 0, seconds: float = ANSWER_SECONDS) -> Answer:
        if number := self.ahead.pop(request.verb, 0):
            message, fds = await self.call(number, None, seconds)
        else:
            number = self.begin_call()
            message, fds = await self.call(number, self.request(number, request), seconds)
        try:
            body = read_body(message, self.peer, KeeperError)
            if len(fds) < descriptors:
                raise HostError("this process has too many open files; raise its limit (ulimit -n)")
            if len(fds) > descriptors:
                raise KeeperError(f"the keeper sent {len(fds)} file descriptors instead of {descriptors}")
        except HotdeskError:
            close_all(fds)
            raise
        return body, fds

    async def post(self, request: KeeperRequest, refused: Callable[[HotdeskError], None]) -> None:
        """Send a request without waiting for its reply; `refused` is called if the keeper refuses it."""
        number = self.allocate_number()
        self.on_refused[number] = refused
        try:
            await self.request(number, request)
        except BaseException:
            self.on_refused.pop(number, None)
            raise

    async def tell(self, request: KeeperRequest) -> None:
        """Send a request that has no reply. A keeper that is gone is no error."""
        with contextlib.suppress(HotdeskError):
            await self.request(0, request)

    async def request(self, number: int, request: KeeperRequest) -> None:
        data = write(number, request)
        if len(data) > MAX_PACKET_BYTES:
            raise BriefError(
                f"the request is too large for the keeper ({len(data)} bytes, the limit is "
                f"{MAX_PACKET_BYTES}); put the "
                "environment variables into a file"
            )
        await self.send(data)

    async def close(self) -> None:
        """Disconnect, and wait until the keeper has burnt its desks."""
        self.closing = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
        with anyio.move_on_after(scale_seconds(BURN_SECONDS)):
            await self.wait_exit()


@contextlib.contextmanager
def closing(fds: list[int]) -> Iterator[None]:
    try:
        yield
    finally:
        close_all(fds)
