"""Tests of `hotdesk setup` and `gc`: set-up is repeatable, leftovers are removed, broken images are taken back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.desk.image import guest_code, image
from hotdesk.desk.keeper import state
from hotdesk.hands.page import novnc
from hotdesk.linux import uids

pytestmark = [pytest.mark.container, pytest.mark.timeout(300)]

COMMAND = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
BROKEN = "#!/bin/sh\nexit 3\n"


@pytest.fixture
def shelf(home: Path, settings: Config) -> Iterator[Path]:
    folder = home / "shelf"
    base = image.find(settings.images, "base")
    for part in ("images", "layers", "guest"):
        (folder / part).mkdir(mode=0o700, parents=True)
    for layer in base.layers:
        subprocess.run(["cp", "-al", layer, folder / "layers"], check=True)
    shutil.copy(image.get_record_path(settings.images, "base"), folder / "images")
    yield folder
    shutil.rmtree(folder)


def hotdesk(home: Path, images: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(images)}
    return subprocess.run([*COMMAND, *argv], capture_output=True, text=True, check=False, timeout=200, env=env)


@pytest.mark.long
def test_setup_repeated_changes_nothing(home: Path, settings: Config) -> None:
    assert hotdesk(home, settings.images, "setup").returncode == 0
    done = hotdesk(home, settings.images, "setup", "--json")
    steps = json.loads(done.stdout)
    names = ["kernel", "packages", "account", "user ids", "folders", "viewer", "image base"]
    assert [step["name"] for step in steps] == names
    assert not any(step["changed"] for step in steps)
    assert uids.is_reserved()


@pytest.mark.long
def test_setup_installs_the_viewer_and_replaces_a_damaged_one(home: Path, settings: Config) -> None:
    assert hotdesk(home, settings.images, "setup", "--no-image").returncode == 0
    place = novnc.get_folder(settings.lib)
    assert sorted(each.name for each in place.iterdir()) == ["copyright", "core", "vendor", "version"]
    assert b"RFB" in (place / "core/rfb.js").read_bytes()
    assert not any(each.stat().st_mode & 0o222 or each.stat().st_uid for each in (place, *place.rglob("*")))
    (place / "version").unlink()
    again = hotdesk(home, settings.images, "setup", "--no-image").stdout
    assert f"viewer: noVNC {novnc.read_version(settings.lib)} fetched" in again
    assert [each.name for each in place.parent.iterdir()] == ["novnc"]


def test_setup_proves_an_image_with_a_real_desk(home: Path, shelf: Path) -> None:
    done = hotdesk(home, shelf, "setup")
    assert "tested again" in done.stdout, done.stderr
    (made,) = image.ls(shelf)
    assert sorted(guest_code.load(shelf, made.digest, guest_code.read_sources())) == sorted(guest_code.SEALED)
    (guest_code.get_folder(shelf, made.digest, guest_code.read_sources()) / "modules").unlink()
    assert "tested again" in hotdesk(home, shelf, "setup").stdout
    assert "exists" in hotdesk(home, shelf, "setup").stdout.splitlines()[-1]


@pytest.mark.long
def test_gc_keeps_used_folders_and_removes_unused_ones(home: Path, shelf: Path) -> None:
    hotdesk(home, shelf, "setup")
    (base,) = image.ls(shelf)
    stale = [shelf / "layers" / ("e" * 64), shelf / "guest" / ("f" * 64) / "1-1", shelf / "guest" / base.digest / "old"]
    for folder in stale:
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(bytes(100_000))
    told = json.loads(hotdesk(home, shelf, "gc", "--json").stdout)
    assert told["layers"] == ["e" * 64]
    assert sorted(told["guest"]) == sorted([f"{'f' * 64}/1-1", f"{base.digest}/old"])
    assert told["bytes"] >= 300_000
    assert not any(folder.exists() for folder in stale)
    assert not (shelf / "guest" / ("f" * 64)).exists()
    assert "image base" in hotdesk(home, shelf, "setup").stdout
    assert image.ls(shelf) == [base]
    again = json.loads(hotdesk(home, shelf, "gc", "--json").stdout)
    assert not any(again.values())


def test_gc_removes_nothing_while_a_record_is_damaged(home: Path, shelf: Path) -> None:
    layer = shelf / "layers" / ("e" * 64)
    layer.mkdir()
    (shelf / "images/odd.json").write_text('{"schema": 99}')
    done = hotdesk(home, shelf, "gc")
    assert done.returncode == 125
    assert "odd.json is damaged" in done.stderr
    assert layer.is_dir()


@pytest.mark.long
def test_gc_keeps_a_layer_that_a_desk_uses(home: Path, shelf: Path) -> None:
    env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(shelf)}
    argv = [*COMMAND, "run", "--", "sh", "-c", "echo up; cat"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        (shelf / "images/base.json").rename(home / "base.json")
        assert json.loads(hotdesk(home, shelf, "gc", "--json").stdout)["layers"] == []
        owner.stdin.close()
    assert owner.returncode == 0
    assert len(json.loads(hotdesk(home, shelf, "gc", "--json").stdout)["layers"]) == 1
    (home / "base.json").unlink()


@pytest.mark.long
def test_gc_burns_a_desk_whose_keeper_was_killed(home: Path, settings: Config) -> None:
    env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(settings.images)}
    env["HOTDESK_HOLDER"] = "0"  # its keeper would also clean up
    with subprocess.Popen([*COMMAND, "run", "--", "sleep", "100"], stdin=subprocess.DEVNULL, env=env) as owner:
        while not any(told["state"] == "open" for told in state.list_own_desks(settings)):
            time.sleep(0.05)
        (told,) = state.list_own_desks(settings)
        owner.send_signal(signal.SIGSTOP)  # stopped, so that it starts no other keeper that cleans up
        os.kill(int(str(told["keeper"])), signal.SIGKILL)
        buried = json.loads(hotdesk(home, settings.images, "gc", "--json").stdout)["desks"]
        owner.kill()
    assert buried == [told["id"]]
    assert state.list_own_desks(settings) == []


@pytest.mark.long
def test_an_image_whose_python_fails_is_taken_back(home: Path, shelf: Path, tmp_path: Path) -> None:
    archive = tmp_path / "broken.tar"
    pack(archive, shelf / "layers" / image.ls(shelf)[0].digest)
    done = hotdesk(home, shelf, "image", "import", str(archive), "--name", "broken")
    assert done.returncode == 125
    assert "the new image 'broken' was discarded, because a desk opened from it did not work" in done.stderr
    assert [each.name for each in image.ls(shelf)] == ["base"]
    assert len(list((shelf / "layers").iterdir())) == 1


@pytest.mark.long
def test_a_working_image_is_restored_when_its_successor_fails(home: Path, shelf: Path, tmp_path: Path) -> None:
    archive = tmp_path / "broken.tar"
    (base,) = image.ls(shelf)
    pack(archive, base.layers[0])
    done = hotdesk(home, shelf, "image", "import", str(archive), "--name", "base")
    assert "removed again" in done.stderr
    assert image.ls(shelf) == [base]
    assert len(json.loads(hotdesk(home, shelf, "gc", "--json").stdout)["layers"]) == 1


def pack(archive: Path, layer: Path) -> None:
    """Make an archive of an image with a shell, whose python3 is a program that fails."""
    script = archive.with_suffix(".sh")
    script.write_text(BROKEN)
    script.chmod(0o755)
    with tarfile.open(archive, "w") as tar:
        for name in ("bin", "lib", "lib64", "usr/bin/dash", "usr/bin/sh", "usr/lib"):
            if os.path.lexists(layer / name):
                tar.add(layer / name, name, filter=lambda each: None if "python3" in each.name else each)
        tar.add(script, "usr/bin/python3")
