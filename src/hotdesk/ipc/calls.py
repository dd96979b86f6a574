"""Calls to another process of hotdesk: numbered, each with its own reply. All fail when that process is gone."""

from __future__ import annotations

import asyncio
import contextvars
import json
import math
import os
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.errors import (
    BriefError,
    DeskError,
    DeskGone,
    DoorError,
    HostError,
    HotdeskError,
    ImageError,
    KeeperError,
    WallError,
)
from hotdesk.ipc.child import MAX_PACKET_BYTES, send_now
from hotdesk.linux.syscalls import close_all

Reply = TypeVar("Reply")
Packet: TypeAlias = tuple[dict[str, object], list[int]]
"""A message, and the file descriptors that came with it."""
MAX_DESCRIPTORS = 8
ERRORS: dict[str, type[HotdeskError]] = {
    kind.code: kind
    for kind in (BriefError, HostError, WallError, ImageError, KeeperError, DoorError, DeskError, DeskGone)
}
"""Errors that are passed between processes, by their codes."""


@dataclass(slots=True)
class _Call(Generic[Reply]):
    replied: anyio.Event = field(default_factory=anyio.Event)
    reply: Reply | None = None


class Calls(Generic[Reply]):
    """Calls to one peer, waiting for their replies. A subclass sends requests and reads messages."""

    peer: ClassVar[str]
    """The name of the other process in error messages."""

    def __init__(self) -> None:
        self.failure: HotdeskError | None = None
        """The reason why no more replies arrive, or `None` while the peer is there."""
        self._last_number = 0
        self._calls: dict[int, _Call[Reply]] = {}

    def allocate_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def begin_call(self) -> int:
        """Number a request; its reply is stored until `call` takes it or `drop_call` discards it."""
        number = self.allocate_number()
        self._calls[number] = _Call()
        return number

    async def call(self, number: int, request: Awaitable[None] | None, timeout_s: float = math.inf) -> Reply:
        """Send a request, unless it was sent before, and wait for its reply."""
        call = self._calls[number]
        try:
            with anyio.move_on_after(timeout_s):
                if request is not None:
                    await request
                await call.replied.wait()
            reply, call.reply = call.reply, None
        finally:
            self.drop_call(number)
        if reply is None:
            raise self.failure or KeeperError(
                f"{self.peer} did not respond within {timeout_s:.0f} s; check whether its process is stopped"
            )
        return reply

    def drop_call(self, number: int) -> None:
        """Forget a call; discard its reply, now or when it arrives."""
        if (reply := self._calls.pop(number).reply) is not None:
            self.discard(reply)

    def discard(self, reply: Reply) -> None:
        """Free the resources of a reply that no caller takes."""

    def resolve(self, number: object, reply: Reply) -> bool:
        """Hand a reply to its call; return False if no call waits for it."""
        call = self._calls.get(number) if isinstance(number, int) else None
        if call is None or call.reply is not None:
            return False
        call.reply = reply
        call.replied.set()
        return True

    def fail(self, error: HotdeskError) -> None:
        """Fail every call without a reply. The first of several errors is the one that is raised."""
        self.failure = self.failure or error
        for call in self._calls.values():
            call.replied.set()


class PacketCalls(Calls[Packet], ABC):
    """Calls to a child process over a SEQPACKET socket; file descriptors travel with requests and replies."""

    gone: ClassVar[str]
    """The message of every call's error once the peer is gone."""

    def __init__(self, sock: socket.socket, pid: int) -> None:
        super().__init__()
        sock.setblocking(False)
        self.sock = sock
        self.pid = pid

    def discard(self, reply: Packet) -> None:
        close_all(reply[1])

    @abstractmethod
    def take(self, message: Mapping[str, object]) -> None:
        """Handle a message that no call waits for, such as an event."""

    async def run(self) -> None:
        """Read messages until the peer is gone, then close the socket.

        The event loop calls `_read` directly: waking a task for every message takes a tenth of the time of a pool
        claim.
        """
        loop = asyncio.get_running_loop()
        over = anyio.Event()
        with self.sock:
            _make_callback_context().run(loop.add_reader, self.sock, self._read, over)
            try:
                await over.wait()
            finally:
                loop.remove_reader(self.sock)
                anyio.notify_closing(self.sock)

    def _read(self, over: anyio.Event) -> None:
        while not over.is_set():
            try:
                data, fds, _, _ = socket.recv_fds(self.sock, MAX_PACKET_BYTES, MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                data, fds = b"", []
            if not data:
                self.fail(KeeperError(self.gone))
                over.set()
            elif not self.resolve((message := json.loads(data)).get("re"), (message, list(fds))):
                close_all(fds)  # they belong to a reply whose caller was cancelled
                self.take(message)

    async def send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        try:
            while self.failure is None:
                try:
                    return send_now(self.sock, data, fds)
                except BlockingIOError:
                    await anyio.wait_writable(self.sock)
        except (OSError, anyio.ClosedResourceError) as e:
            raise KeeperError(self.gone) from e
        raise self.failure

    async def wait_exit(self) -> None:
        """Wait until the peer's process has ended."""
        await anyio.to_thread.run_sync(_wait_for, self.pid, abandon_on_cancel=True)


def read_body(message: Mapping[str, Any], peer: str, unknown: type[HotdeskError] = HostError) -> dict[str, Any]:
    if (error := find_error(message, unknown)) is not None:
        raise error
    match message:
        case {"ok": dict(body)}:
            return body
    raise KeeperError(f"unexpected reply from {peer}: neither `ok` nor `error`")


def find_error(message: Mapping[str, object], unknown: type[HotdeskError] = HostError) -> HotdeskError | None:
    """Return the error in a reply, or `None`; one with an unknown code is of class `unknown`."""
    match message:
        case {"error": {"code": str(code), "text": str(text)}}:
            return ERRORS.get(code, unknown)(text)
    return None


def _wait_for(pid: int) -> None:
    with suppress(ChildProcessError):  # another thread has reaped it
        os.waitpid(pid, 0)


def _make_callback_context() -> contextvars.Context:
    """Return a context in which callbacks of the event loop may start tasks.

    If sniffio is not loaded, anyio asks asyncio. If it is, it only recognizes tasks, unless `anyio.run` started the
    loop.
    """
    context = contextvars.copy_context()
    if (sniffio := sys.modules.get("sniffio")) is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context
