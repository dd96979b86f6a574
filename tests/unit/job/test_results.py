"""Tests of copying results: complete, owned by the folder's owner, through no link, and overwriting nothing."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotdesk.errors import BriefError, HostError
from hotdesk.job.results import Out

USER = 1234


def unknown(sha256: str) -> bool:
    return False


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "user"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, USER, USER)
    monkeypatch.chdir(folder)
    return folder


def test_copies_are_whole_and_the_folder_owners(place: Path) -> None:
    with Out(Path("out/job"), ["report.xlsx", "deep/er/notes.txt"]) as out:
        assert out.copy("report.xlsx", [b"PK", b"..."], unknown) == Path("out/job/report.xlsx")
        out.copy("deep/er/notes.txt", [], unknown)
    assert (place / "out/job/report.xlsx").read_bytes() == b"PK..."
    assert (place / "out/job/deep/er/notes.txt").read_bytes() == b""
    made = [each.stat() for each in place.rglob("*")]
    assert {(each.st_uid, each.st_gid) for each in made} == {(place.stat().st_uid, place.stat().st_gid)}
    assert not (place / "out/job/report.xlsx").stat().st_mode & 0o111
    assert sorted(os.listdir("out/job")) == ["deep", "report.xlsx"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")
def test_the_group_is_that_of_who_called_by_sudo_where_the_folder_is_theirs(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_GID", "4321")
    for uid, group in ((USER, 4321), (USER + 1, USER)):
        monkeypatch.setenv("SUDO_UID", str(uid))
        with Out(Path(str(uid)), ["a"]) as out:
            found = (place / out.copy("a", [b"one"], unknown)).stat()
        assert (found.st_uid, found.st_gid) == (USER, group)
    assert (os.geteuid(), os.getegid(), os.getresuid()[2]) == (0, 0, 0)


CONFINED = """
import os
from pathlib import Path
from hotdesk.linux.landlock import confine
from hotdesk.job.results import Out
with Out(Path("out/job"), ["a", "deep/b"]) as out:
    confine([out.folder], any_owner=True)
    out.copy("a", [b"one"], lambda sha256: False)
    out.copy("deep/b", [b"two"], lambda sha256: False)
    try:
        os.mkdir("other")
    except PermissionError:
        print("confined")
with Out(Path("out/job"), ["a"]) as out:
    out.copy("a", [b"new"], lambda sha256: True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")
def test_copies_are_the_folder_owners_though_the_rights_to_make_them_so_were_given_up(place: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    argv = [sys.executable, "-c", CONFINED]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("confined\n", 1), done.stderr
    assert "out/job/a cannot be written: Operation not permitted" in done.stderr
    found = {each.name: (each.stat().st_uid, each.read_bytes()) for each in place.rglob("*") if each.is_file()}
    assert found == {"a": (USER, b"one"), "b": (USER, b"two")}


def test_folders_of_an_unused_copy_are_removed(place: Path) -> None:
    with Out(Path("out/job"), ["a", "sub/b"]):
        assert os.listdir("out/job") == ["sub"]
    assert os.listdir(".") == []


def test_pieces_that_turn_out_wrong_leave_no_file(place: Path) -> None:
    def changed() -> Iterator[bytes]:
        yield b"on"
        raise HostError("changed since")

    with Out(Path("out"), ["a", "b"]) as out:
        with pytest.raises(HostError, match="changed since"):
            out.copy("a", changed(), unknown)
        out.copy("b", [b"two"], unknown)
        assert os.listdir("out") == ["b"]
        out.copy("a", [b"1"], unknown)
    assert Path("out/a").read_bytes() == b"1"


def test_a_file_that_is_there_stays_unless_it_can_be_had_again(place: Path) -> None:
    Path("out").mkdir()
    Path("out/a").write_bytes(b"mine")
    said = "out/a exists already and was changed since hotdesk wrote it; move it away; the file is in the drive"
    with Out(Path("out"), ["a"]) as out, pytest.raises(BriefError, match=said):
        out.copy("a", [b"new"], unknown)
    assert (Path("out/a").read_bytes(), os.listdir("out")) == (b"mine", ["a"])
    with Out(Path("out"), ["a"]) as out:
        out.copy("a", [b"new"], {digest(b"mine")}.__contains__)
    assert (Path("out/a").read_bytes(), os.listdir("out")) == (b"new", ["a"])


def test_the_same_copy_again_is_left_alone(place: Path) -> None:
    Path("out").mkdir()
    Path("out/a").write_bytes(b"same")
    before = Path("out/a").stat()
    with Out(Path("out"), ["a"]) as out:
        out.copy("a", [b"same"], unknown)
    assert Path("out/a").stat().st_ino == before.st_ino


def test_a_file_on_the_way_or_a_folder_in_place_is_reported(place: Path) -> None:
    Path("out").mkdir()
    Path("out/file").write_bytes(b"")
    Path("out/a").mkdir()
    with pytest.raises(BriefError, match="part of the path is a link or a file"):
        Out(Path("out"), ["file/a"])
    with Out(Path("out"), ["a"]) as out, pytest.raises(BriefError, match="was changed since hotdesk wrote it"):
        out.copy("a", [b"one"], lambda sha256: True)


def test_no_descriptor_is_left_when_it_cannot_be_done(place: Path) -> None:
    Path("file").write_bytes(b"")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(BriefError):
            Out(Path("out/job"), ["a", "b", "../c"])
        with pytest.raises(BriefError):
            Out(Path("file/job"), ["a"])
    assert len(os.listdir("/proc/self/fd")) == before
    assert os.listdir(".") == ["file"]
