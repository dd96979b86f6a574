"""Attacks on saving an image: a writable layer, shaped by hand as no desk could, tries to add more than files."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.desk.image import store
from hotdesk.desk.image.copy import TreeLimits
from hotdesk.desk.image.image import Image, find, ls
from hotdesk.desk.keeper import capture
from hotdesk.desk.room import identity
from hotdesk.door.http import ca
from hotdesk.errors import ImageError
from hotdesk.linux import syscalls
from tests.security.guards import Removal, falls_without

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]
DESK = "i" + "a" * 20
SECRET = b"the host's own"
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 7, 0, 0, 0)
Save = Callable[[], Image]


@pytest.fixture
def upper() -> Iterator[Path]:
    """Yield a writable layer, beside a file of the host; removed by a program that handles any depth."""
    folder = Path(tempfile.mkdtemp())
    (folder / "secret").write_bytes(SECRET)
    (folder / "up").mkdir()
    yield folder / "up"
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture
def saved(upper: Path) -> Save:
    images = upper.parent / "images"
    config = Config(upper.parent / "run", upper.parent / "lib", images, disk_floor=0)
    publish(images, "base", "1" * 64)

    def save() -> Image:
        fd = os.open(upper, os.O_RDONLY | os.O_DIRECTORY)
        try:
            capture.save(config, fd, "base", "mine", DESK)
        finally:
            os.close(fd)
        return find(images, "mine")

    return save


def publish(images: Path, name: str, digest: str) -> Image:
    with store.writing(images, lambda line: None) as (work, _):
        (work / "tree").mkdir()
        (work / "tree/greeting").write_text("hello")
        layer = images / "layers" / digest
        return store.publish(images, Image(name, digest, (layer,), "/bin/python3", "", 1.0, 1, ""), work / "tree")


def refused(save: Save, images: Path) -> str:
    """Check that nothing was saved; return the reason."""
    with pytest.raises(ImageError) as caught:
        save()
    assert [image.name for image in ls(images)] == ["base"]
    assert os.listdir(images / "tmp") == []
    assert len(os.listdir(images / "layers")) == 1
    return str(caught.value)


@falls_without(
    "links that are not followed",
    Removal("image/copy.py", "os.lstat(self.at, dir_fd=self.source)", "os.stat(self.at, dir_fd=self.source)"),
    Removal("linux/openat2.py", "RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV", "0"),
    Removal("linux/openat2.py", "flags | os.O_NOFOLLOW | patient, STRICT", "flags & ~os.O_NOFOLLOW | patient, STRICT"),
)
@pytest.mark.parametrize("target", ["secret", "."])
def test_a_link_of_a_desk_adds_nothing_of_the_host(target: str, upper: Path, saved: Save) -> None:
    (upper / "link").symlink_to(upper.parent / target)
    assert (saved().layers[0] / "link").is_symlink()


@falls_without(
    "files that are read, and no other kind",
    Removal("image/copy.py", "kind in (stat.S_IFREG, stat.S_IFLNK):", "kind != stat.S_IFCHR or info.st_rdev:"),
    Removal(
        "image/copy.py", "        if stat.S_ISREG(info.st_mode):\n", "        if not stat.S_ISLNK(info.st_mode):\n"
    ),
    Removal("linux/openat2.py", "0 if flags & os.O_PATH else os.O_NONBLOCK", "0"),
)
def test_a_named_pipe_does_not_block_saving(upper: Path, saved: Save) -> None:
    os.mkfifo(upper / "pipe")
    assert os.listdir(saved().layers[0]) == []


@falls_without("files that are read, and no other kind")
def test_a_device_does_not_become_part_of_an_image(upper: Path, saved: Save) -> None:
    os.mknod(upper / "fuse", stat.S_IFCHR | 0o666, os.makedev(10, 229))
    os.mknod(upper / "disk", stat.S_IFBLK | 0o666, os.makedev(7, 0))
    assert os.listdir(saved().layers[0]) == []


@falls_without("modes without rights", Removal("image/copy.py", "RIGHTS = 0o6000", "RIGHTS = 0"))
def test_setuid_bits_do_not_become_part_of_an_image(upper: Path, saved: Save) -> None:
    (upper / "folder").mkdir()
    (upper / "file").touch()
    for name in ("file", "folder"):
        (upper / name).chmod(0o6755)
    layer = saved().layers[0]
    assert [stat.S_IMODE((layer / name).stat().st_mode) for name in ("file", "folder")] == [0o755, 0o755]


@falls_without(
    "attributes by name",
    Removal("image/copy.py", 'if key.startswith("user.") or (key, value) == (OPAQUE, b"y"):', "if key:"),
    cases="capability | redirect | metacopy | other whiteouts",
)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("security.capability", CAPABILITY),
        ("trusted.overlay.redirect", b"/etc"),
        ("trusted.overlay.metacopy", b""),
        ("trusted.overlay.opaque", b"x"),
    ],
    ids=["capability", "redirect", "metacopy", "other whiteouts"],
)
def test_no_extended_attribute_with_a_meaning_outside_is_saved(
    key: str, value: bytes, upper: Path, saved: Save
) -> None:
    (upper / "folder").mkdir()
    (upper / "file").touch()
    for name in ("file", "folder"):
        os.setxattr(upper / name, key, value)
    layer = saved().layers[0]
    assert [os.listxattr(layer / name) for name in ("file", "folder")] == [[], []]


@falls_without(
    "owners of a desk's own", Removal("image/copy.py", "number if 0 <= number < 1 << 16 else NOBODY", "number")
)
def test_an_owner_outside_the_desks_user_ids_is_not_saved(upper: Path, saved: Save) -> None:
    (upper / "file").touch()
    os.chown(upper / "file", 1879048192, 1879048192)
    assert (saved().layers[0] / "file").stat().st_uid == 65534


@falls_without(
    "one mount",
    Removal("linux/openat2.py", "RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV", "RESOLVE_NO_SYMLINKS"),
)
def test_files_mounted_into_a_layer_are_not_copied(upper: Path, saved: Save) -> None:
    (upper / "mounted").mkdir()
    (upper.parent / "host").mkdir()
    (upper.parent / "host/secret").write_bytes(SECRET)
    syscalls.mount(str(upper.parent / "host"), str(upper / "mounted"), None, syscalls.MS_BIND)
    try:
        assert "/mounted cannot be copied" in refused(saved, upper.parent / "images")
    finally:
        syscalls.umount(str(upper / "mounted"))


@falls_without(
    "a depth that can be cleared away",
    Removal("image/copy.py", "if len(self.levels) > self.limits.depth:", "if len(self.levels) > 9000:"),
)
def test_a_deep_tree_is_refused_and_leaves_nothing(upper: Path, saved: Save) -> None:
    fd = os.open(upper, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("x" * 255, dir_fd=fd)
        inner = os.open("x" * 255, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    said = refused(saved, upper.parent / "images")
    assert f"more than {TreeLimits().depth} levels deep" in said
    assert len(said) < 400


@falls_without(
    "holes that are not read",
    Removal("image/content.py", "            start = os.lseek(fd, start, os.SEEK_DATA)\n", "            pass\n"),
)
def test_a_sparse_file_of_many_terabytes_costs_nothing(upper: Path, saved: Save) -> None:
    (upper / "file").touch()
    os.truncate(upper / "file", 15 << 40)
    assert (saved().layers[0] / "file").stat().st_blocks == 0


@falls_without(
    "bytes that are counted",
    Removal("image/copy.py", "        if self.size > self.limits.size:\n", "        if self.size < 0:\n"),
)
def test_a_layer_larger_than_the_room_for_it_is_refused(upper: Path, saved: Save) -> None:
    (upper / "file").write_bytes(b"x" * 100_000)
    place = upper.parent
    config = Config(place / "run", place / "lib", place / "images", disk_floor=1 << 60)

    def save() -> Image:
        fd = os.open(upper, os.O_RDONLY)
        try:
            capture.save(config, fd, "base", "mine", DESK)
        finally:
            os.close(fd)
        return find(config.images, "mine")

    assert "/file does not fit: the image would need more than" in refused(save, config.images)


@falls_without(
    "names that are escaped",
    Removal("image/copy.py", "make_printable(os.fsdecode(path[-SHOWN:]))", "os.fsdecode(path[-SHOWN:])"),
)
def test_a_file_name_with_control_characters_is_escaped_in_reports(upper: Path, saved: Save) -> None:
    name = "\x1b]0;owned\x07\u202e"
    (upper / name).mkdir()
    syscalls.mount("none", str(upper / name), "tmpfs", 0)
    try:
        assert refused(saved, upper.parent / "images").isprintable()
    finally:
        syscalls.umount(str(upper / name))


@falls_without(
    "nothing of a desk's own self",
    Removal("image/copy.py", "if path is not None and self.skips(self.source, path):", "if path is None:"),
)
def test_an_image_contains_neither_its_desks_authority_nor_its_machine_id(upper: Path, saved: Save) -> None:
    authority = ca.new_authority(DESK, ca.get_utc_now()).certificate_pem.decode()
    for path, data in (identity.build_trust_files(authority) | {"etc/machine-id": b"0" * 32}).items():
        (upper / path).parent.mkdir(parents=True, exist_ok=True)
        (upper / path).write_bytes(data)
    assert [path for path in saved().layers[0].rglob("*") if not path.is_dir()] == []


@falls_without(
    "a digest over all layers",
    Removal("keeper/capture.py", "*(layer.name for layer in below.layers), below.python", "below.python"),
)
def test_bytecode_of_one_image_is_not_found_by_another(upper: Path, saved: Save) -> None:
    first = saved()
    publish(upper.parent / "images", "base", "2" * 64)
    second = saved()
    assert first.layers[0] == second.layers[0]
    assert first.digest != second.digest


@falls_without(
    "a whiteout for what is left out",
    Removal("image/copy.py", "(path is not None and not top.opaque and self.covers(self.source, path))", "False"),
)
def test_a_file_the_desk_removed_does_not_come_back(upper: Path, saved: Save) -> None:
    os.mkfifo(upper / "greeting")
    hidden = (saved().layers[0] / "greeting").lstat()
    assert (stat.S_IFMT(hidden.st_mode), hidden.st_rdev) == (stat.S_IFCHR, 0)
