"""Tests of saving a machine: with a machine's own end of the port, and a scripted monitor of its emulator."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hotdesk.desk.keeper import memory as keeper
from hotdesk.desk.owner.memory import SAVE_MEMORY_SECONDS
from hotdesk.desk.wall.microvm import memory as child
from hotdesk_guest.mux import HOST_LIMIT, VM_LIMIT, Mux
from hotdesk_vmm import qemu, saves
from hotdesk_vmm.qemu import Emulator
from hotdesk_vmm.supervisor import MachineSupervisor
from hotdesk_vmm.task import FAILED, FULL, RESTLESS, SAVED, VmTask

pytestmark = pytest.mark.timeout(30)

TASK = VmTask(
    machine="x86_64",
    accelerator="tcg",
    memory=256 << 20,
    cpus=1,
    disk=1 << 30,
    layers=(),
    python="/usr/bin/python3",
    start="start.pyc",
    has_template=False,
    makes_template=False,
    is_saved=False,
    pids=100,
    shm=128 << 20,
)


class Machine:
    """A supervisor, and in a thread what it controls: the machine's first process, and the emulator's monitor."""

    def __init__(self, folder: Path) -> None:
        self.word = "still"
        self.outcome, self.reason = "completed", ""
        self.saved_size = -1
        """The size of the saved memory when the machine continues."""
        self.file: Path | None = None
        self.done: list[str] = []
        """What happened to the machine, in order."""
        self.path = str(folder / "memory.sock")
        self.qmp, self.port, self.console = socket.socketpair(), socket.socketpair(), socket.socketpair()
        self.supervisor = MachineSupervisor(TASK)
        emulator = self.supervisor.emulator = Emulator.__new__(Emulator)
        emulator.ends, emulator.buffer = {"qmp": self.qmp[0], "console": self.console[0]}, b""
        emulator.events, emulator.pidfd = [], -1
        supervisor = self.supervisor
        supervisor.mux = Mux(supervisor.poll, self.port[0].fileno(), VM_LIMIT, supervisor.hear, supervisor.connect)
        supervisor.saves.listen(self.path)
        self.ends = threading.Event()
        self.threads = [threading.Thread(target=each) for each in (self.live, self.monitor, self.supervise)]
        for thread in self.threads:
            thread.start()

    def live(self) -> None:
        with select.epoll() as poll:
            inside = Mux(poll, self.port[1].fileno(), HOST_LIMIT, lambda word: self.hear(inside, word))
            while not self.ends.is_set():
                for fd, event in poll.poll(0.02):
                    with suppress(EOFError):
                        inside.handle_event(fd, event)

    def hear(self, inside: Mux, word: dict[str, Any]) -> None:
        if "freeze" in word:
            self.done.append("freeze")
            inside.tell({self.word: True})
            inside.hold()
        elif "thaw" in word:
            self.done.append("thaw")
            inside.go_on()
            inside.tell({"up": True})

    def monitor(self) -> None:
        buffer = b""
        while True:
            data, fds, _, _ = socket.recv_fds(self.qmp[1], 65536, 1)
            if not data:
                return
            for fd in fds:
                os.write(fd, b"memory")
                os.close(fd)
            buffer += data
            while b"\n" in buffer:
                line, _, buffer = buffer.partition(b"\n")
                self.reply(json.loads(line)["execute"])

    def reply(self, command: str) -> None:
        if command in ("stop", "cont", "migrate"):
            self.done.append(command)
        if command == "cont" and self.file is not None:
            self.saved_size = self.file.stat().st_size
        result = {"error-desc": self.reason} if command == "query-migrate" else {}
        self.qmp[1].sendall(json.dumps({"return": result}).encode() + b"\n")
        if command == "migrate":
            event = {"event": "MIGRATION", "data": {"status": self.outcome}}
            self.qmp[1].sendall(json.dumps(event).encode() + b"\n")

    def supervise(self) -> None:
        while not self.ends.is_set():
            self.supervisor.turn(0.02)

    def call(self, file: Path) -> tuple[socket.socket, bytes]:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(20)
        self.send(sock, file)
        return sock, sock.recv(1)

    def send(self, sock: socket.socket, file: Path) -> None:
        self.file = file
        sock.connect(self.path)
        with file.open("wb") as opened:
            socket.send_fds(sock, [b"1"], [opened.fileno()])

    def end(self) -> None:
        """End once the machine continues: the callers are gone."""
        while self.supervisor.saves.is_busy():
            time.sleep(0.005)
        self.ends.set()
        self.qmp[0].shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for sock in (*self.qmp, *self.port, *self.console, self.supervisor.saves.listener, self.supervisor.listener):
            sock.close()
        self.supervisor.poll.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path)
    yield found
    found.end()


def test_programs_stand_still_before_the_machine_and_continue_when_the_caller_says_so(
    machine: Machine, tmp_path: Path
) -> None:
    call, answer = machine.call(tmp_path / "saved")
    assert answer == SAVED
    assert (tmp_path / "saved").read_bytes() == b"memory"
    assert machine.done == ["freeze", "stop", "migrate"]
    with call:
        call.send(b"1")
        assert call.recv(1) == SAVED
    assert machine.done == ["freeze", "stop", "migrate", "cont", "thaw"]
    again, answer = machine.call(tmp_path / "saved")
    again.close()
    assert answer == SAVED, "it can be saved again"


def test_programs_continue_if_the_caller_is_gone(machine: Machine, tmp_path: Path) -> None:
    call, _ = machine.call(tmp_path / "saved")
    call.close()
    while machine.done[-1] != "thaw":
        time.sleep(0.005)
    assert machine.done[-2:] == ["cont", "thaw"]


@pytest.mark.parametrize(
    ("reason", "answer"),
    [("Unable to write to file: Disk quota exceeded", FULL), ("No space left on device", FULL), ("", FAILED)],
)
def test_a_machine_that_cannot_be_saved_has_continued_when_that_is_reported(
    machine: Machine, tmp_path: Path, reason: str, answer: bytes
) -> None:
    machine.outcome, machine.reason = "failed", reason
    call, told = machine.call(tmp_path / "saved")
    call.close()
    assert told == answer
    assert machine.done == ["freeze", "stop", "migrate", "cont", "thaw"]
    assert machine.saved_size == 0, "the machine has its disk's space back before it writes to it"


def test_programs_continue_if_the_caller_is_gone_before_the_answer(machine: Machine, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        machine.send(sock, tmp_path / "saved")
    while machine.done[-2:] != ["cont", "thaw"]:
        assert machine.threads[-1].is_alive(), "the supervisor ended"
        time.sleep(0.005)
    call, answer = machine.call(tmp_path / "saved")
    call.close()
    assert answer == SAVED, "it can be saved again"


def test_each_limit_of_saving_leaves_time_for_those_inside_it() -> None:
    frozen, saved = saves.FREEZE_TIMEOUT_S, qemu.SAVE_TIMEOUT_S + qemu.CANCEL_TIMEOUT_S
    inside = frozen + saved + saves.CONTINUE_TIMEOUT_S
    assert inside < child.SAVE_TIMEOUT_S < keeper.WRITE_TIMEOUT_S < SAVE_MEMORY_SECONDS


def test_an_event_without_a_caller_does_not_block_the_machine(tmp_path: Path) -> None:
    supervisor = MachineSupervisor(TASK)
    with supervisor.poll, supervisor.saves.listener, supervisor.listener:
        supervisor.saves.listen(str(tmp_path / "other.sock"))
        assert supervisor.saves.handle_event(supervisor.saves.listener.fileno())
        assert not supervisor.saves.is_busy()
        assert supervisor.saves.handle_event(supervisor.saves.listener.fileno()), "it waits for the next one"


def test_a_machine_whose_programs_do_not_stop_is_not_saved(machine: Machine, tmp_path: Path) -> None:
    machine.word = "restless"
    call, told = machine.call(tmp_path / "saved")
    call.close()
    assert told == RESTLESS
    assert "migrate" not in machine.done


def test_a_call_without_a_file_changes_nothing(machine: Machine, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as call:
        call.settimeout(20)
        call.connect(machine.path)
        call.send(b"1")
        assert call.recv(1) == b""
    assert machine.done == []
    call, answer = machine.call(tmp_path / "saved")
    call.close()
    assert answer == SAVED
