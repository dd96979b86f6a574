"""The desks of one job: its main desk, and a fresh desk for a step that must not see the content of other steps."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import field
from pathlib import Path, PurePosixPath

import anyio

from hotdesk.brief import CLOSED, Scope
from hotdesk.brief.brief import DRIVE, Brief, locate_input
from hotdesk.dataclass import dataclass
from hotdesk.desk.owner.keeper_client import BURN_SECONDS
from hotdesk.desk.owner.transfer import put
from hotdesk.desk.seam import Desk, Entry, Spec
from hotdesk.drive.identity import get_current_user
from hotdesk.drive.keep import Drive, read_input
from hotdesk.errors import DeskError, FileError
from hotdesk.event import StepBegun, StepEnded
from hotdesk.job.machine import Machine
from hotdesk.job.record.summary import CHECKING

GRACE = 60.0
"""Seconds a desk may outlive the job's time limit, so that the job ends first and can report why."""
_DRIVING = 3600.0
"""Seconds added for people who take over the desk, which is not the job's time. The desk's deadline still applies."""
MAX_FILES = 10_000
"""Maximum number of entries of a folder that is copied between desks."""
DEPTH = 16
BESIDE = "beside"
"""Folder on the desk for the extra inputs of a check."""


@dataclass(slots=True)
class Desks:
    """Opens and burns the desks of one job, and records an event for each."""

    machine: Machine
    job: Brief
    id: str
    note: Callable[..., None]
    seconds: float
    main: Desk | None = None
    side: Desk | None = None
    opened: list[str] = field(default_factory=list)

    async def open(self, what: str, scope: Scope, image: str = "", *, sterile: bool = False, wall: str = "") -> Desk:
        longest = self.seconds + GRACE + _DRIVING
        size = self.job.size
        spec = Spec(
            image or self.job.image,
            size.cpus,
            size.memory,
            size.disk,
            deadline=longest,
            idle=longest,
            sterile=sterile,
            wall=wall or self.job.wall,
        )
        desk = await self.machine.open(spec, scope)
        self.opened.append(desk.id)
        self.note(StepBegun(self.id, "desk", what, desk.id))
        return desk

    async def burn(self, desk: Desk) -> None:
        """Burn a desk, shielded from cancellation, and record whether it is gone."""
        with anyio.move_on_after(BURN_SECONDS, shield=True):
            await self.machine.burn(desk.id)
        gone = not self.machine.has(desk.id)
        self.note(StepEnded(self.id, "desk", "done" if gone else "failed", "burnt" if gone else "left", desk.id))

    async def begin(self, scope: Scope, wall: str = "") -> Desk:
        self.main = await self.open("with the inputs, behind the door", scope, wall=wall)
        return self.main

    async def bring_inputs(self, desk: Desk) -> None:
        for name in self.job.inputs:
            await self.bring_input(desk, name, locate_input(name))

    async def bring_beside(self, desk: Desk, names: Iterable[str]) -> dict[str, str]:
        """Copy the extra inputs of a check to its desk; return their digests by name."""
        digests: dict[str, str] = {}
        for name in names:
            digests[name] = await self.bring_input(desk, name, f"{BESIDE}/{locate_input(name)}")
        return digests

    async def bring_input(self, desk: Desk, name: str, target: str) -> str:
        """Copy an input from the brief's folder or from the drive to a desk; return its digest."""
        if name.startswith(DRIVE):
            data = read_input(Drive(self.machine.config.lib / "drive"), name, get_current_user())
            await desk.write(target, data)
            return hashlib.sha256(data).hexdigest()
        digests: dict[Path, str] = {}
        await put(desk, self.job.folder / name, target, digests)
        return _summarize_digests(self.job.folder / name, digests)

    async def begin_side(self, scope: Scope, files: Iterable[str], wall: str = "") -> Desk:
        assert self.main is not None
        self.side = await self.open("fresh, with named files only", scope, wall=wall)
        for name in files:
            await carry(self.main, self.side, name)
        return self.side

    async def end_side(self, makes: Iterable[str] = ()) -> None:
        if self.side is None:
            return
        try:
            await self.bring(makes)
        finally:
            side, self.side = self.side, None
            await self.burn(side)

    async def bring(self, makes: Iterable[str]) -> None:
        if self.side is not None and self.main is not None:
            for name in makes:
                await carry(self.side, self.main, name)

    async def close(self) -> None:
        desks = [desk for desk in (self.side, self.main) if desk is not None]
        self.side = self.main = None
        for desk in desks:
            await self.burn(desk)

    def is_driven(self) -> bool:
        return any(
            self.machine.get_wheel(desk).explain_refusal() for desk in (self.main, self.side) if desk is not None
        )

    @asynccontextmanager
    async def undriven(self) -> AsyncIterator[None]:
        """Wait until no person controls a desk of the job, and prevent a takeover while the block runs."""
        async with AsyncExitStack() as stack:
            for desk in (self.main, self.side):
                if desk is not None:
                    await stack.enter_async_context(self.machine.get_wheel(desk).reserve())
            yield

    @asynccontextmanager
    async def closing(self) -> AsyncIterator[None]:
        """Burn open desks once the block has ended and no person controls them; at once if the job is cancelled."""
        try:
            yield
        finally:
            try:
                async with self.undriven():
                    pass
            finally:
                await self.close()

    @asynccontextmanager
    async def sterile(self, image: str) -> AsyncIterator[Desk]:
        """Open a clean desk for one deliverable, and burn it afterwards."""
        desk = await self.open(CHECKING, CLOSED, image, sterile=True, wall=self.job.verify_wall)
        try:
            yield desk
        finally:
            await self.burn(desk)


async def carry(source: Desk, target: Desk, name: str) -> None:
    """Copy a file or a folder between desks: regular files only, at paths below `name`.

    All data from the source desk is hostile and is not interpreted. A missing file is skipped.
    """
    try:
        top = await source.stat(name)
    except FileError:
        return
    if top.kind == "file":
        await _copy_file(source, target, name, top)
        return
    entries = await source.list(name, depth=DEPTH, limit=MAX_FILES) if top.kind == "directory" else []
    for entry in entries:
        inside = find_path_below(name, source, entry)
        if inside is None:
            raise DeskError(f"malformed listing of the folder {name!r} from the desk: an entry is outside of it")
        if entry.kind == "directory":
            await target.mkdir(inside)
        elif entry.kind == "file":
            with suppress(FileError):
                await _copy_file(source, target, inside, entry)


async def _copy_file(source: Desk, target: Desk, path: str, entry: Entry) -> None:
    """Copy one file between desks, and close the read stream even if the write fails."""
    async with aclosing(source.read_stream(path)) as stream:
        await target.write(path, stream, mode=entry.mode & 0o755 | 0o600)


async def remove_tree(desk: Desk, path: str) -> None:
    """Remove a tree in the home folder, even if a worker took away its permissions."""
    try:
        await desk.remove(path)
    except FileError:
        parent = str(PurePosixPath(path).parent)
        await desk.run(["/bin/chmod", "-R", "u+rwX", "--", path, *([parent] if parent != "." else [])])
        await desk.remove(path)


def find_path_below(name: str, source: Desk, entry: Entry) -> str | None:
    """Return the path of a listed entry relative to the home folder, or `None` if it is outside the listed folder."""
    home, path = PurePosixPath(source.home), PurePosixPath(entry.path)
    inside = path.relative_to(home) if path.is_relative_to(home) else path
    folder = PurePosixPath(name)
    return str(inside) if inside.is_relative_to(folder) and ".." not in inside.parts else None


def _summarize_digests(path: Path, digests: Mapping[Path, str]) -> str:
    """Return the digest of a file that was sent, or that of a folder's file list in the format of `sha256sum`."""
    if path in digests:
        return digests[path]
    listed = "".join(f"{digests[each]}  {each.relative_to(path)}\n" for each in sorted(digests))
    return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()
