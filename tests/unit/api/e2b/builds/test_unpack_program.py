"""Tests of the program that unpacks the archive of a COPY step, run outside a desk."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from hotdesk.api.e2b.builds.unpack_program import FOLDER, RefusedArchive, Unpacking, place_files

OWNER = f"{os.getuid()}:{os.getgid()}"


def entry(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in {"mode": 0o644, **fields}.items():
        setattr(info, key, value)
    return info, data


def archive(*entries: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as file:  # type: ignore[call-overload]
        for info, data in entries:
            file.addfile(info, io.BytesIO(data))
    made.seek(0)
    return made


def unpack(folder: Path, made: io.BytesIO, entries: int = 100, size: int = 1 << 20) -> None:
    top = os.open(folder, FOLDER)
    try:
        Unpacking(top, entries, size).run(made)
    finally:
        os.close(top)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2"])
def test_files_folders_and_links_are_unpacked(tmp_path: Path, mode: str) -> None:
    unpack(tmp_path, archive(
        entry("a", type=tarfile.DIRTYPE, mode=0o700), entry("a/b/c.txt", b"text", mode=0o4755),
        entry("a/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        entry("hard", type=tarfile.LNKTYPE, linkname="a/b/c.txt"), entry("a/b/c.txt", b"again"), mode=mode,
    ))  # fmt: skip
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"again"
    assert (tmp_path / "hard").read_bytes() == b"text"
    assert (tmp_path / "hard").stat().st_mode & 0o7777 == 0o755
    assert os.readlink(tmp_path / "a/link") == "/etc/passwd"


HOSTILE: dict[str, list[tuple[tarfile.TarInfo, bytes]]] = {
    "a step up": [entry("../x", b"x")],
    "a step up inside": [entry("a/../../x", b"x")],
    "the root": [entry("/tmp/x", b"x")],
    "through a link": [entry("a", type=tarfile.SYMTYPE, linkname="/tmp"), entry("a/x", b"x")],
    "a folder over a link": [
        entry("a", type=tarfile.SYMTYPE, linkname="/tmp"), entry("a", type=tarfile.DIRTYPE), entry("a/x", b"x")
    ],
    "a device": [entry("d", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "a pipe": [entry("p", type=tarfile.FIFOTYPE)],
    "a hard link out": [entry("h", type=tarfile.LNKTYPE, linkname="../../etc/passwd")],
    "a hard link to the root": [entry("h", type=tarfile.LNKTYPE, linkname="/etc/passwd")],
    "a hard link through a link": [
        entry("a", type=tarfile.SYMTYPE, linkname="/etc"), entry("h", type=tarfile.LNKTYPE, linkname="a/passwd")
    ],
    "a hard link to a link": [
        entry("a", type=tarfile.SYMTYPE, linkname="/etc/passwd"), entry("h", type=tarfile.LNKTYPE, linkname="a")
    ],
    "too many": [entry(f"f{number}") for number in range(101)],
    "too much": [entry("f", b"x" * ((1 << 20) + 1))],
    "too deep": [entry("a/" * 200 + "x", b"x")],
    "a file as a folder": [entry("a", b"x"), entry("a/b", b"x")],
    "a folder as a file": [entry("a/b", b"x"), entry("a", b"x")],
}  # fmt: skip


@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_archive_is_refused(tmp_path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    with pytest.raises(RefusedArchive):
        unpack(tmp_path, archive(*entries))


@pytest.mark.parametrize("data", [b"", b"x", b"\x1f\x8b" + b"x" * 100, os.urandom(2000)])
def test_an_invalid_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(RefusedArchive):
        unpack(tmp_path, io.BytesIO(data))


def put(top: Path, source: str, target: Path | str, mode: str = "") -> None:
    place_files(str(top), {"source": source, "target": str(target), "owner": OWNER, "mode": mode})


def fill(top: Path) -> None:
    (top / "tree/deep").mkdir(parents=True)
    (top / "tree/a.txt").write_text("a")
    (top / "tree/deep/b.txt").write_text("b")


def test_a_folder_is_merged_into_its_target(tmp_path: Path) -> None:
    top, target = tmp_path / "top", tmp_path / "target"
    fill(top)
    (target / "deep").mkdir(parents=True)
    (target / "deep/old.txt").write_text("old")
    put(top, "tree", target)
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*.txt")) == [
        "a.txt", "deep/b.txt", "deep/old.txt"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "found"), [("named", "named"), ("into/", "into/a.txt"), ("there", "there/a.txt"), ("x/y/z", "x/y/z")]
)
def test_a_file_gets_the_name_of_its_target(tmp_path: Path, target: str, found: str) -> None:
    fill(tmp_path / "top")
    (tmp_path / "there").mkdir()
    put(tmp_path / "top", "tree/a.txt", f"{tmp_path}/{target}", "0600")
    assert (tmp_path / found).read_text() == "a"
    assert (tmp_path / found).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("pattern", ["tree/*.txt", "tree/**", "*/a.txt", "./tree/[a-z]*"])
def test_a_pattern_is_applied_to_the_folder_before_it(tmp_path: Path, pattern: str) -> None:
    fill(tmp_path / "top")
    put(tmp_path / "top", pattern, tmp_path / "target")
    assert list((tmp_path / "target").rglob("a.txt"))


def test_a_link_is_moved_not_followed(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    (tmp_path / "top/link").symlink_to("/etc")
    put(tmp_path / "top", "link", tmp_path / "placed", "0777")
    assert os.readlink(tmp_path / "placed") == "/etc"


@pytest.mark.parametrize("source", ["missing", "tree/missing", "../../etc/passwd"])
def test_a_path_missing_from_the_archive_is_refused(tmp_path: Path, source: str) -> None:
    fill(tmp_path / "top")
    with pytest.raises(RefusedArchive, match="no file of the archive"):
        put(tmp_path / "top", source, tmp_path / "target")


def test_an_unknown_owner_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "top")
    with pytest.raises(RefusedArchive, match="user 'nobody-here' does not exist"):
        place_files(str(tmp_path / "top"), {"source": "tree", "target": "/x", "owner": "nobody-here", "mode": ""})
