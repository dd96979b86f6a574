"""Tests of sterile copies of image layers: exact, made once, mounted when needed, checked after a kernel oops."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hotdesk.desk.image import sterile, sterilize, store
from hotdesk.desk.image.image import Image, dump, get_template_folder
from hotdesk.errors import HostError, ImageError

pytestmark = [pytest.mark.container, pytest.mark.slow]

LAYER, ABOVE = "ab" * 32, "cd" * 32
OOPSED = 128
MOUNT = """
import sys
from pathlib import Path
from hotdesk.desk.image import sterilize
from hotdesk.desk.image.sterile import Sterile, forget
from hotdesk.errors import ImageError
store, private, digest = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
sterile = Sterile(store, private)

def devices():
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[2] for line in lines if f"{private}/sterile-" in line]

"""
DESCRIBE = (
    MOUNT
    + """
sys.path.insert(0, sys.argv[4])
from tests.unit.desk.image.test_sterile import describe
print(*describe(sterile.mount(digest, 0)), sep="\\n")
"""
)
REPOSITORY = str(Path(__file__).parents[4])


@pytest.fixture
def image(tmp_path: Path) -> Image:
    root = tmp_path / "store"
    layer = root / "layers" / LAYER
    (layer / "usr/bin").mkdir(parents=True)
    (layer / "usr/bin/judge").write_text("clean\n")
    (layer / "usr/bin/judge").chmod(0o755)
    os.utime(layer / "usr/bin/judge", ns=(1_600_000_000_123_456_789,) * 2)
    os.link(layer / "usr/bin/judge", layer / "usr/bin/same")
    os.symlink("judge", layer / "usr/bin/link")
    os.symlink("x" * 300, layer / "long")
    (layer / "home/user").mkdir(parents=True, mode=0o750)
    (layer / "home/user/big").write_bytes(os.urandom(300_000))
    (layer / "empty").write_bytes(b"")
    for path in (layer / "home/user", layer / "home/user/big"):
        os.chown(path, 1000, 1000)
    os.mknod(layer / "gone", stat.S_IFCHR, os.makedev(0, 0))
    os.setxattr(layer / "home", "trusted.overlay.opaque", b"y")
    layer.chmod(0o711)
    made = Image("it", LAYER, (layer,), "/usr/bin/judge", "any", 1.0, 1, "a test")
    (root / "images").mkdir()
    (root / "images/it.json").write_bytes(dump(made))
    return made


def make(image: Image, *kinds: str) -> bool:
    return sterilize.make(shelf(image), image, print, kinds or sterile.KINDS, tainted=0)


def shelf(image: Image) -> Path:
    return image.layers[0].parents[1]


def names(image: Image) -> list[str]:
    return sorted(file.name.removeprefix(LAYER) for file in sterile.get_folder(shelf(image)).iterdir())


def describe(tree: Path) -> list[str]:
    """Return everything a desk could see of a tree, times in seconds, which is how mkfs.ext4 copies them."""
    told = []
    for path in (tree, *sorted(tree.rglob("*"))):
        info = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        content = os.readlink(path) if path.is_symlink() else hashlib.sha256(data).hexdigest()
        marks = {
            name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)
        }
        links = info.st_nlink if stat.S_ISREG(info.st_mode) else 0
        facts = (info.st_mode, info.st_uid, info.st_gid, int(info.st_mtime), info.st_rdev, links, content, marks)
        told.append(f"{path.relative_to(tree)} {facts}")
    return told


def alone(image: Image, tmp_path: Path, code: str, *more: str) -> list[str]:
    """Run code in a separate mount namespace, where this image's copies may be mounted; return its lines of output."""
    private = tmp_path / "private"
    private.mkdir(exist_ok=True)
    argv = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", code]
    done = subprocess.run(
        [*argv, str(shelf(image)), str(private), LAYER, *more], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize(("tainted", "suspect"), [(0, False), (1 << 7, True), (1 << 12 | 1, False), (0xFFFF, True)])
def test_only_a_kernel_oops_makes_the_page_cache_suspect(tainted: int, suspect: bool) -> None:
    assert sterile.is_suspect(tainted) is suspect


def test_the_kernels_taint_flags_are_read() -> None:
    assert sterile.read_kernel_taint() == int(Path("/proc/sys/kernel/tainted").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("kind", sterile.KINDS)
def test_a_copy_of_either_kind_equals_its_layer(image: Image, tmp_path: Path, kind: str) -> None:
    assert make(image, kind)
    seen = alone(image, tmp_path, DESCRIBE, REPOSITORY)
    assert seen == describe(image.layers[0])
    assert len(seen) > 10


def test_a_copy_is_made_once_for_root_alone_with_its_sum_beside_it(image: Image) -> None:
    assert make(image)
    assert names(image) == [".erofs", ".erofs.sha256", "lock"]
    file = sterile.get_copy_path(shelf(image), LAYER, "erofs")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert sterile.get_digest_path(file).read_text().strip() == hashlib.sha256(file.read_bytes()).hexdigest()
    before = file.stat()
    assert not make(image)
    assert file.stat() == before


def test_where_the_best_kind_does_not_work_the_next_is_taken(image: Image) -> None:
    assert make(image, "cramfs", "ext4")
    assert names(image) == [".ext4", ".ext4.sha256", "lock"]
    assert not make(image)


def test_if_no_file_system_works_the_reason_is_reported_and_nothing_is_left(image: Image) -> None:
    with pytest.raises(HostError, match="hotdesk cannot write the file system cramfs"):
        make(image, "cramfs")
    assert names(image) == ["lock"]


def test_a_hole_longer_than_the_disk_has_room_is_not_written_out(image: Image) -> None:
    disk = os.statvfs(image.layers[0])
    with (image.layers[0] / "hole").open("wb") as hole:
        hole.truncate(disk.f_bavail * disk.f_frsize + (1 << 40))
    with pytest.raises(HostError, match="sparse files count in full"):
        make(image)
    assert names(image) == ["lock"]


def test_a_partial_copy_of_a_killed_process_is_not_used(image: Image) -> None:
    folder = sterile.get_folder(shelf(image))
    folder.mkdir()
    (folder / f"{LAYER}.erofs.new").write_bytes(b"half")
    assert sterile.list_uncopied_layers(shelf(image), image) == list(image.layers)
    assert make(image)
    assert names(image) == [".erofs", ".erofs.sha256", "lock"]


def test_a_kernel_that_has_oopsed_makes_no_copies(image: Image) -> None:
    with pytest.raises(HostError, match="reboot"):
        sterilize.make(shelf(image), image, print, tainted=OOPSED)
    assert not sterile.get_folder(shelf(image)).exists()


def test_a_copy_is_mounted_once_and_again_when_the_file_is_another_or_the_kernel_oopsed(
    image: Image, tmp_path: Path
) -> None:
    make(image)
    code = """
for tainted in (0, 0, 128, 128):
    at = sterile.mount(digest, tainted)
    print(len(devices()), (at / "usr/bin/judge").read_text().strip(), id(sterile.mounted[digest]) if tainted else "")
(store / "layers" / digest / "usr/bin/judge").write_text("fresh")
forget(store, digest)
sterilize.carry_out(store, digest, ("erofs",))
print(len(devices()), (sterile.mount(digest, 0) / "usr/bin/judge").read_text().strip())
"""
    before, again, after, still, other = alone(image, tmp_path, MOUNT + code)
    assert before == again == "1 clean "
    assert after == still
    assert after.startswith("1 clean ")
    assert other == "1 fresh"


def test_after_an_oops_a_changed_copy_is_refused_with_a_remedy(image: Image, tmp_path: Path) -> None:
    make(image)
    spoil(sterile.get_copy_path(shelf(image), LAYER, "erofs"))
    code = """
try:
    sterile.mount(digest, 128)
except ImageError as e:
    print(e)
print(devices())
"""
    said, mounts = alone(image, tmp_path, MOUNT + code)
    assert "does not match its digest: reboot" in said
    assert "hotdesk image build" in said
    assert mounts == "[]"


def spoil(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(-1, os.SEEK_END)
        last = opened.read(1)
        opened.seek(-1, os.SEEK_END)
        opened.write(bytes([last[0] ^ 1]))


@pytest.mark.parametrize("sums", ["removed", "another"])
def test_after_an_oops_a_copy_whose_sum_is_lost_is_refused(image: Image, sums: str) -> None:
    make(image)
    file = sterile.get_copy_path(shelf(image), LAYER, "erofs")
    if sums == "removed":
        sterile.get_digest_path(file).unlink()
    else:
        sterile.get_digest_path(file).write_text("0" * 64)
    fd = os.open(file, os.O_RDONLY)
    try:
        with pytest.raises(ImageError):
            sterile.verify(fd, file)
    finally:
        os.close(fd)


def test_an_image_without_copy_is_refused_with_the_command_that_makes_one(image: Image, tmp_path: Path) -> None:
    with pytest.raises(
        ImageError, match=r"no copy of layer .* for desks that verify files: run `hotdesk image build it`"
    ):
        sterile.Sterile(shelf(image), tmp_path).show(image)


def test_a_file_that_is_not_a_file_system_is_refused_with_a_remedy(image: Image, tmp_path: Path) -> None:
    file = sterile.get_copy_path(shelf(image), LAYER, "erofs")
    file.parent.mkdir()
    file.write_bytes(bytes(1 << 20))
    with pytest.raises(ImageError, match=r"cannot be mounted: .*; remove that file"):
        sterile.Sterile(shelf(image), tmp_path).mount(LAYER, 0)


def test_removing_an_image_removes_its_copies(image: Image) -> None:
    make(image)
    store.rm(shelf(image), "it")
    assert names(image) == ["lock"]


def test_machines_that_were_booted_from_an_image_go_with_it(image: Image) -> None:
    folders = [get_template_folder(shelf(image), digest) for digest in (image.digest, "another")]
    for folder in folders:
        (folder / "key").mkdir(parents=True)
        (folder / "key/ram").write_bytes(bytes(8192))
    (swept,) = [each for each in store.sweep(shelf(image), print) if each.kind == "machine"]
    assert (swept.name, folders[0].exists(), folders[1].exists()) == ("another", True, False)
    store.rm(shelf(image), "it")
    assert not folders[0].exists()


def test_a_layer_that_is_being_copied_is_in_use(image: Image) -> None:
    with sterilize.hold_layer(image.layers[0]), pytest.raises(ImageError, match="in use"):
        store.rm(shelf(image), "it")


def test_a_layer_that_is_gone_is_not_copied(image: Image) -> None:
    image.layers[0].rename(image.layers[0].with_name(ABOVE))
    with pytest.raises(HostError, match="does not exist"):
        make(image)


def test_a_sweep_takes_copies_whose_layer_is_gone_and_no_other(image: Image) -> None:
    make(image)
    folder = sterile.get_folder(shelf(image))
    for end in ("erofs", "erofs.sha256", "ext4.new"):
        (folder / f"{ABOVE}.{end}").write_bytes(bytes(8192))
    before = names(image)
    swept = store.sweep(shelf(image), print)
    assert [(each.kind, each.name) for each in swept] == [("copy", ABOVE)]
    assert swept[0].size >= 3 * 8192
    assert names(image) == [name for name in before if not name.startswith(ABOVE)]


@pytest.mark.slow
def test_no_loop_device_is_left(image: Image) -> None:
    for kind in sterile.KINDS:
        make(image, kind)
        sterile.forget(shelf(image), LAYER)
    backing: Sequence[Path] = list(Path("/sys/block").glob("loop*/loop/backing_file"))
    assert [file for file in backing if str(shelf(image)) in file.read_text()] == []
