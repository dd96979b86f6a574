"""Test of an unchanged program with an older version of E2B's SDK, in a virtual environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(300)]
VERSION = "2.45.1"
PROGRAM = Path(__file__).with_name("old_sdk.py")


@pytest.fixture(scope="module")
def old(home: Path) -> Path:
    folder = home / "old-sdk"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"e2b=={VERSION}"], check=True, timeout=200)
    return folder / "bin/python"


def test_a_program_with_an_older_sdk_works_unchanged(server: Served, old: Path) -> None:
    done = subprocess.run(
        [old, "-I", PROGRAM, server.key, server.url], capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"all of it, with {VERSION}\n"), done.stderr[-4000:]
