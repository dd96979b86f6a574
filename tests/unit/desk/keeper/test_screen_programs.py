"""Tests of which programs keep running while a person drives: the image's own, and no replacement by a desk."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hotdesk.desk.keeper import screen_programs
from hotdesk.linux import uids

BASE = 5_000_000
NAME = "usr/bin/openbox"


@pytest.fixture
def room(tmp_path: Path) -> Path:
    for part in ("root", "w/up"):
        (tmp_path / part).mkdir(parents=True)
    program = tmp_path / "root" / NAME
    program.parent.mkdir(parents=True)
    shutil.copy("/bin/sleep", program)
    program.chmod(0o755)
    return tmp_path


def written(room: Path) -> None:
    (room / "w/up/usr/bin").mkdir(parents=True)
    (room / "w/up" / NAME).write_bytes(b"")


def in_the_way(room: Path) -> None:
    (room / "w/up/usr").mkdir()
    (room / "w/up/usr/bin").symlink_to("/tmp")


def linked(room: Path) -> None:
    (room / "root" / NAME).rename(room / "root/elsewhere")
    (room / "root" / NAME).symlink_to("../../elsewhere")


def linked_folder(room: Path) -> None:
    (room / "root/usr/bin").rename(room / "root/usr/else")
    (room / "root/usr/bin").symlink_to("else")


def a_pipe(room: Path) -> None:
    (room / "root" / NAME).unlink()
    os.mkfifo(room / "root" / NAME)


def writable(room: Path) -> None:
    (room / "root" / NAME).chmod(0o775)


def the_users(room: Path) -> None:
    os.chown(room / "root" / NAME, BASE + uids.USER, 0)


def test_the_images_own_program_is_spared(room: Path) -> None:
    known = screen_programs.find_spared_programs(room, BASE)
    assert len(known) == 1
    with subprocess.Popen([room / "root" / NAME, "10"]) as running, subprocess.Popen(["/bin/sleep", "10"]) as other:
        try:
            assert screen_programs.runs(running.pid, known)
            assert not screen_programs.runs(other.pid, known)
        finally:
            running.kill()
            other.kill()
    assert not screen_programs.runs(running.pid, known)


@pytest.mark.parametrize("change", [written, in_the_way, linked, linked_folder, a_pipe, writable, the_users])
def test_a_program_a_desk_may_have_changed_is_not_spared(room: Path, change: Callable[[Path], None]) -> None:
    change(room)
    assert screen_programs.find_spared_programs(room, BASE) == set()
