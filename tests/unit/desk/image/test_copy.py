"""Tests of copying hostile file trees: the content arrives complete, and nothing else does."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import socket
import stat
import struct
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.desk.image.content import WINDOW
from hotdesk.desk.image.copy import TreeLimits, copy
from hotdesk.errors import ImageError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making hostile trees needs root")

DEFAULTS = TreeLimits()
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 7, 0, 0, 0)
WHEN = 1_234_567_890_123_456_789


class Trees:
    """A tree to fill by hand, and copies of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "source"
        self.source.mkdir(0o755)
        self.copies = 0

    def copy(self, limits: TreeLimits = DEFAULTS, skipped: bytes = b"", covered: bytes = b"") -> tuple[Path, str]:
        """Copy the tree; return the copy and its digest."""
        self.copies += 1
        tree, links = self.folder / f"copy-{self.copies}", self.folder / f"links-{self.copies}"
        tree.mkdir()
        links.mkdir()
        fd = os.open(self.source, os.O_RDONLY | os.O_DIRECTORY)
        try:
            digest = copy(fd, tree, links, lambda _, path: path == skipped, lambda _, path: path == covered, limits)
        finally:
            os.close(fd)
        return tree, digest


@pytest.fixture
def trees() -> Iterator[Trees]:
    """Yield a tree to fill, removed by a program that handles any depth, as pytest's own clean-up does not."""
    folder = Path(tempfile.mkdtemp())
    yield Trees(folder)
    subprocess.run(["rm", "-rf", folder], check=True)


def facts(tree: Path) -> dict[bytes, object]:
    """Describe a tree by path: kinds, modes, owners, times, attributes, targets, content, and hard links."""
    found: dict[bytes, object] = {}
    first: dict[int, bytes] = {}
    root = os.fsencode(tree)
    paths = [root]
    for above, folders, files in os.walk(root):
        paths += [os.path.join(above, name) for name in (*folders, *files)]
    for path in sorted(paths):
        name, info = path[len(root) :], os.lstat(path)
        keys = sorted(os.listxattr(path, follow_symlinks=False))
        kept = {key: os.getxattr(path, key, follow_symlinks=False) for key in keys}
        held: object = None
        if stat.S_ISLNK(info.st_mode):
            held = os.readlink(path)
        elif stat.S_ISREG(info.st_mode):
            with open(path, "rb") as file:
                held = hashlib.file_digest(file, "sha256").hexdigest() if info.st_size < 1 << 24 else info.st_size
        elif stat.S_ISCHR(info.st_mode):
            found[name] = ("device", info.st_rdev)
            continue
        same = first.setdefault(info.st_ino, name)
        found[name] = (info.st_mode, info.st_uid, info.st_gid, info.st_mtime_ns, kept, held, same)
    return found


@contextmanager
def few_descriptors(count: int) -> Iterator[None]:
    """Limit the number of files this process may open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_copy_is_like_its_source(trees: Trees) -> None:
    source = trees.source
    (source / "bin").mkdir(0o751)
    (source / "bin/program").write_bytes(os.urandom(300_000))
    (source / "bin/program").chmod(0o755)
    (source / "closed").mkdir()
    (source / "closed/empty").touch()
    (source / "closed").chmod(0o000)
    (source / "shared").mkdir()
    (source / "shared").chmod(0o1777)
    os.chown(source / "bin/program", 1000, 1000)
    os.chown(source / "shared", 65534, 65534)
    os.utime(source / "bin/program", ns=(WHEN, WHEN))
    os.utime(source / "bin", ns=(WHEN + 1, WHEN + 1))
    os.utime(source, ns=(-WHEN, -5))
    tree, _ = trees.copy()
    assert facts(tree) == facts(source)


def test_links_are_copied_with_their_targets(trees: Trees) -> None:
    source = trees.source
    for name, target in {"out": "/etc", "up": "../../..", "self": "self", "loop": "pool", "pool": "loop"}.items():
        (source / name).symlink_to(target)
        os.utime(source / name, ns=(WHEN, WHEN), follow_symlinks=False)
    os.chown(source / "out", 1000, 1000, follow_symlinks=False)
    (source / "long").symlink_to("x" * 4095)
    os.link(source / "out", source / "out again", follow_symlinks=False)
    tree, _ = trees.copy()
    assert facts(tree) == facts(source)


def test_pipes_sockets_and_devices_are_omitted_without_blocking(trees: Trees) -> None:
    source = trees.source
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(source / "socket"))
    os.mknod(source / "kmsg", stat.S_IFCHR | 0o666, os.makedev(1, 11))
    os.mknod(source / "disk", stat.S_IFBLK | 0o666, os.makedev(7, 0))
    (source / "file").touch()
    began = time.monotonic()
    tree, _ = trees.copy()
    assert os.listdir(tree) == ["file"]
    assert time.monotonic() - began < 5


def test_an_omitted_file_does_not_uncover_a_lower_one(trees: Trees) -> None:
    os.mkfifo(trees.source / "pipe")
    (trees.source / "new").mkdir()
    os.setxattr(trees.source / "new", "trusted.overlay.opaque", b"y")
    os.mkfifo(trees.source / "new/pipe")
    tree, _ = trees.copy(covered=b"pipe")
    assert stat.S_ISCHR((tree / "pipe").lstat().st_mode)
    assert (tree / "pipe").lstat().st_rdev == 0
    tree, _ = trees.copy(covered=b"new/pipe")
    assert os.listdir(tree) == ["new"]
    assert os.listdir(tree / "new") == []


def test_set_id_bits_and_capabilities_are_not_copied(trees: Trees) -> None:
    source = trees.source
    (source / "folder").mkdir()
    (source / "file").touch()
    for name in ("file", "folder"):
        (source / name).chmod(0o7755)
    os.setxattr(source / "file", "security.capability", CAPABILITY)
    tree, _ = trees.copy()
    assert [stat.S_IMODE((tree / name).stat().st_mode) for name in ("file", "folder")] == [0o1755, 0o1755]
    assert os.listxattr(tree / "file") == []


def test_an_owner_no_desk_has_becomes_nobody(trees: Trees) -> None:
    (trees.source / "file").touch()
    os.chown(trees.source / "file", 1879048192, 70000)
    tree, _ = trees.copy()
    assert ((tree / "file").stat().st_uid, (tree / "file").stat().st_gid) == (65534, 65534)


def test_only_harmless_attributes_are_kept(trees: Trees) -> None:
    file, folder = trees.source / "file", trees.source / "folder"
    file.touch()
    folder.mkdir()
    for path in (file, folder):
        os.setxattr(path, "user.note", b"\0 any bytes \xff")
        os.setxattr(path, "user.empty", b"")
        os.setxattr(path, "trusted.overlay.origin", b"\0\xfb")
    os.setxattr(folder, "trusted.overlay.opaque", b"y")
    os.setxattr(folder, "trusted.overlay.redirect", b"/etc")
    os.setxattr(file, "trusted.overlay.metacopy", b"")
    os.setxattr(trees.source, "trusted.overlay.opaque", b"x")
    tree, _ = trees.copy()
    assert sorted(os.listxattr(tree / "file")) == ["user.empty", "user.note"]
    assert sorted(os.listxattr(tree / "folder")) == ["trusted.overlay.opaque", "user.empty", "user.note"]
    assert os.getxattr(tree / "file", "user.note") == b"\0 any bytes \xff"
    assert os.listxattr(tree) == []


def test_hard_links_stay_links_far_apart_and_deep_down(trees: Trees) -> None:
    deep = trees.source.joinpath(*["folder " + "x" * 200] * 12)
    deep.mkdir(parents=True)
    (trees.source / "a").write_text("one")
    os.link(trees.source / "a", deep / "b")
    os.link(trees.source / "a", trees.source / "z")
    (trees.source / "other").write_text("one")
    tree, _ = trees.copy()
    copied = tree / deep.relative_to(trees.source) / "b"
    assert copied.stat().st_ino == (tree / "a").stat().st_ino == (tree / "z").stat().st_ino
    assert (tree / "other").stat().st_ino != copied.stat().st_ino
    assert facts(tree) == facts(trees.source)


@pytest.mark.timeout(30)
def test_a_sparse_file_stays_sparse_and_counts_only_its_data(trees: Trees) -> None:
    with (trees.source / "sparse").open("wb") as file:
        file.seek(5 << 30)
        file.write(b"in the middle")
        file.truncate(10 << 30)
    (trees.source / "nothing").touch()
    os.truncate(trees.source / "nothing", 15 << 40)
    began = time.monotonic()
    tree, _ = trees.copy(TreeLimits(size=1 << 20))
    assert time.monotonic() - began < 5
    for name in ("sparse", "nothing"):
        copied, source = (tree / name).stat(), (trees.source / name).stat()
        assert copied.st_size == source.st_size
        assert copied.st_blocks <= 16
    with (tree / "sparse").open("rb") as file:
        file.seek(5 << 30)
        assert file.read(20) == b"in the middle" + bytes(7)


def test_zeros_and_holes_have_the_same_digest(trees: Trees) -> None:
    size = 3 * WINDOW + 100
    data = bytearray(size)
    data[WINDOW + 5000] = 1
    data[-1] = 1
    (trees.source / "file").write_bytes(data)
    whole, written = trees.copy()
    (trees.source / "file").unlink()
    fd = os.open(trees.source / "file", os.O_WRONLY | os.O_CREAT, 0o644)
    os.ftruncate(fd, size)
    os.pwrite(fd, b"\1", WINDOW + 5000)
    os.pwrite(fd, b"\1", size - 1)
    os.close(fd)
    sparse, holed = trees.copy()
    assert written == holed
    assert (whole / "file").read_bytes() == (sparse / "file").read_bytes() == data


def test_names_of_any_bytes_are_kept(trees: Trees) -> None:
    root = os.fsencode(trees.source)
    names = [b"\xff\xfe", b"new\nline", b"\x1b[2J", b"x" * 255, b"\xc3" * 255, b" ", "\u202e.txt".encode()]
    for name in names:
        (Path(os.fsdecode(root + b"/" + name))).write_bytes(name)
    tree, _ = trees.copy()
    assert sorted(os.listdir(os.fsencode(tree))) == sorted(names)
    assert facts(tree) == facts(trees.source)


def deepen(folder: Path, depth: int, name: str) -> None:
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


def unmake(folder: Path) -> int:
    """Remove nested folders from the bottom up, and count them; `rm` takes a minute for so many."""
    fd = os.open(folder, os.O_RDONLY)
    names: list[str] = []
    while (found := os.listdir(fd)) != ["bottom"]:
        names.append(found[0])
        inner = os.open(found[0], os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.unlink("bottom", dir_fd=fd)
    for name in reversed(names):
        above = os.open("..", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = above
        os.rmdir(name, dir_fd=fd)
    os.close(fd)
    return len(names)


@pytest.mark.slow
@pytest.mark.parametrize("levels", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_thousands_of_levels_need_neither_stack_nor_descriptors(trees: Trees, levels: int) -> None:
    deepen(trees.source, levels, "level")
    with few_descriptors(64):
        tree, _ = trees.copy(TreeLimits(depth=20_000))
    assert unmake(tree) == unmake(trees.source) == levels


def test_a_tree_too_deep_is_refused_and_can_be_cleared_away(trees: Trees) -> None:
    deepen(trees.source, 300, "level")
    with pytest.raises(ImageError, match=r"level/level is nested more than 256 levels deep") as caught:
        trees.copy()
    assert len(str(caught.value)) < 400
    shutil.rmtree(trees.folder / "copy-1")
    shutil.rmtree(trees.source)


def test_no_more_names_are_read_than_an_image_may_have(trees: Trees) -> None:
    for number in range(5_000):
        (trees.source / f"{number:0200}").touch()
    tracemalloc.start()
    try:
        with pytest.raises(ImageError, match="more than 100 files and folders"):
            trees.copy(TreeLimits(entries=100))
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


def test_entries_and_bytes_are_counted(trees: Trees) -> None:
    for number in range(20):
        (trees.source / f"{number}").write_bytes(bytes([number + 1]) * 1000)
    trees.copy(TreeLimits(entries=20, size=20_000))
    with pytest.raises(ImageError, match="has more than 19 files and folders"):
        trees.copy(TreeLimits(entries=19))
    with pytest.raises(ImageError, match="/9 does not fit: the image would need more than the available 19999 bytes"):
        trees.copy(TreeLimits(size=19_999))
    os.setxattr(trees.source / "0", "user.large", b"x" * 1000)
    with pytest.raises(ImageError, match="more than the available 20000 bytes"):
        trees.copy(TreeLimits(size=20_000))


def test_a_file_that_cannot_be_copied_is_named_escaped(trees: Trees) -> None:
    folder = trees.source / "a\x1b[2Jb"
    folder.mkdir()
    (folder / "too\nlong").touch()
    os.truncate(folder / "too\nlong", 1 << 42)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, before[1]))
    try:
        with pytest.raises(ImageError) as caught:
            trees.copy()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(caught.value) == "/a\\x1b[2Jb/too\\nlong cannot be copied: File too large"


def test_a_skipped_path_is_not_copied(trees: Trees) -> None:
    (trees.source / "etc").mkdir()
    (trees.source / "etc/hostname").write_text("me")
    (trees.source / "etc/other").write_text("you")
    tree, digest = trees.copy(skipped=b"etc/hostname")
    assert os.listdir(tree / "etc") == ["other"]
    (trees.source / "etc/hostname").unlink()
    assert trees.copy()[1] == digest


def change_content(source: Path) -> None:
    (source / "a/file").write_text("b")


def change_mode(source: Path) -> None:
    (source / "a/file").chmod(0o600)


def change_owner(source: Path) -> None:
    os.chown(source / "a", 1000, 0)


def change_target(source: Path) -> None:
    (source / "link").unlink()
    (source / "link").symlink_to("elsewhere")


def change_name(source: Path) -> None:
    (source / "a/file").rename(source / "a/fil")


def change_place(source: Path) -> None:
    (source / "a/file").rename(source / "file")


def change_kind(source: Path) -> None:
    (source / "a/file").unlink()
    (source / "a/file").mkdir()


def change_length(source: Path) -> None:
    os.truncate(source / "a/file", 2)


def change_attribute(source: Path) -> None:
    os.setxattr(source / "a/file", "user.x", b"")


def change_opacity(source: Path) -> None:
    os.setxattr(source / "a", "trusted.overlay.opaque", b"y")


def change_whiteout(source: Path) -> None:
    os.mknod(source / "gone", stat.S_IFCHR, 0)


def change_twin(source: Path) -> None:
    (source / "twin").unlink()
    os.link(source / "a/file", source / "twin")


CHANGES = [value for name, value in sorted(globals().items()) if name.startswith("change_")]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_trees_that_differ_have_different_digests(change: object, trees: Trees) -> None:
    (trees.source / "a").mkdir()
    (trees.source / "a/file").write_text("a")
    (trees.source / "twin").write_text("a")
    (trees.source / "link").symlink_to("a")
    _, before = trees.copy()
    os.utime(trees.source / "a/file", ns=(1, 1))
    assert trees.copy()[1] == before
    assert callable(change)
    change(trees.source)
    assert trees.copy()[1] != before


NAMES = st.binary(min_size=1, max_size=12).filter(lambda name: not set(name) & {0, 47} and name not in (b".", b".."))
CONTENT = st.builds(
    lambda pieces: b"".join(byte * count for byte, count in pieces),
    st.lists(st.tuples(st.sampled_from([b"\0", b"a", b"\xff"]), st.integers(0, 9000)), max_size=4),
)
MODES = st.integers(0, 0o1777)
OWNERS = st.sampled_from([0, 1, 999, 1000, 65534])
FILES = st.tuples(st.just("file"), MODES, OWNERS, CONTENT)
LINKS = st.tuples(st.just("link"), st.just(0), OWNERS, NAMES)
TWINS = st.tuples(st.just("twin"), st.just(0), st.just(0), st.integers(0, 50))
LEAVES = st.one_of(FILES, LINKS, TWINS)
FOLDERS = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=5),
    lambda inner: st.dictionaries(
        NAMES, st.one_of(LEAVES, st.tuples(st.just("folder"), MODES, OWNERS, inner)), max_size=5
    ),
    max_leaves=12,
)


def plant(folder: bytes, content: dict[bytes, tuple[str, int, int, object]], planted: list[bytes]) -> None:
    for name, (kind, mode, owned, what) in content.items():
        path = folder + b"/" + name
        if kind == "twin":
            if planted:
                assert isinstance(what, int)
                os.link(planted[what % len(planted)], path, follow_symlinks=False)
            continue
        if kind == "link":
            assert isinstance(what, bytes)
            os.symlink(what, path)
            planted.append(path)
        elif kind == "file":
            assert isinstance(what, bytes)
            Path(os.fsdecode(path)).write_bytes(what)
            planted.append(path)
        else:
            assert isinstance(what, dict)
            os.mkdir(path)
            plant(path, what, planted)
        os.chown(path, owned, owned, follow_symlinks=False)
        if kind != "link":
            os.chmod(path, mode)
        os.utime(path, ns=(mode, mode * 1_000_000_007), follow_symlinks=False)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(content=FOLDERS)
def test_every_tree_is_copied_as_it_is(content: dict[bytes, tuple[str, int, int, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trees = Trees(Path(folder))
        plant(os.fsencode(trees.source), content, [])
        tree, digest = trees.copy()
        assert facts(tree) == facts(trees.source)
        shutil.rmtree(trees.source)
        tree.rename(trees.source)
        assert trees.copy()[1] == digest
