"""Ordinary users of a server's machine: `hotdesk run` through its socket, for who is in the group."""

from __future__ import annotations

import grp
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import environment
from tests.e2e.server.conftest import Served

pytestmark = pytest.mark.container
NOBODY = 65534
RUN = "from hotdesk.cli import main; main()"


def as_nobody(server: Served, group: int, *argv: str) -> subprocess.CompletedProcess[bytes]:
    """Run `hotdesk` as an ordinary user in one group."""
    sock = server.settings.run / "serve.sock"
    env = {**environment(server.settings), "HOTDESK_SERVER": str(sock), "HOME": "/", "PYTHONPATH": str(source())}
    reading = "+dac_read_search"  # Python itself may lie where only root looks
    who = ["--reuid", str(NOBODY), "--regid", str(group), "--clear-groups", "--inh-caps", reading,
           "--ambient-caps", reading]  # fmt: skip
    command = ["setpriv", *who, sys.executable, "-c", RUN, *argv]
    return subprocess.run(command, env=env, capture_output=True, check=False, timeout=60, cwd="/")


def source() -> Path:
    """Give where the package lies."""
    return Path(__file__).parents[3] / "src"


def test_who_is_in_the_group_runs_programs_at_desks(server: Served) -> None:
    done = as_nobody(server, grp.getgrnam("hotdesk").gr_gid, "run", "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, b"hello\n"), done.stderr


def test_who_is_not_is_told_so(server: Served) -> None:
    done = as_nobody(server, NOBODY, "run", "--", "true")
    assert done.returncode == 125
    assert b"Traceback" not in done.stderr
