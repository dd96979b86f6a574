"""Tests of the lock of a server's state directory, by real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import settings_in

from hotdesk.api.server_lock import hold_state
from hotdesk.errors import HostError

HOLDER = """
import asyncio, os, sys
from pathlib import Path
from hotdesk.api.server_lock import hold_state
from hotdesk.config import Config

async def hold():
    folder = Path(sys.argv[1])
    async with hold_state(Config(run=folder / "run", lib=folder / "lib", images=folder)):
        child = os.fork()
        if child == 0:
            os.execvp("sleep", ["sleep", "30"]) if sys.argv[2] == "exec" else __import__("time").sleep(30)
            os._exit(0)
        print(child, flush=True)
        sys.stdin.read()

asyncio.run(hold())
"""


@contextmanager
def holder(folder: Path, child: str = "exec") -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a process that has the lock and a child."""
    argv = [sys.executable, "-c", HOLDER, str(folder), child]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    number = int(process.stdout.readline())
    try:
        yield process, number
    finally:
        process.kill()
        process.wait()
        os.kill(number, 9)
        process.stdout.close()
        assert process.stdin is not None
        process.stdin.close()


async def test_a_second_server_on_a_state_directory_is_refused_and_names_the_first(tmp_path: Path) -> None:
    with (
        holder(tmp_path) as (process, _),
        pytest.raises(HostError, match=rf"another server \(process {process.pid}\) already uses"),
    ):
        async with hold_state(settings_in(tmp_path)):
            pass


@pytest.mark.parametrize("child", ["exec", "fork"])
async def test_the_lock_of_a_killed_server_is_free_although_its_children_live(tmp_path: Path, child: str) -> None:
    with holder(tmp_path, child) as (process, number):
        process.kill()
        process.wait()
        os.kill(number, 0)
        async with hold_state(settings_in(tmp_path)):
            pass


async def test_servers_with_directories_of_their_own_run_together(tmp_path: Path) -> None:
    with holder(tmp_path / "one"):
        async with hold_state(settings_in(tmp_path / "two")):
            pass
