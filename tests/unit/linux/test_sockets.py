"""Tests of whether a process listens at a socket, and of removing a dead server's socket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotdesk.api.launch.launcher_client import spawn
from hotdesk.config import Config
from hotdesk.linux.sockets import is_answered, listen, listens_in


def test_only_a_socket_at_which_a_process_listens_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "serve.sock"
    assert not is_answered(path)
    with listen(path):
        assert is_answered(path)
        assert listens_in(tmp_path)
        assert not listens_in(tmp_path / "other")
    assert path.is_socket()
    assert not is_answered(path)
    assert not listens_in(tmp_path)


def test_a_path_too_long_for_a_socket_is_listened_at_all_the_same(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / "serve.sock"
    with listen(deep):
        assert deep.is_socket()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_launcher_removes_the_socket_of_the_server_that_is_gone_and_no_others(tmp_path: Path, replaced: bool) -> None:
    settings = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")
    path = settings.run / "serve.sock"
    with listen(path):
        launcher = spawn(settings)
        newer = listen(path) if replaced else None
        launcher.sock.close()
        assert os.waitstatus_to_exitcode(os.waitpid(launcher.pid, 0)[1]) == 0
        assert path.exists() == replaced
        if newer is not None:
            newer.close()
