"""The first process of the container around a microVM: starts the machine, configures it for the desk, carries its
calls.

A machine is loaded from a template if there is one, and booted otherwise; one that was saved with its memory continues.
The guest's link is relayed to the owner once the guest is up (`link`). Connections of programs to the gate, of `sudo`
and of the guest for root arrive as streams of one port (`mux`). All data from the emulator is untrusted: it is bounded,
and can only reach this desk's own sockets.
"""

from __future__ import annotations

import array
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hotdesk_guest.mux import VM_LIMIT, Mux
from hotdesk_guest.wire import WireError
from hotdesk_vmm import initrd, qemu
from hotdesk_vmm.link import LinkRelay
from hotdesk_vmm.qemu import Boot, Emulator, EmulatorError, MemoryFile
from hotdesk_vmm.saves import MachineSaves
from hotdesk_vmm.task import FOLDER, RAM, SAVED_FD, STATE, TASK, VmTask

LINK = "/run/hotdesk"
"""The keeper's folder: the guest's code, and the sockets to which this desk's connections are carried."""
SOCKETS = {"gate": f"{LINK}/gate.sock", "sudo": f"{LINK}/sudo.sock"}
"""Destinations of streams that programs open, by the name that the machine sends."""
ROOT = "\0hotdesk-root"
"""The socket to which the stand-in for the guest for root connects (`root.py`)."""
SCRATCH = "/dev/shm"  # noqa: S108 - a tmpfs of this container
NAMING = ("etc/hostname", "etc/hosts", "etc/machine-id", "etc/resolv.conf")
"""Files of this container with the desk's name; the machine gets the same."""
BOOT_TIMEOUT_S = 170.0
"""Seconds a machine may take to boot: minutes if it is emulated on a busy host."""
LOAD_TIMEOUT_S = 60.0
SEED_BYTES = 64
_MAX_CONSOLE_BYTES = 4096
_BACKLOG = 4
_WORDS = ("ready", "up", "still", "restless")
_DIAL_INTERVAL_S = 0.02
"""Seconds between two attempts to connect to the next owner of a guest that was parked."""


class SupervisorError(Exception):
    """The machine does not start; the text has the reason."""


class MachineSupervisor:
    """The supervisor of one desk's machine."""

    def __init__(self, task: VmTask) -> None:
        self.task = task
        self.poll = select.epoll()
        self.words: set[str] = set()
        """The names of the machine's messages so far."""
        self.console = b""
        self.emulator: Emulator | None = None
        self.mux: Mux | None = None
        self.link: LinkRelay | None = None
        self.saves = MachineSaves(self)
        self.root: socket.socket | None = None
        """The connection of the stand-in for the guest for root, until the guest has connected as well."""
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def run(self) -> None:
        if self.task.is_saved:
            self.restore()
        else:
            disk = _start_disk(self.task.disk)
            if not self.task.has_template or not self.load(f"{FOLDER}/{RAM}", f"{FOLDER}/{STATE}"):
                self.boot()
            _finish_disk(disk)
            self.tell({"seed": _write_seed(self.task)})
        self.wait_for("up", BOOT_TIMEOUT_S)
        self.await_root()
        self.saves.listen()
        assert self.emulator is not None
        link = self.link = LinkRelay(self.poll, self.emulator.ends["link"], is_parked=self.task.is_saved)
        while True:
            is_joined = self.saves.is_busy() or link.owner is not None or link.join(f"{LINK}/link.sock")
            self.turn(None if is_joined else _DIAL_INTERVAL_S)

    # -- starting ---------------------------------------------------------------------------------------------

    def load(self, ram: str, state: str) -> bool:
        """Load a template; return False if the emulator refuses it."""
        try:
            self.start(MemoryFile(ram, is_copied=True), None)
            assert self.emulator is not None
            self.emulator.load(state)
        except EmulatorError as e:
            print(f"the virtual machine could not be started from its template: {e}", file=sys.stderr, flush=True)
            self.stop()
            return False
        return True

    def restore(self) -> None:
        """Continue a machine that was saved with its memory; its programs stand still until it has the new seed."""
        os.set_inheritable(SAVED_FD, False)
        self.start(None, None, SAVED_FD)
        os.close(SAVED_FD)
        assert self.emulator is not None
        self.emulator.load_memory()
        self.tell({"again": _write_seed(self.task)})

    def boot(self) -> None:
        """Boot the machine. To make a template, save the machine, hand the template over, and continue from it."""
        release = initrd.find_kernel()
        file = Path(SCRATCH, "initrd")
        guest = Path(LINK, "lib/hotdesk_guest")
        folder = initrd.MODULES / release
        file.write_bytes(
            initrd.build(folder, initrd.BUSYBOX, self.task.layers, guest, self.task.python, self.task.start)
        )
        makes = self.task.makes_template
        memory = MemoryFile(f"{SCRATCH}/{RAM}", is_copied=False) if makes else None
        self.start(memory, Boot(f"/boot/vmlinuz-{release}", str(file)))
        self.wait_for("ready", BOOT_TIMEOUT_S)
        file.unlink()
        if makes:
            self.make_template()

    def make_template(self) -> None:
        ram, state = f"{SCRATCH}/{RAM}", f"{SCRATCH}/{STATE}"
        assert self.emulator is not None
        try:
            self.emulator.save(state)
        except EmulatorError as e:
            raise SupervisorError(f"the virtual machine could not be saved as a template: {e}") from e
        self.stop()
        if not self.load(ram, state):
            raise SupervisorError("the virtual machine could not be started from the template that was just saved")
        hand_over(ram, state)
        os.unlink(ram)
        os.unlink(state)

    def start(self, memory: MemoryFile | None, boot: Boot | None, saved: int | None = None) -> None:
        argv = qemu.write_arguments(self.task, memory, boot, has_saved=saved is not None)
        emulator = self.emulator = Emulator(argv, saved)
        emulator.greet()
        emulator.ends["console"].setblocking(False)
        self.poll.register(emulator.ends["console"], select.EPOLLIN)
        self.poll.register(emulator.pidfd, select.EPOLLIN)
        self.mux = Mux(self.poll, emulator.ends["mux"].fileno(), VM_LIMIT, self.hear, self.connect)

    def stop(self) -> None:
        if self.emulator is not None:
            self.emulator.end()
        self.emulator = self.mux = None
        self.words.clear()

    def tell(self, word: dict[str, object]) -> None:
        assert self.mux is not None
        self.mux.tell(word)

    def wait_for(self, word: str, seconds: float) -> None:
        if not self.wait_for_any((word,), seconds):
            raise SupervisorError(f"the virtual machine did not report {word!r} within {seconds:.0f} s")

    def wait_for_any(self, words: tuple[str, ...], seconds: float) -> str:
        """Serve the machine until it has sent one of these messages; return it, or an empty text after the time."""
        end = time.monotonic() + seconds
        while True:
            if found := next((word for word in words if word in self.words), ""):
                return found
            if time.monotonic() > end:
                return ""
            self.turn(max(0.0, end - time.monotonic()))

    # -- serving ----------------------------------------------------------------------------------------------

    def turn(self, seconds: float | None) -> None:
        assert self.emulator is not None
        assert self.mux is not None
        for fd, event in self.poll.poll(seconds):
            if fd == self.emulator.pidfd:
                raise SupervisorError("the virtual machine ended")
            if fd == self.emulator.ends["console"].fileno():
                self.read_console()
            elif fd == self.listener.fileno():
                self.take_root()
            elif not self.saves.handle_event(fd) and not (self.link and self.link.handle_event(fd, event)):
                self.mux.handle_event(fd, event)

    def read_console(self) -> None:
        assert self.emulator is not None
        try:
            data = self.emulator.ends["console"].recv(65536)
        except OSError:
            return
        if not data:
            self.poll.unregister(self.emulator.ends["console"])
        self.console = (self.console + data)[-_MAX_CONSOLE_BYTES:]

    def hear(self, word: dict[str, Any]) -> None:
        self.words |= {name for name in _WORDS if word.get(name) is True}

    def connect(self, name: str) -> socket.socket | None:
        if name == "root":
            sock, self.root = self.root, None
            return sock
        if name not in SOCKETS:
            return None
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(SOCKETS[name])
        except OSError:
            sock.close()
            return None
        return sock

    def await_root(self, at: str = ROOT) -> None:
        self.listener.bind(at)
        self.listener.listen(_BACKLOG)
        self.listener.setblocking(False)
        self.poll.register(self.listener, select.EPOLLIN)

    def take_root(self) -> None:
        """Accept a stand-in. It replaces an earlier one, which the keeper ended before its guest had connected."""
        try:
            sock, _ = self.listener.accept()
        except OSError:  # a nested turn accepted it
            return
        if self.root is not None:
            self.root.close()
        self.root = sock
        self.tell({"root": True})


# -- the disk, the seed and the template -----------------------------------------------------------------------


def _start_disk(size: int) -> subprocess.Popen[bytes] | None:
    """Start making the desk's writable disk as a sparse file, unless it exists."""
    if os.path.exists(qemu.DISK):
        return None
    with open(f"{qemu.DISK}.new", "wb") as file:
        file.truncate(size)
    extended = "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0"
    options = ("-q", "-F", "-m0", "-b4096", "-i8192", "-E", extended, "-J", "size=8", "-O", "^resize_inode")
    argv = ["/usr/sbin/mkfs.ext4", *options, f"{qemu.DISK}.new"]
    mkfs = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    os.link(f"{qemu.DISK}.new", qemu.DISK)  # the emulator opens it meanwhile, but reads nothing
    return mkfs


def _finish_disk(mkfs: subprocess.Popen[bytes] | None) -> None:
    if mkfs is None:
        return
    _, complaint = mkfs.communicate()
    os.unlink(f"{qemu.DISK}.new")
    if mkfs.returncode:
        os.unlink(qemu.DISK)
        raise SupervisorError(
            f"the disk of the desk could not be created: {complaint.decode(errors='replace').strip()[-200:]}"
        )


def _write_seed(task: VmTask) -> dict[str, object]:
    naming = {path: (0o644, Path("/", path).read_bytes()) for path in NAMING}
    return {
        "random": os.urandom(SEED_BYTES),
        "time": time.time_ns() // 1000,
        "name": naming["etc/hostname"][1].decode().strip(),
        "env": task.env,
        "limits": task.limits,
        "pids": task.pids,
        "shm": task.shm,
        "files": {path: list(each) for path, each in {**naming, **task.files}.items()},
    }


def hand_over(ram: str, state: str) -> None:
    """Pass a template to its receiver, if there is one, and wait until it is copied."""
    fds = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in (ram, state)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            sock.connect(f"{LINK}/template.sock")
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            sock.sendmsg([b"1"], rights)
            sock.recv(1)
        except OSError as e:
            print(
                f"the template of the virtual machine could not be handed to the keeper: {e}",
                file=sys.stderr,
                flush=True,
            )
    for fd in fds:
        os.close(fd)


def main() -> None:
    supervisor = MachineSupervisor(VmTask.load(Path(FOLDER, TASK).read_text()))
    try:
        supervisor.run()
    except (SupervisorError, EmulatorError, WireError, EOFError, OSError) as e:
        last = supervisor.console.decode(errors="replace").strip()[-1000:]
        print(f"{e or 'the virtual machine ended'}{': ' + last if last else ''}", file=sys.stderr, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
