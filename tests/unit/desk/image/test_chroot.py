"""Tests of carrying out a recipe: what package programs leave behind."""

from __future__ import annotations

from pathlib import Path

from hotdesk.desk.image.chroot import remove_leftovers
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
