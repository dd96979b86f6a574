"""Tests of the initial file system: an archive kernels can read, and a script for any number of layers."""

from __future__ import annotations

import lzma
import subprocess
from pathlib import Path

import pytest

from hotdesk_vmm import initrd
from hotdesk_vmm.task import Layer


def read_archive(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Read a cpio archive of the new kind: mode and contents by name."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert data[at : at + 6] == b"070701"
        numbers = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        mode, size, length = numbers[1], numbers[6], numbers[11]
        name = data[at + 110 : at + 110 + length - 1].decode()
        at += 110 + length
        at += -at % 4
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, data[at : at + size])
        at += size
        at += -at % 4


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    folder = tmp_path / "modules/6.12"
    folder.mkdir(parents=True)
    lines = ["fs/erofs.ko.xz: lib/crc.ko.xz lib/base.ko", "lib/crc.ko.xz: lib/base.ko", "lib/base.ko:", "x/other.ko:"]
    (folder / "modules.dep").write_text("\n".join(lines))
    for name in ("fs/erofs.ko.xz", "lib/crc.ko.xz", "lib/base.ko"):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(lzma.compress(name.encode()) if name.endswith("xz") else name.encode())
    (tmp_path / "busybox").write_bytes(b"busybox")
    return folder


def test_modules_come_after_those_they_need_and_built_in_ones_not_at_all(modules: Path) -> None:
    names = [file.name for file in initrd.list_modules(modules, ("ext4", "erofs"))]
    assert names == ["base.ko", "crc.ko.xz", "erofs.ko.xz"]


def test_an_archive_has_the_guest_the_modules_and_the_script(modules: Path, tmp_path: Path) -> None:
    guest = tmp_path / "guest"
    guest.mkdir()
    (guest / "start.py").write_bytes(b"pass")
    layers = [Layer("layer0", "erofs")]
    found = read_archive(initrd.build(modules, tmp_path / "busybox", layers, guest, "/usr/bin/python3", "start.py"))
    assert found["modules/erofs.ko"] == (0o100755, b"fs/erofs.ko.xz")
    assert found["guest/start.py"][1] == b"pass"
    assert found["bin"][0] == 0o040755
    assert b"for module in base.ko crc.ko erofs.ko;" in found["init"][1]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_script_is_one_a_shell_reads(count: int) -> None:
    layers = [Layer(f"layer{n}", "ext4", "noload") for n in range(count)]
    script = initrd.write_script(["a.ko"], layers, "/usr/bin/python3", "start.pyc")
    subprocess.run(["sh", "-n"], input=script.encode(), check=True)
    assert script.count(" ext4 ,noload") == count
    assert ("lowerdir=/run/layers/0:/run/layers/1" in script) == (count > 1)
    assert f"start.pyc /run/hotdesk machine {count}" in script
