"""Tests of hosts without btrfs, erofs, writable /usr or /etc, or disk space: set-up works, or names a remedy.

What is missing is hidden where the code looks for it, in a mount namespace of the command's own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.desk.image import image
from hotdesk.ipc.child import SOURCE

pytestmark = [pytest.mark.container, pytest.mark.timeout(300)]
COMMAND = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
READ_ONLY = "mount --bind {0} {0} && mount -o remount,bind,ro {0}"
OTHER_FORMAT = '#!/bin/sh\nfor file; do :; done\nexec mkfs.ext4 -q -F "$file"\n'
"""Formats the pool as ext4, so that the kernel refuses to mount it as btrfs, like one without btrfs does."""
BROKEN = "#!/bin/sh\necho this is not erofs >&2\nexit 1\n"


def hotdesk(prepare: str, home: Path, images: Path | None, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    home.mkdir(mode=0o755, exist_ok=True)
    variables = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_HOLDER": "0", "PYTHONPATH": str(SOURCE), **env}
    variables |= {"HOTDESK_IMAGES": str(images)} if images else {}
    alone = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{prepare} && exec "$@"', "sh"]
    return subprocess.run(
        [*alone, *COMMAND, *argv], env=variables, input="", capture_output=True, text=True, check=False, timeout=240
    )


def hide(program: str, script: str, folder: Path) -> str:
    stub = folder / program
    stub.write_text(script)
    stub.chmod(0o755)
    found = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")
    return f"mount --bind {stub} {found}"


def test_a_container_whose_dev_has_no_loop_devices_gets_their_nodes(
    home: Path, settings: Config, tmp_path: Path
) -> None:
    """Engines fill a container's /dev once, and few of them with loop devices."""
    dev = tmp_path / "dev"
    dev.mkdir()
    nodes = "null zero full random urandom tty shm"
    prepare = (
        f"mount -t tmpfs -o mode=755 tmpfs {dev} && cd /dev && cp -a {nodes} {dev} && cd / && "
        f"mount --move {dev} /dev && test ! -e /dev/loop-control"
    )
    done = hotdesk(prepare, home / "lean-dev", settings.images, "run", "--", "echo", "hi")
    assert (done.returncode, done.stdout) == (0, "hi\n"), done.stderr


def test_without_btrfs_a_desks_disk_is_ext4(home: Path, settings: Config, tmp_path: Path) -> None:
    hidden = hide("mkfs.btrfs", OTHER_FORMAT, tmp_path)
    ask = ("run", "--disk=64M", "--", "sh", "-c", "head -c 99M /dev/zero > big; df --output=size -m big | tail -1")
    done = hotdesk(hidden, home / "no-btrfs", settings.images, *ask)
    assert done.returncode == 0, done.stderr
    assert "No space left" in done.stderr
    assert int(done.stdout) <= 64


@pytest.mark.long
def test_a_required_but_missing_btrfs_is_an_error_with_the_remedy(home: Path, settings: Config, tmp_path: Path) -> None:
    hidden = hide("mkfs.btrfs", OTHER_FORMAT, tmp_path)
    done = hotdesk(hidden, home / "btrfs-only", settings.images, "run", "--", "true", HOTDESK_DISK="btrfs")
    assert done.returncode == 125
    assert 'set disk = "ext4" in config.toml' in done.stderr


@pytest.mark.long
def test_without_erofs_the_sterile_copy_is_ext4(home: Path, settings: Config, tmp_path: Path) -> None:
    shelf = home / "no-erofs-shelf"
    base = image.find(settings.images, "base")
    for part in ("images", "layers"):
        (shelf / part).mkdir(mode=0o700, parents=True)
    for layer in base.layers:
        subprocess.run(["cp", "-al", layer, shelf / "layers"], check=True)
    shutil.copy(image.get_record_path(settings.images, "base"), shelf / "images")
    done = hotdesk(hide("mkfs.erofs", BROKEN, tmp_path), home / "no-erofs", shelf, "setup")
    assert done.returncode == 0, done.stderr
    kinds = {each.suffix for each in (shelf / "sterile").iterdir() if each.suffix in (".erofs", ".ext4")}
    assert kinds == {".ext4"}
    shutil.rmtree(shelf)


@pytest.mark.long
def test_set_up_and_desks_work_with_a_read_only_usr(home: Path, settings: Config) -> None:
    prepare = READ_ONLY.format("/usr")
    done = hotdesk(prepare, home / "ro-usr", settings.images, "setup", "--no-image")
    assert done.returncode == 0, done.stderr
    assert hotdesk(prepare, home / "ro-usr", settings.images, "run", "--", "echo", "hi").stdout == "hi\n"


@pytest.mark.long
def test_a_read_only_etc_is_refused_with_the_files_set_up_writes_there(
    home: Path, settings: Config, tmp_path: Path
) -> None:
    copy = tmp_path / "etc"
    shutil.copytree("/etc", copy, symlinks=True, ignore_dangling_symlinks=True)
    for name in ("subuid", "subgid"):
        lines = (copy / name).read_text().splitlines()
        (copy / name).write_text("".join(f"{line}\n" for line in lines if not line.startswith("hotdesk:")))
    prepare = f"mount --bind {copy} /etc && mount -o remount,bind,ro /etc"
    done = hotdesk(prepare, home / "ro-etc", settings.images, "setup", "--no-image")
    assert done.returncode == 125
    assert "the file system is read-only. Setup changes /etc (account, user ids)" in done.stderr


def test_a_small_disk_is_refused_before_an_image_is_made(home: Path) -> None:
    small = home / "small"
    small.mkdir(mode=0o755)
    done = hotdesk(f"mount -t tmpfs -o size=300m,mode=755 tmpfs {small}", small, None, "setup")
    assert done.returncode == 125
    assert "Only 0.3 GiB are free below" in done.stderr
    assert "lower `disk_floor` in config.toml" in done.stderr


@pytest.mark.long
def test_a_desk_opens_on_a_small_disk_once_the_floor_is_lowered(home: Path, settings: Config) -> None:
    small = home / "small-enough"
    small.mkdir(mode=0o755)
    prepare = f"mount -t tmpfs -o size=300m,mode=755 tmpfs {small}"
    done = hotdesk(prepare, small, settings.images, "run", "--", "true")
    assert done.returncode == 125
    assert "lower disk_floor" in done.stderr
    floor = {"HOTDESK_DISK_FLOOR": str(64 << 20)}
    assert hotdesk(prepare, small, settings.images, "run", "--", "echo", "hi", **floor).stdout == "hi\n"
