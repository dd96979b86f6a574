"""Connections to the processes that read volumes: a tenant's keeper starts them, and unused ones are ended."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import field

import anyio

from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.tenants import Tenant
from hotdesk.dataclass import dataclass
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import DeskId
from hotdesk.desk.volume.files import PIECE
from hotdesk.ipc.child import send_now
from hotdesk.ipc.frames import FrameError, Frames, write
from hotdesk.linux.sockets import receive, send

IDLE_S = 60.0
"""Seconds after which the process of an unused volume is ended."""
REPLY_TIMEOUT_S = 90.0
"""Seconds without a byte after which a process counts as stuck."""
_MAX_CALLS = 64
"""Concurrent requests to one volume."""
STATUSES = frozenset((200, 201, 204, 206, 400, 404, 409, 416, 500, 507))
"""Statuses that a process may return."""
MALFORMED = "the server's process that reads and writes this volume sent a malformed reply; try again"


@dataclass(slots=True)
class VolumeCall:
    """One request to the process of a volume."""

    sock: socket.socket
    frames: Frames = field(default_factory=lambda: Frames(max_blob_bytes=PIECE, max_items=64))
    waiting: list[tuple[dict[str, object], bytes]] = field(default_factory=list)

    async def tell(self, message: dict[str, object], data: bytes = b"") -> None:
        """Send a frame; `OSError` if the process does not take it."""
        with anyio.fail_after(REPLY_TIMEOUT_S):
            await send(self.sock, write(message, data))

    async def hear(self) -> tuple[dict[str, object], bytes]:
        try:
            with anyio.fail_after(REPLY_TIMEOUT_S):
                while not self.waiting:
                    data = await receive(self.sock)
                    if not data:
                        raise ConnectionResetError
                    self.waiting = self.frames.feed(data)
        except (OSError, FrameError):
            raise E2bError(
                503, "the process that reads and writes this volume sent no complete reply; try again"
            ) from None
        return self.waiting.pop(0)

    async def hear_head(self) -> tuple[int, int, str]:
        """Wait for the head of a response; return its status, the bytes that follow, and which part of a file they are.

        That part is as in HTTP's `Content-Range`, and empty for a whole file.
        """
        head, _ = await self.hear()
        status, length = head.get("status"), head.get("length")
        if status not in STATUSES or type(length) is not int or length < 0:
            raise E2bError(503, MALFORMED)
        first, size = head.get("first"), head.get("size")
        if status != 206:
            return int(str(status)), length, ""
        if type(first) is not int or type(size) is not int or not 0 <= first < first + length <= size:
            raise E2bError(503, MALFORMED)
        return 206, length, f"bytes {first}-{first + length - 1}/{size}"


@dataclass(slots=True)
class VolumeLine:
    """The control socket of one process, and its use."""

    control: socket.socket
    calls: int = 0
    used: float = field(default_factory=time.monotonic)


class VolumeProcesses:
    def __init__(self) -> None:
        self.lines: dict[str, VolumeLine] = {}
        self.starting: dict[str, anyio.Lock] = {}

    async def run(self) -> None:
        while True:
            await anyio.sleep(IDLE_S / 4)
            for volume, line in list(self.lines.items()):
                if not line.calls and time.monotonic() - line.used > IDLE_S:
                    self.hang_up(volume)

    @asynccontextmanager
    async def call(self, tenant: Tenant, volume: str) -> AsyncIterator[VolumeCall]:
        line, sock = await self.connect(tenant, volume)
        line.calls += 1
        try:
            with sock:
                yield VolumeCall(sock)
        finally:
            line.calls -= 1
            line.used = time.monotonic()

    async def connect(self, tenant: Tenant, volume: str) -> tuple[VolumeLine, socket.socket]:
        """Open a connection to a volume's process; one that has ended is replaced, once."""
        for is_last in (False, True):
            line = await self.get_line(tenant, volume)
            if line.calls >= _MAX_CALLS:
                raise E2bError(
                    429, f"{_MAX_CALLS} requests to this volume are running, which is the limit; wait until some end"
                )
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            ours.setblocking(False)
            try:
                with theirs:
                    send_now(line.control, b"1", [theirs.fileno()])
                return line, ours
            except OSError as e:
                ours.close()
                if isinstance(e, BlockingIOError):
                    raise E2bError(429, "the queue of requests to this volume is full; wait until some end") from None
                self.hang_up(volume)
                if is_last:
                    raise E2bError(
                        503, "the process that reads and writes this volume ended or does not start; try again"
                    ) from None
        raise AssertionError

    async def get_line(self, tenant: Tenant, volume: str) -> VolumeLine:
        async with self.starting.setdefault(volume, anyio.Lock()):
            if (line := self.lines.get(volume)) is None:
                keeper = tenant.host.get_keeper_runtime().keeper
                with anyio.CancelScope(shield=True):
                    _, fds = await keeper.ask(KeeperRequest("read-volume", DeskId(volume)), 1)
                control = socket.socket(fileno=fds[0])
                control.setblocking(False)
                line = self.lines[volume] = VolumeLine(control)
            return line

    def hang_up(self, volume: str) -> None:
        if (line := self.lines.pop(volume, None)) is not None:
            line.control.close()

    async def end(self, volume: str) -> None:
        """End a volume's process before the volume is copied or deleted."""
        async with self.starting.setdefault(volume, anyio.Lock()):
            self.hang_up(volume)
        self.starting.pop(volume, None)
