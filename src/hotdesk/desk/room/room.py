"""The room of one desk: user and network namespaces, disk, overlay, devices, cgroup. Made and removed here.

Everything is mounted in the keeper's private mount namespace: a keeper that is killed takes its mounts with it.
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
from hotdesk.linux import syscalls, sysctl, uids
from hotdesk.linux.cgroup import Cgroup, CgroupLimits
from hotdesk.linux.filesystem import hold_folder

GATE = ("127.0.0.1", 3128)
_GATE_BACKLOG = 256
THREADS_PER_PROGRAM = 8
"""Threads on the host for each program of a desk whose kernel is not the host's: measured 7, and more come with use."""


@dataclass(slots=True)
class Room:
    """One desk's surroundings, and how to take each piece down again."""

    desk: str
    folder: Path
    """A tmpfs of its own, in the keeper's mount namespace; paths a desk can see are relative to it."""
    cgroup: Cgroup
    disk: Disk
    base: int
    """The first of its host user ids."""
    image: Image
    spec: Spec
    undo: list[Callable[[], object]] = field(default_factory=list)
    userns: int = -1
    netns: int = -1
    gate: socket.socket | None = None
    listener: socket.socket | None = None
    sudo: socket.socket | None = None
    """Where `sudo` calls, in a desk that may have root."""
    guest: str = ""
    """The file that starts the guest, in the folder with its code."""
    shown: Mapping[Path, Path] = field(default_factory=dict)
    """Where a layer is read instead of in the store: a sterile desk's copies."""
    ca: str = ""
    """The authority of its door, which it believes."""
    has_own_network: bool = False
    """Whether its network stack is not the host's: its guest forwards calls to a gate that is a unix socket, and
    `sudo` and root's guest meet inside."""
    memory: bool = False
    """Whether it is started from what was written of a desk's memory."""
    is_resumed: bool = False
    """Whether it is the very desk that was hibernated, and stays who it is."""
    kernel_threads: int = 0
    """Threads on the host of the desk's own kernel, where it has one."""
    volume_store: VolumeStore | None = None
    """Where the volumes of its spec are; None: it has none."""
    kernel_memory: int = 0
    """Memory on the host of that kernel and what runs it, beside the desk's."""
    stage: Image | None = None
    """The image its first process runs in, where that is not the desk's."""
    created: float = field(default_factory=time.monotonic)
    layers: Layers = field(init=False)

    def prepare(self, guest: dict[str, bytes], ca: str = "", source: str | None = None) -> None:
        """Make every piece but the cgroup; `source` is the disk's snapshot to begin with. On failure `clear`."""
        spec = self.spec
        with syscalls.start_anchor(self.base + uids.ANCHOR) as anchor:
            if self.has_own_network:
                self.netns, _ = syscalls.run_in_new_netns(syscalls.raise_loopback)
            else:
                self.netns, self.gate = syscalls.run_in_new_netns(open_gate)
            self.furnish(guest)
            if self.has_own_network:
                self.gate = self.listen("gate.sock", uids.USER, 0o600, _GATE_BACKLOG)
            if spec.root:
                self.await_sudo()
            self.userns = anchor.open(uids.format_id_map(self.base), uids.format_id_map(self.base))
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

    def listen(self, name: str, uid: int, mode: int, backlog: int = 16) -> socket.socket:
        """Listen in the folder a desk can read and not write, where this user inside finds it."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path = f"{self.folder}/link/{name}"
        with suppress(FileNotFoundError):
            os.unlink(path)
        with hold_folder(self.folder / "link") as fd:
            listener.bind(f"/proc/self/fd/{fd}/{name}")  # a socket's path is at most 107 bytes
        os.chmod(path, mode)
        os.chown(path, self.base + uid, self.base + uid)
        listener.listen(backlog)
        return listener

    def await_sudo(self) -> None:
        self.sudo = self.listen("sudo.sock", uids.USER, 0o666)
        self.sudo.setblocking(False)

    def drop_knocks(self) -> None:
        """Hang up on calls of `sudo` at a socket that root's guest cannot inherit: they only ask for its start."""
        if self.has_own_network and self.sudo is not None:
            with suppress(BlockingIOError):
                while True:
                    self.sudo.accept()[0].close()

    def admit_root(self) -> socket.socket:
        return self.listen("root.sock", 0, 0o600)

    def hang_up(self) -> None:
        """Accept no more calls of a guest: the owner has the socket, or no one will."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    def settle(self, spec: Spec, ca: str) -> None:
        """Turn a ready desk into the requested one; no program has used it yet."""
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
        """Return what the desk may use; a kernel of its own has threads on the host for each program."""
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
            self.sudo.close()  # a call that waits there would be answered in the next life
            self.await_sudo()

    def build_environment(self) -> dict[str, str]:
        return {**_choose_door_environment(self.ca), **self.spec.env}

    def clear(self) -> list[str]:
        """Take everything down, last made first; return what resisted."""
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
    """Listen where the desk finds its only way out; called inside the desk's network namespace.

    The protocol is named because asyncio leaves Nagle on for sockets that do not name it.
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
