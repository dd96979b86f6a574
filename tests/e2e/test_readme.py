"""Tests of the README's commands and its Python, run as they are written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.config import Config
from tests.e2e.conftest import PROGRAM, environment
from tests.guides import ROOT

pytestmark = pytest.mark.container
TEXT = (ROOT / "README.md").read_text()
BLOCKS = dict(re.findall(r"^```(sh|python)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))


def run(settings: Config, folder: Path, *argv: str) -> str:
    env = {**environment(settings), "PATH": f"{Path(PROGRAM).parent}:/usr/bin:/bin"}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_of_the_readme_work(settings: Config, tmp_path: Path) -> None:
    assert run(settings, tmp_path, "bash", "-euc", BLOCKS["sh"].replace("sudo ", "")).splitlines()[0] == "42"
    assert (tmp_path / "note.txt").read_text() == "draft\n"


def test_the_python_of_the_readme_works(settings: Config, tmp_path: Path) -> None:
    assert run(settings, tmp_path, sys.executable, "-c", BLOCKS["python"]) == "0 1\n2\n3\n\n"


def test_the_readme_is_short() -> None:
    assert len(TEXT.splitlines()) <= 150
