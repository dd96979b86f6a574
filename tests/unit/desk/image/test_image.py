"""Tests of the image store: finding, listing and removing images."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.deep_trees import deepen, removing

from hotdesk.desk.image import pin
from hotdesk.desk.image import store as stores
from hotdesk.desk.image.image import Image, find, get_record_path, ls
from hotdesk.errors import BriefError, ImageError, make_printable
from hotdesk.linux import syscalls

ONE, TWO, THREE = ("1" * 64, "2" * 64, "3" * 64)


def put(store: Path, name: str, *layers: str) -> Image:
    with stores.writing(store, lambda line: None) as (work, _):
        paths = tuple(store / "layers" / layer for layer in layers)
        tree = paths[0]
        if not tree.exists():
            tree = work / "tree"
            tree.mkdir()
            (tree / "file").write_text(name)
        image = Image(name, layers[0], paths, "/usr/bin/python3", "aarch64", 1.0, 4096, "a test")
        return stores.publish(store, image, tree)


def test_a_published_image_is_found(tmp_path: Path) -> None:
    image = put(tmp_path, "base", ONE)
    assert find(tmp_path, "base") == image
    assert (image.layers[0] / "file").read_text() == "base"
    assert ls(tmp_path) == [image]
    assert os.listdir(tmp_path / "tmp") == []


def test_a_store_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o755)
    put(store, "base", ONE)
    assert store.stat().st_mode & 0o777 == 0o700


def test_a_missing_image_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="image 'base' is not on this machine; `hotdesk image build base` builds it"):
        find(tmp_path, "base")
    assert ls(tmp_path / "nowhere") == []


@pytest.mark.parametrize("name", ["", ".", "..", "../base", "Base", "-base", "a/b", "a" * 65, "a\x1b[2J", "base\n"])
def test_an_invalid_name_is_the_callers_mistake(tmp_path: Path, name: str) -> None:
    with pytest.raises(BriefError) as caught:
        find(tmp_path, name)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "layers": ["../../etc"]}', '{"schema": 1, "layers": []}'],
)
def test_a_damaged_description_is_an_image_error(tmp_path: Path, text: str) -> None:
    put(tmp_path, "base", ONE)
    get_record_path(tmp_path, "base").write_text(text)
    with pytest.raises(ImageError, match="damaged"):
        find(tmp_path, "base")
    assert ls(tmp_path) == []


def test_a_lost_layer_is_an_image_error(tmp_path: Path) -> None:
    put(tmp_path, "base", ONE)
    stores.discard(tmp_path / "layers" / ONE)
    with pytest.raises(ImageError, match="lacks its layer"):
        find(tmp_path, "base")


def test_removing_an_image_keeps_the_layers_others_use(tmp_path: Path) -> None:
    put(tmp_path, "base", ONE)
    put(tmp_path, "office", TWO, ONE)
    put(tmp_path, "desktop", THREE, TWO, ONE)
    stores.rm(tmp_path, "office")
    assert sorted(os.listdir(tmp_path / "layers")) == [ONE, TWO, THREE]
    stores.rm(tmp_path, "desktop")
    assert os.listdir(tmp_path / "layers") == [ONE]
    assert [image.name for image in ls(tmp_path)] == ["base"]


def test_an_image_that_lacks_a_layer_is_removed_with_the_others(tmp_path: Path) -> None:
    put(tmp_path, "base", ONE)
    put(tmp_path, "office", TWO, ONE)
    put(tmp_path, "desktop", THREE, TWO, ONE)
    stores.discard(tmp_path / "layers" / TWO)
    stores.rm(tmp_path, "base")
    assert sorted(os.listdir(tmp_path / "layers")) == [ONE, THREE]
    stores.rm(tmp_path, "office")
    stores.rm(tmp_path, "desktop")
    assert os.listdir(tmp_path / "layers") == os.listdir(tmp_path / "images") == []
    with pytest.raises(ImageError, match="is not on this machine"):
        stores.rm(tmp_path, "desktop")


def test_an_image_of_an_open_desk_is_not_removed(tmp_path: Path) -> None:
    image = put(tmp_path, "base", ONE)
    with pytest.raises(ImageError, match="burn them first"):
        stores.rm(tmp_path, "base", in_use=["base"])
    assert find(tmp_path, "base") == image


def test_a_locked_layer_is_not_removed(tmp_path: Path) -> None:
    image = put(tmp_path, "base", ONE)
    fd = os.open(image.layers[0], os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        with pytest.raises(ImageError, match="in use"):
            stores.rm(tmp_path, "base")
    finally:
        os.close(fd)
    assert find(tmp_path, "base") == image
    stores.rm(tmp_path, "base")
    assert os.listdir(tmp_path / "layers") == []


@pytest.mark.parametrize("name", ["desk", f"desk{pin.STAGE}"])
def test_an_image_of_a_hibernated_desk_stays_until_its_record_is_gone(tmp_path: Path, name: str) -> None:
    image, record = put(tmp_path, "base", ONE), tmp_path / "desk.json"
    record.touch()
    pin.pin(tmp_path, name, image, record)
    with pytest.raises(ImageError, match="needed by the hibernated desk desk; resume or burn it first"):
        stores.rm(tmp_path, "base")
    rebuilt = put(tmp_path, "base", TWO)
    assert stores.sweep(tmp_path, lambda line: None) == []
    assert pin.find_pinned(tmp_path, name) == image
    stores.rm(tmp_path, "base")
    assert not rebuilt.layers[0].exists()
    record.unlink()
    assert pin.find_pinned(tmp_path, name) is None
    assert [each.name for each in stores.sweep(tmp_path, lambda line: None)] == [ONE]
    assert os.listdir(tmp_path / "pins") == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"image": 1, "record": "/"}', '{"image": "{}", "record": "/"}'])
def test_a_damaged_pin_is_ignored(tmp_path: Path, text: str) -> None:
    image = put(tmp_path, "base", ONE)
    pin.pin(tmp_path, "desk", image, tmp_path)
    (tmp_path / "pins/desk.json").write_text(text)
    assert pin.list_pinned(tmp_path) == {}
    stores.rm(tmp_path, "base")


def test_a_leftover_of_any_depth_is_removed_by_the_next_writer(tmp_path: Path) -> None:
    with removing(tmp_path / "store") as store:
        put(store, "base", ONE)
        deepen(store / "tmp")
        put(store, "office", TWO)
        assert os.listdir(store / "tmp") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_leftover_that_cannot_be_removed_stops_no_one(tmp_path: Path) -> None:
    put(tmp_path, "base", ONE)
    stuck, said = tmp_path / "tmp/stuck", list[str]()
    stuck.mkdir()
    (stuck / "file").touch()
    syscalls.mount(str(stuck), str(stuck), None, syscalls.MS_BIND)
    try:
        with stores.writing(tmp_path, said.append):
            pass
    finally:
        syscalls.umount(str(stuck))
    assert "stuck cannot be removed" in said[0]
    put(tmp_path, "office", TWO)
    assert os.listdir(tmp_path / "tmp") == []


def test_leftovers_of_a_killed_build_are_swept_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / "tmp" / "killed" / "tree"
    left.mkdir(parents=True)
    put(tmp_path, "base", ONE)
    assert os.listdir(tmp_path / "tmp") == []


def test_a_second_writer_waits_and_reports_it(tmp_path: Path) -> None:
    said: list[str] = []
    program = f"""
import sys
from pathlib import Path
from hotdesk.desk.image.store import writing
with writing(Path({str(tmp_path)!r}), print):
    print("in", flush=True)
    sys.stdin.read()
"""
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"in\n"

        def hear(line: str) -> None:
            said.append(line)
            assert other.stdin is not None
            other.stdin.close()

        with stores.writing(tmp_path, hear):
            assert other.wait(10) == 0
    assert said == [f"waiting: another process is writing to {tmp_path}"]


def test_publishing_again_replaces_the_name_at_once(tmp_path: Path) -> None:
    old = put(tmp_path, "base", ONE)
    new = put(tmp_path, "base", TWO)
    assert find(tmp_path, "base") == new
    assert old.layers[0].is_dir(), "an open desk may stand on it"


def test_importing_the_image_module_is_cheap() -> None:
    heavy = {"subprocess", "tomllib", "rich", "asyncio", "shutil", "tempfile"}
    program = "import sys; import hotdesk.desk.image.image; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    empty = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    bare = subprocess.run(empty, capture_output=True, text=True, check=True)
    assert not (set(done.stdout.split()) - set(bare.stdout.split())) & heavy


def test_names_are_escaped() -> None:
    assert make_printable("a\x1b[2J\u202eb\u200b\n") == "a\\x1b[2J\\u202eb\\u200b\\n"
    assert make_printable("né 日本 \udc80") == "né 日本 \\udc80"


def test_images_compare_by_value(tmp_path: Path) -> None:
    image = put(tmp_path, "base", ONE)
    assert replace(image, name="other") != image


def test_a_file_a_higher_layer_removed_is_not_there(tmp_path: Path) -> None:
    top, bottom = tmp_path / "top", tmp_path / "bottom"
    for folder in (top / "usr/lib", bottom / "usr/lib", bottom / "opt/gone", bottom / "etc"):
        folder.mkdir(parents=True)
    for name in ("usr/lib/removed", "usr/lib/kept", "opt/gone/inside"):
        (bottom / name).touch()
    (top / "usr/lib/new").touch()
    (top / "usr/lib/link").symlink_to("/etc/passwd")
    (top / "opt").mkdir()
    for name in ("usr/lib/removed", "opt/gone"):
        os.mknod(top / name, stat.S_IFCHR, 0)
    image = Image("x", "ab" * 32, (top, bottom), "/usr/bin/python3", "aarch64", 1.0, 4096, "a test")
    found = {name: image.has(f"/{name}") for name in (
        "usr/lib/kept", "usr/lib/new", "usr/lib/removed", "usr/lib/none", "usr/lib/link", "opt/gone/inside", "etc"
    )}  # fmt: skip
    assert [name for name, there in found.items() if there] == ["usr/lib/kept", "usr/lib/new"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_an_image_has_the_files_that_overlay_shows(tmp_path: Path) -> None:
    layers = [tmp_path / name for name in ("top", "middle", "bottom")]
    names = ("merged/x", "opaque/x", "opaque/deep/x", "file/x", "link/x", "gone/x", "shadowed", "plain")
    for name in names:
        for layer in layers[1:]:
            (layer / name).parent.mkdir(parents=True, exist_ok=True)
            (layer / name).touch()
    top, middle, _ = layers
    for name in ("merged", "opaque/deep", "shadowed"):
        (top / name).mkdir(parents=True)
    (top / "file").touch()
    (top / "link").symlink_to("merged")
    os.mknod(top / "gone", stat.S_IFCHR, 0)
    (top / "opaque/own").touch()
    for folder in (top / "opaque", middle / "merged", middle):
        os.setxattr(folder, "trusted.overlay.opaque", b"y")
    image = Image("x", "ab" * 32, tuple(layers), "/usr/bin/python3", "aarch64", 1.0, 4096, "a test")
    at = tmp_path / "at"
    at.mkdir()
    syscalls.mount("overlay", str(at), "overlay", syscalls.MS_RDONLY, f"lowerdir={':'.join(map(str, layers))}")
    try:
        paths = [*names, "opaque/own", "none"]
        shown = {name: (at / name).is_file() and not (at / name).parent.is_symlink() for name in paths}
    finally:
        syscalls.umount(str(at))
    assert {name: image.has(f"/{name}") for name in paths} == shown
    assert [name for name in shown if shown[name]] == ["merged/x", "plain", "opaque/own"]
