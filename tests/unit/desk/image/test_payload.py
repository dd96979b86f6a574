"""Tests of writing an image's files as one tar: deterministic, and without anything an image may not have."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from hotdesk.desk.image.image import Image, dump, get_record_path
from hotdesk.desk.image.payload import export, write
from hotdesk.desk.image.untar import ArchiveLimits
from hotdesk.errors import ImageError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    for name in ("var", "etc", "opt", "bin"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text(name)
    for name in ("b", "a"):
        (folder / "etc" / name).write_text(name)
    os.link(folder / "etc/a", folder / "z")
    (folder / "link").symlink_to("/outside")
    (folder / "to-folder").symlink_to("etc")
    (folder / "evil").write_text("#!")
    (folder / "evil").chmod(0o6755)
    os.mkfifo(folder / "pipe")
    return folder


def pack(tree: Path, limits: ArchiveLimits | None = None) -> bytes:
    out = io.BytesIO()
    write(tree, out, limits or ArchiveLimits())
    return out.getvalue()


def entries(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {each.name: each for each in tar.getmembers()}


def test_a_tree_is_written_in_order_with_links_and_without_rights(tree: Path) -> None:
    found = entries(pack(tree))
    assert list(found) == [
        *("bin", "etc", "evil", "link", "opt", "to-folder", "var", "z"),
        *("bin/file", "etc/a", "etc/b", "etc/file", "opt/file", "var/file"),
    ]
    assert (found["link"].linkname, found["to-folder"].issym()) == ("/outside", True)
    assert (found["etc/a"].islnk(), found["etc/a"].linkname) == (True, "z")
    assert found["evil"].mode == 0o755


def test_the_same_files_give_the_same_bytes(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pack(tree)
    monkeypatch.setattr("time.time", lambda: 5e9)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("z", "to-folder", "link", "evil", "var", "opt", "etc", "bin"):  # created in another order
        os.rename(tree / name, copy / name)
    assert pack(copy) == first


def test_names_that_are_not_text_and_long_ones_are_kept(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff" * 200)
    (tmp_path / name).write_text("x")
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path)), errors="surrogateescape") as tar:
        assert tar.getnames() == [name]


def test_files_that_are_mostly_holes_are_bounded(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1001)
    with pytest.raises(ImageError, match="more than 1000 bytes"):
        pack(tmp_path, ArchiveLimits(size=1000))


def test_a_file_deeper_than_an_import_accepts_is_refused(tmp_path: Path) -> None:
    deep = tmp_path / "/".join("d" * 256)
    deep.mkdir(parents=True)
    pack(tmp_path)
    (deep / "file").touch()
    with pytest.raises(ImageError, match="in 256 levels"):
        pack(tmp_path)


@pytest.mark.container
def test_an_image_with_as_many_layers_as_it_may_have_is_exported(tmp_path: Path) -> None:
    layers = tuple(tmp_path / "layers" / f"{number:064}" for number in range(64))
    for layer in layers:
        layer.mkdir(parents=True)
        (layer / f"of-{layer.name[-2:]}").touch()
    (tmp_path / "images").mkdir()
    image = Image("mine", layers[0].name, layers, "/usr/bin/python3", os.uname().machine, 1.0, 1, "a test")
    get_record_path(tmp_path, "mine").write_bytes(dump(image))
    with (tmp_path / "out").open("wb") as file:
        assert export(tmp_path, "mine", file.fileno()).entries == 64
    assert len(entries((tmp_path / "out").read_bytes())) == 64
