"""Test of the packages of the last commit: reproducible, and with every file for users of the checkout."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tools.write_share import PLACES

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]


def test_the_packages_are_reproducible_and_whole(tmp_path: Path) -> None:
    argv = [sys.executable, str(ROOT / "tools/dist.py"), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    (sdist,) = tmp_path.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    data = wheel.name.partition("-py3")[0] + ".data/data/share"
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {name.removeprefix("src/") for name in listed.stdout.splitlines()} <= names
    assert {f"{data}/{place}" for place in PLACES.values()} <= names
    assert {f"{data}/hotdesk/install.md", f"{data}/hotdesk/hotdesk.service"} <= names
    with tarfile.open(sdist) as tar:
        inside = {name.partition("/")[2] for name in tar.getnames()}
    assert {f"packaging/share/{place}" for place in PLACES.values()} <= inside
    assert {"pyproject.toml", "packaging/build_hook.py", "LICENSE", "README.md"} <= inside
