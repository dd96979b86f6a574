"""A running machine: QEMU without KVM, one processor, no network card, and a serial port for commands."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.hosts.kit import Kit
from tools.hosts.machines import Machine
from tools.hosts.root import PERSON, Root, run

BOOT_TIMEOUT_S = 240.0
MONITOR_TIMEOUT_S = 300.0
CHANGES = "changes.qcow2"
TRANSLATION_CACHE_MIB = 1024
"""QEMU's memory for translated code: with little of it emulation is several times slower."""
_KERNEL_OPTIONS = ("root=/dev/vda", "rw", "mitigations=off", "panic=-1", "net.ifnames=0")
"""Without mitigations: they slow down emulation, and nothing here depends on them."""
_HARDWARE = {
    "x86_64": ("qemu-system-x86_64", "q35,sata=off,smbus=off", "Nehalem", "ttyS0"),
    "aarch64": ("qemu-system-aarch64", "virt", "neoverse-n1", "ttyAMA0"),
}
"""Program, board, processor and console. The processors lack wide vectors, which are slower than none if emulated."""


class MachineError(Exception):
    """A machine does not start, or no longer answers."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command inside."""

    exit_code: int | None
    """`None` if it took too long."""
    output: str
    seconds: float

    @property
    def is_ok(self) -> bool:
        return self.exit_code == 0

    @property
    def last_lines(self) -> str:
        """Return the end of its output, for a message."""
        return " | ".join(line.strip() for line in self.output.strip().splitlines()[-4:])[-600:]


@dataclass(slots=True)
class Session:
    """A connection to the agent of a running machine."""

    port: socket.socket
    deadline: float
    """End of the machine's time, on the monotonic clock."""
    log: Path
    patience: float = 1.0
    """By how much the time limits of commands are extended: they are for an emulator with a processor of its own."""
    emulator: int = 0
    """The emulator's process id."""
    boot: str = ""
    count: int = 0
    pending: bytes = b""
    monitor: Path | None = None
    """The socket at which the emulator itself is controlled."""

    def run(self, *argv: str, timeout: float = 300.0) -> CommandResult:
        """Run a command as root, as a service would."""
        self.count += 1
        timeout = max(1.0, min(timeout * self.patience, self.deadline - time.monotonic() - 5.0))
        self.write_log(f"# {shlex.join(argv)}")
        self.port.sendall(json.dumps({"id": self.count, "argv": list(argv), "timeout": timeout}).encode() + b"\n")
        reply = self.receive(timeout + 60.0)
        while reply.get("id") != self.count:
            if "boot" in reply:
                raise MachineError("the machine restarted unexpectedly")
            reply = self.receive(timeout + 60.0)
        result = CommandResult(reply["exit_code"], reply["output"], reply["seconds"])
        self.write_log(f"{result.output}\n= {result.exit_code}, {result.seconds:.1f} s")
        return result

    def save(self, snapshot: str) -> None:
        """Save the machine's state under a name."""
        self.control(f"savevm {snapshot}")

    def delete(self, snapshots: Iterable[str]) -> None:
        """Delete saved states."""
        for name in snapshots:
            self.control(f"delvm {name}")

    def control(self, line: str) -> None:
        """Run a command of the emulator's own monitor; it must print nothing."""
        if self.monitor is not None and (reply := control(self.monitor, line)):
            raise MachineError(f"`{line}` failed: {reply}")

    def read_cpu_seconds(self) -> float:
        """Return the processor time that the emulator has used so far."""
        fields = (
            Path(f"/proc/{self.emulator}/stat").read_text().rpartition(")")[2].split() if self.emulator else ["0"] * 13
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def run_as_person(self, line: str, timeout: float = 300.0) -> CommandResult:
        """Run a shell command as an ordinary user who has logged in."""
        return self.run("su", "--login", PERSON, "--command", line, timeout=timeout)

    def await_boot(self, seconds: float) -> None:
        """Wait until the agent greets after a new boot."""
        before = self.boot
        end = time.monotonic() + seconds
        while self.boot == before:
            reply = self.receive(end - time.monotonic())
            self.boot = str(reply.get("boot", self.boot))

    def receive(self, seconds: float) -> dict[str, Any]:
        end = min(time.monotonic() + seconds, self.deadline)
        while b"\n" not in self.pending:
            left = end - time.monotonic()
            if left <= 0:
                raise MachineError("the machine does not answer" if end < self.deadline else "its time is over")
            self.port.settimeout(left)
            try:
                data = self.port.recv(1 << 20)
            except TimeoutError:
                continue
            if not data:
                raise MachineError("the emulator ended")
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\n")
        try:
            reply = json.loads(line)
        except ValueError:
            return {}  # a line cut off by a restart
        return reply if isinstance(reply, dict) else {}

    def write_log(self, text: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{text}\n")


def control(path: Path, line: str) -> str:
    """Run a line of the emulator's own monitor; return what it printed."""
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.settimeout(MONITOR_TIMEOUT_S)
        monitor.connect(os.path.relpath(path))
        replies = monitor.makefile("r")
        for name, arguments in (("qmp_capabilities", {}), ("human-monitor-command", {"command-line": line})):
            monitor.sendall(json.dumps({"execute": name, "arguments": arguments, "id": name}).encode() + b"\n")
            while (reply := json.loads(replies.readline())).get("id") != name:
                pass
    return str(reply.get("error") or reply["return"]).strip()


def make_changes_disk(root_disk: Path, folder: Path) -> None:
    """Make the disk that has what a machine changes on its root disk, and the snapshots of its state."""
    run("qemu-img", "create", "-q", "-f", "qcow2", "-b", root_disk.name, "-F", "raw", CHANGES, cwd=folder)


def command(machine: Machine, root: Root, kit: Kit, snapshot: str = "") -> list[str]:
    """Return the emulator's command, to be started in the machine's folder; `snapshot` is the state to begin with."""
    program, board, processor, console = _HARDWARE[os.uname().machine]
    own = (f"console={console}", f"rootfstype={machine.filesystem}", *machine.kernel_options)
    options = " ".join((*_KERNEL_OPTIONS, *own))
    argv = [
        "setpriv",
        "--pdeathsig",
        "TERM",
        program,
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-nic",
        "none",
    ]
    argv += ["-machine", board, "-cpu", processor, "-smp", "1", "-m", f"{machine.memory_mib}M"]
    argv += ["-accel", f"tcg,tb-size={TRANSLATION_CACHE_MIB}"]
    argv += ["-kernel", str(root.kernel), "-initrd", str(root.ramdisk), "-append", options]
    argv += ["-drive", f"file={CHANGES},if=none,id=root,format=qcow2,cache=unsafe"]
    argv += ["-device", "virtio-blk-pci,drive=root"]
    argv += ["-drive", f"file={kit.disk},if=none,id=kit,format=raw,readonly=on"]
    argv += ["-device", "virtio-blk-pci,drive=kit", "-device", "virtio-rng-pci"]
    argv += ["-chardev", "socket,id=lab,path=port,server=on,wait=off", "-device", "virtio-serial-pci"]
    argv += ["-device", "virtserialport,chardev=lab,name=lab"]
    argv += ["-serial", "file:console.log", "-qmp", "unix:monitor,server=on,wait=off"]
    return [*argv, "-loadvm", snapshot] if snapshot else argv


@contextmanager
def start(argv: list[str], folder: Path, seconds: float, patience: float = 1.0, boot: str = "") -> Iterator[Session]:
    """Start a machine, yield the connection to it once it answers, and end it.

    A machine that continues from a snapshot greeted when it was booted; `boot` is the boot id from then.
    """
    socket_path, monitor = folder / "port", folder / "monitor"
    socket_path.unlink(missing_ok=True)
    monitor.unlink(missing_ok=True)
    deadline = time.monotonic() + seconds
    with (folder / "emulator.log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        with connect(socket_path, process) as port:
            session = Session(port, deadline, folder / "commands.log", patience, process.pid, boot, monitor=monitor)
            if not boot:
                session.await_boot(BOOT_TIMEOUT_S * patience)
            yield session
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        socket_path.unlink(missing_ok=True)
        monitor.unlink(missing_ok=True)


@contextmanager
def connect(path: Path, process: subprocess.Popen[bytes]) -> Iterator[socket.socket]:
    """Connect to the machine's port as soon as the emulator listens."""
    with socket.socket(socket.AF_UNIX) as port:
        end = time.monotonic() + 20.0
        while True:
            with suppress(FileNotFoundError, ConnectionRefusedError):
                port.connect(os.path.relpath(path))  # a socket's path has at most 107 characters
                break
            if process.poll() is not None or time.monotonic() > end:
                raise MachineError("the emulator does not start: see emulator.log")
            time.sleep(0.05)
        yield port
