"""Tests of `pty` of E2B's own SDK, sync and async, at this server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from e2b import AsyncSandbox, CommandExitException, NotFoundException, PtySize, Sandbox, SandboxException

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def sandbox(server: Served) -> Iterator[Sandbox]:
    made = Sandbox.create(**server.e2b)
    yield made
    made.kill()


def test_a_terminal_has_the_requested_size_and_can_be_resized(sandbox: Sandbox) -> None:
    terminal = sandbox.pty.create(PtySize(rows=30, cols=100), cwd="/tmp", envs={"A": "b"})
    sandbox.pty.send_stdin(terminal.pid, b"stty size; echo $A-$TERM-$PWD\n")
    sandbox.pty.resize(terminal.pid, PtySize(rows=11, cols=22))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit 7\n")
    heard: list[bytes] = []
    with pytest.raises(CommandExitException) as caught:
        terminal.wait(on_pty=heard.append)
    said = b"".join(heard)
    assert caught.value.exit_code == 7
    assert b"b-xterm-256color-/tmp" in said
    assert b"11 22" in said


def test_a_terminal_gets_input_by_a_stream_and_is_followed_by_another(sandbox: Sandbox) -> None:
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    other = sandbox.pty.connect(terminal.pid)
    sandbox.pty.stream_input(terminal.pid, iter([b"echo $((40", b"+2))\n", b"exit\n"]))
    heard: list[bytes] = []
    other.wait(on_pty=heard.append)
    assert b"42" in b"".join(heard)
    terminal.wait()


def test_a_terminal_is_killed_once(sandbox: Sandbox) -> None:
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    assert sandbox.pty.kill(terminal.pid)
    with pytest.raises(CommandExitException):
        terminal.wait()
    assert not sandbox.pty.kill(terminal.pid)


def test_a_terminals_input_is_not_closed(sandbox: Sandbox) -> None:
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    with pytest.raises(SandboxException, match="Ctrl"):
        sandbox.commands.close_stdin(terminal.pid)
    terminal.kill()


def test_an_unknown_terminal_is_not_found(sandbox: Sandbox) -> None:
    with pytest.raises(NotFoundException):
        sandbox.pty.connect(999_999)
    with pytest.raises(NotFoundException):
        sandbox.pty.resize(999_999, PtySize(rows=1, cols=1))


async def test_async_terminals_have_every_operation(server: Served) -> None:
    remote = await AsyncSandbox.create(**server.e2b)
    heard: list[bytes] = []
    terminal = await remote.pty.create(PtySize(rows=24, cols=80), on_data=heard.append, user="root")
    other = await remote.pty.connect(terminal.pid, on_data=lambda _: None)
    await remote.pty.resize(terminal.pid, PtySize(rows=5, cols=6))
    await remote.pty.send_stdin(terminal.pid, b"stty size\n")
    given = remote.pty.stream_input(terminal.pid)
    await given.send(b"id -un; exit\n")
    await given.close()
    await terminal.wait()
    await other.wait()
    assert b"5 6" in b"".join(heard)
    assert b"root" in b"".join(heard)
    last = await remote.pty.create(PtySize(rows=24, cols=80), on_data=lambda _: None)
    assert await remote.pty.kill(last.pid)
    await remote.kill()
