"""inspect_ai's own checks of a sandbox provider, on desks; run by pytest in an environment that has inspect_ai."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

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
