"""Tests of a desk's snapshots: names, limits and removal, and the disk limit of layers made from one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hotdesk.desk.room.rootfs import Layers
from hotdesk.desk.seam import SNAPSHOTS
from hotdesk.errors import BriefError, DeskError

SCRIPT = """
import json, os, sys
from pathlib import Path
from hotdesk.desk.room import disk
from hotdesk.linux import syscalls as kernel

kind, folder, code = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
MIB = 1 << 20
chosen = disk.Ext4(folder / "disks")
if kind == "btrfs":
    chosen = disk.Btrfs(folder / "pool.btrfs", folder / "pool")
    chosen.mount()

def at(name):
    (folder / name).mkdir(exist_ok=True)
    return folder / f"{name}"

def fill(layer, name, most):
    written = 0
    try:
        with open(layer / name, "wb", buffering=0) as out:
            while written < most:
                written += out.write(os.urandom(1 << 18))
            os.fsync(out.fileno())
    except OSError:
        pass
    return written // MIB

def used(name):
    return chosen.measure_usage(name, at(name)) // MIB

def descriptors():
    return len(os.listdir("/proc/self/fd"))

found = {}
exec(code)
print(json.dumps(found))
"""


class Named:
    """A disk whose layers are only names."""

    plain = True

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.broken = False

    def snapshot(self, desk: str, name: str, at: Path) -> None:
        if self.broken:
            raise OSError("the disk is full")
        assert name not in self.names
        self.names.add(name)

    def drop(self, name: str) -> None:
        self.names.discard(name)


@pytest.fixture
def disk() -> Named:
    return Named()


@pytest.fixture
def layers(disk: Named, tmp_path: Path) -> Layers:
    return Layers("idesk", tmp_path, disk, 0, -1, [])  # type: ignore[arg-type]


def carry_out(kind: str, folder: Path, code: str) -> dict[str, Any]:
    """Run code on a disk in a process with its own mounts; return its result."""
    argv = [sys.executable, "-c", SCRIPT, kind, str(folder), code]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_name_is_never_given_twice(layers: Layers) -> None:
    names = [layers.snapshot() for _ in range(3)]
    layers.forget(names[2])
    layers.forget(names[0])
    assert layers.snapshot() not in names
    with pytest.raises(BriefError, match=names[1]):
        layers.find(names[0])


def test_a_snapshot_that_could_not_be_taken_has_no_name(layers: Layers, disk: Named) -> None:
    disk.broken = True
    with pytest.raises(OSError, match="full"):
        layers.snapshot()
    assert layers.snapshots == {}
    disk.broken = False
    assert layers.find(layers.snapshot()) in disk.names


def test_the_number_of_snapshots_a_desk_is_limited(layers: Layers) -> None:
    for _ in range(SNAPSHOTS):
        layers.snapshot()
    with pytest.raises(DeskError, match="delete one"):
        layers.snapshot()
    layers.forget("1")
    layers.snapshot()


def test_all_snapshots_go_with_their_desk(layers: Layers, disk: Named) -> None:
    disk.names = {"idesk", "iother", "iother.1"}
    for _ in range(3):
        layers.snapshot()
    layers.drop()
    layers.drop()
    assert disk.names == {"iother", "iother.1"}


@pytest.mark.parametrize("name", ["", "0", "1.1", "../1", "idesk.1"])
def test_only_a_snapshots_own_name_finds_it(layers: Layers, name: str) -> None:
    layers.snapshot()
    with pytest.raises(BriefError):
        layers.find(name)


@pytest.mark.slow
@pytest.mark.container
@pytest.mark.parametrize("kind", ["btrfs", "ext4"])
def test_the_initial_content_of_a_layer_counts_against_its_limit(kind: str, tmp_path: Path) -> None:
    code = """
layer = chosen.make("ia", 64 * MIB, at("ia"))
found["first"] = fill(layer, "one", 30 * MIB)
chosen.snapshot("ia", "ia.1", at("ia"))
layer = chosen.restore("ia.1", "ib", 64 * MIB, at("ib"))
found["begins"] = used("ib")
found["second"] = fill(layer, "two", 15 * MIB)
chosen.snapshot("ib", "ib.1", at("ib"))
layer = chosen.restore("ib.1", "ic", 64 * MIB, at("ic"))
found["begins later"] = used("ic")
origin = (chosen.mounted / "ia" if kind == "btrfs" else at("ia")) / "one"
found["same"] = (layer / "one").read_bytes() == origin.read_bytes()
found["third"] = fill(layer, "three", 60 * MIB)
"""
    found = carry_out(kind, tmp_path, code)
    assert (found["first"], found["second"], found["same"]) == (30, 15, True)
    assert 30 <= found["begins"] <= 34
    assert 45 <= found["begins later"] <= 50
    assert 5 < found["third"] < 20


@pytest.mark.slow
@pytest.mark.container
def test_resizing_a_layer_made_from_a_snapshot_includes_its_initial_content(tmp_path: Path) -> None:
    code = """
layer = chosen.make("ia", 64 * MIB, at("ia"))
fill(layer, "one", 30 * MIB)
chosen.snapshot("ia", "ia.1", at("ia"))
layer = chosen.restore("ia.1", "ib", 40 * MIB, at("ib"))
found["narrow"] = fill(layer, "two", 60 * MIB)
(layer / "two").unlink()
os.sync()
chosen.resize("ib", 80 * MIB)
found["wide"] = fill(layer, "two", 60 * MIB)
found["simple"] = chosen.simple
chosen.drop("ib")
found["known"] = sorted(chosen.charges.shown)
chosen.drop("ia.1")
found["known after"] = sorted(chosen.charges.shown)
"""
    found = carry_out("btrfs", tmp_path, code)
    assert 4 <= found["narrow"] <= 11
    assert 35 <= found["wide"] <= 51
    assert found["simple"] is True
    assert (found["known"], found["known after"]) == (["ia", "ia.1"], ["ia"])


@pytest.mark.container
def test_dropped_layers_on_ext4_leave_no_open_file(tmp_path: Path) -> None:
    code = """
before = descriptors()
for number in range(3):
    chosen.make("ia", 16 * MIB, at("ia"))
    for name in ("ia.1", "ia.2"):
        chosen.snapshot("ia", name, at("ia"))
    chosen.restore("ia.1", "ib", 16 * MIB, at("ib"))
    for name in ("ia", "ib"):
        kernel.umount(str(at(name)))
    for name in ("ia.1", "ia.2", "ia", "ib", "ib"):
        chosen.drop(name)
found["more"] = descriptors() - before
found["left"] = os.listdir(folder / "disks") + chosen.list_leftovers()
"""
    assert carry_out("ext4", tmp_path, code) == {"more": 0, "left": []}


@pytest.mark.container
def test_a_disk_on_ext4_keeps_its_size(tmp_path: Path) -> None:
    code = """
chosen.make("ia", 16 * MIB, at("ia"))
chosen.resize("ia", 16 * MIB)
try:
    chosen.resize("ia", 32 * MIB)
except Exception as e:
    found["refused"] = type(e).__name__
kernel.umount(str(at("ia")))
chosen.drop("ia")
"""
    assert carry_out("ext4", tmp_path, code) == {"refused": "DeskError"}
