"""Tests of the content API's operations on a directory filled by hostile programs."""

from __future__ import annotations

import json
import os
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hotdesk.desk.volume.files import Attributes, FilesError, Upload, VolumeFiles, explain

pytestmark = pytest.mark.container  # changes owners, which needs root


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[VolumeFiles]:
    """Yield the files of a volume in `tmp_path / "files"`, beside a file that must not be touched."""
    (tmp_path / "secret").write_text("outside")
    folders = []
    for name in ("files", "staging"):
        (tmp_path / name).mkdir()
        folders.append(os.open(tmp_path / name, os.O_RDONLY | os.O_DIRECTORY))
    yield VolumeFiles(*folders)
    for fd in folders:
        os.close(fd)


@pytest.fixture
def tree(tmp_path: Path, volume: VolumeFiles) -> Path:
    return tmp_path / "files"


def put(volume: VolumeFiles, path: str, data: bytes = b"x", **options: Any) -> dict[str, object]:
    upload = Upload(volume, path, Attributes(**options.pop("attributes", {})), **{**USUAL, **options})
    try:
        upload.write(data)
        return upload.finish()
    finally:
        upload.close()


USUAL = {"overwrite": True, "parents": False}


def get(volume: VolumeFiles, path: str) -> bytes:
    fd, size = volume.open_file(path)
    with open(fd, "rb") as file:
        return file.read(size)


def status(work: Callable[[], object]) -> int:
    """Return the HTTP status of an error, or 0 if there is none."""
    try:
        work()
    except FilesError as e:
        return e.status
    except OSError as e:
        return explain(e).status
    return 0


def test_a_file_is_written_read_described_and_removed(volume: VolumeFiles, tree: Path) -> None:
    entry = put(volume, "/a.txt", b"hello")
    assert (entry["type"], entry["path"], entry["size"], entry["mode"]) == ("file", "/a.txt", 5, 0o644)
    assert (entry["uid"], entry["gid"]) == (1000, 1000)
    assert get(volume, "a.txt") == b"hello"
    assert {**volume.stat("/a.txt"), "atime": ""} == {**entry, "atime": ""}
    volume.remove("/a.txt")
    assert status(lambda: volume.stat("/a.txt")) == 404
    assert os.listdir(tree) == []


def test_a_replaced_file_keeps_its_owner_and_mode_by_default(volume: VolumeFiles) -> None:
    put(volume, "/a", attributes={"uid": 0, "gid": 0, "mode": 0o600})
    assert [put(volume, "/a", b"two")[name] for name in ("uid", "gid", "mode", "size")] == [0, 0, 0o600, 3]
    assert put(volume, "/a", attributes={"mode": 0o640})["mode"] == 0o640


def test_a_file_appears_atomically(volume: VolumeFiles, tree: Path) -> None:
    put(volume, "/a", b"old")
    upload = Upload(volume, "/a", Attributes(), overwrite=True, parents=False)
    upload.write(b"half")
    assert (tree / "a").read_bytes() == b"old"
    upload.close()
    assert (tree / "a").read_bytes() == b"old"
    assert os.listdir(volume.staging) == []


def test_of_two_writers_the_last_to_finish_wins(volume: VolumeFiles) -> None:
    one, two = (Upload(volume, "/a", Attributes(), overwrite=True, parents=False) for _ in range(2))
    one.write(b"one")
    two.write(b"two")
    two.finish()
    one.finish()
    for each in (one, two):
        each.close()
    assert get(volume, "/a") == b"one"


def test_missing_folders_are_created_only_with_force(volume: VolumeFiles) -> None:
    assert status(lambda: put(volume, "/x/y/z")) == 404
    assert put(volume, "/x/y/z", parents=True)["path"] == "/x/y/z"
    assert volume.stat("/x/y")["uid"] == 1000
    assert status(lambda: put(volume, "/x/y/z", overwrite=False)) == 409
    assert status(lambda: volume.make_dir("/p/q", Attributes(), parents=False)) == 404
    assert volume.make_dir("/p/q", Attributes(mode=0o700), parents=True)["mode"] == 0o700
    assert status(lambda: volume.make_dir("/p/q", Attributes(), parents=False)) == 409
    assert volume.make_dir("/p/q", Attributes(mode=0o777), parents=True)["mode"] == 0o700


def test_a_listing_has_the_requested_depth(volume: VolumeFiles, tree: Path) -> None:
    put(volume, "/b/c/d", parents=True)
    put(volume, "/a")
    (tree / "link").symlink_to("/etc/passwd")

    def names(depth: int) -> list[tuple[str, str]]:
        return [(each["path"], each["type"]) for each in json.loads(volume.ls("/", depth))]

    assert names(1) == [("/a", "file"), ("/b", "directory"), ("/link", "symlink")]
    assert [path for path, _ in names(3)] == ["/a", "/b", "/b/c", "/b/c/d", "/link"]
    assert json.loads(volume.ls("/", 1))[2]["target"] == "/etc/passwd"
    assert [status(partial(volume.ls, "/", depth)) for depth in (0, 65)] == [400, 400]
    assert status(lambda: volume.ls("/a")) == 404


def test_a_listing_has_a_bound(volume: VolumeFiles, tree: Path) -> None:
    for number in range(4):
        (tree / str(number)).touch()
    assert len(json.loads(volume.ls("/", 1, 4))) == 4
    assert status(lambda: volume.ls("/", 1, 3)) == 400


def fill(folder: Path, count: int) -> None:
    """Give one file many long names."""
    folder.mkdir()
    first = os.fsencode(folder) + b"/first"
    os.close(os.open(first, os.O_CREAT))
    for number in range(count - 1):
        os.link(first, os.fsencode(folder) + b"/" + f"{number:03}".encode().ljust(255, b"\xff"))


def measure_peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_names_beyond_the_bound_of_a_listing_are_not_read(volume: VolumeFiles, tree: Path) -> None:
    fill(tree / "many", 4000)
    assert measure_peak(lambda: status(lambda: volume.ls("/many", 1, 100))) < 200_000
    assert status(lambda: volume.ls("/many", 1, 100)) == 400


def test_all_levels_of_a_listing_have_one_bound(volume: VolumeFiles, tree: Path) -> None:
    for path in ("a", "a/b", "a/b/c", "a/b/c/d"):
        (tree / path).mkdir()
        (tree / path / "file").touch()
    assert len(json.loads(volume.ls("/", 9, 8))) == 8
    assert status(lambda: volume.ls("/", 9, 7)) == 400


def test_a_folder_is_removed_in_memory_that_does_not_depend_on_its_size(volume: VolumeFiles, tree: Path) -> None:
    fill(tree / "many", 2000)
    for number in range(200):
        (tree / "many" / str(number) / "inner").mkdir(parents=True)
    assert measure_peak(lambda: volume.remove("/many")) < 100_000
    assert (os.listdir(tree), os.listdir(volume.staging)) == ([], [])


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "inner", "."], ids=["up", "absolute", "inside", "self"])
@pytest.mark.parametrize("place", ["/link", "/link/x"], ids=["last", "amid"])
def test_no_link_is_followed(volume: VolumeFiles, tree: Path, tmp_path: Path, target: str, place: str) -> None:
    (tree / "inner").mkdir()
    (tree / "link").symlink_to(target)
    acts: list[Callable[[], object]] = [
        lambda: get(volume, place), lambda: volume.ls(place, 1), lambda: volume.change(place, Attributes(mode=0o777)),
        lambda: volume.make_dir(f"{place}/d", Attributes(), parents=True),
        lambda: put(volume, f"{place}/f", parents=True),
    ]  # fmt: skip
    assert {status(act) for act in acts} <= {400, 404}
    assert os.listdir(tree / "inner") == []
    assert (tmp_path / "secret").read_text() == "outside"


def test_a_link_is_described_replaced_and_removed_itself(volume: VolumeFiles, tree: Path, tmp_path: Path) -> None:
    (tree / "link").symlink_to("../secret")
    assert (volume.stat("/link")["type"], volume.stat("/link")["target"]) == ("symlink", "../secret")
    assert put(volume, "/link", b"mine")["type"] == "file"
    assert not (tree / "link").is_symlink()
    (tree / "again").symlink_to("..")
    volume.remove("/again")
    assert (tmp_path / "secret").read_text() == "outside"


@pytest.mark.parametrize("path", ["..", "/../secret", "a/../../secret", "a\0b", "x" * 4001, "\udcff"])
def test_an_ambiguous_path_is_refused(volume: VolumeFiles, path: str) -> None:
    acts: list[Callable[[str], object]] = [volume.stat, volume.open_file, volume.remove, partial(put, volume)]
    assert {status(partial(act, path)) for act in acts} == {400}


def test_an_invalid_file_is_neither_opened_nor_waited_for(volume: VolumeFiles, tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree / "sock"))
    assert [volume.stat(path)["type"] for path in ("/pipe", "/sock")] == ["unknown", "unknown"]
    assert [status(partial(get, volume, path)) for path in ("/pipe", "/sock", "/")] == [400, 400, 400]
    assert [status(partial(volume.change, path, Attributes())) for path in ("/pipe", "/sock")] == [400, 400]
    assert put(volume, "/pipe", b"now a file")["size"] == 10
    volume.remove("/sock")
    assert os.listdir(tree) == ["pipe"]


@pytest.mark.slow
def test_a_tree_of_any_depth_is_removed(volume: VolumeFiles, tree: Path) -> None:
    fd = os.open(tree, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=fd)
        os.close(os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    volume.remove("/d")
    assert (os.listdir(tree), os.listdir(volume.staging)) == (["f"], [])


def test_the_volume_itself_is_not_removed(volume: VolumeFiles) -> None:
    assert [status(partial(volume.remove, path)) for path in ("/", "", ".")] == [400, 400, 400]


@pytest.mark.parametrize("wrong", [{"uid": 1013}, {"gid": -1}, {"mode": 0o4755}, {"mode": 0o2755}, {"uid": 1 << 40}])
def test_owners_no_desk_has_and_set_id_bits_are_refused(wrong: dict[str, int]) -> None:
    assert status(lambda: Attributes(**wrong)) == 400


def test_owner_and_mode_change(volume: VolumeFiles) -> None:
    put(volume, "/a")
    changed = volume.change("/a", Attributes(uid=0, mode=0o400))
    assert [changed[name] for name in ("uid", "gid", "mode")] == [0, 1000, 0o400]
    assert volume.change("/", Attributes(mode=0o1777))["mode"] == 0o1777


def test_names_that_are_not_text_and_invalid_times_are_still_shown(volume: VolumeFiles, tree: Path) -> None:
    place = os.fsencode(tree) + b"/\xff\xfe"
    os.close(os.open(place, os.O_CREAT | os.O_WRONLY))
    os.utime(place, (0, 2**33))
    assert json.loads(volume.ls("/", 1))[0]["name"] == "\\xff\\xfe"


def test_leftovers_of_a_killed_process_are_swept(volume: VolumeFiles, tmp_path: Path) -> None:
    (tmp_path / "staging/a.trash/b").mkdir(parents=True)
    (tmp_path / "staging/old.upload").touch()
    (tmp_path / "staging/new.upload").touch()
    os.utime(tmp_path / "staging/old.upload", (0, 0))
    volume.find_leftovers()
    assert sorted(os.listdir(tmp_path / "staging")) == ["a.trash", "new.upload"], "requests wait for this"
    volume.sweep(volume.leftovers.get())
    assert os.listdir(tmp_path / "staging") == ["new.upload"]
