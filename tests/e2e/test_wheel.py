"""Test of the wheel in a virtual environment away from the checkout: what works without extras, its contents."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.errors import explain_extra
from tests.e2e.conftest import environment

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]


def test_the_wheel_works_alone_and_names_the_extra_that_is_missing(settings: Config, tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(argv, check=True, env=own)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True, env=own)
    wheel = next(tmp_path.glob("*.whl"))
    subprocess.run([str(tmp_path / "venv/bin/pip"), "install", "--quiet", str(wheel)], check=True, env=own)

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        program = [str(tmp_path / "venv/bin/hotdesk"), *argv]
        env = environment(settings)
        return subprocess.run(program, env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    assert run("run", "echo", "-n", "hi").stdout == "hi"
    for needs in (["serve", "--port", "0"], ["mcp"], ["key", "ls"]):
        done = run(*needs)
        missing = f"hotdesk: `hotdesk {needs[0]}` needs Python packages that are missing; {explain_extra('serve')}\n"
        assert (done.returncode, done.stderr) == (125, missing)
    help_text = run("brief", "--help").stdout
    assert str(tmp_path / "venv/share/hotdesk/brief.md") in help_text.replace("\n", "")
    assert (tmp_path / "venv/share/hotdesk/brief.md").is_file()
    assert (tmp_path / "venv/share/hotdesk/hotdesk.service").is_file()
