"""Tests of the keeper's child that has a machine saved, with a scripted supervisor."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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
        syscalls.close_all((report_r, report_w, go_r, go_w, file, reason))


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
