"""Tests of carrying out a recipe: what package programs leave behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotdesk.desk.image.chroot import BuildTask, remove_leftovers, stack
from hotdesk.linux import syscalls
from hotdesk.linux.openat2 import RootDirectory


def test_leftovers_of_package_programs_are_removed_and_nothing_else(tmp_path: Path) -> None:
    left = ("var/lib/dpkg/status-old", "var/log/dpkg.log", "var/log/apt/history.log", "etc/passwd-", "etc/shadow-")
    kept = ("var/lib/dpkg/status", "var/log/wtmp", "var/log/apt/.kept", "etc/passwd", "var/log/apt/folder/file")
    for name in (*left, *kept):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with RootDirectory(tmp_path) as root:
        remove_leftovers(root)
    assert {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()} == {*kept}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_layer_is_built_on_an_image_with_many_layers(tmp_path: Path) -> None:
    layers = [tmp_path / "layers" / f"{number:064}" for number in range(64)]
    work = tmp_path / "work"
    (work / "tree").mkdir(parents=True)
    for layer in layers:
        layer.mkdir(parents=True)
        (layer / f"of-{layer.name[-2:]}").touch()
    (layers[0] / "same").write_text("top")
    (layers[63] / "same").write_text("bottom")
    root = stack(BuildTask("mine", str(work), tuple(map(str, layers))), work)
    try:
        (root / "new").touch()
        assert (len(os.listdir(root)), (root / "same").read_text()) == (66, "top")
    finally:
        syscalls.umount(str(root))
    assert os.listdir(work / "tree") == ["new"]
