"""Tests of writable layers on real mounts: limited, and removed with their process, however it ends."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hotdesk.config import GIB, MIB, Config
from hotdesk.desk.room import disk
from hotdesk.errors import HostError
from hotdesk.linux import filesystem

pytestmark = [pytest.mark.container, pytest.mark.slow]

SCRIPT = """
import json, os, sys, time
from pathlib import Path
from hotdesk.desk.room import disk
from hotdesk.linux import syscalls as kernel

kind, folder, size = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)

def choose():
    if kind == "memory":
        return disk.Memory()
    if kind == "ext4":
        return disk.Ext4(folder / "disks")
    pool = disk.Btrfs(folder / "pool.btrfs", folder / "pool")
    pool.mount()
    return pool

def fill(file):
    written = 0
    try:
        with open(file, "wb", buffering=0) as out:
            while written < 4 * size:
                written += out.write(bytes(1 << 18))
            os.fsync(out.fileno())
    except OSError as e:
        return [written, e.errno]
    return [written, 0]

def say(**facts):
    print(json.dumps(facts), flush=True)

chosen = choose()
at = folder / f"at{os.getpid()}"
at.mkdir()
name = f"layer{os.getpid()}"
layer = chosen.make(name, size, at)
say(layer=str(layer), empty=os.listdir(layer) == [], left=chosen.list_leftovers(), name=name)
for order in sys.stdin:
    if order == "fill\\n":
        say(filled=fill(layer / "file"))
        (layer / "file").unlink()
    elif order == "flags\\n":
        with open("/proc/self/mountinfo") as info:
            say(flags=[line.split()[5] for line in info if str(folder) in line.split()[4]])
    elif order == "use\\n":
        (layer / "file").write_bytes(bytes(8 << 20))
        say(used=chosen.measure_usage(name, at))
    elif order == "rewrite\\n":
        for _ in range(70):
            (layer / "file").unlink(missing_ok=True)
            with open(layer / "file", "wb") as out:
                for _ in range(40):
                    out.write(os.urandom(1 << 20))
                os.fsync(out.fileno())
        say(rewritten=True)
    elif order == "tidy\\n":
        for number in range(100):
            chosen.make(f"short{number}", size, at)
            chosen.drop(f"short{number}")
        before = len(os.listdir(chosen.accounts))
        chosen.tidy()
        end = time.monotonic() + 10
        while (after := len(os.listdir(chosen.accounts))) > 50 and time.monotonic() < end:
            time.sleep(0.05)
        say(before=before, after=after)
    elif order == "end\\n":
        if layer == at:
            kernel.umount(str(at))
        chosen.drop(name)
        chosen.drop(name)
        say(left=chosen.list_leftovers())
        break
"""


class Child:
    """A process with its own mount namespace and one layer in it, killed at the end of the block."""

    def __init__(self, kind: str, folder: Path, size: int = 32 * MIB) -> None:
        argv = [sys.executable, "-c", SCRIPT, kind, str(folder), str(size)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Child:
        self.facts = self.heard()
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def heard(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            pytest.fail(f"the child died: {self.process.communicate()[1]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, order: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return self.heard()


@pytest.fixture(params=["btrfs", "ext4", "memory"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder, and check that no mount or loop device of it is left."""
    yield tmp_path
    end = time.monotonic() + 5
    while (left := leftovers(tmp_path)) and time.monotonic() < end:
        time.sleep(0.02)
    assert left == []


def leftovers(folder: Path) -> list[str]:
    left = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            text = entry.read_text()
        except OSError:
            continue
        if str(folder) in text:
            left.append(f"{entry.parts[3]} {text}")
    return left


def test_a_layer_is_limited_and_dropped(kind: str, folder: Path) -> None:
    with Child(kind, folder) as child:
        assert child.facts["empty"]
        written, number = child.ask("fill")["filled"]
        assert number in (errno.ENOSPC, errno.EDQUOT)
        assert 20 * MIB < written <= 33 * MIB
        assert child.facts["name"] not in child.ask("end")["left"]
        assert child.process.wait(10) == 0
    assert list(folder.rglob("layer*")) == []


def test_the_bytes_in_a_layer_are_counted(kind: str, folder: Path) -> None:
    with Child(kind, folder) as child:
        assert 8 * MIB <= child.ask("use")["used"] < 12 * MIB


def test_the_kernel_is_made_to_finish_deletions_when_many_wait(folder: Path) -> None:
    with Child("btrfs", folder) as child:
        counted = child.ask("tidy")
        assert counted["before"] > 64
        assert counted["after"] <= 50


def test_deleted_files_free_their_space(kind: str, folder: Path) -> None:
    with Child(kind, folder) as child:
        first, _ = child.ask("fill")["filled"]
        end = time.monotonic() + 10  # btrfs frees in the background
        while (again := child.ask("fill")["filled"][0]) < first // 2 and time.monotonic() < end:
            time.sleep(0.2)
        assert again >= first // 2


def test_no_layer_holds_devices_or_setuid(kind: str, folder: Path) -> None:
    with Child(kind, folder) as child:
        flags = child.ask("flags")["flags"]
        assert flags
        assert all({"nodev", "nosuid"} <= set(each.split(",")) for each in flags)


def test_nothing_stays_mounted_after_a_kill(kind: str, folder: Path) -> None:
    with Child(kind, folder) as child:
        child.process.send_signal(signal.SIGKILL)
        child.process.wait()
        end = time.monotonic() + 5
        while leftovers(folder) and time.monotonic() < end:
            time.sleep(0.02)
        assert leftovers(folder) == []
    if kind == "btrfs":  # its subvolume is still in the pool, for the next keeper to drop
        with Child(kind, folder) as after:
            assert child.facts["name"] in after.facts["left"]
    else:
        assert list(folder.rglob("layer*")) == []


def test_layers_beside_each_other_do_not_share_a_limit(kind: str, folder: Path) -> None:
    with Child(kind, folder) as one, Child(kind, folder) as two:
        assert one.ask("fill")["filled"][0] > 20 * MIB
        assert two.ask("fill")["filled"][0] > 20 * MIB


def test_the_pool_has_one_loop_device_for_all(folder: Path) -> None:
    with Child("btrfs", folder) as one, Child("btrfs", folder) as two, Child("btrfs", folder) as three:
        assert len([line for line in leftovers(folder) if line.startswith("loop")]) == 1
        assert set(three.facts["left"]) == {child.facts["name"] for child in (one, two, three)}


def test_a_pool_whose_last_user_goes_while_the_next_comes_is_mounted(folder: Path) -> None:
    def come_and_go(_: int) -> None:
        for _ in range(8):
            with Child("btrfs", folder):
                pass

    with ThreadPoolExecutor(2) as workers:
        list(workers.map(come_and_go, range(2)))


def test_the_pool_takes_no_room_before_it_is_used(folder: Path) -> None:
    with Child("btrfs", folder):
        pass
    assert os.stat(folder / "pool.btrfs").st_blocks * 512 < 64 * MIB


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_layer_that_is_rewritten_again_and_again_makes_the_pool_at_most_a_block_group_larger(folder: Path) -> None:
    """The kernel gives freed blocks back late (docs/design/002-disk.md), but the layer's limit makes it use them again.

    Here 2.7 GiB are written, 40 MiB at a time below a limit of 64 MiB. The pool grows by 0.5 GiB, and without the limit
    by 1.4 or more.
    """
    with Child("btrfs", folder, 64 * MIB) as layer:
        before = os.stat(folder / "pool.btrfs").st_blocks * 512
        assert layer.ask("rewrite")["rewritten"]
        assert os.stat(folder / "pool.btrfs").st_blocks * 512 - before < GIB + 64 * MIB


def test_a_missing_disk_is_the_operators_error(tmp_path: Path) -> None:
    settings = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path, disk="tape")
    with pytest.raises(HostError, match="tape"):
        disk.choose(settings)


def test_a_missing_tool_names_the_remedy() -> None:
    with pytest.raises(HostError, match="hotdesk setup"):
        filesystem.run_tool("mkfs.nothing")
    with pytest.raises(HostError, match=r"mkfs\.ext4 failed"):
        filesystem.run_tool("mkfs.ext4", "/nonexistent/file")
