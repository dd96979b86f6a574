"""A running machine: QEMU without KVM, one processor, no network card, and a serial port for commands."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.hosts.kit import Kit
from tools.hosts.machines import Machine
from tools.hosts.root import PERSON, Root

BOOT_TIMEOUT_S = 240.0
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


def command(machine: Machine, root: Root, root_disk: Path, kit: Kit, *, keep_changes: bool = False) -> list[str]:
    """Return the emulator's command; it is started in the machine's folder."""
    program, board, processor, console = _HARDWARE[os.uname().machine]
    own = (f"console={console}", f"rootfstype={machine.filesystem}", *machine.kernel_options)
    options = " ".join((*_KERNEL_OPTIONS, *own))
    argv = ["nice", "-n", "5", program, "-nodefaults", "-no-user-config", "-display", "none", "-nic", "none"]
    argv += ["-machine", board, "-cpu", processor, "-smp", "1", "-m", f"{machine.memory_mib}M"]
    argv += ["-accel", f"tcg,tb-size={TRANSLATION_CACHE_MIB}"]
    argv += ["-kernel", str(root.kernel), "-initrd", str(root.ramdisk), "-append", options]
    changes = "off" if keep_changes else "on"
    argv += ["-drive", f"file={root_disk},if=none,id=root,format=raw,snapshot={changes},cache=unsafe"]
    argv += ["-device", "virtio-blk-pci,drive=root"]
    argv += ["-drive", f"file={kit.disk},if=none,id=kit,format=raw,readonly=on"]
    argv += ["-device", "virtio-blk-pci,drive=kit", "-device", "virtio-rng-pci"]
    argv += ["-chardev", "socket,id=lab,path=port,server=on,wait=off", "-device", "virtio-serial-pci"]
    argv += ["-device", "virtserialport,chardev=lab,name=lab"]
    return [*argv, "-serial", "file:console.log"]


@contextmanager
def start(argv: list[str], folder: Path, seconds: float, patience: float = 1.0) -> Iterator[Session]:
    """Start a machine, yield the connection to it once it answers, and end it."""
    socket_path = folder / "port"
    socket_path.unlink(missing_ok=True)
    deadline = time.monotonic() + seconds
    env = {**os.environ, "TMPDIR": str(folder)}  # QEMU writes the disk's changes there
    with (folder / "emulator.log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        with connect(socket_path, process) as port:
            session = Session(port, deadline, folder / "commands.log", patience, process.pid)
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
