"""Tests of a server's connection to its launcher process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from hotdesk.api.launch.launcher_client import open_launcher
from hotdesk.config import Config
from hotdesk.errors import KeeperError


async def test_a_server_ends_when_its_launcher_ends(tmp_path: Path) -> None:
    settings = Config(tmp_path / "run", tmp_path / "lib", tmp_path / "images")
    with anyio.fail_after(30), pytest.RaisesGroup(KeeperError):
        async with open_launcher(settings) as launcher:
            os.kill(launcher.pid, signal.SIGKILL)
            await anyio.sleep_forever()


async def test_a_launcher_ends_with_its_server(tmp_path: Path) -> None:
    settings = Config(tmp_path / "run", tmp_path / "lib", tmp_path / "images")
    with anyio.fail_after(30):
        async with open_launcher(settings) as launcher:
            pass
    with pytest.raises(ProcessLookupError):
        os.kill(launcher.pid, 0)
