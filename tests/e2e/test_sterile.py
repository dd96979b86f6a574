"""Tests of sterile desks: they leave nothing; their image copies are made when needed and go with the image."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.image import image, sterile, sterilize
from hotdesk.desk.keeper import state
from hotdesk.desk.owner.runtime import container_runtime
from hotdesk.desk.seam import Spec
from hotdesk.errors import ImageError
from hotdesk.host import Host

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

COMMAND = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
STERILE = Spec(sterile=True)


@pytest.fixture
def shelf(home: Path, settings: Config) -> Iterator[Config]:
    """Yield settings with a store for this test: its base shares files with the machine's, but has no sterile copy."""
    folder = home / "sterile-shelf"
    base = image.find(settings.images, "base")
    for part in ("images", "layers", "guest"):
        (folder / part).mkdir(mode=0o700, parents=True)
    for layer in base.layers:
        subprocess.run(["cp", "-al", layer, folder / "layers"], check=True)
    shutil.copy(image.get_record_path(settings.images, "base"), folder / "images")
    yield replace(settings, images=folder)
    shutil.rmtree(folder)


def loops(settings: Config) -> list[str]:
    shown = Path("/sys/block").glob("loop*/loop/backing_file")
    return [text for file in shown if (text := file.read_text().strip()).startswith(str(settings.images))]


def settled(settings: Config) -> list[str]:
    """Return the loop devices that stay: the kernel frees a device a moment after its last user."""
    end = time.monotonic() + 5
    while (left := loops(settings)) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def mounts(keeper: int) -> list[str]:
    lines = Path(f"/proc/{keeper}/mountinfo").read_text().splitlines()
    return [line for line in lines if "/private/sterile-" in line]


async def test_a_sterile_desk_opens_runs_and_burns_and_leaves_nothing(shelf: Config) -> None:
    async with Host(shelf) as host:
        for _ in range(2):
            async with host.open_desk(STERILE) as desk:
                done = await desk.run(["python3", "-c", "import json, ssl; print(6 * 7)"])
                assert (done.text, done.stderr) == ("42\n", b"")
                await desk.write("file", b"its own disk")
                keeper = int(str((state.read_facts(shelf.run / "desks" / desk.id) or {})["keeper"]))
        assert state.list_own_desks(shelf) == []
        assert len(mounts(keeper)) == len(loops(shelf)) == 1
        assert " ro,nosuid,nodev" in mounts(keeper)[0]
        assert "/private/sterile-" not in Path("/proc/self/mountinfo").read_text()
    assert settled(shelf) == []


@pytest.mark.long
async def test_a_sterile_desk_uses_ext4_where_erofs_does_not_work(shelf: Config) -> None:
    base = image.find(shelf.images, "base")
    assert sterilize.make(shelf.images, base, print, ("ext4",))
    async with Host(shelf, control=False) as host, host.open_desk(STERILE) as desk:
        done = await desk.run(["sh", "-c", "python3 -c 'print(6 * 7)' && ls -d /lost+found"])
        assert done.text == "42\n"
        keeper = int(str((state.read_facts(shelf.run / "desks" / desk.id) or {})["keeper"]))
        assert [line.partition(" - ")[2].split()[0] for line in mounts(keeper)] == ["ext4"]
    assert settled(shelf) == []


@pytest.mark.long
async def test_a_keeper_whose_owner_is_gone_takes_its_mounts_with_it(shelf: Config) -> None:
    async with Host(shelf, control=False) as host:
        await host.open(STERILE)
        assert len(loops(shelf)) == 1
    assert settled(shelf) == []


async def test_without_a_copy_a_keeper_opens_no_sterile_desk_and_continues(shelf: Config) -> None:
    async with container_runtime(shelf) as runtime:
        with pytest.raises(ImageError, match="for desks that verify files: run"):
            await runtime.open(STERILE)
        assert state.list_own_desks(shelf) == []
        desk = await runtime.open(Spec())
        assert (await desk.run(["echo", "hi"])).text == "hi\n"


@pytest.mark.long
async def test_removing_an_image_removes_its_copy_but_not_under_a_sterile_desk(shelf: Config) -> None:
    file = sterile.get_folder(shelf.images)
    env = {**os.environ, "HOTDESK_HOME": str(shelf.run.parent), "HOTDESK_IMAGES": str(shelf.images)}
    argv = [*COMMAND, "image", "rm", "base"]
    async with Host(shelf, control=False) as host:
        async with host.open_desk(STERILE):
            done = await anyio.run_process(argv, env=env, check=False)
            assert b"has open desks" in done.stderr
            assert len(sterile.list_copies(shelf.images)) == 1
        done = await anyio.run_process(argv, env=env, check=False)
        assert done.returncode == 0, done.stderr
        assert os.listdir(file) == ["lock"]
    assert settled(shelf) == []
