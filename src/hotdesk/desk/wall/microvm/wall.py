"""The wall `microvm`: the container wall, and in it an emulator that runs the desk's own kernel.

The room uses the image of the emulator (`Traits.stage`). Layers of the desk's image are read-only disks of the machine,
and its writable disk is a file in the room's own layer, so limits, snapshots and burning are those of the room. A
program that breaks out of the machine is an unprivileged user in a container (`hotdesk_vmm`).
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import time
from dataclasses import replace
from pathlib import Path

from hotdesk.config import MIB, Config
from hotdesk.desk import door_files
from hotdesk.desk.image import sterile
from hotdesk.desk.image.image import Image, get_template_folder
from hotdesk.desk.room import cpu_set, identity, layout
from hotdesk.desk.room.room import Room
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.container import bundle, crun, filter_cache, seccomp
from hotdesk.desk.wall.container.wall import ContainerWall, describe_room
from hotdesk.desk.wall.microvm import memory, status, template
from hotdesk.desk.wall.seam import PROOF_TIMEOUT_S, MemoryWriter, Standby
from hotdesk.errors import BriefError, KeeperError
from hotdesk.ipc.child import SOURCE
from hotdesk.linux import syscalls, uids, user_namespace
from hotdesk.linux.pace import scale_seconds
from hotdesk_vmm.task import FOLDER, RAM, STATE, TASK, Layer, VmTask

MIN_MEMORY = 128 * MIB
"""Minimum bytes of memory for kernel and guest to start."""
MIN_DISK = 32 * MIB
OWN_DISK_SHARE = 32
"""The inverse share of a desk's disk that is reserved for the metadata of the machine's disk file."""
FILES = ("hotdesk_vmm/*.py", *(f"hotdesk_guest/{name}.py" for name in ("__init__", "mux", "ports", "process", "wire")))
"""The code that runs beside the machine, in its container."""
START = "import sys; sys.path.insert(0, {lib!r}); from hotdesk_vmm import {module}; {module}.main()"
REQUESTS = (0x5421, 0x5450, 0x5451, 0x541B)
"""ioctls that the emulator and its supervisor need: set blocking mode and close-on-exec, count readable bytes.

While a machine is saved or loaded its emulator has a file of the host's file system, whose own requests are refused.
"""
KVM_REQUESTS = 0xAE00
KVM_FILE = "anon_inode:kvm-vm"
"""The file that a process running a machine on KVM has open."""
_PROOF_INTERVAL_S = 0.005


class MicrovmWall(ContainerWall):
    """Desks with a kernel of their own."""

    name = status.NAME
    root_capabilities = 0

    def __init__(self, settings: Config) -> None:
        super().__init__(settings)
        self.accelerator = status.choose_accelerator(settings)
        self.traits = status.describe_traits(self.accelerator)
        self.sources = read_sources()
        kinds = (KVM_REQUESTS,) if self.accelerator == "kvm" else ()
        self.requests = seccomp.IoctlRequests(REQUESTS, kinds)
        self.filters = filter_cache.Filters(settings.lib / "cache", settings.runtime, self.requests)

    def stand_by(self, room: Room) -> Standby:
        if room.spec.memory < MIN_MEMORY:
            raise BriefError(f"a desk behind the wall microvm needs at least {MIN_MEMORY // MIB}M of memory")
        if room.spec.disk < MIN_DISK:
            raise BriefError(f"a desk behind the wall microvm needs at least {MIN_DISK // MIB}M of disk")
        return crun.stand_by(self.settings, room, memory.get_path(room) if room.memory else None)

    def prepare(self, room: Room) -> None:
        assert room.stage is not None
        folder = room.folder / "vm"
        if not folder.exists():
            self.furnish(room, folder)
        place = self.find_template(room)
        saved = [] if room.memory else template.open_files(place)
        try:
            has_template = self.show_template(room, folder, saved)
        finally:
            syscalls.close_all(saved)
        if room.memory:
            memory.check(room, self.compute_machine_key(room))
        elif not has_template:
            listener = room.listen("template.sock", uids.USER, 0o600, 1)
            with listener:
                waiting = template.receive(place, listener, room.base + uids.USER, room.spec.memory)
            room.undo.append(lambda: os.close(waiting))
        (folder / TASK).write_text(self.write_task(room, has_template).dump())
        if self.accelerator == "kvm":
            make_kvm(room)
        (room.folder / "bundle").mkdir(mode=0o700, exist_ok=True)
        (room.folder / "bundle/config.json").write_text(json.dumps(self.write_bundle(room)))

    def furnish(self, room: Room, folder: Path) -> None:
        """Fill the folder that the supervisor reads: its code, and the layers of the desk's image."""
        folder.mkdir(mode=0o755)
        for name, data in self.sources.items():
            file = folder / "lib" / name
            file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            file.write_bytes(data)
        for name in (RAM, STATE):
            (folder / name).touch(0o400)
        userns = user_namespace.make(room.base + uids.ANCHOR, _own_files(room))
        try:
            for number, layer in enumerate(room.image.layers):
                hold_layer(room, layer)
                copy, _ = sterile.find_copy(self.settings.images, layer.name)
                _show_file(room, copy, folder / f"layer{number}", userns)
        finally:
            os.close(userns)

    def find_template(self, room: Room) -> Path:
        guest = (room.folder / "link/lib/hotdesk_guest").iterdir()
        sources = {**self.sources, **{f"guest/{file.name}": file.read_bytes() for file in guest}}
        key = template.compute_key((*self.list_facts(room), room.guest), sources)
        return get_template_folder(self.settings.images, room.image.digest) / key

    def list_facts(self, room: Room) -> tuple[object, ...]:
        assert room.stage is not None
        host = (self.accelerator, os.uname().machine, _read_processor())
        image = (room.stage.digest, room.image.python, *self.list_disks(room.image))
        return (*host, *image, room.spec.memory, self.count_cpus(room))

    def list_disks(self, image: Image) -> list[tuple[object, ...]]:
        """Describe the files of the machine's read-only disks: a machine has parts of exactly these in its memory."""
        found = (sterile.find_copy(self.settings.images, layer.name) for layer in image.layers)
        return [(kind, info.st_ino, info.st_size, info.st_mtime_ns) for file, kind in found for info in [file.stat()]]

    def show_template(self, room: Room, folder: Path, saved: list[int]) -> bool:
        """Mount the files of a template, memory and state; return False if there is none, or it was just replaced."""
        files = [folder / name for name in (RAM, STATE)]
        for file in files:
            _hide_file(file)
        if not saved:
            return False
        userns = user_namespace.make(room.base + uids.ANCHOR, _own_files(room))
        try:
            for file, fd in zip(files, saved, strict=True):
                _show_file(room, Path(f"/proc/self/fd/{fd}"), file, userns)
        except FileNotFoundError:  # a removed file cannot be mounted
            for file in files:
                _hide_file(file)
            return False
        finally:
            os.close(userns)
        return True

    def compute_machine_key(self, room: Room) -> str:
        """Return a key of all that must be the same when a machine is loaded with its memory."""
        layers = (layer.name for layer in room.image.layers)
        guest = {f"guest/{file.name}": file.read_bytes() for file in SOURCE.glob("hotdesk_guest/*.py")}
        sources = {**self.sources, **guest}  # not as compiled for the image, which happens after its first desks
        return template.compute_key((*self.list_facts(room), self.compute_disk(room), *layers), sources)

    def compute_disk(self, room: Room) -> int:
        """Return the size of the machine's disk in bytes."""
        return (room.spec.disk - room.spec.disk // OWN_DISK_SHARE) // MIB * MIB

    def count_cpus(self, room: Room) -> int:
        """Return the number of the machine's processors; an emulated machine is slower with more than one."""
        return 1 if self.accelerator == "tcg" else cpu_set.count(room.spec.cpus)

    def write_task(self, room: Room, has_template: bool) -> VmTask:
        spec, image = room.spec, room.image
        files = identity.build_privilege_files(spec.root, room.ca, image.python, inside=True)
        files[door_files.APT_CLOSED.lstrip("/")] = door_files.APT_CLOSED_SETTINGS
        kinds = [sterile.find_copy(self.settings.images, layer.name)[1] for layer in image.layers]
        return VmTask(
            machine=os.uname().machine,
            accelerator="kvm" if self.accelerator == "kvm" else "tcg",
            memory=spec.memory // MIB * MIB,
            cpus=self.count_cpus(room),
            disk=self.compute_disk(room),
            layers=tuple(Layer(f"layer{number}", kind, sterile.KINDS[kind] or "") for number, kind in enumerate(kinds)),
            python=image.python,
            start=room.guest,
            has_template=has_template,
            makes_template=not has_template and not room.memory,
            is_saved=room.memory,
            pids=spec.pids,
            shm=layout.compute_shm_size(spec.memory),
            env=layout.build_environment(room.build_environment()),
            limits=bundle.LIMITS,
            files={path: (0o755 if path == layout.SUDO else 0o644, data) for path, data in files.items()},
        )

    def write_bundle(self, room: Room) -> dict[str, object]:
        """Return the container's configuration: that of every desk, with the supervisor as its first process."""
        described = self.describe(room)
        config = bundle.build_config(described)
        mounts = [*bundle.build_mounts(described), *_list_mounts(room.folder / "vm")]
        return {**config, "mounts": mounts, "process": supervise(bundle.build_process(described), "supervisor")}

    def describe(self, room: Room) -> bundle.BundleInput:
        """Describe the room for a runtime, without the desk's variables, which are for the machine alone.

        All of the machine's memory may be in /dev/shm while a template is made.
        """
        assert room.stage is not None
        described = describe_room(room, self.filters.compiled)
        described = replace(described, memory=2 * room.spec.memory)
        return replace(described, python=room.stage.python, env={}, requests=self.requests)

    def prove(self, room: Room, pid: int) -> None:
        super().prove(room, pid)
        end = time.monotonic() + scale_seconds(PROOF_TIMEOUT_S)
        while self.accelerator == "kvm" and not _runs_on_kvm(room):
            if time.monotonic() > end:
                raise KeeperError("the wall failed its test: no process of the desk runs a virtual machine on KVM")
            time.sleep(_PROOF_INTERVAL_S)

    def write_root_process(self, room: Room) -> dict[str, object]:
        process = supervise(bundle.build_root_process(self.describe(room)), "root")
        sets = ("bounding", "effective", "permitted", "inheritable", "ambient")
        return {**process, "capabilities": {name: [] for name in sets}}

    def save_memory(self, room: Room, *, stop: bool) -> MemoryWriter:
        return memory.save(room, self.compute_machine_key(room), stop=stop)

    def explain_memory(self, room: Room) -> str:
        return memory.explain(room)

    def settle(self, room: Room, spec: Spec, pid: int) -> None:
        sizes = [(each.memory, each.cpus, each.disk) for each in (spec, room.spec)]
        if sizes[0] != sizes[1]:
            raise BriefError(
                "memory, CPUs and disk of a desk behind the wall microvm cannot be changed after its start; "
                "open another"
            )
        if spec.root and not room.spec.root:
            raise BriefError(
                "a desk behind the wall microvm that was opened without root cannot get root later; open another"
            )

    def dial(self, room: Room, port: int) -> socket.socket:
        raise OSError(
            "ports of a desk with the wall microvm cannot be reached from the host; "
            "connect through hotdesk's process in it"
        )


def read_sources() -> dict[str, bytes]:
    files = [file for pattern in FILES for file in sorted(SOURCE.glob(pattern))]
    return {f"{file.parent.name}/{file.name}": file.read_bytes() for file in files}


def supervise(process: dict[str, object], module: str) -> dict[str, object]:
    python = process["args"][0]  # type: ignore[index]
    start = START.format(lib=f"{FOLDER}/lib", module=module)
    return {**process, "args": [python, "-I", "-S", "-B", "-c", start]}


def _list_mounts(folder: Path) -> list[dict[str, object]]:
    """Return the mounts of the files the supervisor reads; crun's bind of a folder does not include mounts below it."""
    files = [file for file in sorted(folder.iterdir()) if os.path.ismount(file)]
    places = {FOLDER: folder, **{f"{FOLDER}/{file.name}": file for file in files}}
    plain = ("bind", "ro", "nosuid", "nodev", "noexec")
    return [bundle.mount(place, "bind", str(source), *plain) for place, source in places.items()]


def _own_files(room: Room) -> str:
    """Return an id map that makes root's files the desk's user's own; the mounts are read-only."""
    return f"0 {room.base + uids.USER} 1\n"


def _show_file(room: Room, source: Path, at: Path, userns: int) -> None:
    """Mount a file of the store in a room, read-only, owned by the desk's user."""
    at.touch(0o400)
    syscalls.mount_idmapped(str(source), str(at), userns)
    room.undo.append(lambda: _hide_file(at))


def _hide_file(at: Path) -> None:
    """Unmount a file that `_show_file` mounted, if it is still mounted."""
    if os.path.ismount(at):
        syscalls.umount(str(at))


def hold_layer(room: Room, layer: Path) -> None:
    """Keep a layer of the desk's image from being removed while the desk exists."""
    fd = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    room.undo.append(lambda: os.close(fd))
    fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)


def make_kvm(room: Room) -> None:
    """Create a device node of /dev/kvm that only this desk uses."""
    node = room.folder / "dev/kvm"
    if not node.exists():
        os.mknod(node, stat.S_IFCHR | 0o600, os.stat(status.KVM).st_rdev)
        os.chown(node, room.base + uids.USER, room.base + uids.USER)
    room.cgroup.allow_device("c 10:232")


def _runs_on_kvm(room: Room) -> bool:
    for pid in room.cgroup.list_pids():
        try:
            if any(os.readlink(entry.path) == KVM_FILE for entry in os.scandir(f"/proc/{pid}/fd")):
                return True
        except OSError:
            continue
    return False


def _read_processor() -> str:
    """Return the host's processor model and its features: a machine can only be loaded on the kind it was saved on."""
    with open("/proc/cpuinfo") as file:
        first = file.read().partition("\n\n")[0]
    lines = [line for line in first.splitlines() if line.startswith(("model name", "CPU part", "flags", "Features"))]
    return "\n".join(lines)
