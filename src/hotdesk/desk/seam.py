"""The seam of desks, whatever their wall: `Runtime` opens and burns desks; `Desk` runs programs, reads and writes
files.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import field
from typing import Literal, NewType, Protocol

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.config import GIB, MIB, WALLS
from hotdesk.dataclass import dataclass
from hotdesk.desk.records import ID_SHAPE as ID_SHAPE
from hotdesk.desk.volume.paths import check_mounts
from hotdesk.errors import BriefError

DeskId = NewType("DeskId", str)
SnapshotId = NewType("SnapshotId", str)
"""The name of a snapshot, unique within its desk."""
Stream = Literal["stdout", "stderr"]
Kind = Literal["file", "directory", "symlink", "other"]
Keep = Literal["ram", "disk"]
"""Where the memory of a paused desk is kept."""

SNAPSHOTS = 256
"""Maximum number of snapshots per desk."""
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
TENANT_SHAPE = re.compile(r"[A-Za-z0-9._-]{0,64}")
_BY_SHAPE = re.compile(r"[A-Za-z0-9._@ -]{0,120}")
OUTPUT_LIMIT = 16 * MIB
MAX_BYTES = 1 << 50
"""More bytes of memory or disk than any machine has."""
BOUNDS: Mapping[str, tuple[float, float, str]] = {
    "cpus": (0.01, 1024, ""),
    "memory": (16 * MIB, MAX_BYTES, " bytes"),
    "disk": (MIB, MAX_BYTES, " bytes"),
    "pids": (4, 1 << 22, ""),
    "deadline": (0.001, 365 * 86400, " seconds"),
    "idle": (0.001, 365 * 86400, " seconds"),
}
"""Minimum, maximum and unit of each number in a `Spec`."""


def format_bound(value: float, unit: str) -> str:
    """Format a limit for people: sizes as 16M or 1024T."""
    if unit != " bytes":
        return f"{value:.15g}{unit}"
    power = max(each for each in range(5) if value >= 1 << 10 * each)
    return f"{value / (1 << 10 * power):.4g}{'BKMGT'[power]}"


def new_id() -> DeskId:
    """Return an unguessable id: `i` and 20 lowercase alphanumerics, so that it fits a DNS label."""
    random = [ALPHABET[byte % 36] for byte in os.urandom(64) if byte < 252]  # importing `secrets` takes 3 ms
    return DeskId("i" + "".join(random[:20]) if len(random) >= 20 else new_id())


def as_id(text: str) -> DeskId:
    """Return a text as a desk's id; raise `BriefError` if it is none."""
    if not ID_SHAPE.fullmatch(text):
        raise BriefError(f"{text[:40]!r} is not a desk id; `hotdesk ps` lists the ids of open desks")
    return DeskId(text)


def check_argv(argv: Sequence[str]) -> None:
    """Raise `BriefError` for an invalid program or argument list."""
    if isinstance(argv, str):
        line = argv[:80]
        raise BriefError(
            f"a program must be a list of its name and arguments; for a command line write ['sh', '-c', {line!r}]"
        )
    if not argv or not all(isinstance(text, str) for text in argv):
        raise BriefError("a program must be a list of strings, its name and arguments, such as ['ls', '-l']")


def as_bytes(data: str | bytes | bytearray | memoryview) -> bytes:
    """Return bytes unchanged, and text as UTF-8."""
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise BriefError(f"expected text or bytes, not {type(data).__name__}")


def check_variables(env: Mapping[str, str]) -> None:
    """Raise `BriefError` for an invalid environment variable."""
    for key, value in env.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise BriefError("a program's environment variables must be strings")
        if not key or "=" in key or "\0" in key + value:
            raise BriefError(
                f"environment variable {key!r} is not valid: a name has no `=` and is not "
                "empty; a value has no NUL byte"
            )


@dataclass(frozen=True, slots=True)
class Spec:
    """The requested computer."""

    image: str = "base"
    cpus: float = 2.0
    memory: int = 2 * GIB
    disk: int = 16 * GIB
    disk_in: Literal["disk", "memory"] = "disk"
    """Where the writable layer is stored; in memory it counts against `memory`."""
    pids: int = 1024
    deadline: float = 3600.0
    """Seconds until the desk is burnt, whether it is in use or not."""
    idle: float = 900.0
    """Seconds without a call or traffic until the desk is burnt."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of every program in the desk."""
    tenant: str = ""
    """The tenant the desk belongs to; desks prepared for one tenant are not given to another."""
    root: bool = False
    """Whether programs may run as root inside: by `user="root"`, and by `sudo`. Root has no privileges outside."""
    sterile: bool = False
    """Whether it uses a copy of its image that no working desk ever uses: for verifying the result of one."""
    by: str = ""
    """Who requests it, for the journal; empty for the process that does."""
    wall: str = "container"
    """What separates its programs from the host. A machine without this wall opens no desk instead of a weaker one."""
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Ids of volumes, by their mount points."""

    def __post_init__(self) -> None:
        for name, (least, most, unit) in BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                shown = f"{value:.15g}" if abs(value) < 1 << 80 else "so large"
                raise BriefError(
                    f"a desk's {name} cannot be {shown}{unit}: use {format_bound(least, unit)} to "
                    f"{format_bound(most, unit)}"
                )
        if self.disk_in not in ("disk", "memory"):
            raise BriefError(f"a desk's disk_in cannot be {self.disk_in!r}: use 'disk' or 'memory'")
        if self.wall not in WALLS:
            raise BriefError(f"a desk's wall cannot be {self.wall!r}: use one of {', '.join(WALLS[1:])}")
        if TENANT_SHAPE.fullmatch(self.tenant) is None:
            raise BriefError(f"a desk's tenant cannot be {self.tenant!r}: use up to 64 characters of A-Z a-z 0-9 . _ -")
        if _BY_SHAPE.fullmatch(self.by) is None:
            raise BriefError(
                f"a desk's `by` (who opened it) cannot be {self.by!r}: use up to 120 characters "
                "of A-Z a-z 0-9 . _ @ - and space"
            )
        check_variables(self.env)
        check_mounts(self.volumes)

    def is_like(self, other: Spec) -> bool:
        """Return whether two specs describe the same computer, ignoring time limits and requester."""
        return all(getattr(self, name) == getattr(other, name) for name in COMPUTER)


COMPUTER = tuple(name for name in Spec.__dataclass_fields__ if name not in ("deadline", "idle", "by"))


@dataclass(frozen=True, slots=True)
class Done:
    """The result and output of a program. A result, never an error."""

    exit_code: int
    """The exit code as in a shell: 126 and 127 if the program could not start, 128 + n if signal n ended it."""
    stdout: bytes = b""
    stderr: bytes = b""
    signal: int | None = None
    """The number of the signal that ended it, or `None`."""
    timed_out: bool = False
    """Whether it exceeded its time limit, and was killed with all its descendants."""
    out_of_memory: bool = False
    """Whether the desk's memory limit killed a process while it ran."""
    truncated: bool = False
    """Whether its output exceeded the limit; the rest was discarded."""
    reason: str = ""
    """Why it could not start, for people."""

    @property
    def ok(self) -> bool:
        """Return whether the exit code is 0."""
        return self.exit_code == 0

    @property
    def text(self) -> str:
        """Return standard output as text; undecodable bytes are replaced."""
        return self.stdout.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a desk's file system. Every field comes from the guest: hostile."""

    name: str
    path: str
    kind: Kind
    size: int
    mode: int
    """Permission bits."""
    uid: int
    gid: int
    modified: float
    target: str | None = None
    """The target of a symbolic link as stored, or `None`."""


@dataclass(frozen=True, slots=True)
class Running:
    """A program that the guest started: running, or ended so recently that its exit code is still kept."""

    pid: int
    argv: tuple[str, ...]
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a terminal, in characters."""

    rows: int = 24
    columns: int = 80

    def __post_init__(self) -> None:
        if not (0 < self.rows < 1 << 15 and 0 < self.columns < 1 << 15):
            raise BriefError(f"a terminal cannot have {self.rows} rows and {self.columns} columns: use 1 to 32767")


@dataclass(frozen=True, slots=True)
class Usage:
    """A desk's resource usage, measured by its keeper: no value comes from the guest."""

    cpu: float
    """Seconds of processor time since it was opened."""
    memory: int
    """Bytes, including the page cache."""
    disk: int
    """Bytes of its writable layer."""
    pids: int
    """Processes and threads."""
    oom_kills: int
    """Number of processes killed by its memory limit."""
    processes: int = 0
    """Number of processes, including the guest; 0 if they are not counted."""
    outgoing: int = 0
    """Attempts of its programs to send over TCP or UDP, including loopback; 0 if they are not counted."""


ChangeKind = Literal["create", "write", "remove", "rename", "chmod", "overflow"]


@dataclass(frozen=True, slots=True)
class Change:
    """A change in a watched folder. Every field comes from the guest: untrusted."""

    kind: ChangeKind
    """`rename` is a name that disappeared; the new one is a `create`. `overflow`: too many changes, some are lost."""
    path: str
    """The path relative to the watched folder."""


class Watch(Protocol):
    """A watched folder."""

    async def changes(self) -> list[Change]:
        """Return all changes since the last call, up to this moment."""
        ...

    async def wait(self) -> list[Change]:
        """Wait for the next changes, and return them."""
        ...

    async def close(self) -> None:
        """Stop watching. A second call does nothing."""
        ...


class Process(Protocol):
    """A program in a desk, with this subscriber's view of its output."""

    @property
    def pid(self) -> int:
        """Return its pid inside the desk; 0 if it could not start."""
        ...

    def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        """Yield its output in order, until it ends. Slow reading slows the program (back-pressure); nothing is lost."""
        ...

    async def send(self, data: bytes) -> None:
        """Write to its standard input; waits while that is full. A program that no longer reads is no error."""
        ...

    async def close_stdin(self) -> None:
        """Close its standard input. A second call does nothing."""
        ...

    async def signal(self, number: int) -> None:
        """Send a signal to this pid only. A program that has ended is no error."""
        ...

    async def resize(self, size: Size) -> None:
        """Set the size of its terminal; without a terminal this does nothing."""
        ...

    async def kill(self) -> None:
        """Kill it with all its descendants, and stop following it."""
        ...

    async def wait(self) -> Done:
        """Wait until its output is closed and it is reaped; return its result, without the output."""
        ...

    async def detach(self) -> None:
        """Stop following it. The program continues."""
        ...


class Desk(Protocol):
    """An open disposable computer. Relative paths start at the home folder.

    Every method raises `DeskGone` if the desk no longer exists, and `LinkError` if its guest misbehaves. File methods
    raise `FileError` with a `reason`.
    """

    @property
    def id(self) -> DeskId:
        """Return its id."""
        ...

    @property
    def home(self) -> str:
        """Return the home folder of its user."""
        ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
    ) -> Done:
        """Run a program to its end. A missing program is a result: exit code 127."""
        ...

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
        stdin: bool = True,
        pty: Size | None = None,
    ) -> Process:
        """Start a program and follow it from its first byte. It outlives its followers.

        With `pty` it gets a terminal of that size, all of its output is `stdout`, and closing its standard input sends
        the end-of-file character to the terminal. `user` is `user`, or `root` in a desk whose spec allows it.
        """
        ...

    async def attach(self, pid: int) -> Process:
        """Follow a program already started: its recent output, then the rest; or its exit, which is kept for 30 s."""
        ...

    async def processes(self) -> list[Running]:
        """List the programs started here that are running, or whose exit is still kept."""
        ...

    def read_stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield a file's bytes."""
        ...

    async def read(self, path: str, *, limit: int = 64 * MIB) -> bytes:
        """Return a file's bytes. Raise `FileError` if it has more than `limit`."""
        ...

    async def write(self, path: str, data: str | bytes | AsyncIterable[bytes], *, mode: int | None = None) -> None:
        """Write a file in place, creating its folders; text is written as UTF-8.

        A full disk raises `FileError` with reason `full`.
        """
        ...

    async def list(self, path: str = ".", *, depth: int = 1, limit: int = 100_000) -> list[Entry]:
        """List a folder, depth first and sorted by name, without the folder itself."""
        ...

    async def stat(self, path: str) -> Entry:
        """Describe one path; a symbolic link is described, not followed."""
        ...

    async def mkdir(self, path: str) -> bool:
        """Create a folder and its parents; return False if it existed."""
        ...

    async def move(self, source: str, destination: str) -> None:
        """Rename a path, creating the destination's folders. An existing file there is replaced."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a path and everything below it. A missing one is no error; a symbolic link is not followed."""
        ...

    async def watch(self, path: str = ".", *, recursive: bool = True) -> Watch:
        """Watch a folder from now on, including folders created below it later."""
        ...

    async def dial(self, port: int) -> socket.socket:
        """Connect to a server on the desk's loopback; return a non-blocking socket. `DeskError` if none listens."""
        ...

    async def pause(self, *, memory: bool = True, keep: Keep = "ram") -> None:
        """Freeze every program until `resume`. Calls wait meanwhile; the deadline still applies.

        With `keep="disk"` the desk uses no memory and survives its owner; `Host.wake` resumes it. Raises `BriefError`
        if the wall cannot save memory. With `memory=False` every program ends and only the files remain: `resume` then
        starts the desk again with another boot id. A second call does nothing.
        """
        ...

    async def resume(self) -> None:
        """Continue every program. A desk that is not paused is no error."""
        ...

    async def snapshot(self) -> SnapshotId:
        """Take a snapshot of the files at one moment; it exists as long as the desk. Programs continue.

        Contents of memory are not included: `/run`, `/dev/shm`, and the state of programs.
        """
        ...

    async def rollback(self, snapshot: SnapshotId) -> None:
        """Restore the files of a snapshot exactly. Every program ends, and the desk restarts under the same id.

        The snapshot remains. An unknown one raises `BriefError`.
        """
        ...

    async def fork(self, count: int = 1, snapshot: SnapshotId | None = None, *, memory: bool = False) -> Sequence[Desk]:
        """Open desks like this one that start with its current files or those of a snapshot.

        Each is a computer of its own, with its own id, name, egress, grants and placeholders, and a deadline that
        starts now. With `memory` the programs continue in each of them, and here; raises `BriefError` if the wall
        cannot save memory. After an error none of them exists.
        """
        ...

    async def forget(self, snapshot: SnapshotId) -> None:
        """Delete a snapshot."""
        ...

    async def save(self, name: str, snapshot: SnapshotId | None = None) -> None:
        """Save the desk's current files, or those of a snapshot, as an image for other desks.

        It does not include the desk's identity (name, machine id, certificates), devices or setuid bits.
        """
        ...

    async def usage(self) -> Usage:
        """Return the desk's resource usage."""
        ...

    async def burn(self) -> None:
        """Destroy the desk and everything in it. A second call does nothing."""
        ...

    async def close(self) -> None:
        """Burn the desk, as `burn`."""
        ...


class Supervisor(Protocol):
    """Gives desks egress, and records their traffic."""

    async def prepare(self) -> None:
        """Start recording events."""
        ...

    async def admit(self, desk: DeskId, spec: Spec, scope: Scope) -> tuple[str, Mapping[str, str]]:
        """Prepare a desk's egress; return the certificate to trust, and variables with placeholders of secrets."""
        ...

    async def prove(self, desk: Desk) -> None:
        """Test the egress from inside. After an error the desk must not be handed over."""
        ...

    async def dismiss(self, desk: DeskId, why: str) -> None:
        """Close a desk's egress. A desk without egress is no error."""
        ...


class Runtime(Protocol):
    """A way to open desks on this machine."""

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> Desk:
        """Open a new desk with the egress of its scope. After an error nothing of it remains."""
        ...

    async def find(self, desk: DeskId) -> Desk:
        """Return an open desk by id, whichever process opened it. Raise `DeskGone` if there is none."""
        ...

    async def burn(self, desk: DeskId) -> None:
        """Destroy a desk and everything in it. Accepts any id; a second call does nothing."""
        ...
