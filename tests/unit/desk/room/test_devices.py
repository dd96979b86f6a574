"""Tests of a desk's /dev and /sys: its own files, with the expected modes, whatever the keeper's umask."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hotdesk.desk.room import devices

pytestmark = pytest.mark.container


def test_device_nodes_are_open_to_all_and_the_mask_stays(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        devices.make_dev(f"{tmp_path}/dev")
        assert os.umask(before) == 0o077
    finally:
        os.umask(before)
    for name, (major, minor) in devices.NODES.items():
        info = os.stat(tmp_path / "dev" / name)
        assert stat.S_ISCHR(info.st_mode)
        assert (stat.S_IMODE(info.st_mode), info.st_rdev) == (0o666, os.makedev(major, minor))
    assert {name: os.readlink(tmp_path / "dev" / name) for name in devices.LINKS} == devices.LINKS


@pytest.mark.parametrize(("cpus", "online"), [(1, "0\n"), (2, "0-1\n"), (4, "0-3\n")])
def test_a_desk_sees_as_many_cpus_as_it_has(tmp_path: Path, cpus: int, online: str) -> None:
    devices.make_sys(f"{tmp_path}/sys", cpus)
    folder = tmp_path / "sys" / devices.CPU
    assert {name: (folder / name).read_text() for name in os.listdir(folder)} == dict.fromkeys(
        ("online", "possible", "present"), online
    )
    assert (tmp_path / "sys" / devices.LOOPBACK / "operstate").read_text() == "unknown\n"


def test_a_file_that_is_there_already_is_not_written_over(tmp_path: Path) -> None:
    devices.write_files(str(tmp_path), {"a": b"first"}, 0o444)
    with pytest.raises(FileExistsError):
        devices.write_files(str(tmp_path), {"a": b"second"})
    assert (tmp_path / "a").read_bytes() == b"first"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o444
