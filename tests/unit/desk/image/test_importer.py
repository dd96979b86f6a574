"""Tests of importing hostile archives: nothing outside the tree changes, no rights are gained, all is counted."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest

from hotdesk.desk.image import manifests
from hotdesk.desk.image.archive import CopiedFolder, Folder, Wrapped, decompress_stream, detect_kind
from hotdesk.desk.image.image import Image
from hotdesk.desk.image.importer import copy_archive, import_image, open_archive
from hotdesk.desk.image.normalise import FILES, find_python, furnish, strip
from hotdesk.desk.image.untar import ArchiveBudget, ArchiveLimits, apply_whiteouts, unpack
from hotdesk.desk.image.unwrap import squash
from hotdesk.errors import ImageError
from hotdesk.linux.openat2 import RootDirectory

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")

Entry = tuple[str, dict[str, object], bytes]
SECRET = "the host's own"
ESCAPED = f"hotdesk-escaped-{os.getpid()}"


def entry(name: str, data: bytes = b"", **fields: object) -> Entry:
    return name, fields, data


def file(name: str, data: bytes = b"x", **fields: object) -> Entry:
    return entry(name, data, type=tarfile.REGTYPE, **fields)


def folder(name: str, **fields: object) -> Entry:
    return name, {"type": tarfile.DIRTYPE, "mode": 0o755, **fields}, b""


def symlink(name: str, target: str) -> Entry:
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def hard(name: str, target: str) -> Entry:
    return entry(name, type=tarfile.LNKTYPE, linkname=target)


def archive(*entries: Entry) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as tar:
        for name, fields, data in entries:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a directory to unpack into, with a file beside it that must not change."""
    (tmp_path / "outside").write_text(SECRET)
    (tmp_path / "outside-folder").mkdir()
    inside = tmp_path / "tree"
    inside.mkdir(0o755)
    return inside


def put(tree: Path, *entries: Entry, limits: ArchiveLimits | None = None, layer: bool = False) -> None:
    with RootDirectory(tree) as root:
        data = archive(*entries)
        if layer:
            apply_whiteouts(root, io.BytesIO(data), ArchiveLimits())
        unpack(root, io.BytesIO(data), ArchiveBudget(limits or ArchiveLimits()), layer)


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Describe everything below a directory except the tree."""
    found = {}
    for path in folder.rglob("*"):
        if "tree" not in path.relative_to(folder).parts:
            info = path.lstat()
            found[str(path)] = (info.st_mode, info.st_nlink, path.read_bytes() if path.is_file() else b"")
    return found


def test_an_ordinary_tree_is_unpacked_as_it_was(tree: Path) -> None:
    put(
        tree,
        folder("./usr/", mode=0o755),
        folder("./usr/bin"),
        symlink("./bin", "usr/bin"),
        file("./bin/tool", b"#!", mode=0o755, uid=0, gid=7, mtime=1_700_000_000),
        hard("./usr/bin/tool2", "./usr/bin/tool"),
        file("tmp/deep/er/file", b"made parents", uid=1000, gid=1000),
    )
    tool = tree / "usr/bin/tool"
    assert (tool.read_bytes(), stat.S_IMODE(tool.stat().st_mode), tool.stat().st_gid) == (b"#!", 0o755, 7)
    assert tool.stat().st_mtime == 1_700_000_000
    assert tool.samefile(tree / "usr/bin/tool2")
    assert os.readlink(tree / "bin") == "usr/bin"
    assert (tree / "tmp/deep/er/file").stat().st_uid == 1000


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([file("/outside"), file("//etc//passwd")], id="absolute names"),
        pytest.param([file("../outside")], id="dot dot"),
        pytest.param([file("a/../../outside")], id="dot dot further in"),
        pytest.param([symlink("up", ".."), file("up/outside")], id="a link up, then through it"),
        pytest.param([symlink("up", "../../../../../../../.."), file(f"up/tmp/{ESCAPED}")], id="a link far up"),
        pytest.param([symlink("abs", "{outside}"), file("abs/x")], id="an absolute link, then through it"),
        pytest.param([symlink("abs", "{outside}/../outside"), file("abs")], id="over a link to a file"),
        pytest.param([hard("mine", "../outside"), file("mine")], id="a hard link outside"),
        pytest.param([symlink("up", ".."), hard("mine", "up/outside"), file("mine")], id="a hard link by a link"),
        pytest.param([symlink("l", "{outside}"), hard("m", "l"), file("m/x")], id="a hard link to a link"),
        pytest.param([symlink("proc", "/proc/self/root"), file(f"proc/tmp/{ESCAPED}")], id="a magic link"),
        pytest.param([symlink("a", "b"), symlink("b", "a"), file("a/x")], id="a loop"),
        pytest.param([symlink("up", ".."), folder("up/outside-folder", mode=0o777)], id="a mode outside"),
        pytest.param(
            [folder("d"), symlink("d/l", "../.."), symlink("d", "{outside}"), file("d/x")], id="a folder replaced"
        ),
        pytest.param([symlink("." + "/x" * 20, ".."), file("x")], id="over a deep folder"),
    ],
)
def test_nothing_outside_the_tree_changes(tree: Path, entries: list[Entry]) -> None:
    outside = str(tree.parent / "outside-folder")
    filled = [
        (name, {k: v.replace("{outside}", outside) if isinstance(v, str) else v for k, v in fields.items()}, data)
        for name, fields, data in entries
    ]
    before = snapshot(tree.parent)
    try:
        put(tree, *filled)
    except (ImageError, OSError):
        pass
    assert snapshot(tree.parent) == before
    assert not Path("/tmp", ESCAPED).exists()


def test_an_absolute_link_is_resolved_inside_the_tree(tree: Path) -> None:
    put(tree, folder("run"), folder("var"), symlink("var/run", "/run"), file("var/run/pid", b"1"))
    assert (tree / "run/pid").read_bytes() == b"1"


def test_no_entry_has_set_id_bits(tree: Path) -> None:
    put(
        tree,
        file("su", mode=0o4755),
        file("mail", mode=0o2755),
        folder("staff", mode=0o2775),
        folder("tmp", mode=0o1777),
        entry("fuse", type=tarfile.CHRTYPE, devmajor=10, devminor=229, mode=0o666),
        entry("disk", type=tarfile.BLKTYPE, devmajor=8, devminor=0, mode=0o666),
        entry("whiteout", type=tarfile.CHRTYPE, devmajor=0, devminor=0),
        entry("pipe", type=tarfile.FIFOTYPE),
        file("capable", pax_headers={"SCHILY.xattr.security.capability": "\x01\x00\x00\x02"}),
        file("opaque", pax_headers={"SCHILY.xattr.trusted.overlay.opaque": "y"}),
    )
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in tree.iterdir()}
    assert modes == {"su": 0o755, "mail": 0o755, "staff": 0o775, "tmp": 0o1777, "capable": 0o644, "opaque": 0o644}
    assert all(os.listxattr(path) == [] for path in tree.iterdir())


@pytest.mark.parametrize(
    ("asked", "given"), [(0, 0), (65535, 65535), (65536, 65534), (1 << 31, 65534), (1 << 40, 65534)]
)
def test_owners_stay_in_a_desks_range(tree: Path, asked: int, given: int) -> None:
    put(tree, file("x", uid=asked, gid=asked, uname="root", gname="root"))
    info = (tree / "x").stat()
    assert (info.st_uid, info.st_gid) == (given, given)


@pytest.mark.parametrize("when", [-1.0, 1e300, float("inf"), float("nan")])
def test_impossible_times_are_the_epoch(tree: Path, when: float) -> None:
    put(tree, file("x", pax_headers={"mtime": str(when)}))
    assert (tree / "x").stat().st_mtime == 0


def test_names_are_bytes(tree: Path) -> None:
    put(tree, file("caf\udce9"), file("日本"), file("new\nline"), symlink("l\udcff", "caf\udce9"))
    names = {b"caf\xe9", "日本".encode(), b"new\nline", b"l\xff"}
    assert set(os.listdir(os.fsencode(tree))) == names


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x" * 256, "a name of more than 255 bytes"),
        ("d/" * 256 + "x", "an invalid path"),
        ("y/" * 2100, "an invalid path"),
    ],
)
def test_impossible_names_are_refused(tree: Path, name: str, said: str) -> None:
    with pytest.raises(ImageError, match=said):
        put(tree, file(name))


def test_folders_that_links_lead_to_count_as_deep_as_they_are(tree: Path) -> None:
    put(tree, file("d/" * 255 + "x"))
    with pytest.raises(ImageError, match="in 256 levels"):
        put(tree, symlink("l", "d/" * 250), folder("l/a/b/c/e/f/g/h"))
    with pytest.raises(ImageError, match="in 256 levels"):
        put(tree, symlink("l", "d/" * 255), folder("l/a/b"))


def test_parents_that_no_entry_names_are_counted(tree: Path) -> None:
    put(tree, file("a/b/c"), file("a/b/d"), limits=ArchiveLimits(entries=4))
    with pytest.raises(ImageError, match="more than 10 entries"):
        put(tree, *(file(f"{number}/" * 100 + "x") for number in range(10)), limits=ArchiveLimits(entries=10))
    assert sum(1 for _ in tree.rglob("*")) <= 4 + 10


@pytest.mark.long
def test_a_hundred_thousand_entries_stop_at_the_limit(tree: Path) -> None:
    entries = [file(f"f{number}", b"") for number in range(100_000)]
    began = time.monotonic()
    with pytest.raises(ImageError, match="more than 1000 entries"):
        put(tree, *entries, limits=ArchiveLimits(entries=1000))
    assert len(os.listdir(tree)) <= 1000
    assert time.monotonic() - began < 60


def test_bytes_stop_at_the_limit(tree: Path) -> None:
    with pytest.raises(ImageError, match="more than 1000 bytes"):
        put(tree, file("a", b"x" * 600), file("b", b"x" * 600), limits=ArchiveLimits(size=1000))
    assert not (tree / "b").exists()


def test_a_huge_hole_counts_with_its_unpacked_size(tree: Path) -> None:
    headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "hole"}
    headers |= {"GNU.sparse.size": str(1 << 50), "GNU.sparse.numblocks": "1", "GNU.sparse.map": f"{(1 << 50) - 1},1"}
    with pytest.raises(ImageError, match="more than"):
        put(tree, file("hole", b"x", pax_headers=headers))
    assert os.listdir(tree) == []


def test_a_compressed_bomb_stops_at_the_limit(tree: Path) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    stream = decompress_stream(io.BufferedReader(io.BytesIO(bomb)), ArchiveLimits(entries=1, size=1 << 20))
    with pytest.raises(ImageError, match="unpacks to more than"):
        shutil.copyfileobj(stream, io.BytesIO())


def test_a_truncated_archive_is_an_error(tree: Path) -> None:
    data = archive(file("a", b"x" * 10_000))
    with RootDirectory(tree) as root, pytest.raises(tarfile.ReadError):
        unpack(root, io.BytesIO(data[:5000]), ArchiveBudget(ArchiveLimits()), layer=False)


def test_whiteouts_remove_files_of_lower_layers(tree: Path) -> None:
    put(
        tree,
        folder("etc"),
        file("etc/gone"),
        file("etc/kept"),
        folder("d/e/f"),
        file("d/e/f/g"),
        file("d/h"),
        layer=True,
    )
    put(tree, file("etc/.wh.gone", b""), file("d/new"), file("d/.wh..wh..opq", b""), file(".wh.nothing"), layer=True)
    assert sorted(str(path.relative_to(tree)) for path in tree.rglob("*")) == ["d", "d/new", "etc", "etc/kept"]


@pytest.mark.parametrize("name", [".wh...", ".wh..", ".wh.", "up/.wh.outside", ".wh..wh.plnk", "up/.wh..wh..opq"])
def test_whiteouts_remove_nothing_outside(tree: Path, name: str) -> None:
    before = snapshot(tree.parent)
    put(tree, symlink("up", ".."), file("kept"), layer=True)
    put(tree, file(name, b""), layer=True)
    assert snapshot(tree.parent) == before
    assert tree.is_dir()


def test_a_whiteout_is_a_file_like_any_other_outside_of_layers(tree: Path) -> None:
    put(tree, file("kept"), file(".wh.kept"))
    assert sorted(os.listdir(tree)) == [".wh.kept", "kept"]


def test_a_folder_may_become_a_link_between_layers(tree: Path) -> None:
    before = snapshot(tree.parent)
    put(tree, folder("lib"), file("lib/old"), folder("usr/lib"), layer=True)
    put(tree, symlink("lib", "usr/lib"), file("lib/new"), layer=True)
    put(tree, folder("usr/lib"), file("usr"), symlink("lib", str(tree.parent)), file("x"), layer=True)
    assert (tree / "usr").read_bytes() == b"x"
    assert snapshot(tree.parent) == before


def test_a_link_may_become_a_folder_between_layers(tree: Path) -> None:
    put(tree, symlink("opt", str(tree.parent / "outside-folder")), layer=True)
    put(tree, folder("opt"), file("opt/x"), layer=True)
    assert (tree / "opt").is_dir()
    assert not (tree / "opt").is_symlink()
    assert os.listdir(tree.parent / "outside-folder") == []


HEX = "a" * 64


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["usr/bin/x", "index.json"], "tar"),
        (["./", "./etc/passwd"], "tar"),
        (["manifest.json", "usr"], "tar"),
        ([], "tar"),
        (["oci-layout", "index.json", f"blobs/sha256/{HEX}"], "oci"),
        (["./oci-layout", "./index.json", "./manifest.json", f"./blobs/sha256/{HEX}"], "oci"),
        (["manifest.json", f"{HEX}.json", f"{HEX}/layer.tar", "repositories"], "docker"),
    ],
)
def test_an_archive_is_recognised_by_its_content(names: list[str], kind: str) -> None:
    assert detect_kind(io.BytesIO(archive(*(file(name) for name in names)))) == kind


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def blob(folder: Path, data: bytes) -> dict[str, object]:
    (folder / "blobs/sha256").mkdir(parents=True, exist_ok=True)
    (folder / "blobs/sha256" / hashlib.sha256(data).hexdigest()).write_bytes(data)
    return {"digest": digest_of(data), "size": len(data)}


def make_layout(folder: Path, *layers: bytes, arch: str = "arm64") -> None:
    config = blob(folder, json.dumps({"architecture": arch}).encode())
    manifest = {"config": config, "layers": [blob(folder, layer) for layer in layers]}
    found = blob(folder, json.dumps(manifest).encode()) | {"platform": {"architecture": arch, "os": "linux"}}
    other = {"digest": digest_of(b"other"), "platform": {"architecture": "riscv64", "os": "linux"}}
    (folder / "index.json").write_text(json.dumps({"manifests": [other, found]}))


def unpack_layout(layout_folder: Path, tree: Path, machine: str = "aarch64") -> None:
    fd = os.open(layout_folder, os.O_RDONLY)
    try:
        parts = Folder(fd)
        with RootDirectory(tree) as root:
            squash(root, parts.open, manifests.read_oci_layers(parts, machine), ArchiveLimits())
        parts.close()
    finally:
        os.close(fd)


def test_an_oci_layout_is_squashed_into_one_tree(tree: Path, tmp_path: Path) -> None:
    one, two = archive(file("a"), file("b")), gzip.compress(archive(file(".wh.a", b""), file("c")))
    make_layout(tmp_path / "oci", one, two)
    unpack_layout(tmp_path / "oci", tree)
    assert sorted(os.listdir(tree)) == ["b", "c"]


def test_a_layer_that_does_not_match_its_digest_is_refused(tree: Path, tmp_path: Path) -> None:
    layer = archive(file("a"))
    make_layout(tmp_path / "oci", layer)
    (tmp_path / "oci/blobs/sha256" / hashlib.sha256(layer).hexdigest()).write_bytes(archive(file("evil")))
    with pytest.raises(ImageError, match="does not match its digest"):
        unpack_layout(tmp_path / "oci", tree)
    assert os.listdir(tree) == []


def test_an_image_for_another_machine_is_refused(tree: Path, tmp_path: Path) -> None:
    make_layout(tmp_path / "oci", archive(file("a")), arch="arm64")
    with pytest.raises(ImageError, match="no image for amd64, only for riscv64, arm64"):
        unpack_layout(tmp_path / "oci", tree, "x86_64")


@pytest.mark.parametrize(
    "digest", ["sha256:../../../../outside", "md5:" + "a" * 32, "sha256:" + "A" * 64, f"sha256:{HEX}\n", "", "\x1b[2J"]
)
def test_only_a_sha256_becomes_a_path(digest: str) -> None:
    with pytest.raises(ImageError, match="not a sha256") as caught:
        manifests.get_blob_name({"digest": digest})
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"manifests": {}}', '{"manifests": [1]}', '{"manifests": []}', "[" * 100_000, '{"layers": []}'],
)
def test_a_broken_index_is_an_image_error(tree: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "oci").mkdir()
    (tmp_path / "oci/index.json").write_text(text)
    with pytest.raises(ImageError):
        unpack_layout(tmp_path / "oci", tree)


def make_docker(one: bytes, two: bytes, digests: list[str]) -> bytes:
    """Write an archive as `docker save` did before it wrote OCI layouts, including a link for a layer."""
    config = json.dumps({"architecture": "arm64", "rootfs": {"diff_ids": digests}}).encode()
    first, second = "1" * 64, "2" * 64
    manifest = [{"Config": f"{HEX}.json", "Layers": [f"{first}/layer.tar", f"{second}/layer.tar"]}]
    return archive(
        file(f"{HEX}.json", config),
        file(f"{first}/layer.tar", one),
        file(f"{'3' * 64}/layer.tar", two),
        symlink(f"{second}/layer.tar", f"../{'3' * 64}/layer.tar"),
        file("manifest.json", json.dumps(manifest).encode()),
    )


def unpack_docker(data: bytes, tree: Path, tmp_path: Path) -> None:
    path = tmp_path / "docker.tar"
    path.write_bytes(data)
    with path.open("rb") as source, RootDirectory(tree) as root:
        parts = Wrapped(source.fileno())
        squash(root, parts.open, manifests.read_docker_layers(parts, "aarch64"), ArchiveLimits(), of_content=True)


def test_a_docker_archive_is_squashed_into_one_tree(tree: Path, tmp_path: Path) -> None:
    one, two = archive(file("a"), file("b")), archive(file(".wh.a", b""), file("c"))
    unpack_docker(make_docker(one, two, [digest_of(one), digest_of(two)]), tree, tmp_path)
    assert sorted(os.listdir(tree)) == ["b", "c"]


def test_a_docker_layer_is_verified(tree: Path, tmp_path: Path) -> None:
    one, two = archive(file("a")), archive(file("c"))
    with pytest.raises(ImageError, match="does not match its digest"):
        unpack_docker(make_docker(one, two, [digest_of(two), digest_of(two)]), tree, tmp_path)


def furnished(tree: Path) -> None:
    with RootDirectory(tree) as root:
        furnish(root)


def test_a_tree_is_furnished_without_following_its_links(tree: Path) -> None:
    before = snapshot(tree.parent)
    outside = str(tree.parent / "outside")
    put(
        tree,
        folder("etc"),
        symlink("etc/resolv.conf", outside),
        symlink("etc/hosts", "../../outside"),
        symlink("etc/passwd", outside),
        symlink("home", "../outside-folder"),
        folder("outside-folder"),
        entry("etc/hostname", type=tarfile.FIFOTYPE),
        folder("etc/machine-id"),
    )
    furnished(tree)
    furnished(tree)
    assert snapshot(tree.parent) == before
    for name, data in FILES.items():
        path = tree / os.fsdecode(name)
        assert path.is_file()
        assert not path.is_symlink()
        assert path.read_bytes() == data
    assert (tree / "outside-folder/user").stat().st_uid == 1000
    assert (tree / "etc/passwd").read_text() == "user:x:1000:1000::/home/user:/bin/bash\n"
    assert {"proc", "sys", "dev", "run", "tmp"} <= set(os.listdir(tree))


def test_the_user_with_uid_1000_keeps_its_name(tree: Path) -> None:
    passwd = b"root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh"
    put(tree, folder("etc"), file("etc/passwd", passwd), file("etc/group", b"user:x:50:\n"))
    furnished(tree)
    assert (tree / "etc/passwd").read_bytes() == passwd
    assert (tree / "etc/group").read_bytes() == b"user:x:1000:\n"
    assert (tree / "home/user").stat().st_uid == 1000


@pytest.mark.parametrize(
    ("entries", "python"),
    [
        ([file("usr/bin/python3.13", mode=0o755), symlink("usr/bin/python3", "python3.13")], "/usr/bin/python3"),
        ([file("usr/local/bin/python3", mode=0o755)], "/usr/local/bin/python3"),
        ([file("opt/py", mode=0o755), symlink("usr/bin/python3", "/opt/py")], "/usr/bin/python3"),
    ],
)
def test_python_is_found_in_a_tree(tree: Path, entries: list[Entry], python: str) -> None:
    put(tree, *entries)
    with RootDirectory(tree) as root:
        assert find_python(root, "it") == python


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [file("usr/bin/python3", mode=0o644)],
        [folder("usr/bin/python3")],
        [symlink("usr/bin/python3", "python3.13")],
        [symlink("usr/bin/python3", "/usr/bin/env")],
        [symlink("usr/bin/python3", "/proc/self/exe"), folder("proc")],
    ],
)
def test_a_tree_without_python_is_reported(tree: Path, entries: list[Entry]) -> None:
    put(tree, *entries)
    with (
        RootDirectory(tree) as root,
        pytest.raises(ImageError, match="has no python3, which hotdesk needs inside a desk"),
    ):
        find_python(root, "it")


def make_nodes(tree: Path) -> None:
    os.mknod(tree / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(tree / "gone", stat.S_IFCHR, os.makedev(0, 0))
    os.mkfifo(tree / "pipe")
    (tree / "su").touch()
    os.setxattr(tree / "su", "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))
    (tree / "su").chmod(0o4755)
    (tree / "d").mkdir()
    os.setxattr(tree / "d", "trusted.overlay.opaque", b"y")
    (tree / "link").symlink_to("/etc")


@pytest.mark.parametrize(
    ("whiteouts", "names", "marks"),
    [(True, ["d", "gone", "link", "su"], ["trusted.overlay.opaque"]), (False, ["d", "link", "su"], [])],
)
def test_a_built_tree_is_stripped(tree: Path, whiteouts: bool, names: list[str], marks: list[str]) -> None:
    make_nodes(tree)
    strip(tree, whiteouts)
    assert sorted(os.listdir(tree)) == names
    assert os.listxattr(tree / "d") == marks
    assert os.listxattr(tree / "su") == []
    assert stat.S_IMODE((tree / "su").stat().st_mode) == 0o755


# -- files that change during an import ----------------------------------------------------------------------------


PROGRAM = file("usr/bin/python3", b"#!/bin/sh\n", mode=0o755)


def read_motd(image: Image) -> bytes:
    return (image.layers[0] / "etc/motd").read_bytes()


@pytest.mark.parametrize("how", ["rename", "in place"])
def test_an_archive_that_is_replaced_meanwhile_is_imported_as_it_was_hashed(tmp_path: Path, how: str) -> None:
    good, bad = (archive(PROGRAM, file("etc/motd", text)) for text in (b"good", b"bad!"))
    path = tmp_path / "image.tar"
    path.write_bytes(good)

    def exchange(_: str) -> None:
        if how == "rename":
            (tmp_path / "other").write_bytes(bad)
            (tmp_path / "other").rename(path)
        else:
            path.write_bytes(bad)

    image = import_image(tmp_path / "store", path, "mine", exchange)
    assert (image.digest, read_motd(image)) == (hashlib.sha256(good).hexdigest(), b"good")


def test_an_archive_that_is_replaced_once_it_is_open_is_not_named_like_the_other(tmp_path: Path) -> None:
    good, bad = (archive(PROGRAM, file("etc/motd", text)) for text in (b"good", b"bad!"))
    path = tmp_path / "image.tar"
    path.write_bytes(bad)
    fd = open_archive(path)
    path.unlink()
    path.write_bytes(good)
    try:
        with tempfile.TemporaryFile() as spool:
            assert copy_archive(fd, spool, ArchiveLimits()) == hashlib.sha256(bad).hexdigest()
            spool.seek(0)
            assert spool.read() == bad
    finally:
        os.close(fd)


def test_a_layout_whose_index_is_replaced_meanwhile_is_imported_as_it_was_hashed(tmp_path: Path) -> None:
    layout = tmp_path / "oci"
    machine = {"aarch64": "arm64", "x86_64": "amd64"}[os.uname().machine]
    make_layout(layout, archive(PROGRAM, file("etc/motd", b"bad!")), arch=machine)
    other = (layout / "index.json").read_bytes()
    make_layout(layout, archive(PROGRAM, file("etc/motd", b"good")), arch=machine)
    digest = hashlib.sha256((layout / "index.json").read_bytes()).hexdigest()

    def exchange(_: str) -> None:
        (layout / "index.json").write_bytes(other)

    image = import_image(tmp_path / "store", layout, "mine", exchange)
    assert (image.digest, read_motd(image)) == (digest, b"good")


def test_a_layer_is_unpacked_from_the_bytes_that_were_verified(tree: Path, tmp_path: Path) -> None:
    layer, evil = archive(file("etc/motd", b"good")), archive(file("etc/motd", b"bad!"))
    make_layout(tmp_path / "oci", layer)
    blob_path = tmp_path / "oci/blobs/sha256" / hashlib.sha256(layer).hexdigest()
    fd, index = os.open(tmp_path / "oci", os.O_RDONLY), os.open(tmp_path / "oci/index.json", os.O_RDONLY)
    with closing(CopiedFolder(fd, index, str(tmp_path), ArchiveLimits())) as parts, RootDirectory(tree) as root:

        def open_part(name: str) -> io.BufferedReader:
            found = parts.open(name)
            blob_path.write_bytes(evil)
            return found

        squash(root, open_part, manifests.read_oci_layers(parts, "aarch64"), ArchiveLimits())
    os.close(fd)
    os.close(index)
    assert (tree / "etc/motd").read_bytes() == b"good"
