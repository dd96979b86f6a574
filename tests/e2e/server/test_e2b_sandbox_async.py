"""Tests of `AsyncSandbox` of E2B's own SDK at this server: sandboxes from start to end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from e2b import (
    E2B,
    AsyncSandbox,
    AsyncTemplate,
    CommandExitException,
    FileNotFoundException,
    InvalidArgumentException,
    SandboxException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
)

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
NOBODY = "i" + "0" * 20


async def test_a_sandbox_is_made_lengthened_measured_and_killed(server: Served) -> None:
    async with await AsyncSandbox.create(
        timeout=60, envs={"A": "b"}, metadata={"by": "async"}, **server.e2b
    ) as sandbox:
        assert await sandbox.is_running()
        await sandbox.set_timeout(600)
        told = await sandbox.get_info()
        assert (told.metadata, told.state) == ({"by": "async"}, SandboxState.RUNNING)
        assert told.end_at - datetime.now(UTC) > timedelta(seconds=590)
        assert (await sandbox.get_metrics())[-1].mem_total == 2 << 30
        assert (await AsyncSandbox.connect(sandbox.sandbox_id, **server.e2b)).sandbox_id == sandbox.sandbox_id
    assert not await sandbox.kill()


async def test_an_unknown_sandbox_is_not_found(server: Served) -> None:
    with pytest.raises(SandboxNotFoundException):
        await AsyncSandbox.get_info(NOBODY, **server.e2b)
    with pytest.raises(SandboxNotFoundException):
        await AsyncSandbox.connect(NOBODY, **server.e2b)
    with pytest.raises(SandboxException, match="template 'nobodys' not found"):
        await AsyncSandbox.create("nobodys", **server.e2b)
    assert not await AsyncSandbox.kill(NOBODY, **server.e2b)


async def test_a_sandbox_reports_its_addresses(server: Served) -> None:
    async with await AsyncSandbox.create(network={"allow_public_traffic": False}, **server.e2b) as sandbox:
        domain = server.url.rpartition("/")[2].replace("127.0.0.1", "localhost")
        assert sandbox.sandbox_domain == domain
        assert sandbox.get_host(8080) == f"8080-{sandbox.sandbox_id}.{domain}"
        assert sandbox.get_mcp_url() == f"https://50005-{sandbox.sandbox_id}.{domain}/mcp"
        assert sandbox.envd_api_url == sandbox.envd_direct_url == server.url
        assert sandbox.connection_config.api_key == server.key
        assert len(str(sandbox.traffic_access_token)) == 64
        assert (await sandbox.git.init("repository")).exit_code == 0


async def test_a_signed_address_reads_and_writes(server: Served) -> None:
    async with await AsyncSandbox.create(**server.e2b) as sandbox, httpx.AsyncClient() as client:
        url = sandbox.upload_url("signed.txt", use_signature_expiration=60)
        assert (await client.post(url, files={"file": ("x", b"by address")})).status_code == 200
        assert (await client.get(sandbox.download_url("signed.txt"))).text == "by address"
        assert (await client.get(f"{sandbox.download_url('signed.txt')}x")).status_code == 401


async def test_a_token_of_mcp_servers_is_read_where_a_gateway_left_it(server: Served) -> None:
    async with await AsyncSandbox.create(**server.e2b) as sandbox:
        with pytest.raises(FileNotFoundException):
            await sandbox.get_mcp_token()
        await sandbox.files.write("/etc/mcp-gateway/.token", "written by a gateway", user="root")
        assert await sandbox.get_mcp_token() == "written by a gateway"


async def test_unsupported_calls_are_refused_with_a_reason(server: Served) -> None:
    with pytest.raises(SandboxException, match="404: template mcp-gateway not found"):
        await AsyncSandbox.create(mcp={}, **server.e2b)
    assert await AsyncTemplate.exists("base", **server.e2b)


async def test_a_list_is_cut_into_pages(server: Served) -> None:
    client = E2B(**server.e2b)
    query = SandboxQuery(metadata={"pages": "async"})
    async with (
        await AsyncSandbox.create(metadata={"pages": "async"}, **server.e2b) as one,
        await AsyncSandbox.create(metadata={"pages": "async"}, **server.e2b) as two,
    ):
        pages = AsyncSandbox.list(query=query, limit=1, order="asc", **server.e2b)
        assert [each.sandbox_id for each in await pages.next_items()] == [one.sandbox_id]
        assert pages.has_next
        rest = client.AsyncSandbox.list(query=query, order="asc", next_token=pages.next_token)
        assert [each.sandbox_id for each in await rest.next_items()] == [two.sandbox_id]
        assert not rest.has_next
    with pytest.raises(SandboxException, match="400"):
        await AsyncSandbox.list(next_token="!!", **server.e2b).next_items()


async def test_snapshots_are_listed_in_pages_and_deleted_once(server: Served) -> None:
    async with await AsyncSandbox.create(**server.e2b) as sandbox:
        taken = [(await sandbox.create_snapshot()).snapshot_id for _ in range(2)]
        pages = sandbox.list_snapshots(limit=1)
        found = [each.snapshot_id for each in await pages.next_items()]
        assert pages.has_next
        rest = AsyncSandbox.list_snapshots(sandbox.sandbox_id, next_token=pages.next_token, **server.e2b)
        found += [each.snapshot_id for each in await rest.next_items()]
        assert found == taken[::-1]
        with pytest.raises(SandboxException, match="400"):
            await sandbox.list_snapshots(next_token="!!").next_items()
        with pytest.raises(SandboxException, match="400"):
            await sandbox.create_snapshot(name="a b")
        for each in taken:
            assert await AsyncSandbox.delete_snapshot(each, **server.e2b)
            assert not await AsyncSandbox.delete_snapshot(each, **server.e2b)


async def test_a_paused_sandbox_is_changed_and_forked_only_once_it_continues(server: Served) -> None:
    async with await AsyncSandbox.create(allow_internet_access=False, **server.e2b) as sandbox:
        await sandbox.update_network({"allow_out": ["example.test"], "deny_out": ["0.0.0.0/0"]})
        told = (await sandbox.get_info()).network
        assert told is not None
        assert told["allow_out"] == ["example.test"]
        assert await sandbox.pause()
        assert not await sandbox.beta_pause()
        with pytest.raises(SandboxException, match="paused"):
            await sandbox.update_network({})
        with pytest.raises(SandboxException, match="paused"):
            await sandbox.fork()
        with pytest.raises(InvalidArgumentException):
            await sandbox.connect(on_resume="perhaps")
        await sandbox.connect(timeout=60)
        (fork,) = await sandbox.fork(timeout=60)
        assert isinstance(fork, AsyncSandbox)
        assert await fork.kill()


async def test_a_follower_reads_how_a_program_went(server: Served) -> None:
    async with await AsyncSandbox.create(**server.e2b) as sandbox:
        handle = await sandbox.commands.run("echo out; echo err >&2; exit 4", background=True)
        with pytest.raises(CommandExitException):
            await handle.wait()
        assert (handle.stdout, handle.stderr, handle.exit_code, handle.error) == ("out\n", "err\n", 4, "exit status 4")
