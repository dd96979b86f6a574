"""Tests of images saved from a desk: a desk opened from one has the same file system."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.desk.image import store
from hotdesk.desk.image.image import Image, find
from hotdesk.desk.keeper import capture
from hotdesk.desk.seam import Spec
from hotdesk.host import Host
from tests.e2e.conftest import Hotdesk

pytestmark = [pytest.mark.container, pytest.mark.timeout(180)]

OVER = """
set -e
options="upperdir=$2/up,workdir=$2/work,index=off,metacopy=off,redirect_dir=nofollow"
mount -t overlay overlay -o "lowerdir=$1,$options" /mnt
cd /mnt
shift 2; exec sh -ec "$@"
"""
CHANGE = """
mkdir -p opt/tool/data; echo installed > opt/tool/program; chmod 4755 opt/tool/program
ln opt/tool/program opt/tool/again; ln -s ../../etc opt/tool/etc
truncate -s 1G opt/tool/sparse; chown -R 1000:1000 opt/tool/data
rm usr/bin/jq etc/debian_version; rm -r usr/share/bash-completion usr/share/nano 2>/dev/null || true
rm -r usr/share/debianutils; mkdir usr/share/debianutils; echo new > usr/share/debianutils/new
chmod 700 home/user; touch -d '2001-02-03 04:05:06.789' opt/tool opt/tool/data opt/tool/program
rm usr/bin/rg; mkfifo usr/bin/rg opt/tool/pipe
echo changed > etc/hostname
"""
LIST = r"""
find . -mindepth 1 -xdev -printf '%P|%y|%m|%U|%G|%s|%T@|%l\n' | sort
find opt -type f -printf '%P %n links\n' | sort
"""


@pytest.fixture
def name(settings: Config) -> Iterator[str]:
    """Yield a name for an image, which is removed after the desks and holders of later fixtures."""
    chosen = f"test-{secrets.token_hex(6)}"
    yield chosen
    if (settings.images / "images" / f"{chosen}.json").exists():
        store.rm(settings.images, chosen)


@pytest.fixture
def desk(hotdesk: Hotdesk, settings: Config) -> Iterator[str]:
    """Yield an open desk, and wait at the end until its holder has ended."""
    opened = hotdesk("open", "--root").stdout.decode().strip()
    yield opened
    hotdesk("burn", opened)
    end = time.monotonic() + 20
    while (settings.run / "control/holder.sock").is_symlink() and time.monotonic() < end:
        time.sleep(0.1)


def over(image: Image, folder: Path, script: str) -> str:
    for part in ("up", "work"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    lowers = ":".join(str(layer) for layer in image.layers)
    spaces = ["unshare", "--mount", "--propagation", "private"]
    argv = [*spaces, "sh", "-c", OVER, "sh", lowers, str(folder), script]
    return subprocess.run(argv, capture_output=True, check=True, text=True).stdout


def test_a_saved_image_has_the_files_its_desk_saw(settings: Config, name: str, tmp_path: Path) -> None:
    base = find(settings.images, "base")
    over(base, tmp_path / "desk", CHANGE)
    fd = os.open(tmp_path / "desk/up", os.O_RDONLY | os.O_DIRECTORY)
    try:
        capture.save(settings, fd, base, name, "i" + "a" * 20)
    finally:
        os.close(fd)
    image = find(settings.images, name)
    wanted = [line.replace("|f|4755|", "|f|755|") for line in over(base, tmp_path / "desk", LIST).splitlines()]
    left_out = ("usr/bin/rg|p|", "opt/tool/pipe|p|", "etc/hostname|f|")
    assert len([line for line in wanted if line.startswith(left_out)]) == 3
    seen = over(image, tmp_path / "again", LIST).splitlines()
    assert [line.split("|")[5] for line in seen if line.startswith(left_out)] == ["5"], "the image's own name"
    assert not [line for line in seen if line.startswith(("usr/bin/rg|", "usr/bin/jq|", "etc/debian_version|"))]
    assert [x for x in seen if not x.startswith(left_out)] == [x for x in wanted if not x.startswith(left_out)]


def test_a_desk_is_saved_and_others_are_opened_from_it(
    hotdesk: Hotdesk, settings: Config, name: str, desk: str
) -> None:
    changes = "echo installed > /opt/mine; rm /usr/bin/jq; chmod 4755 /opt/mine; mkfifo /opt/pipe; echo $0 > /etc/issue"
    assert hotdesk("exec", "--user", "root", desk, "--", "sh", "-ec", changes, name).returncode == 0
    assert hotdesk("exec", desk, "--", "sh", "-ec", "echo mine > note").returncode == 0
    done = hotdesk("image", "save", desk, name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().startswith(f"{name} ")
    assert f"{name}: saving desk {desk}".encode() in done.stderr
    assert hotdesk("exec", desk, "--", "cat", "note").stdout == b"mine\n", "it goes on"
    look = "cat /opt/mine note; stat -c '%a %U' /opt/mine note; ls /usr/bin/jq; ls /opt; hostname; cat /etc/hostname"
    seen = hotdesk("run", "--image", name, "--", "sh", "-c", look).stdout.decode().split()
    assert seen[:7] == ["installed", "mine", "755", "root", "644", "user", "mine"]
    assert seen[7] == seen[8] != desk[:12]
    listed = json.loads(hotdesk("image", "ls", "--json").stdout)
    assert [each["source"] for each in listed if each["name"] == name] == [f"desk {desk}"]
    layer = find(settings.images, name).layers[0]
    assert not (layer / "etc/machine-id").exists()
    assert not (layer / "usr/local/bin/sudo").exists()
    assert hotdesk("image", "rm", name).returncode == 0
    assert not layer.exists()


async def test_a_snapshot_is_saved_as_it_was(settings: Config, name: str) -> None:
    async with Host(settings, control=False) as host, host.open_desk() as desk:
        await desk.write("note", b"before")
        kept = await desk.snapshot()
        await desk.write("note", b"after")
        await desk.save(name, snapshot=kept)
        assert await desk.read("note") == b"after"
        async with host.open_desk(Spec(image=name)) as other:
            assert await other.read("note") == b"before"


@pytest.mark.long
def test_a_missing_snapshot_is_reported(hotdesk: Hotdesk, settings: Config, name: str, desk: str) -> None:
    done = hotdesk("image", "save", desk, name, "--snapshot", "99")
    assert done.returncode == 125
    assert b"has no snapshot" in done.stderr
    assert not (settings.images / "images" / f"{name}.json").exists()


@pytest.mark.long
def test_a_desk_that_broke_its_python_is_not_kept_as_an_image(
    hotdesk: Hotdesk, settings: Config, name: str, desk: str
) -> None:
    broken = "python3 -c 'import os; os.unlink(os.path.realpath(\"/usr/bin/python3\"))'"
    assert hotdesk("exec", "--user", "root", desk, "--", "sh", "-c", broken).returncode == 0
    done = hotdesk("image", "save", desk, name)
    assert done.returncode == 125
    assert b"was discarded, because a desk opened from it did not work" in done.stderr
    assert not (settings.images / "images" / f"{name}.json").exists()
