"""Tests of other projects' benchmark harnesses that use E2B as backend: they run unchanged, with environment variables.

Each is installed from PyPI into a virtual environment of its own; no model takes part.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.server.conftest import Served, served

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[3]
HERE = Path(__file__).with_name("harness")
CACHE = Path("~/.cache/hotdesk/harnesses").expanduser()
"""Environments stay here between runs: the packages of one are half a gigabyte."""
HARNESSES = {"harbor": "harbor[e2b]==0.24.0", "verifiers": "verifiers[e2b]==0.4.0"}
LEAST = (3, 12)
"""The minimum Python version of Harbor, higher than that of hotdesk."""
BASES = '[serve]\n[serve.base_images]\n"debian:12" = "base"\n'


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    """Yield a server whose base images have the names that tasks use."""
    with served(home / f"harnesses-{time.monotonic_ns()}", config=BASES) as found:
        yield found


def find_python() -> str:
    """Return an interpreter that is new enough; uv downloads one if there is none."""
    names = [sys.executable, *(f"python3.{minor}" for minor in (14, 13, 12))]
    managed = sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[234].*/bin/python"))
    test = f"import sys; sys.exit(not {LEAST} <= sys.version_info < (3, 15))"
    for each in [*filter(None, map(shutil.which, names)), *map(str, managed)]:
        if subprocess.run([each, "-c", test], capture_output=True, check=False, timeout=60).returncode == 0:
            return each
    return ">=3.12,<3.15"


def install(name: str) -> Path:
    """Install a harness if needed; return the folder of its programs."""
    package = HARNESSES[name]
    folder = CACHE / package.replace("[", "-").replace("]", "").replace("==", "-")
    if not (folder / ".installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        uv = str(ROOT / ".venv/bin/uv")
        subprocess.run([uv, "venv", "--quiet", "--python", find_python(), folder], check=True, timeout=300)
        argv = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin/python"), package]
        subprocess.run(argv, check=True, timeout=600)
        (folder / ".installed").touch()
    return folder / "bin"


def run(argv: list[str | Path], server: Served, folder: Path, **env: str) -> str:
    """Run a harness as a person would who moved to this server: with three environment variables."""
    own = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb", "NO_COLOR": "1"}
    own |= {"E2B_API_KEY": server.key, "E2B_API_URL": server.url, "E2B_SANDBOX_URL": server.url, **env}
    done = subprocess.run(argv, cwd=folder, env=own, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout + done.stderr


def list_sandboxes(server: Served) -> list[Any]:
    """List the server's sandboxes."""
    answer = httpx.get(f"{server.url}/v2/sandboxes", headers={"X-API-Key": server.key}, timeout=60)
    found: list[Any] = answer.raise_for_status().json()
    return found


def run_harbor(server: Served, folder: Path, task: str, agent: str) -> tuple[dict[str, Any], Path]:
    """Have Harbor run a task with an agent; return the result of the trial, and the folder of its files."""
    argv: list[str | Path] = [install("harbor") / "harbor", "run", "--path", HERE / task, "--agent", agent]
    run([*argv, "--env", "e2b", "--jobs-dir", folder / "jobs", "--quiet", "--yes"], server, folder)
    (result,) = folder.glob("jobs/*/*/result.json")
    found: dict[str, Any] = json.loads(result.read_text())
    return found, result.parent


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_harbor_builds_uploads_runs_and_verifies(server: Served, tmp_path: Path, agent: str, reward: float) -> None:
    result, files = run_harbor(server, tmp_path, "words", agent)
    assert result["exception_info"] is None, result["exception_info"]
    assert result["verifier_result"]["rewards"] == {"reward": reward}
    assert (files / "verifier/built-by.txt").read_text() == "root\n"
    if agent == "oracle":
        assert (files / "agent/oracle.txt").read_text() == "solved in /task\n"
    assert list_sandboxes(server) == []


def test_harbor_ends_an_agent_at_its_timeout_and_verifies_its_files(server: Served, tmp_path: Path) -> None:
    result, _ = run_harbor(server, tmp_path, "slow", "oracle")
    assert result["exception_info"]["exception_type"] == "AgentTimeoutError", result["exception_info"]
    assert result["verifier_result"]["rewards"] == {"reward": 0.5}
    assert list_sandboxes(server) == []


def test_verifiers_validates_a_task_in_sandboxes(server: Served, tmp_path: Path) -> None:
    argv: list[str | Path] = [install("verifiers") / "vf-validate", "tiny_words", "--runtime.type", "e2b"]
    run([*argv, "--no-rich", "-o", tmp_path / "out"], server, tmp_path, PYTHONPATH=str(HERE))
    (result,) = tmp_path.glob("out/*/results.jsonl")
    (row,) = map(json.loads, result.read_text().splitlines())
    assert (row["gold"]["reason"], row["noop"]["reason"], row["noop"]["reward"]) == ("valid", "valid", 0.0), row
    assert list_sandboxes(server) == []
