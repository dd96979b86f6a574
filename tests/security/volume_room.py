"""A volume, and the process that reads it for the content API, without a server."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import DeskId, new_id
from hotdesk.desk.volume.files import PIECE
from hotdesk.ipc.child import send_now
from hotdesk.ipc.frames import Frames, write
from tests.leftovers import cmdline, pids

SIZE = 32 << 20
PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class VolumeRoom:
    """A volume with its process."""

    id: DeskId
    control: socket.socket

    @property
    def pid(self) -> int:
        (found,) = [pid for pid in pids() if "desk.volume.process" in (line := cmdline(pid)) and self.id in line]
        return found

    def call(self, act: str, path: str, data: bytes | None = None, **more: object) -> tuple[int, Any]:
        """Carry out one request; return the status and the body: a file's bytes, otherwise the decoded JSON."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(PATIENCE)
        with ours:
            with theirs:
                send_now(self.control, b"1", [theirs.fileno()])
            ours.sendall(write({"act": act, "path": path, **more}))
            if data is not None:
                with suppress(BrokenPipeError):  # the process has already refused it
                    ours.sendall(write({}, data) + write({"end": True}))
            frames = _frames(ours)
            head, _ = next(frames)
            body = b""
            while len(body) < int(str(head["length"])):
                body += next(frames)[1]
        status = int(str(head["status"]))
        return status, body if act == "read" and status == 200 else json.loads(body or b"null")


def _frames(sock: socket.socket) -> Iterator[tuple[dict[str, object], bytes]]:
    frames = Frames(max_blob_bytes=PIECE)
    while data := sock.recv(1 << 16):
        yield from frames.feed(data)


@asynccontextmanager
async def open_volume(runtime: KeeperRuntime, size: int = SIZE) -> AsyncIterator[VolumeRoom]:
    """Make a volume and start its process; both are removed at the end."""
    volume = new_id()
    await runtime.keeper.ask(KeeperRequest("make-volume", volume, size=size))
    try:
        _, fds = await runtime.keeper.ask(KeeperRequest("read-volume", volume), 1)
        with socket.socket(fileno=fds[0]) as control:
            yield VolumeRoom(volume, control)
    finally:
        await runtime.keeper.ask(KeeperRequest("drop-volume", volume))
