"""A desk's file system: its image's layers, read-only, below a writable one; owners mapped to the desk's ids."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.desk.image.image import Image
from hotdesk.desk.room import identity
from hotdesk.desk.room.disk import Disk
from hotdesk.desk.seam import SNAPSHOTS
from hotdesk.errors import BriefError, DeskError
from hotdesk.linux import syscalls
from hotdesk.linux.filesystem import hold_folder
from hotdesk.linux.openat2 import remove

MEMORY = "memory"
"""The folder of a layer, beside its files, that contains a desk's saved memory. Programs never see it."""
HIBERNATED = "h"
"""The suffix of the snapshot from which a hibernated desk resumes."""
_OVERLAY = "index=off,metacopy=off,redirect_dir=nofollow,xino=off,volatile"


@dataclass(slots=True)
class Layers:
    """The layers of a desk's `/`, below the folder of its room."""

    desk: str
    folder: Path
    disk: Disk
    base: int
    userns: int
    undo: list[Callable[[], object]]
    """Steps that remove what was mounted, last first; shared with the room."""
    shown: Mapping[Path, Path] = field(default_factory=dict)
    """Paths from which layers are read instead of the store."""
    lowers: list[str] = field(default_factory=list)
    standing: list[str] = field(default_factory=list)
    """Mounts that make up the writable layer and `/`, in order."""
    snapshots: dict[str, str] = field(default_factory=dict)
    """Names of the snapshots on disk, by the names the owner uses."""
    last_snapshot: int = 0
    layer: Path = Path()
    """The path of the writable layer, with owners as in an image."""

    def put_up(
        self, image: Image, size: int, files: identity.Files, source: str | None = None, memory: bool = False
    ) -> None:
        """Mount `/` from an image and an empty layer, or one restored from the snapshot `source`.

        With `memory`, keep the snapshot's copy of a desk's memory.
        """
        for number, layer in enumerate(image.layers):
            self.add_lower(layer, self.folder / f"l{number}")
        for name in ("disk", "w", "root"):
            self.folder.joinpath(name).mkdir()
        self.undo.append(self.drop)
        self.undo.append(self.take_down)
        self.fill(size, files, source, memory)

    def add_lower(self, layer: Path, at: Path) -> None:
        """Mount a layer of the image, with a shared lock so that it is not removed while in use."""
        at.mkdir()
        fd = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.undo.append(lambda: os.close(fd))
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        syscalls.mount_idmapped(str(self.shown.get(layer, layer)), str(at), self.userns)
        self.undo.append(lambda: syscalls.umount(str(at)))
        self.lowers.append(at.name)

    def fill(self, size: int, files: identity.Files, source: str | None, memory: bool = False) -> None:
        at = self.folder / "disk"
        layer = self.disk.restore(source, self.desk, size, at) if source else self.disk.make(self.desk, size, at)
        self.layer = layer
        if layer == at:
            self.standing.append(str(at))
        upper, work = layer / "up", layer / "work"
        if not source:
            upper.mkdir(mode=0o755)
        with hold_folder(layer) as fd:
            remove(fd, b"work")  # the work directory of an overlay that was not unmounted cannot be used again
            if not memory:
                remove(fd, MEMORY.encode())
        work.mkdir(mode=0o700)
        identity.write_tree(upper, files)
        self.show(layer)
        self.mount()

    def show(self, layer: Path) -> None:
        at = self.folder / "w"
        if self.disk.plain:
            syscalls.mount_idmapped(str(layer), str(at), self.userns, 0)
        else:
            for path in (layer / "work", layer / "up", *(layer / "up").rglob("*")):
                os.chown(path, self.base, self.base)
            syscalls.mount(str(layer), str(at), None, syscalls.MS_BIND)
        self.standing.append(str(at))

    def mount(self) -> None:
        """Mount the writable layer over the image, by relative names because a desk can read them in its mountinfo."""
        options = f"lowerdir={':'.join(self.lowers)},upperdir=w/up,workdir=w/work,{_OVERLAY}"
        os.chdir(self.folder)
        try:
            with syscalls.making_files_as(self.base):
                syscalls.mount("desk", "root", "overlay", syscalls.MS_NODEV | syscalls.MS_NOSUID, options)
        finally:
            os.chdir("/")
        self.standing.append(str(self.folder / "root"))

    def take_down(self) -> None:
        while self.standing:
            syscalls.umount(self.standing[-1])
            self.standing.pop()

    def drop(self) -> None:
        for name in (self.desk, *self.snapshots.values()):
            self.disk.drop(name)
        self.snapshots.clear()

    # -- snapshots --------------------------------------------------------------------------------------------

    def snapshot(self) -> str:
        """Take a snapshot of the writable layer; no process of the desk may be running."""
        if len(self.snapshots) >= SNAPSHOTS:
            raise DeskError(
                f"desk {self.desk} has {SNAPSHOTS} snapshots, which is the limit; delete one with "
                f"`hotdesk snapshot --forget SNAPSHOT {self.desk}`"
            )
        name = str(self.last_snapshot + 1)
        subvolume = f"{self.desk}.{name}"
        self.disk.snapshot(self.desk, subvolume, self.folder / "disk")
        self.last_snapshot += 1
        self.snapshots[name] = subvolume
        return name

    def make_memory(self) -> None:
        """Create an empty folder for a desk's memory, for root inside only; it counts toward the disk limit."""
        self.drop_memory()
        (self.layer / MEMORY).mkdir(mode=0o700)

    def drop_memory(self) -> None:
        """Remove the saved memory of the desk. A sentry that still reads it has it open."""
        with hold_folder(self.layer) as fd:
            remove(fd, MEMORY.encode())

    def hibernate(self) -> int:
        """Take a snapshot of the layer with the saved memory that outlives the room; return its accounted bytes."""
        self.disk.drop(name_hibernated(self.desk))
        self.disk.snapshot(self.desk, name_hibernated(self.desk), self.folder / "disk")
        return self.disk.measure_usage(self.desk, self.folder / "disk")

    def find(self, snapshot: str) -> str:
        if snapshot not in self.snapshots:
            raise BriefError(
                f"desk {self.desk} has no snapshot {snapshot!r}; it has {', '.join(self.snapshots) or 'none'}"
            )
        return self.snapshots[snapshot]

    def roll_back(self, source: str, size: int) -> None:
        """Restore the writable layer from a snapshot; no process may be running, and later writes are lost."""
        self.take_down()
        self.disk.drop(self.desk)
        self.fill(size, {}, source)

    def forget(self, snapshot: str) -> None:
        self.disk.drop(self.find(snapshot))
        del self.snapshots[snapshot]


def name_hibernated(desk: str) -> str:
    return f"{desk}.{HIBERNATED}"
