"""Tests of the second try of failed tests: it runs after pytest has failed in a small folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).parents[1] / "retry.py"
TESTS = """
from pathlib import Path

def runs_again() -> bool:
    runs = Path("runs")
    runs.write_text(runs.read_text() + "." if runs.exists() else ".")
    return len(runs.read_text()) > 1

def test_passes(): pass
def test_once(): assert runs_again()
def test_twice(): assert not Path("broken").exists()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    long: long\n")
    (tmp_path / "test_a.py").write_text(TESTS)
    return tmp_path


def test_a_test_that_passes_alone_is_printed_as_flaky(folder: Path) -> None:
    assert run(folder, "-m", "pytest").returncode == pytest.ExitCode.TESTS_FAILED
    done = run(folder, str(PROGRAM))
    assert done.returncode == pytest.ExitCode.OK
    assert done.stdout.endswith(
        "FLAKY test_a.py::test_once: failed beside other tests, passed alone\n1 retried, 1 flaky\n"
    )
    assert "1 passed" in done.stdout


def test_a_test_that_fails_again_fails_the_run(folder: Path) -> None:
    (folder / "broken").touch()
    assert run(folder, "-m", "pytest").returncode == pytest.ExitCode.TESTS_FAILED
    done = run(folder, str(PROGRAM))
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert [line for line in done.stdout.splitlines() if line.startswith("FLAKY")] == [
        "FLAKY test_a.py::test_once: failed beside other tests, passed alone"
    ]
    assert done.stdout.endswith("2 retried, 1 flaky\n")


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, *argv], cwd=folder, env=env, check=False, capture_output=True, text=True, timeout=60
    )
