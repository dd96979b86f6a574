"""Test that desks as sandboxes of inspect_ai pass that project's own checks of a provider."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.config import Config
from tests.e2e.conftest import environment

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(1500)]
ROOT = Path(__file__).parents[2]
CHECKS = Path(__file__).with_name("inspect_checks.py")
LEAST = 2 * 40
"""Checks that must have run: at least 40, each as two users."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspect")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "inspect_ai", "pytest", "pytest-timeout", "anyio", str(ROOT)], check=True, timeout=600)
    return folder / "bin/python"


def test_every_check_of_a_provider_passes(python: Path, settings: Config, tmp_path: Path) -> None:
    argv = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "--noconftest",
        "--tb=short",
    ]
    done = subprocess.run(
        [*argv, "-p", "anyio", "-o", "anyio_mode=auto", str(CHECKS)], cwd=tmp_path, capture_output=True, text=True,
        timeout=800, env={**os.environ, **environment(settings)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed, 4 xfailed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= LEAST
