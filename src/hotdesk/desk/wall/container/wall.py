"""The wall `container`: namespaces, a seccomp filter and no capabilities, set up by an OCI runtime."""

from __future__ import annotations

import json
import os
import resource
import socket

from hotdesk.config import Config
from hotdesk.desk.room import procfs
from hotdesk.desk.room.layout import compute_shm_size
from hotdesk.desk.room.room import Room
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.container import bundle, crun, filter_cache, prove
from hotdesk.desk.wall.seam import MemoryWriter, Standby, StartError
from hotdesk.errors import BriefError
from hotdesk.linux import syscalls, uids
from hotdesk.linux.loopback import call_port
from hotdesk.walls import TRAITS


class ContainerWall:
    """Desks as containers on the host's kernel."""

    name = "container"
    traits = TRAITS[name]
    root_capabilities = bundle.CAPABILITY_BITS
    """Capabilities of the guest for root, as a bit mask."""

    def __init__(self, settings: Config) -> None:
        self.settings = settings
        self.filters = filter_cache.Filters(settings.lib / "cache", settings.runtime)

    def stand_by(self, room: Room) -> Standby:
        return crun.stand_by(self.settings, room)

    def prepare(self, room: Room) -> None:
        (room.folder / "bundle").mkdir(mode=0o700, exist_ok=True)
        configuration = bundle.build_config(describe_room(room, self.filters.compiled))
        (room.folder / "bundle/config.json").write_text(json.dumps(configuration))

    def find_guest(self, room: Room, status: int, *, root: bool = False) -> int:
        if status != 0:
            raise StartError(crun.describe_failure(self.settings, room, status, crun.ROOT_LOG if root else crun.LOG))
        try:
            return int((room.folder / ("root.pid" if root else "pid")).read_text())
        except (OSError, ValueError) as e:
            raise StartError(str(e)) from e

    def prove(self, room: Room, pid: int) -> None:
        prove.check(pid, room.base + uids.USER, 0, room.netns, room.userns)
        prove.check_mounts(pid, room.spec.volumes)
        self.filters.keep(self.settings.run / "runtime" / room.desk / "seccomp.bpf")

    def find_caller(self, room: Room, pid: int, *, root: bool = False) -> tuple[int, int]:
        return pid, room.base if root else room.base + uids.USER

    def enter(self, room: Room) -> int:
        (room.folder / "bundle/root.json").write_text(json.dumps(self.write_root_process(room)))
        assert room.sudo is not None
        return crun.enter(self.settings, room, room.sudo)

    def write_root_process(self, room: Room) -> dict[str, object]:
        return bundle.build_root_process(describe_room(room, self.filters.compiled))

    def list_root_flaws(self, room: Room, pid: int, first: int) -> list[str]:
        flaws = prove.list_flaws(pid, room.base, self.root_capabilities, room.netns, room.userns)
        return flaws + prove.list_foreign_namespaces(pid, first)

    def save_memory(self, room: Room, *, stop: bool) -> MemoryWriter:
        raise BriefError(
            f"the memory of desk {room.desk} cannot be saved: the wall {self.name} cannot save running programs"
        )

    def explain_memory(self, room: Room) -> str:
        return f"the wall {self.name} cannot save memory"

    def settle(self, room: Room, spec: Spec, pid: int) -> None:
        if spec.memory != room.spec.memory:
            syscalls.resize_tmpfs(f"/proc/{pid}/root/dev/shm", compute_shm_size(spec.memory))

    def dial(self, room: Room, port: int) -> socket.socket:
        return syscalls.run_in_netns(room.netns, lambda: call_port(port))


def describe_room(room: Room, compiled: str | None) -> bundle.BundleInput:
    """Describe a room for the runtime. `compiled` is the cached seccomp filter, or `None`."""
    return bundle.BundleInput(
        desk=room.desk,
        root=str(room.folder / "root"),
        dev=str(room.folder / "dev"),
        sys=str(room.folder / "sys"),
        proc=str(room.folder / "proc"),
        link=str(room.folder / "link"),
        userns=f"/proc/{os.getpid()}/fd/{room.userns}",
        netns=f"/proc/{os.getpid()}/fd/{room.netns}",
        memory=room.spec.memory,
        python=room.image.python,
        machine=os.uname().machine,
        hidden=procfs.COVERED_HERE,
        guest=room.guest,
        annotation=filter_cache.ANNOTATION,
        filter=compiled,
        limits=_read_hard_limits(),
        env=room.build_environment(),
        volumes={path: str(source) for path, source in room.get_volume_sources().items()},
    )


def _read_hard_limits() -> dict[str, int]:
    """Return the hard resource limits that this process cannot raise."""
    hard = {
        name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
        for name in bundle.LIMITS
        if name != "SIGPENDING"
    }
    return {name: value for name, value in hard.items() if value != resource.RLIM_INFINITY}
