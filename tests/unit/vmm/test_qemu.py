"""Tests of how an emulator is started and controlled."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hotdesk_vmm.qemu import Boot, Emulator, EmulatorError, MemoryFile, write_arguments
from hotdesk_vmm.task import Layer, VmTask

TASK = VmTask(
    machine="aarch64",
    accelerator="tcg",
    memory=256 << 20,
    cpus=1,
    disk=1 << 30,
    layers=(Layer("layer0", "erofs"), Layer("layer1", "ext4", "noload")),
    python="/usr/bin/python3",
    start="start.pyc",
    has_template=False,
    makes_template=True,
    is_saved=False,
    pids=100,
    shm=128 << 20,
    env={"A": "b"},
    limits={"NOFILE": 100},
    files={"etc/x": (0o644, b"\xff\0")},
)
BOOT = Boot("/boot/vmlinuz", "/dev/shm/initrd")


def values(argv: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(argv) if name == option]


def test_a_task_is_read_as_it_was_written() -> None:
    assert VmTask.load(TASK.dump()) == TASK


@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
@pytest.mark.parametrize("boot", [BOOT, None])
def test_a_machine_has_two_ports_its_disks_and_nothing_else(machine: str, boot: Boot | None) -> None:
    argv = write_arguments(replace(TASK, machine=machine), None, boot)
    kinds = [each.partition(",")[0] for each in values(argv, "-device")]
    assert kinds == ["virtio-serial-pci", "virtserialport", "virtserialport", *["virtio-blk-pci"] * 3]
    assert "-nodefaults" in argv
    assert not {"-netdev", "-nic", "-net", "-virtfs", "-fsdev", "-usb", "-vga", "-vnc", "-monitor"} & {*argv}
    assert values(argv, "-sandbox") == ["on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"]


def test_layers_are_read_only_and_the_disk_is_not() -> None:
    drives = values(write_arguments(TASK, None, BOOT), "-drive")
    assert ["readonly=on" in each for each in drives] == [True, True, False]
    assert [each.partition(",")[0] for each in drives] == [
        "file=/run/vm/layer0",
        "file=/run/vm/layer1",
        "file=/home/user/disk.img",
    ]


def test_a_machine_is_loaded_with_the_devices_it_was_saved_with() -> None:
    booted = write_arguments(TASK, MemoryFile("/dev/shm/ram", is_copied=False), BOOT)
    loaded = write_arguments(TASK, MemoryFile("/run/vm/ram", is_copied=True), None)
    for option in ("-device", "-drive", "-M", "-cpu", "-smp", "-m", "-accel"):
        assert values(booted, option) == values(loaded, option)
    assert "-kernel" not in loaded
    assert "share=off,readonly=on,rom=off" in values(loaded, "-object")[0]
    assert "share=on" in values(booted, "-object")[0]


def test_only_an_emulated_kernel_goes_without_its_mitigations() -> None:
    (emulated,) = values(write_arguments(TASK, None, BOOT), "-append")
    real = write_arguments(replace(TASK, accelerator="kvm"), None, BOOT)
    assert "mitigations=off" in emulated
    assert "mitigations" not in values(real, "-append")[0]
    assert (values(real, "-cpu"), values(real, "-accel")) == (["host"], ["kvm"])


# -- the monitor ----------------------------------------------------------------------------------------------


def test_a_machine_with_its_memory_is_loaded_with_the_devices_it_was_saved_with() -> None:
    saved = write_arguments(TASK, MemoryFile("/run/vm/ram", is_copied=True), None)
    loaded = write_arguments(TASK, None, None, has_saved=True)
    for option in ("-device", "-drive", "-M", "-cpu", "-smp", "-m", "-accel"):
        assert values(saved, option) == values(loaded, option)
    assert values(loaded, "-object") == ["memory-backend-ram,id=ram,size=256M"]
    assert values(loaded, "-add-fd") == ["fd=14,set=1"]
    assert "-add-fd" not in saved


@contextmanager
def monitored(*messages: object) -> Iterator[Emulator]:
    ours, theirs = socket.socketpair()
    emulator = Emulator.__new__(Emulator)
    emulator.ends, emulator.buffer, emulator.events = {"qmp": ours}, b"", []

    def speak() -> None:
        with theirs, suppress(OSError):
            for message in messages:
                theirs.sendall((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")
            theirs.shutdown(socket.SHUT_WR)
            theirs.recv(100)

    thread = threading.Thread(target=speak)
    thread.start()
    with ours:
        yield emulator
    thread.join()


def test_a_reply_is_found_among_events() -> None:
    event = {"event": "MIGRATION", "data": {"status": "completed"}}
    with monitored(event, {"return": {"status": "running"}}) as emulator:
        assert emulator.ask("query-status") == {"status": "running"}
        emulator.wait_for_migration()


@pytest.mark.parametrize(
    ("messages", "match"),
    [
        (({"error": {"desc": "no"}},), "no"),
        ((b"[" * 100000,), "not JSON"),
        ((b"[]",), "not an object"),
        ((b"{" + b" " * (2 << 20),), "of more than 1024 KiB"),
        ((), "ended"),
    ],
)
def test_an_emulator_that_refuses_lies_or_ends_is_reported(messages: tuple[object, ...], match: str) -> None:
    with monitored(*messages) as emulator, pytest.raises(EmulatorError, match=match):
        emulator.ask("stop")


@pytest.mark.slow
def test_a_machine_that_is_refused_is_reported() -> None:
    event = {"event": "MIGRATION", "data": {"status": "failed"}}
    with monitored(event) as emulator, pytest.raises(EmulatorError, match="reported a failure without a reason"):
        emulator.wait_for_migration()


class Monitor:
    """The end of an emulator's monitor: answers every command, and notes it with the number of files it came with."""

    def __init__(self, outcome: str, reason: str = "") -> None:
        self.outcome = outcome
        self.reason = reason
        self.asked: list[tuple[str, int]] = []
        self.capabilities: dict[str, bool] = {}
        self.cancelled = "cancelled"
        """How a save ends that is cancelled."""

    def serve(self, sock: socket.socket) -> None:
        buffer, files = b"", 0
        with sock, suppress(OSError):
            while True:
                data, fds, _, _ = socket.recv_fds(sock, 65536, 1)
                if not data:
                    return
                for fd in fds:
                    os.close(fd)
                buffer, files = buffer + data, files + len(fds)
                while b"\n" in buffer:
                    line, _, buffer = buffer.partition(b"\n")
                    self.reply(sock, json.loads(line), files)
                    files = 0

    def reply(self, sock: socket.socket, ask: dict[str, Any], files: int) -> None:
        command, given = ask["execute"], ask.get("arguments", {})
        self.asked.append((command, files))
        if command == "migrate_cancel":
            sock.sendall(json.dumps({"event": "MIGRATION", "data": {"status": self.cancelled}}).encode() + b"\n")
        answer = {"error-desc": self.reason} if command == "query-migrate" and self.reason else {}
        if command == "migrate-set-capabilities":
            self.capabilities |= {each["capability"]: each["state"] for each in given["capabilities"]}
        sock.sendall(json.dumps({"return": answer}).encode() + b"\n")
        if command.startswith("migrate") and "uri" in given and self.outcome:
            event = {"event": "MIGRATION", "data": {"status": self.outcome}}
            sock.sendall(json.dumps(event).encode() + b"\n")


@contextmanager
def driven(monitor: Monitor) -> Iterator[Emulator]:
    ours, theirs = socket.socketpair()
    emulator = Emulator.__new__(Emulator)
    emulator.ends, emulator.buffer, emulator.events = {"qmp": ours}, b"", ["MIGRATION completed"]
    thread = threading.Thread(target=monitor.serve, args=(theirs,))
    thread.start()
    with ours:
        yield emulator
    thread.join()


def test_a_machine_is_saved_with_its_memory_to_a_file_that_is_passed_and_stays_stopped(tmp_path: Path) -> None:
    monitor = Monitor("completed")
    with driven(monitor) as emulator, open(tmp_path / "saved", "wb") as file:
        emulator.save_memory(file.fileno())
    asked = [("stop", 0), ("add-fd", 1), ("migrate", 0), ("remove-fd", 0)]
    assert monitor.asked == [("migrate-set-capabilities", 0), *asked]
    assert monitor.capabilities == {"events": True, "x-ignore-shared": False, "mapped-ram": True}


@pytest.mark.parametrize(("reason", "match"), [("No space left on device", "No space left"), ("", "without a reason")])
def test_a_machine_that_cannot_be_saved_is_reported_with_the_reason(tmp_path: Path, reason: str, match: str) -> None:
    monitor = Monitor("failed", reason)
    with (
        driven(monitor) as emulator,
        open(tmp_path / "saved", "wb") as file,
        pytest.raises(EmulatorError, match=match),
    ):
        emulator.save_memory(file.fileno())
    assert monitor.asked[-1] == ("remove-fd", 0)


@pytest.mark.parametrize("how", ["cancelled", "failed", "completed"])
def test_a_save_that_takes_too_long_is_cancelled_before_that_is_reported(tmp_path: Path, how: str) -> None:
    """One that completed later would stop the machine for good."""
    monitor = Monitor("")
    monitor.cancelled = how
    with (
        driven(monitor) as emulator,
        open(tmp_path / "saved", "wb") as file,
        pytest.raises(EmulatorError, match=r"within 0\.2 s"),
    ):
        emulator.save_memory(file.fileno(), 0.2)
    assert monitor.asked[-2:] == [("migrate_cancel", 0), ("remove-fd", 0)]
    assert f"MIGRATION {how}" in emulator.events


def test_a_machine_is_loaded_with_its_memory_and_continues_without_the_file() -> None:
    monitor = Monitor("completed")
    with driven(monitor) as emulator:
        emulator.load_memory()
    assert [command for command, _ in monitor.asked[1:]] == ["migrate-incoming", "remove-fd", "cont"]
    assert monitor.capabilities["mapped-ram"]
