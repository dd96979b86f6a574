"""Tests of hostile brains in every example: they reach only hosts of the brief, and get nothing false certified."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from examples.trial import ADVERSARIES

from hotdesk.config import Config

pytestmark = [pytest.mark.container, pytest.mark.timeout(900)]
EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("contract", "patch", "filing", "research", "legacy")
SAMPLES = {("contract", "liar"), ("patch", "clumsy")}
"""Cases that run in `make test`."""
_PASSED = re.compile(r"\d+ x allow .*?(\S+\.test)\b")


def list_cases() -> list[Any]:
    """List the cases, one for each example and adversary; all but the samples are `long`."""
    return [
        pytest.param(name, who, marks=() if (name, who) in SAMPLES else pytest.mark.long)
        for name in NAMES
        for who in ADVERSARIES
    ]


def named_hosts(example: str) -> set[str]:
    rules = tomllib.loads((EXAMPLES / example / "brief.toml").read_text()).get("egress", [])
    return {match[1] for rule in rules if (match := re.search(r"https://([^/ ]+)", rule))}


def run(example: str, settings: Config, out: Path, *argv: str) -> tuple[int, str]:
    """Run an example; return its exit code and output."""
    env = {**os.environ, "HOTDESK_IMAGES": str(settings.images), "TMPDIR": str(settings.run.parent)}
    command = [sys.executable, str(EXAMPLES / example / "run.py"), "--out", str(out), *argv]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=880, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("example", "who"), list_cases())
def test_an_adversary_gains_nothing(example: str, who: str, settings: Config, tmp_path: Path) -> None:
    code, printed = run(example, settings, tmp_path, "--adversary", who)
    assert f"adversary {who}" in printed, printed
    assert {*_PASSED.findall(printed)} <= named_hosts(example), printed
    certificates = [path.name for path in tmp_path.glob("*.certificate.json")]
    assert code == 0 or not certificates, f"{certificates} certify what the judge refuses:\n{printed}"


@pytest.mark.long
@pytest.mark.parametrize("who", ADVERSARIES)
def test_an_adversary_gains_nothing_in_the_audit(who: str, settings: Config, tmp_path: Path) -> None:
    code, printed = run("audit", settings, tmp_path, "--seed", "7", "--count", "45", "--brain", who)
    assert "Nothing was stolen." in printed, printed
    assert code == 0, f"what is certified, if anything is, must be right to the judge as well:\n{printed}"
