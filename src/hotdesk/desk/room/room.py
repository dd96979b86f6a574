"""The room of a desk: user and network namespaces, disk, overlay, devices, cgroup. Made and removed here.

Everything is mounted in the keeper's private mount namespace: when a keeper is killed its mounts disappear.
"""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.desk import door_files
from hotdesk.desk.image.image import Image
from hotdesk.desk.room import cpu_set, devices, identity, procfs
from hotdesk.desk.room.disk import Disk
from hotdesk.desk.room.rootfs import Layers
from hotdesk.desk.room.volume_store import VolumeStore, make_mount_points
from hotdesk.desk.seam import Spec
from hotdesk.linux import syscalls, sysctl, uids, user_namespace
from hotdesk.linux.cgroup import Cgroup, CgroupLimits
from hotdesk.linux.filesystem import hold_folder

GATE = ("127.0.0.1", 3128)
_GATE_BACKLOG = 256
_SUDO_BACKLOG = 16
_MAX_KNOCKS = 4 * _SUDO_BACKLOG
"""Maximum calls of `sudo` that are closed at a time."""
THREADS_PER_PROGRAM = 8
"""Threads on the host per program of a desk with its own kernel: 7 were measured, and more appear with use."""


@dataclass(slots=True)
class Room:
    """A desk's surroundings, with the steps that remove each part again."""

    desk: str
    folder: Path
    """A tmpfs in the keeper's mount namespace; paths that a desk can see are relative to it."""
    cgroup: Cgroup
    disk: Disk
    base: int
    """The first of its user ids on the host."""
    image: Image
    spec: Spec
    undo: list[Callable[[], object]] = field(default_factory=list)
    userns: int = -1
    netns: int = -1
    gate: socket.socket | None = None
    listener: socket.socket | None = None
    sudo: socket.socket | None = None
    """The socket that `sudo` calls, in a desk that may have root."""
    guest: str = ""
    """The name of the file that starts the guest, in the folder with its code."""
    shown: Mapping[Path, Path] = field(default_factory=dict)
    """Paths from which layers are read instead of the store: the copies for a sterile desk."""
    ca: str = ""
    """The certificate authority of its door, which the desk trusts."""
    has_own_network: bool = False
    """Whether its network stack is not the host's: the gate is then a unix socket to which the guest forwards
    connections, and `sudo` and the guest for root communicate inside the desk.
    """
    memory: bool = False
    """Whether it starts from saved memory."""
    is_resumed: bool = False
    """Whether it is the same desk that was hibernated, and keeps its identity."""
    kernel_threads: int = 0
    """Threads on the host of the desk's own kernel; 0 without one."""
    volume_store: VolumeStore | None = None
    """The store with the volumes of its spec, or `None` if it has no volumes."""
    kernel_memory: int = 0
    """Bytes of memory on the host for that kernel and its processes, beside the desk's own."""
    stage: Image | None = None
    """The image its first process runs in, if that is not the desk's image."""
    created: float = field(default_factory=time.monotonic)
    layers: Layers = field(init=False)

    def prepare(self, guest: dict[str, bytes], ca: str = "", source: str | None = None) -> None:
        """Create everything but the cgroup; `source` is the disk's initial snapshot. After an error call `clear`."""
        spec = self.spec
        self.userns = user_namespace.make(self.base + uids.ANCHOR, uids.format_id_map(self.base))
        if self.has_own_network:
            self.netns, _ = syscalls.run_in_new_netns(syscalls.raise_loopback)
        else:
            self.netns, self.gate = syscalls.run_in_new_netns(open_gate)
        self.furnish(guest)
        if self.has_own_network:
            self.gate = self.listen("gate.sock", uids.USER, 0o600, _GATE_BACKLOG)
        if spec.root:
            self.await_sudo()
        self.ca = ca
        self.guest = next(name for name in guest if name.startswith("start."))
        self.layers = Layers(self.desk, self.folder, self.disk, self.base, self.userns, self.undo, self.shown)
        files = {} if self.is_resumed else identity.build_identity_files(self.desk)
        files |= identity.build_privilege_files(spec.root, ca, self.image.python, self.has_own_network)
        self.layers.put_up(self.stage or self.image, spec.disk, files, source, self.memory)
        if self.volume_store is not None:
            self.mount_volumes(self.volume_store)

    def mount_volumes(self, store: VolumeStore) -> None:
        for volume, at in zip(self.spec.volumes.values(), self.get_volume_sources().values(), strict=True):
            at.mkdir(mode=0o711)
            store.show(volume, at, self.userns)
            self.undo.append(functools.partial(syscalls.umount, str(at)))
        make_mount_points(self.folder / "root", self.spec.volumes, self.base)

    def get_volume_sources(self) -> dict[str, Path]:
        return {path: self.folder / f"v{number}" for number, path in enumerate(self.spec.volumes)}

    def furnish(self, guest: dict[str, bytes]) -> None:
        at = str(self.folder)
        os.mkdir(at, 0o711)
        self.undo.append(self.folder.rmdir)
        syscalls.mount("room", at, "tmpfs", syscalls.MS_NOSUID, "size=4m,nr_inodes=1024,mode=711")
        self.undo.append(lambda: syscalls.umount(at))
        devices.make_dev(f"{at}/dev")
        devices.make_sys(f"{at}/sys", cpu_set.count(self.spec.cpus))
        devices.make_folders(f"{at}/proc", ("none",))
        covers = {"empty": b"", "boot_id": _make_random_uuid(), **procfs.STEADY_FILES}
        devices.write_files(f"{at}/proc", covers | procfs.build_files(self.spec.memory, self.spec.cpus), 0o444)
        devices.make_folders(f"{at}/link", ("lib", "lib/hotdesk_guest"))
        devices.write_files(f"{at}/link/lib/hotdesk_guest", guest)
        devices.write_files(f"{at}/link", {os.path.basename(door_files.APT_CLOSED): door_files.APT_CLOSED_SETTINGS})
        self.await_guest()

    def await_guest(self) -> None:
        self.listener = self.listen("link.sock", uids.USER, 0o600)

    def listen(self, name: str, uid: int, mode: int, backlog: int = _SUDO_BACKLOG) -> socket.socket:
        """Listen at a socket in the folder that a desk can read and not write, owned by this user of the desk."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path = f"{self.folder}/link/{name}"
        with suppress(FileNotFoundError):
            os.unlink(path)
        with hold_folder(self.folder / "link") as fd:
            listener.bind(f"/proc/self/fd/{fd}/{name}")  # because a socket's path is at most 107 bytes
        os.chmod(path, mode)
        os.chown(path, self.base + uid, self.base + uid)
        listener.listen(backlog)
        return listener

    def await_sudo(self) -> None:
        self.sudo = self.listen("sudo.sock", uids.USER, 0o666)
        self.sudo.setblocking(False)

    def drop_knocks(self) -> None:
        """Close calls of `sudo` at a socket that the guest for root cannot inherit: they only request its start."""
        if self.has_own_network and self.sudo is not None:
            with suppress(BlockingIOError):
                for _ in range(_MAX_KNOCKS):  # a program may call faster than calls are closed
                    self.sudo.accept()[0].close()

    def admit_root(self) -> socket.socket:
        return self.listen("root.sock", 0, 0o600)

    def hang_up(self) -> None:
        """Close the socket for a guest: the owner has it now, or no process will."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    def settle(self, spec: Spec, ca: str) -> None:
        """Turn a ready desk into the requested one, before any program has used it."""
        if not ca and spec.is_like(self.spec):
            self.spec = spec
            return
        if self.compute_limits(spec) != self.compute_limits(self.spec):
            self.cgroup.limit(self.compute_limits(spec))
        if spec.disk != self.spec.disk:
            self.disk.resize(self.desk, spec.disk)
        if spec.cpus != self.spec.cpus:
            self.show_cpus(spec.cpus)
        if spec.root:
            self.await_sudo()
        if files := identity.build_privilege_files(
            spec.root, "" if ca == self.ca else ca, self.image.python, self.has_own_network
        ):
            with syscalls.making_files_as(self.base):
                identity.write_tree(self.folder / "root", files)
        self.spec, self.ca = spec, ca
        self.show_use()

    def compute_limits(self, spec: Spec) -> CgroupLimits:
        """Return the limits of a desk's cgroup. A kernel of its own has several threads on the host per program."""
        pids = THREADS_PER_PROGRAM * spec.pids + self.kernel_threads if self.kernel_threads else spec.pids
        return CgroupLimits(memory=spec.memory + self.kernel_memory, pids=pids, cpus=spec.cpus)

    def show_cpus(self, cpus: float) -> None:
        devices.set_cpus(f"{self.folder}/sys", cpu_set.count(cpus))
        procfs.rewrite(f"{self.folder}/proc/cpuinfo", procfs.format_cpuinfo(cpus))
        self.pin(self.cgroup.list_pids(), cpus)

    def pin(self, pids: Iterable[int], cpus: float) -> None:
        cpu_set.pin(pids, cpu_set.choose(cpus, self.base // uids.WIDTH))

    def show_use(self) -> None:
        spec, seconds = self.spec, time.monotonic() - self.created
        procfs.rewrite(f"{self.folder}/proc/meminfo", procfs.format_meminfo(spec.memory, self.cgroup.read_memory_use()))
        procfs.rewrite(f"{self.folder}/proc/stat", procfs.stat(spec.cpus, self.cgroup.read_cpu_times(), seconds))

    def reboot(self) -> None:
        (self.folder / "proc/boot_id").write_bytes(_make_random_uuid())
        if self.spec.volumes:
            make_mount_points(self.folder / "root", self.spec.volumes, self.base)
        self.await_guest()
        if self.sudo is not None:
            self.sudo.close()  # otherwise a call waiting there would be answered after the restart
            self.await_sudo()

    def build_environment(self) -> dict[str, str]:
        return {**_choose_door_environment(self.ca), **self.spec.env}

    def clear(self) -> list[str]:
        """Remove everything in reverse order; return the errors."""
        self.close()
        complaints = []
        failed = []
        for step in (*reversed(self.undo), self.cgroup.remove):
            try:
                step()
            except OSError as e:
                complaints.append(str(e))
                failed.append(step)
        self.undo = [step for step in reversed(failed) if step != self.cgroup.remove]
        return complaints

    def close(self) -> None:
        for fd in (self.userns, self.netns):
            if fd >= 0:
                os.close(fd)
        self.userns = self.netns = -1
        self.hang_up()
        for listener in (self.gate, self.sudo):
            if listener is not None:
                listener.close()
        self.gate = self.sudo = None


def _choose_door_environment(ca: str) -> dict[str, str]:
    return door_files.build_environment() if ca else door_files.build_closed_environment()


def open_gate() -> socket.socket:
    """Open the gate, the desk's only way out; called inside the desk's network namespace.

    The protocol is given explicitly because asyncio leaves Nagle's algorithm on for sockets without it.
    """
    sysctl.shrink_buffers()
    syscalls.raise_loopback()
    gate = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    gate.bind(GATE)
    gate.listen(_GATE_BACKLOG)
    return gate


def _make_random_uuid() -> bytes:
    """Make a random UUID in the format of the kernel's boot id."""
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}\n".encode()
