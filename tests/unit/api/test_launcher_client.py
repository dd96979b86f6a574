"""Tests of a server's connection to its launcher process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from hotdesk.api.launch.job_command import get_folder
from hotdesk.api.launch.launcher_client import open_launcher
from hotdesk.config import Config
from hotdesk.desk.seam import new_id
from hotdesk.errors import BriefError, HotdeskError, KeeperError


async def test_a_server_ends_when_its_launcher_ends(tmp_path: Path) -> None:
    settings = Config(tmp_path / "run", tmp_path / "lib", tmp_path / "images")
    with anyio.fail_after(30), pytest.RaisesGroup(KeeperError):
        async with open_launcher(settings) as launcher:
            os.kill(launcher.pid, signal.SIGKILL)
            await anyio.sleep_forever()


async def test_a_job_is_not_started_after_its_server_stopped_waiting(tmp_path: Path) -> None:
    settings = Config(tmp_path / "run", tmp_path / "lib", tmp_path / "images")
    job = new_id()
    folder = get_folder(settings, job)
    folder.mkdir(parents=True)
    with anyio.fail_after(30):
        async with open_launcher(settings) as launcher:
            with pytest.raises(BriefError, match="is not running"):
                await launcher.signal("default", job)  # it has started
            os.kill(launcher.pid, signal.SIGSTOP)
            with pytest.raises(HotdeskError, match="did not respond"):
                await launcher.ask("work", "default", timeout=0.2, job=job, options={"requester": "test"})
            os.kill(launcher.pid, signal.SIGCONT)
            with pytest.raises(BriefError, match="is not running"):
                await launcher.signal("default", job)
    assert list(folder.iterdir()) == []


async def test_a_launcher_ends_with_its_server(tmp_path: Path) -> None:
    settings = Config(tmp_path / "run", tmp_path / "lib", tmp_path / "images")
    with anyio.fail_after(30):
        async with open_launcher(settings) as launcher:
            pass
    with pytest.raises(ProcessLookupError):
        os.kill(launcher.pid, 0)
