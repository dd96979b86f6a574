"""Programs that callers started in a sandbox: one task reads each, and passes its output to all followers."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Done, Process, Stream
from hotdesk.errors import HotdeskError

_EXIT_TTL_S = 30.0
"""Seconds for which the exit of a program is kept for late followers."""
MAX_EXITS = 64
"""Maximum number of exits that are kept."""
QUEUE = 16
"""Pieces of output that may wait for one follower; beyond that the program waits, too."""

Piece = tuple[Stream, bytes]


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    cmd: str
    args: tuple[str, ...]
    envs: dict[str, str]
    cwd: str | None
    tag: str | None
    stdin: bool
    terminal: bool


@dataclass(slots=True, eq=False)
class SandboxProgram:
    """One program and its followers."""

    process: Process
    request: ProgramRequest
    done: Done | None = None
    lost: HotdeskError | None = None
    """Why it is unknown how the program ended."""
    ended: float = math.inf
    input_closed: bool = False
    followers: set[MemoryObjectSendStream[Piece]] = field(default_factory=set)
    gone: anyio.Event = field(default_factory=anyio.Event)
    """Set once the program has ended, or the connection to it was lost."""
    stalled: bool = False
    """Whether a follower has not read its output, which delays the report of its end."""

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def over(self) -> bool:
        return self.done is not None or self.lost is not None

    async def hear(self) -> None:
        try:
            async for piece in self.process.output():
                for follower in list(self.followers):
                    await self.pass_on(follower, piece)
            self.done = await self.process.wait()
        except HotdeskError as e:
            self.lost = e
        self.ended = time.monotonic()
        self.gone.set()
        for follower in list(self.followers):
            follower.close()

    async def pass_on(self, follower: MemoryObjectSendStream[Piece], piece: Piece) -> None:
        """Send output to one follower; a disconnected one is removed."""
        self.stalled = True
        try:
            await follower.send(piece)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.followers.discard(follower)
        finally:
            self.stalled = False

    @contextmanager
    def follow(self) -> Iterator[MemoryObjectReceiveStream[Piece]]:
        """Yield the program's output from now on; the stream ends with the program."""
        send, receive = anyio.create_memory_object_stream[Piece](QUEUE)
        if self.over:
            send.close()
        else:
            self.followers.add(send)
        try:
            yield receive
        finally:
            self.followers.discard(send)
            receive.close()
            send.close()


@dataclass(slots=True)
class SandboxPrograms:
    """The programs of one sandbox: running ones, and those that ended recently."""

    by_pid: dict[int, SandboxProgram] = field(default_factory=dict)

    def add(self, program: SandboxProgram) -> None:
        self.tidy()
        self.by_pid[program.pid] = program

    def find(self, pid: int, tag: str = "") -> SandboxProgram | None:
        """Return a program by its process id, or the latest one with a tag."""
        self.tidy()
        if not tag:
            return self.by_pid.get(pid)
        return next((one for one in reversed(self.by_pid.values()) if one.request.tag == tag), None)

    def list_running(self) -> list[SandboxProgram]:
        return [one for one in self.by_pid.values() if not one.over]

    def tidy(self) -> None:
        over = sorted((one.ended, pid) for pid, one in self.by_pid.items() if one.over)
        limit = time.monotonic() - _EXIT_TTL_S
        for place, (when, pid) in enumerate(over):
            if when < limit or place < len(over) - MAX_EXITS:
                del self.by_pid[pid]


SIGNALS = {
    signal.SIGHUP: "hangup", signal.SIGINT: "interrupt", signal.SIGQUIT: "quit", signal.SIGILL: "illegal instruction",
    signal.SIGTRAP: "trace/breakpoint trap", signal.SIGABRT: "aborted", signal.SIGBUS: "bus error",
    signal.SIGFPE: "floating point exception", signal.SIGKILL: "killed", signal.SIGUSR1: "user defined signal 1",
    signal.SIGSEGV: "segmentation fault", signal.SIGUSR2: "user defined signal 2", signal.SIGPIPE: "broken pipe",
    signal.SIGALRM: "alarm clock", signal.SIGTERM: "terminated",
}  # fmt: skip


def describe_end(done: Done) -> dict[str, object]:
    if done.signal is not None:
        name = SIGNALS.get(signal.Signals(done.signal)) if done.signal in list(signal.Signals) else None
        status = f"signal: {name or done.signal}"
        return {"exitCode": -1, "exited": False, "status": status, "error": status}
    status = f"exit status {done.exit_code}"
    if done.ok:
        return {"exitCode": 0, "exited": True, "status": status}
    return {"exitCode": done.exit_code, "exited": True, "status": status, "error": status}
