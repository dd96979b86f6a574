"""Test of E2B's unchanged template builder in JavaScript at a real server."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(400)]
PACKAGE = "e2b@2.51.0"
PROGRAM = Path(__file__).with_name("template_program.mjs")


def test_a_program_in_javascript_builds_templates(server: Served, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"private": true}')
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", PACKAGE]
    subprocess.run(install, cwd=tmp_path, check=True, timeout=200)
    shutil.copy(PROGRAM, tmp_path)
    argv = ["node", PROGRAM.name, server.key, server.url]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.split() == ["buildsEveryStep", "startsServers", "tagsAndFollows", "namesFailures"]
