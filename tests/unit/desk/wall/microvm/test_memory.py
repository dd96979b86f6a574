"""Tests of the keeper's child that has a machine saved, with a scripted supervisor."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotdesk.desk.room.rootfs import MEMORY
from hotdesk.desk.wall.microvm import memory
from hotdesk.desk.wall.seam import GO
from hotdesk.linux import syscalls
from hotdesk_vmm.task import FAILED, FULL, SAVED

pytestmark = pytest.mark.timeout(30)


class Supervisor:
    """Answers one call; a second answer follows the caller's next byte."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = answers
        self.written = b""

    def serve(self, listener: socket.socket) -> None:
        call, _ = listener.accept()
        with call:
            _, (file,), _, _ = socket.recv_fds(call, 1, 1)
            self.written = b"memory"
            os.write(file, self.written)
            os.close(file)
            for number, answer in enumerate(self.answers):
                if number and not call.recv(1):
                    return
                call.send(answer)


@contextmanager
def asked(folder: Path, supervisor: Supervisor, *, stop: bool) -> Iterator[tuple[int, int]]:
    """Yield where the child reports, and where it is told to go on, as the keeper has them."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "supervisor.sock"))
        listener.listen()
        (report_r, report_w), (go_r, go_w) = syscalls.make_two_pipes()
        file = os.open(folder / "machine", os.O_WRONLY | os.O_CREAT, 0o600)
        reason = os.open(folder / "reason", os.O_WRONLY | os.O_CREAT, 0o600)
        how = {"stop": stop, "at": str(folder / "supervisor.sock")}
        ask = threading.Thread(target=memory.ask, args=(file, report_w, go_r, reason), kwargs=how)
        serve = threading.Thread(target=supervisor.serve, args=(listener,))
        serve.start()
        ask.start()
        yield report_r, go_w
        ask.join()
        serve.join()
        syscalls.close_all((report_r, report_w, go_r, go_w, reason, *([file] if stop else [])))


def test_programs_continue_once_the_keeper_has_saved_the_files_too(tmp_path: Path) -> None:
    supervisor = Supervisor(SAVED, SAVED)
    with asked(tmp_path, supervisor, stop=False) as (report, go):
        assert os.read(report, 1) == GO
        assert (tmp_path / "machine").read_bytes() == b"memory"
        os.write(go, GO)
        assert os.read(report, 1) == GO


def test_a_machine_that_does_not_continue_is_reported(tmp_path: Path) -> None:
    with asked(tmp_path, Supervisor(SAVED, FAILED), stop=False) as (report, go):
        assert os.read(report, 1) == GO
        os.write(go, GO)
        assert os.read(report, 1) != GO


def test_a_hibernated_machine_is_not_told_to_continue(tmp_path: Path) -> None:
    with asked(tmp_path, Supervisor(SAVED, SAVED), stop=True) as (report, go):
        assert os.read(report, 1) == GO
        os.write(go, GO)
    assert (tmp_path / "reason").read_bytes() == SAVED


def test_a_machine_that_is_not_saved_has_continued_and_leaves_a_known_reason(tmp_path: Path) -> None:
    with asked(tmp_path, Supervisor(FULL), stop=True) as (report, go):
        assert os.read(report, 1) != GO
        os.write(go, GO)
        assert os.read(report, 1) == GO
    assert (tmp_path / "reason").read_bytes() == FULL


def test_the_saved_memory_is_not_open_while_the_keeper_may_remove_it(tmp_path: Path) -> None:
    """Else its space would not be free when programs continue."""
    with asked(tmp_path, Supervisor(SAVED, SAVED), stop=False) as (report, go):
        assert os.read(report, 1) == GO
        while str(tmp_path / "machine") in _list_open():
            time.sleep(0.005)
        os.write(go, GO)


def _list_open() -> list[str]:
    found = []
    for each in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{each}"))
    return found


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Any]:
    """A room whose earlier save found its disk full."""
    (tmp_path / "memory.reason").write_bytes(FULL)
    netns = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    yield SimpleNamespace(folder=tmp_path, layers=SimpleNamespace(layer=tmp_path), netns=netns)
    os.close(netns)


def save(room: Any) -> tuple[bytes, bytes]:
    """Start a child, and return both of its reports."""
    writer = memory.save(room, "key", stop=False)
    told = os.read(writer.report, 1)
    os.write(writer.go, GO)
    goes_on = os.read(writer.report, 1)
    syscalls.close_all((writer.report, writer.go))
    os.waitpid(writer.pid, 0)
    return told, goes_on


def test_a_child_that_fails_before_its_call_reports_that_the_desk_runs_on(room: Any) -> None:
    told, goes_on = save(room)  # the folder of the memory is missing
    assert (told != GO, goes_on) == (True, GO)
    assert "disk of the desk is full" not in memory.explain(room), "that was the earlier save"


def test_a_disk_too_full_to_begin_is_reported_as_full(room: Any) -> None:
    room.folder.joinpath("memory.reason").write_bytes(SAVED)
    room.folder.joinpath(MEMORY).mkdir()
    room.folder.joinpath(MEMORY, memory.KEY).symlink_to("/dev/full")
    told, goes_on = save(room)
    assert (told != GO, goes_on) == (True, GO)
    assert "disk of the desk is full" in memory.explain(room)


def test_a_supervisor_that_cannot_be_reached_was_not_called(tmp_path: Path) -> None:
    (report_r, report_w), (go_r, go_w) = syscalls.make_two_pipes()
    file, reason = (os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT, 0o600) for name in ("machine", "reason"))
    os.write(go_w, GO)
    memory.ask(file, report_w, go_r, reason, stop=False, at=str(tmp_path / "nobody.sock"))
    assert (os.read(report_r, 1) != GO, os.read(report_r, 1)) == (True, GO)
    syscalls.close_all((report_r, report_w, go_r, go_w, reason))
