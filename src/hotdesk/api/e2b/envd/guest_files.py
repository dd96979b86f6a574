"""File operations of a sandbox, done as root by a small program in the desk that is controlled from here.

The host never opens a path of the desk, and every byte that comes back is hostile: bounded, checked, timed.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from importlib.resources import files
from typing import Literal

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk, Process
from hotdesk.errors import BriefError, HotdeskError, LinkError, unwrap_group

PROGRAM = files("hotdesk.api.e2b.envd").joinpath("guest_files_program.py").read_bytes()
BEGIN = "import sys; exec(sys.stdin.buffer.read(int(sys.stdin.buffer.read(8))))"
MAX_FRAME_BYTES = 1 << 20
"""Bytes of one frame."""
_STEP_TIMEOUT_S = 60.0
"""Seconds the program may take for one step."""
_PING_TIMEOUT_S = 5.0
"""Seconds in which an idle program must answer a ping."""
_MAX_IDLE = 4
"""Idle programs that are kept."""
_MAX_BUSY = 32
"""Programs that work at the same time; further callers wait."""
MAX_ENTRIES = 100_000
"""Entries of one listing."""
MAX_LISTING_BYTES = 64 << 20

Kind = Literal["file", "directory", "other"]


class GuestFilesError(Exception):
    """A failed operation of the program."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        """The errno name, such as `ENOENT`."""


@dataclass(slots=True, eq=False)
class Worker:
    """One program inside the desk, which handles one request at a time."""

    process: Process
    output: AsyncIterator[tuple[str, bytes]]
    buffer: bytearray = field(default_factory=bytearray)
    spoilt: bool = False
    """Whether it was sent data that it would take for the next request."""

    async def give(self, data: bytes) -> None:
        await self.process.send(len(data).to_bytes(4, "big") + data)

    async def ask(self, ask: Mapping[str, object]) -> None:
        await self.give(json.dumps(ask).encode())

    async def hear(self, silence: float = _STEP_TIMEOUT_S) -> tuple[str, bytes]:
        """Return the program's next frame; raise an exception if it reports a failure."""
        with anyio.move_on_after(silence) as scope:
            letter, size = (head := await self.take(5))[:1], int.from_bytes(head[1:], "big")
            if size > MAX_FRAME_BYTES or letter not in b"DEHRF":
                raise LinkError("malformed reply from hotdesk's file program in the sandbox; try again")
            payload = await self.take(size)
        if scope.cancelled_caught:
            raise LinkError(f"hotdesk's file program in the sandbox sent nothing for {silence:.0f} s; try again")
        if letter == b"F":
            raise _as_failed(payload)
        return letter.decode(), payload

    async def take(self, size: int) -> bytes:
        while len(self.buffer) < size:
            piece = await anext(self.output, None)
            if piece is None:
                raise LinkError("hotdesk's file program in the sandbox ended; try again")
            self.buffer += piece[1] if piece[0] == "stdout" else b""
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    async def read_result(self, silence: float = _STEP_TIMEOUT_S) -> object:
        letter, payload = await self.hear(silence)
        if letter != "R":
            raise LinkError("unexpected message from hotdesk's file program in the sandbox; try again")
        return as_json(payload)


@dataclass(slots=True)
class Inside:
    """The programs that handle files in one desk."""

    idle: list[Worker] = field(default_factory=list)
    busy: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_MAX_BUSY))

    @asynccontextmanager
    async def worker(self, desk: Desk) -> AsyncIterator[Worker]:
        """Yield an idle program; it is ended if it is interrupted."""
        async with self.busy:
            worker = await self.take_idle_worker() or await _start_worker(desk)
            sound = False
            try:
                yield worker
                sound = True
            except GuestFilesError:
                sound = True
                raise
            finally:
                if sound and not worker.spoilt and len(self.idle) < _MAX_IDLE:
                    self.idle.append(worker)
                else:
                    await end(worker)

    async def take_idle_worker(self) -> Worker | None:
        while self.idle:
            worker = self.idle.pop()
            try:
                await worker.ask({"act": "ping"})
                await worker.read_result(_PING_TIMEOUT_S)
                return worker
            except HotdeskError:
                await end(worker)
        return None

    async def do(self, desk: Desk, act: str, path: str, **more: object) -> object:
        async with self.worker(desk) as worker:
            await worker.ask({"act": act, "path": path, **more})
            return await worker.read_result()

    async def list(self, desk: Desk, path: str, depth: int) -> list[object]:
        found: list[object] = []
        size = 0
        async with self.worker(desk) as worker:
            await worker.ask({"act": "list", "path": path, "depth": depth})
            while (frame := await worker.hear())[0] == "E":
                batch, size = as_json(frame[1]), size + len(frame[1])
                if not isinstance(batch, list) or len(found) + len(batch) > MAX_ENTRIES or size > MAX_LISTING_BYTES:
                    raise LinkError(
                        f"the listing has more than {MAX_ENTRIES} entries or {MAX_LISTING_BYTES >> 20} MiB; list a "
                        "smaller folder, or fewer levels"
                    )
                found += batch
        return found

    async def write(
        self, desk: Desk, path: str, owner: int, metadata: Mapping[str, str], data: AsyncIterable[bytes]
    ) -> None:
        """Write a file as its bytes arrive; a full disk is reported at once."""
        async with self.worker(desk) as worker:
            await worker.ask({"act": "write", "path": path, "owner": owner, "metadata": dict(metadata)})
            failed: list[GuestFilesError] = []
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_await_result, worker, failed, tasks.cancel_scope)
                    async for part in data:
                        if part:
                            await worker.give(part)
                    await worker.give(b"")
            except BaseExceptionGroup as group:
                raise unwrap_group(group) from None
            if failed:
                worker.spoilt = True
                raise failed[0]


async def _await_result(worker: Worker, failed: list[GuestFilesError], scope: anyio.CancelScope) -> None:
    """Wait for the result of writing; then stop the sender."""
    try:
        await worker.read_result(math.inf)
    except GuestFilesError as e:
        failed.append(e)
    scope.cancel()


async def _start_worker(desk: Desk) -> Worker:
    argv = ["/usr/bin/python3", "-I", "-S", "-c", BEGIN]
    try:
        process = await desk.start(argv, cwd="/", user="root")
    except BriefError:  # a pod has no root: the program handles files as the user
        process = await desk.start(argv, cwd="/")
    worker = Worker(process, process.output())
    try:
        await process.send(f"{len(PROGRAM):8d}".encode() + PROGRAM)
    except BaseException:
        await end(worker)
        raise
    return worker


async def end(worker: Worker) -> None:
    try:
        await worker.process.kill()
    except HotdeskError:
        pass  # it ended with its desk


def as_json(payload: bytes) -> object:
    try:
        value: object = json.loads(payload)
    except (ValueError, RecursionError):
        raise LinkError("malformed reply from hotdesk's file program in the sandbox; try again") from None
    return value


def _as_failed(payload: bytes) -> Exception:
    match as_json(payload):
        case [str(code), str(text)]:
            return GuestFilesError(code[:20], text[:200])
    return LinkError("malformed reply from hotdesk's file program in the sandbox; try again")
