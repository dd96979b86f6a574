"""The wall `gvisor`: a desk's programs run on a kernel in user space, set up by runsc without host privileges."""

from __future__ import annotations

import json
import os
import socket
import stat
from contextlib import suppress
from functools import cached_property

from hotdesk.config import MIB, Config
from hotdesk.desk.room import identity
from hotdesk.desk.room.room import Room
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.gvisor import bundle, memory, prove, rename, runsc, status
from hotdesk.desk.wall.seam import MemoryWriter, Standby, StartError
from hotdesk.errors import BriefError
from hotdesk.linux import syscalls
from hotdesk.linux.openat2 import RootDirectory
from hotdesk.walls import TRAITS

MARKER = "tmp/.hotdesk"
"""Present while a desk starts: gVisor mounts a tmpfs over an empty /tmp, which no snapshot or disk limit covers."""
KVM = "/dev/kvm"
MIN_MEMORY = 64 * MIB
"""Minimum bytes of memory; with less the sentry itself is killed."""


class GvisorWall:
    """Desks with a sentry of their own."""

    name = "gvisor"
    traits = TRAITS["gvisor"]

    def __init__(self, settings: Config) -> None:
        self.settings = settings

    @cached_property
    def runsc(self) -> runsc.Runsc:
        found = status.look(self.settings)
        return runsc.Runsc(found.program, found.platform)

    def stand_by(self, room: Room) -> Standby:
        if room.spec.memory < MIN_MEMORY:
            raise BriefError(f"a desk behind the wall gvisor needs at least {MIN_MEMORY // MIB}M of memory")
        return runsc.stand_by(self.runsc, room, rename.begin)

    def prepare(self, room: Room) -> None:
        folder = room.folder
        for name in (runsc.STATE, runsc.BUNDLE, runsc.SYSTEM, "tmp", bundle.COVERED[1:]):
            (folder / name).mkdir(mode=0o711, exist_ok=True)
        (folder / runsc.PROGRAM).touch(0o444)
        make_state(room)
        (folder / runsc.BUNDLE / "config.json").write_text(json.dumps(bundle.build_config(_bundle_input(room))))
        if self.runsc.platform == "kvm":
            make_kvm(room)
        if room.memory:
            rename.prepare(room, _bundle_input(room))
        with syscalls.making_files_as(room.base):
            identity.write_tree(folder / "root", {MARKER: b""})

    def find_guest(self, room: Room, status: int, *, root: bool = False) -> int:
        if status != 0:
            raise StartError(runsc.describe_failure(room, status, runsc.ROOT_LOG if root else runsc.LOG))
        try:
            return int((room.folder / (runsc.ROOT_PID if root else runsc.PID)).read_text())
        except (OSError, ValueError) as e:
            raise StartError(str(e)) from e

    def prove(self, room: Room, pid: int) -> None:
        prove.check(room, pid)
        _remove_marker(room)

    def find_caller(self, room: Room, pid: int, *, root: bool = False) -> tuple[int, int]:
        supervisor = int((room.folder / runsc.PID).read_text())
        return prove.find_gofer(room, supervisor), room.base

    def enter(self, room: Room) -> int:
        process = json.dumps(bundle.build_root_process(_bundle_input(room)))
        (room.folder / runsc.BUNDLE / "root.json").write_text(process)
        return runsc.enter(self.runsc, room, int((room.folder / runsc.PID).read_text()))

    def list_root_flaws(self, room: Room, pid: int, first: int) -> list[str]:
        return prove.list_root_flaws(room, pid, first)

    def save_memory(self, room: Room, *, stop: bool) -> MemoryWriter:
        return memory.save(self.runsc, room, int((room.folder / runsc.PID).read_text()), stop=stop)

    def explain_memory(self, room: Room) -> str:
        return memory.explain(room)

    def settle(self, room: Room, spec: Spec, pid: int) -> None:
        if (spec.memory, spec.cpus) != (room.spec.memory, room.spec.cpus):
            raise BriefError(
                "memory and CPUs of a desk behind the wall gvisor cannot be changed after its start; open another"
            )

    def dial(self, room: Room, port: int) -> socket.socket:
        raise OSError(
            "ports of a desk with the wall gvisor cannot be reached from the host; connect "
            "through hotdesk's process in it"
        )


def make_state(room: Room) -> None:
    """Mount a tmpfs for runsc's state; a sentry's log is so limited, and takes no space of the keeper's."""
    at = str(room.folder / runsc.STATE)
    if os.path.ismount(at):
        syscalls.umount(at)
    else:
        room.undo.append(lambda: syscalls.umount(at))
    options = f"size=256k,nr_inodes=64,mode=700,uid={room.base},gid={room.base}"
    syscalls.mount("notes", at, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC, options)


def make_kvm(room: Room) -> None:
    """Create a device node of /dev/kvm for the desk, which runsc opens. The desk's programs never see it."""
    node = room.folder / "dev/kvm"
    if not node.exists():
        os.mknod(node, stat.S_IFCHR | 0o600, os.stat(KVM).st_rdev)
        os.chown(node, room.base, room.base)
    room.cgroup.allow_device("c 10:232")


def _remove_marker(room: Room) -> None:
    """Remove the file that kept gVisor from covering /tmp. If the desk replaced the folder, nothing else is removed."""
    folder, _, name = MARKER.rpartition("/")
    with RootDirectory(room.folder / "root") as root, suppress(OSError), root.folder(folder.encode()) as fd:
        os.unlink(name, dir_fd=fd)


def _bundle_input(room: Room) -> bundle.GvisorBundle:
    volumes = {path: f"/{source.name}" for path, source in room.get_volume_sources().items()}
    return bundle.GvisorBundle(
        room.desk, room.spec.memory, room.image.python, room.guest, room.build_environment(), volumes
    )
