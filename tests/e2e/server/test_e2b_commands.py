"""Tests of `commands` and `CommandHandle` of E2B's own SDK, sync and async, at this server."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator

import anyio
import httpx
import pytest
from e2b import (
    AsyncSandbox,
    AuthenticationException,
    CommandExitException,
    InvalidArgumentException,
    NotFoundException,
    Sandbox,
    SandboxException,
    TimeoutException,
)

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def sandbox(server: Served) -> Iterator[Sandbox]:
    made = Sandbox.create(envs={"GIVEN": "by the sandbox"}, **server.e2b)
    yield made
    made.kill()


@pytest.fixture
async def remote(server: Served, sandbox: Sandbox) -> AsyncIterator[AsyncSandbox]:
    made = await AsyncSandbox.create(**server.e2b)
    yield made
    await made.kill()


@pytest.mark.parametrize(
    ("command", "stdout", "stderr"),
    [
        ("echo out; echo err >&2", "out\n", "err\n"),
        ("pwd; id -un; echo $HOME $USER", "/home/user\nuser\n/home/user user\n", ""),
        ("printf 'h\\303\\244'", "hä", ""),
        ("cat", "", ""),
    ],
)
def test_a_commands_output_is_returned(sandbox: Sandbox, command: str, stdout: str, stderr: str) -> None:
    done = sandbox.commands.run(command)
    assert (done.stdout, done.stderr, done.exit_code) == (stdout, stderr, 0)


def test_a_command_has_its_variables_and_folder(sandbox: Sandbox) -> None:
    done = sandbox.commands.run("echo $A; pwd", envs={"A": "b c"}, cwd="/tmp")
    assert done.stdout == "b c\n/tmp\n"


@pytest.mark.parametrize(("cwd", "where"), [("~", "/home/user"), ("x/y", "/home/user/x/y"), ("~/x", "/home/user/x")])
def test_a_folder_lies_in_the_home_of_its_user(sandbox: Sandbox, cwd: str, where: str) -> None:
    sandbox.commands.run("mkdir -p x/y")
    assert sandbox.commands.run("pwd", cwd=cwd).stdout == f"{where}\n"


def test_a_missing_folder_is_the_callers_error(sandbox: Sandbox) -> None:
    with pytest.raises(InvalidArgumentException, match="cwd '/nowhere' does not exist"):
        sandbox.commands.run("true", cwd="/nowhere")


def test_root_runs_programs_in_its_own_home(sandbox: Sandbox) -> None:
    assert sandbox.commands.run("id -u; pwd; echo $HOME", user="root").stdout == "0\n/root\n/root\n"


def test_an_unknown_user_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(AuthenticationException, match="invalid username: 'nobody-here'"):
        sandbox.commands.run("true", user="nobody-here")


def test_a_wrong_token_is_refused(server: Served, sandbox: Sandbox) -> None:
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": "wrong"}
    answer = httpx.post(f"{server.url}/process.Process/List", json={}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, 401)


def test_a_failed_command_raises_with_its_output(sandbox: Sandbox) -> None:
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.run("echo so far; exit 3")
    assert (caught.value.exit_code, caught.value.stdout, caught.value.error) == (3, "so far\n", "exit status 3")


def test_a_command_out_of_time_is_killed(sandbox: Sandbox) -> None:
    with pytest.raises(TimeoutException):
        sandbox.commands.run("sleep 321", timeout=1)
    time.sleep(0.5)
    assert sandbox.commands.run("pgrep -fx 'sleep 321' || echo none").stdout == "none\n"


def test_much_output_is_whole(sandbox: Sandbox) -> None:
    assert len(sandbox.commands.run("head -c 3000000 /dev/zero | tr '\\0' x").stdout) == 3_000_000


def test_early_output_is_not_lost(sandbox: Sandbox) -> None:
    assert [sandbox.commands.run(f"echo {n}").stdout for n in range(5)] == [f"{n}\n" for n in range(5)]


def test_output_is_reported_as_it_comes(sandbox: Sandbox) -> None:
    heard: list[str] = []
    sandbox.commands.run("echo a; sleep 0.2; echo b >&2", on_stdout=heard.append, on_stderr=heard.append)
    assert heard == ["a\n", "b\n"]


def test_a_program_is_fed_and_its_input_closed(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "one\n")
    handle.send_stdin("two\n")
    handle.close_stdin()
    assert handle.wait().stdout == "one\ntwo\n"


def test_a_program_is_fed_by_a_stream(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    parts: list[str | bytes] = ["a", b"b", "c\n"]
    sandbox.commands.stream_input(handle.pid, iter(parts))
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "abc\n"


def test_a_program_without_input_takes_none(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("sleep 30", background=True)
    with pytest.raises(SandboxException, match="stdin not enabled or closed"):
        handle.send_stdin("x")
    handle.kill()


def test_running_programs_are_listed_until_they_are_killed(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("sleep 77", background=True, envs={"LISTED": "yes"}, cwd="/tmp")
    found = {one.pid: one for one in sandbox.commands.list()}[handle.pid]
    assert (found.cmd, found.args, found.cwd) == ("/bin/bash", ["-l", "-c", "sleep 77"], "/tmp")
    assert found.envs["LISTED"] == "yes"
    assert sandbox.commands.kill(handle.pid)
    with pytest.raises(CommandExitException) as caught:
        handle.wait()
    assert (caught.value.exit_code, caught.value.error) == (-1, "signal: killed")
    assert handle.pid not in {one.pid for one in sandbox.commands.list()}


def test_a_killed_program_is_gone_when_the_call_returns(sandbox: Sandbox) -> None:
    for _ in range(20):
        pid = sandbox.commands.run("exec sleep 300", background=True).pid
        assert sandbox.commands.kill(pid)
        assert pid not in [each.pid for each in sandbox.commands.list()]
        assert not sandbox.commands.kill(pid)


def test_killing_a_program_with_unread_output_takes_only_a_moment(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("exec yes", background=True)
    while sandbox.commands.run(f"cut -d' ' -f3 /proc/{handle.pid}/stat").stdout != "S\n":
        pass  # until every buffer in between is full
    begun = time.monotonic()
    assert sandbox.commands.kill(handle.pid)
    assert time.monotonic() - begun < 4
    handle.disconnect()


def test_killing_a_missing_program_is_reported(sandbox: Sandbox) -> None:
    assert not sandbox.commands.kill(999_999)


def test_a_handle_kills_its_program(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("sleep 78", background=True)
    assert handle.kill()
    with pytest.raises(CommandExitException, match="code -1"):
        handle.wait()
    assert not handle.kill()


def test_a_program_outlives_its_followers(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("sleep 1; echo late", background=True)
    handle.disconnect()
    again = sandbox.commands.connect(handle.pid)
    assert again.wait().stdout == "late\n"


def test_several_followers_get_all_output(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("read x; echo $x", background=True, stdin=True)
    others = [sandbox.commands.connect(handle.pid) for _ in range(2)]
    handle.send_stdin("told\n")
    assert {one.wait().stdout for one in (handle, *others)} == {"told\n"}


def test_an_exit_is_kept_for_a_late_follower(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("exit 5", background=True)
    with pytest.raises(CommandExitException):
        handle.wait()
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.connect(handle.pid).wait()
    assert caught.value.exit_code == 5


def test_following_an_unknown_program_is_not_found(sandbox: Sandbox) -> None:
    with pytest.raises(NotFoundException, match="process with pid 999999 not found"):
        sandbox.commands.connect(999_999)


def test_a_handle_is_iterated(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("echo a; echo b >&2", background=True)
    assert sorted((out or "") + (err or "") for out, err, _ in handle) == ["a\n", "b\n"]


def test_a_killed_sandbox_interrupts_its_streams(server: Served) -> None:
    made = Sandbox.create(**server.e2b)
    handle = made.commands.run("sleep 60", background=True)
    threading.Timer(0.5, made.kill).start()
    with pytest.raises(TimeoutException, match=r"was killed or reached its end of life|not found"):
        handle.wait()
    with pytest.raises(TimeoutException):
        made.commands.run("true")


async def test_async_commands_run_fail_and_time_out(remote: AsyncSandbox) -> None:
    assert (await remote.commands.run("echo hi", user="root")).stdout == "hi\n"
    with pytest.raises(CommandExitException):
        await remote.commands.run("exit 1")
    with pytest.raises(TimeoutException):
        await remote.commands.run("sleep 60", timeout=1)
    with pytest.raises(InvalidArgumentException):
        await remote.commands.run("true", cwd="/nowhere")


async def test_async_programs_are_fed_listed_followed_and_killed(remote: AsyncSandbox) -> None:
    handle = await remote.commands.run("cat", background=True, stdin=True)
    assert handle.pid in {one.pid for one in await remote.commands.list()}
    other = await remote.commands.connect(handle.pid)
    await remote.commands.send_stdin(handle.pid, "a")
    await handle.send_stdin("b")
    async with remote.commands.stream_input(handle.pid) as given:
        await given.send("c")
    await remote.commands.close_stdin(handle.pid)
    assert (await handle.wait()).stdout == (await other.wait()).stdout == "abc"
    sleeping = await remote.commands.run("sleep 60", background=True, stdin=True)
    await sleeping.close_stdin()
    assert await remote.commands.kill(sleeping.pid)
    with pytest.raises(CommandExitException):
        await sleeping.wait()
    assert not await remote.commands.kill(999_999)


async def test_an_async_handle_disconnects_and_kills(remote: AsyncSandbox) -> None:
    handle = await remote.commands.run("sleep 50", background=True)
    await handle.disconnect()
    assert handle.pid in {one.pid for one in await remote.commands.list()}
    assert await handle.kill()


async def test_many_commands_run_at_once(remote: AsyncSandbox) -> None:
    said: list[str] = []

    async def run(n: int) -> None:
        said.append((await remote.commands.run(f"echo {n}")).stdout)

    async with anyio.create_task_group() as tasks:
        for n in range(20):
            tasks.start_soon(run, n)
    assert sorted(said) == sorted(f"{n}\n" for n in range(20))
