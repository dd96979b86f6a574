"""inspect_ai's own checks of a sandbox provider, on desks; run by pytest in an environment that has inspect_ai."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironmentLimits
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from hotdesk.errors import HotdeskError
from hotdesk.integrations.inspect_sandbox import HotdeskConfig, HotdeskSandboxEnvironment

ROOT_MAY = "root may read and write every file; inspect_ai's own containers fail here, too"
KNOWN = {
    ("test_read_file_not_allowed", "root"): ROOT_MAY,
    ("test_write_text_file_without_permissions", "root"): ROOT_MAY,
    ("test_write_binary_file_without_permissions", "root"): ROOT_MAY,
    ("test_exec_large_command", "root"): "what root runs is in the journal, which has no event of a megabyte",
}
"""Checks that a desk cannot pass, and why."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["user", "root"])
async def sandbox_env(request: pytest.FixtureRequest) -> AsyncIterator[HotdeskSandboxEnvironment]:
    if reason := KNOWN.get((request.node.originalname, request.param)):
        request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    assert registry_find_sandboxenv("hotdesk") is HotdeskSandboxEnvironment
    config = HotdeskConfig(user=request.param)
    await HotdeskSandboxEnvironment.task_init("checks", config)
    try:
        found = await HotdeskSandboxEnvironment.sample_init("checks", config, {})
        yield found["default"]
        await HotdeskSandboxEnvironment.sample_cleanup("checks", config, found, False)
    finally:
        await HotdeskSandboxEnvironment.task_cleanup("checks", config, True)


async def test_exec_as_an_added_user(sandbox_env: HotdeskSandboxEnvironment) -> None:
    added = await sandbox_env.exec(["/usr/sbin/useradd", "--create-home", "worker"], user="root")
    assert added.success, added.stderr
    assert (await sandbox_env.exec(["whoami"], user="worker")).stdout == "worker\n"


async def test_a_pipe_or_device_is_not_read_for_ever(sandbox_env: HotdeskSandboxEnvironment) -> None:
    assert (await sandbox_env.exec(["mkfifo", "pipe"])).success
    with anyio.fail_after(20):
        for file in ("pipe", "/dev/zero"):
            with pytest.raises(OSError, match="not a regular file"):
                await sandbox_env.read_file(file)
        with pytest.raises(OSError, match="is a pipe"):
            await sandbox_env.write_file("pipe", "nobody reads this")


async def test_a_file_with_more_bytes_than_its_size_says_is_not_returned_in_part(
    sandbox_env: HotdeskSandboxEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of /proc have no size before they are read."""
    monkeypatch.setattr(SandboxEnvironmentLimits, "MAX_READ_FILE_SIZE", 10)
    with pytest.raises(OutputLimitExceededError):
        await sandbox_env.read_file("/proc/cpuinfo")


async def test_a_desk_that_ended_is_a_lost_connection(sandbox_env: HotdeskSandboxEnvironment) -> None:
    await sandbox_env.desk.burn()
    with pytest.raises(ConnectionError):
        await sandbox_env.exec(["true"])
    with pytest.raises(ConnectionError):
        await sandbox_env.read_file("any")


async def test_a_machine_that_does_not_start_counts_no_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/config.toml").write_text("not TOML")
    monkeypatch.setenv("HOTDESK_HOME", str(tmp_path))
    with pytest.raises(HotdeskError):
        await HotdeskSandboxEnvironment.task_init("checks", None)
    assert HotdeskSandboxEnvironment.tasks == 0
    assert HotdeskSandboxEnvironment.host is None
