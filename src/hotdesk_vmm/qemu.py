"""QEMU as the machine emulator of a desk: its arguments, and its commands to load and save a machine.

The emulator may have been compromised by the desk: replies are bounded and have a time limit.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from hotdesk_vmm.task import FOLDER, VmTask

DISK = "/home/user/disk.img"
COMMON = "panic=-1 quiet loglevel=3 audit=0 cryptomgr.notests random.trust_cpu=on"
TUNED = (
    "kpti=off mitigations=off lsm=capability cma=0 init_on_alloc=0 "
    "initcall_blacklist=load_system_certificate_list,jent_mod_init,init_encrypted,crypto_kdf108_init,nvme_core_init,"
    "init_kprobe_trace"
)
"""For emulated machines only: disables features that take seconds in emulation, and protections of the guest's kernel
against its own programs.
"""
TRANSLATIONS_MIB = 256
"""MiB of memory for translated code of an emulated machine; with less the same code is translated repeatedly."""
SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_MAX_REPLY_BYTES = 1 << 20
_REPLY_TIMEOUT_S = 60.0
SAVE_TIMEOUT_S = 200.0
"""Seconds a machine with its memory may take to be saved or loaded."""
CANCEL_TIMEOUT_S = 20.0
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Platform:
    """The names of QEMU's parts for one architecture."""

    program: str
    machine: str
    cpu: str
    """The processor to emulate; with KVM it is the host's."""
    console: str


PLATFORMS = {
    "aarch64": Platform("/usr/bin/qemu-system-aarch64", "virt", "neoverse-n1", "ttyAMA0"),
    "x86_64": Platform("/usr/bin/qemu-system-x86_64", "q35", "Haswell-v4", "ttyS0"),
}
CHANNELS = ("link", "mux", "qmp", "console")
"""Streams between an emulator and its supervisor."""
_FIRST_FD = 10
_SAVED_FD = _FIRST_FD + len(CHANNELS)
_FDSET = 1
_FDSET_PATH = f"/dev/fdset/{_FDSET}"
"""The name under which QEMU opens a file that it was passed."""


class EmulatorError(Exception):
    """The emulator failed; the text has the operation."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """The file that backs a machine's memory."""

    path: str
    is_copied: bool
    """Whether the machine writes to a private copy-on-write mapping, so that the file does not change."""


@dataclass(frozen=True, slots=True)
class Boot:
    """The files a machine is booted with, unless it is loaded from a template."""

    kernel: str
    initrd: str


def write_arguments(
    task: VmTask, memory: MemoryFile | None, boot: Boot | None, *, has_saved: bool = False
) -> list[str]:
    """Return the command that starts an emulator. Its devices are the same whether it boots or loads a machine.

    With `has_saved` it gets the file of a machine that was saved with its memory.
    """
    platform = PLATFORMS[task.machine]
    is_emulated = task.accelerator == "tcg"
    accelerator = f"tcg,thread=multi,tb-size={TRANSLATIONS_MIB}" if is_emulated else "kvm"
    argv = [platform.program, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    argv += ["-M", f"{platform.machine},memory-backend=ram", "-cpu", platform.cpu if is_emulated else "host"]
    argv += ["-accel", accelerator, "-m", f"{task.memory // MIB}M", "-smp", str(task.cpus), "-sandbox", SANDBOX]
    argv += ["-object", _write_memory(task.memory // MIB, memory)]
    for number, name in enumerate(CHANNELS):
        argv += ["-chardev", f"socket,id={name},fd={_FIRST_FD + number}"]
    argv += ["-mon", "chardev=qmp,mode=control", "-serial", "chardev:console", "-device", "virtio-serial-pci,id=ports"]
    for name in ("link", "mux"):
        argv += ["-device", f"virtserialport,bus=ports.0,chardev={name},name={name}"]
    for number, layer in enumerate(task.layers):
        argv += _write_disk(f"layer{number}", f"{FOLDER}/{layer.file}", "readonly=on")
    argv += _write_disk("disk", DISK, "discard=unmap,cache=writeback,aio=threads")
    if has_saved:
        argv += ["-add-fd", f"fd={_SAVED_FD},set={_FDSET}"]
    if boot is None:
        return [*argv, "-incoming", "defer"]
    line = f"console={platform.console} {COMMON} {TUNED if is_emulated else ''}".strip()
    return [*argv, "-kernel", boot.kernel, "-initrd", boot.initrd, "-append", line]


def _write_memory(size: int, memory: MemoryFile | None) -> str:
    if memory is None:
        return f"memory-backend-ram,id=ram,size={size}M"
    kind = "share=off,readonly=on,rom=off" if memory.is_copied else "share=on"
    return f"memory-backend-file,id=ram,size={size}M,mem-path={memory.path},{kind}"


def _write_disk(name: str, file: str, options: str) -> list[str]:
    drive = f"file={file},if=none,id={name},format=raw,file.locking=off,{options}"
    return ["-drive", drive, "-device", f"virtio-blk-pci,drive={name},serial={name}"]


class Emulator:
    """A running emulator, and the supervisor's ends of its streams."""

    def __init__(self, argv: Sequence[str], saved: int | None = None) -> None:
        """Start an emulator; `saved` is a file that it gets as well."""
        pairs = {name: socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM) for name in CHANNELS}
        self.ends = {name: ours for name, (ours, _) in pairs.items()}
        """The supervisor's ends, by name."""
        theirs = []  # duplicated to high numbers first, so that none has a number another one will get
        for _, end in pairs.values():
            theirs.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _SAVED_FD + 1))
            end.close()
        if saved is not None:
            theirs.append(fcntl.fcntl(saved, fcntl.F_DUPFD_CLOEXEC, _SAVED_FD + 1))
        self.pid = os.posix_spawn(
            argv[0],
            list(argv),
            {"PATH": "/usr/bin:/bin"},
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, _FIRST_FD + number) for number, fd in enumerate(theirs)],
            setsigdef=(signal.SIGPIPE, signal.SIGINT, signal.SIGTERM),
        )
        for fd in theirs:
            os.close(fd)
        self.pidfd = os.pidfd_open(self.pid)
        self.buffer = b""
        self.events: list[str] = []

    # -- the monitor ------------------------------------------------------------------------------------------

    def greet(self) -> None:
        self.read(time.monotonic() + _REPLY_TIMEOUT_S)
        self.ask("qmp_capabilities")

    def ask(self, command: str, fd: int | None = None, **arguments: object) -> dict[str, object]:
        """Send the monitor a command, with a file if it needs one; return its result.

        Raise `EmulatorError` if it refuses.
        """
        described = {name.replace("_", "-"): value for name, value in arguments.items()}
        line = json.dumps({"execute": command, **({"arguments": described} if described else {})}).encode() + b"\n"
        end = time.monotonic() + _REPLY_TIMEOUT_S
        try:
            if fd is not None:
                socket.send_fds(self.ends["qmp"], [line[:1]], [fd])
            self.ends["qmp"].sendall(line if fd is None else line[1:])
        except OSError as e:
            raise EmulatorError(f"the emulator (QEMU) ended before the command {command}") from e
        while True:
            reply = self.read(end)
            if "error" in reply:
                raise EmulatorError(f"the emulator (QEMU) refused {command}: {str(reply['error'])[:300]}")
            if "return" in reply:
                found = reply["return"]
                return found if isinstance(found, dict) else {}

    def read(self, end: float, seconds: float = _REPLY_TIMEOUT_S) -> dict[str, object]:
        """Return the next message; `seconds` is what the error says if there is none before `end`."""
        qmp = self.ends["qmp"]
        while b"\n" not in self.buffer:
            qmp.settimeout(max(0.001, end - time.monotonic()))
            try:
                data = qmp.recv(65536)
            except TimeoutError as e:
                raise EmulatorError(f"the emulator (QEMU) did not respond within {seconds:g} s") from e
            except OSError:
                data = b""
            self.buffer += data
            if not data:
                raise EmulatorError("the emulator (QEMU) ended")
            if len(self.buffer) > _MAX_REPLY_BYTES:
                raise EmulatorError(f"the emulator (QEMU) sent a reply of more than {_MAX_REPLY_BYTES >> 10} KiB")
        line, _, self.buffer = self.buffer.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as e:
            raise EmulatorError("malformed message from the emulator: not JSON") from e
        if not isinstance(message, dict):
            raise EmulatorError("malformed message from the emulator: not an object")
        if "event" in message:
            details = message.get("data")
            status = details.get("status", "") if isinstance(details, dict) else ""
            self.events.append(f"{message['event']} {status}".strip())
            del self.events[:-64]
        return message

    def wait_for_migration(self, seconds: float = _REPLY_TIMEOUT_S) -> None:
        """Wait until a machine is loaded or saved."""
        end = time.monotonic() + seconds
        while "MIGRATION completed" not in self.events:
            if "MIGRATION failed" in self.events:
                raise EmulatorError(f"the emulator (QEMU) reported {self.find_failure()}")
            self.read(end, seconds)

    def cancel_migration(self) -> None:
        """End a save that failed or takes too long: QEMU would stop the machine for good when it completed later."""
        ends = {f"MIGRATION {status}" for status in ("completed", "failed", "cancelled")}
        end = time.monotonic() + CANCEL_TIMEOUT_S
        with suppress(EmulatorError):
            if ends.isdisjoint(self.events):
                self.ask("migrate_cancel")
            while ends.isdisjoint(self.events):
                self.read(end, CANCEL_TIMEOUT_S)

    def find_failure(self) -> str:
        """Return why saving or loading failed; an emulator that fails to load a machine ends."""
        try:
            return str(self.ask("query-migrate")["error-desc"])[:300]
        except (EmulatorError, KeyError):
            return "a failure without a reason"

    def prepare_migration(self, *, with_memory: bool) -> None:
        """Choose whether memory is saved and loaded as well, or excluded because it is in a file already."""
        states = {"events": True, "x-ignore-shared": not with_memory, "mapped-ram": with_memory}
        described = [{"capability": name, "state": state} for name, state in states.items()]
        self.ask("migrate-set-capabilities", capabilities=described)
        self.events.clear()

    def load(self, state: str) -> None:
        """Load a machine, and start it: it was stopped when it was saved."""
        self.prepare_migration(with_memory=False)
        self.ask("migrate-incoming", uri=f"file:{state}")
        self.wait_for_migration()
        self.ask("cont")

    def save(self, state: str) -> None:
        self.prepare_migration(with_memory=False)
        self.ask("stop")
        self.ask("migrate", uri=f"file:{state}")
        self.wait_for_migration()

    def save_memory(self, file: int, seconds: float = SAVE_TIMEOUT_S) -> None:
        """Save a machine with its memory, which stays stopped, also if that fails."""
        self.prepare_migration(with_memory=True)
        self.ask("stop")
        self.ask("add-fd", file, fdset_id=_FDSET)
        try:
            self.ask("migrate", uri=f"file:{_FDSET_PATH}")
            self.wait_for_migration(seconds)
        except EmulatorError:
            self.cancel_migration()
            raise
        finally:
            self.ask("remove-fd", fdset_id=_FDSET)

    def load_memory(self) -> None:
        """Load a machine with its memory from the file that the emulator was started with, and start it."""
        self.prepare_migration(with_memory=True)
        self.ask("migrate-incoming", uri=f"file:{_FDSET_PATH}")
        self.wait_for_migration(SAVE_TIMEOUT_S)
        self.ask("remove-fd", fdset_id=_FDSET)
        self.ask("cont")

    def end(self) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.pidfd)
        for end in self.ends.values():
            end.close()
