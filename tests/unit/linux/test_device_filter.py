"""Tests of cgroup v2's device filter in a real cgroup: what it admits, and what it refuses even to root."""

from __future__ import annotations

import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotdesk.linux import device_filter
from hotdesk.linux.cgroup import DEVICES

TRY = """
import errno, os, sys
for path in sys.argv[1:]:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY))
        print("opened")
    except OSError as e:
        print(errno.errorcode[e.errno])
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a cgroup of v2's hierarchy, which hybrid hosts have beside those of v1."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mounts = [line.split(" ")[4] for line in lines if " - cgroup2 " in line]
    if not mounts:
        pytest.fail("this machine has no cgroup v2 hierarchy: mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified")
    folder = Path(mounts[0]) / f"hotdesk-unit{secrets.token_hex(8)}"
    folder.mkdir()
    yield folder
    folder.rmdir()


def try_opening(folder: Path, *paths: str | Path) -> list[str]:
    """Open files by a process of a cgroup; return what came of each."""

    def join() -> None:
        (folder / "cgroup.procs").write_text("0")

    argv = [sys.executable, "-I", "-c", TRY, *map(str, paths)]
    done = subprocess.run(argv, preexec_fn=join, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


@pytest.mark.container
def test_a_desks_own_devices_are_opened_and_no_others(folder: Path) -> None:
    theirs = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/ptmx"]
    others = ["/dev/kmsg", "/dev/loop-control"]
    assert try_opening(folder, *theirs, *others) == ["opened"] * 8
    device_filter.attach(str(folder), DEVICES)
    assert try_opening(folder, *theirs, *others) == ["opened"] * 6 + ["EPERM"] * 2
    device_filter.attach(str(folder), (*DEVICES, "c 1:11"), instead_of=DEVICES)
    assert try_opening(folder, *theirs, *others) == ["opened"] * 7 + ["EPERM"]


@pytest.mark.container
def test_no_disk_is_opened_whatever_its_numbers(folder: Path, tmp_path: Path) -> None:
    os.mknod(tmp_path / "disk", stat.S_IFBLK | 0o600, os.makedev(1, 3))
    device_filter.attach(str(folder), DEVICES)
    assert try_opening(folder, tmp_path / "disk") == ["EPERM"]


@pytest.mark.container
def test_files_are_unrestricted_and_device_nodes_cannot_be_made(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    device_filter.attach(str(folder), DEVICES)
    assert try_opening(folder, tmp_path / "plain") == ["opened"]

    def join() -> None:
        (folder / "cgroup.procs").write_text("0")

    argv = ["mknod", str(tmp_path / "null"), "c", "1", "3"]
    assert subprocess.run(argv, preexec_fn=join, capture_output=True, check=False).returncode != 0
    assert not (tmp_path / "null").exists()


def test_the_program_has_two_tests_a_device_and_jumps_no_further_than_its_end() -> None:
    code = device_filter.build_program(("c 1:3", "c 136:*"))
    assert len(code) == 8 * (8 + 2 * 2 + 3)
    with pytest.raises(ValueError, match="b 8:0"):
        device_filter.build_program(("b 8:0",))
