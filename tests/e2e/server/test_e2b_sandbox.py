"""Tests of sandboxes from start to end with E2B's own SDK, unchanged, at this server."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from e2b import (
    E2B,
    AsyncSandbox,
    AuthenticationException,
    FileNotFoundException,
    Sandbox,
    SandboxException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
    Template,
)

from tests.e2e.conftest import PROGRAM, environment
from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
PATIENCE = 30.0


@contextmanager
def made(server: Served, template: str | None = None, **options: Any) -> Iterator[Sandbox]:
    sandbox = Sandbox.create(template, **options, **server.e2b)
    try:
        yield sandbox
    finally:
        with suppress(SandboxException):
            sandbox.kill()


@pytest.fixture
def api(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=60) as client:
        yield client


def wait_for(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_sandbox_is_created_used_and_killed(server: Served) -> None:
    sandbox = Sandbox.create(**server.e2b)
    assert sandbox.commands.run("echo hello").stdout == "hello\n"
    assert sandbox.is_running()
    assert sandbox.kill()
    assert not sandbox.kill()
    assert not sandbox.is_running()


def test_a_sandbox_is_killed_at_the_end_of_its_block(server: Served) -> None:
    with Sandbox.create(**server.e2b) as sandbox:
        assert sandbox.is_running()
    assert not Sandbox.kill(sandbox.sandbox_id, **server.e2b)


def test_a_sandboxs_metadata_is_returned(server: Served) -> None:
    with made(server, metadata={"who": "me"}, envs={"COLOUR": "blue"}, timeout=120) as sandbox:
        told = sandbox.get_info()
        assert (told.sandbox_id, told.template_id, told.name) == (sandbox.sandbox_id, "base", "base")
        assert (told.state, told.metadata) == (SandboxState.RUNNING, {"who": "me"})
        assert timedelta(seconds=115) < told.end_at - datetime.now(UTC) <= timedelta(seconds=120)
        assert (told.cpu_count, told.memory_mb, told.envd_version) == (2, 2048, "0.6.13")
        assert told.lifecycle == {"on_timeout": "kill", "auto_resume": False}
        assert sandbox.commands.run("echo $COLOUR").stdout == "blue\n"


def test_an_unknown_sandbox_is_not_found(server: Served) -> None:
    with pytest.raises(SandboxNotFoundException):
        Sandbox.get_info("i" + "0" * 20, **server.e2b)
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect("i" + "0" * 20, **server.e2b)
    with pytest.raises(SandboxNotFoundException):
        Sandbox.set_timeout("i" + "0" * 20, 10, **server.e2b)


def test_an_unknown_template_is_not_found(server: Served) -> None:
    with pytest.raises(SandboxException, match="template 'nobodys' not found"):
        Sandbox.create("nobodys", **server.e2b)


def test_an_unknown_key_opens_nothing(server: Served) -> None:
    with pytest.raises(AuthenticationException, match="key"):
        Sandbox.create(**{**server.e2b, "api_key": "e2b_" + "0" * 40})


def test_a_sandbox_whose_time_is_up_is_gone(server: Served) -> None:
    with made(server, timeout=1) as sandbox:
        wait_for(lambda: not sandbox.is_running())
        with pytest.raises(SandboxNotFoundException):
            sandbox.get_info()


def test_a_sandbox_lasts_for_its_timeout(server: Served) -> None:
    with made(server, timeout=60) as sandbox:
        sandbox.set_timeout(600)
        assert sandbox.get_info().end_at - datetime.now(UTC) > timedelta(seconds=590)
        sandbox.set_timeout(0)
        assert not sandbox.is_running()


def test_connecting_only_ever_gives_a_running_sandbox_more_time(server: Served) -> None:
    with made(server, timeout=600) as sandbox:
        end = sandbox.get_info().end_at
        again = Sandbox.connect(sandbox.sandbox_id, timeout=10, **server.e2b)
        assert again.get_info().end_at == end
        sandbox.connect(timeout=1200)
        assert sandbox.get_info().end_at > end + timedelta(seconds=500)


def test_sandboxes_are_listed_by_their_metadata_whatever_it_holds(server: Served) -> None:
    odd = {"a b&c": "ü = 100 %", "plus": "1+1"}
    with made(server, metadata=odd) as one, made(server, metadata={"plus": "2"}):
        found = Sandbox.list(query=SandboxQuery(metadata=odd), **server.e2b).next_items()
        assert [each.sandbox_id for each in found] == [one.sandbox_id]


def test_a_list_is_cut_into_pages_and_ordered_as_a_whole(server: Served) -> None:
    mark = {"pages": "yes"}
    with made(server, metadata=mark) as one, made(server, metadata=mark) as two, made(server, metadata=mark) as three:
        wanted = [one.sandbox_id, two.sandbox_id, three.sandbox_id]
        pages = Sandbox.list(query=SandboxQuery(metadata=mark), limit=2, order="asc", **server.e2b)
        found = [[each.sandbox_id for each in pages.next_items()]]
        more = [pages.has_next]
        found.append([each.sandbox_id for each in pages.next_items()])
        more.append(pages.has_next)
        assert (found, more) == ([wanted[:2], wanted[2:]], [True, False])
        newest = Sandbox.list(query=SandboxQuery(metadata=mark), limit=1, **server.e2b).next_items()
        assert newest[0].sandbox_id == wanted[2]


def test_a_list_is_filtered_by_state_start_and_template(server: Served) -> None:
    with made(server, metadata={"n": "1"}) as one, made(server, metadata={"n": "1"}) as two:
        two.pause()

        def ids(**query: Any) -> set[str]:
            asked = SandboxQuery(metadata={"n": "1"}, **query)
            return {each.sandbox_id for each in Sandbox.list(query=asked, **server.e2b).next_items()}

        assert ids() == {one.sandbox_id, two.sandbox_id}
        assert ids(state=[SandboxState.RUNNING]) == {one.sandbox_id}
        assert ids(state=[SandboxState.PAUSED]) == {two.sandbox_id}
        assert ids(started_after=one.get_info().started_at) == {one.sandbox_id, two.sandbox_id}
        assert ids(started_after=datetime.now(UTC)) == set()
        assert ids(template="base") == {one.sandbox_id, two.sandbox_id}
        assert ids(template="other") == set()


def test_what_a_sandbox_uses_is_measured(server: Served) -> None:
    with made(server) as sandbox:
        sandbox.commands.run("head -c 20000000 /dev/urandom > noise; sync")
        wait_for(lambda: sandbox.get_metrics()[-1].disk_used >= 20_000_000)  # a sample is reused for a second
        found = sandbox.get_metrics()
        assert found[-1].mem_total == 2 << 30
        assert 0 < found[-1].mem_used <= found[-1].mem_total
        assert sandbox.get_metrics(end=datetime.now(UTC) - timedelta(hours=1)) == []


@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        b"[]",
        b"{}",
        b'{"templateID": 7}',
        b'{"templateID": "base", "timeout": 0}',
        b'{"templateID": "base", "timeout": -5}',
        b'{"templateID": "base", "timeout": 1e9}',
        b'{"templateID": "base", "timeout": 86401}',
        b'{"templateID": "base", "timeout": "300"}',
        b'{"templateID": "base", "envVars": {"A": 1}}',
        b'{"templateID": "base", "envVars": {"A=B": "1"}}',
        b'{"templateID": "base", "metadata": ["a"]}',
        b'{"templateID": "base:", "timeout": 5}',
        b'{"templateID": "base", "autoPauseMemory": false}',
        b'{"templateID": "base", "autoResume": {"enabled": true}}',
        b'{"templateID": "base", "autoPause": true, "autoPauseMemory": false, "autoResume": {"enabled": true}}',
    ],
)
def test_invalid_requests_are_refused_with_a_reason(api: httpx.Client, body: bytes) -> None:
    told = api.post("/v2/sandboxes", content=body)
    assert (told.status_code, told.json()["code"]) == (400, 400)
    assert told.json()["message"]


def test_an_older_sdk_gets_a_token_only_for_a_secure_sandbox(api: httpx.Client) -> None:
    plain = api.post("/sandboxes", json={"templateID": "base"}).json()
    secure = api.post("/sandboxes", json={"templateID": "base", "secure": True}).json()
    assert "envdAccessToken" not in plain
    assert len(secure["envdAccessToken"]) == 64
    refused = api.post("/sandboxes", json={"templateID": "base", "network": {"allowPublicTraffic": False}})
    assert refused.status_code == 400
    for each in (plain, secure):
        assert api.delete(f"/sandboxes/{each['sandboxID']}").status_code == 204


def test_a_request_repeated_with_its_idempotency_key_is_carried_out_once(api: httpx.Client) -> None:
    headers = {"Idempotency-Key": "once-only"}
    body = {"templateID": "base", "timeout": 60}
    first = api.post("/v2/sandboxes", json=body, headers=headers)
    second = api.post("/v2/sandboxes", json=body, headers=headers)
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json()
    assert api.post("/v2/sandboxes", json={**body, "timeout": 61}, headers=headers).status_code == 422
    assert api.post("/v2/sandboxes", json=body, headers={"Idempotency-Key": "a b"}).status_code == 400
    api.delete(f"/sandboxes/{first.json()['sandboxID']}")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v3/templates", 400),
        ("POST", "/v2/templates/x/builds/y", 400),
        ("GET", "/templates/x/builds/y/status", 400),
        ("POST", "/templates/tags", 400),
        ("POST", "/volumes", 400),
        ("GET", "/volumes/x", 404),
        ("GET", "/volumecontent/x/path", 401),
        ("POST", "/secrets", 400),
        ("GET", "/secrets/nobodys", 404),
        ("GET", "/templates/aliases/base", 200),
        ("GET", "/templates/aliases/nobodys", 404),
        ("GET", "/nothing", 404),
        ("PATCH", "/sandboxes/x", 404),
        ("GET", "/v2/sandboxes?limit=0", 400),
        ("GET", "/v2/sandboxes?limit=%C2%B2", 400),
        ("GET", "/v2/sandboxes?order=up", 400),
        ("GET", "/v2/sandboxes?state=asleep", 400),
        ("GET", "/v2/sandboxes?startedAfter=soon", 400),
        ("GET", "/v2/sandboxes?nextToken=%21%21", 400),
        ("GET", "/snapshots?nextToken=bm9uc2Vuc2U", 400),
        ("GET", "/sandboxes/metrics?sandbox_ids=nobody", 200),
    ],
)
def test_every_error_is_json_with_its_status_code(api: httpx.Client, method: str, path: str, status: int) -> None:
    told = api.request(method, path)
    assert told.status_code == status, told.text
    assert status == 200 or (told.json()["code"] == status and told.json()["message"])


def test_workload_tokens_without_an_audience_are_refused_with_a_reason(api: httpx.Client) -> None:
    told = api.post("/v2/sandboxes", json={"templateID": "base", "iam": {"tokens": {"t": {}}}})
    assert (told.status_code, told.json()["code"]) == (400, 400)
    assert "iam" in told.json()["message"]


def test_a_sandboxs_network_rules_are_returned_and_can_be_changed(server: Served) -> None:
    with made(server, allow_internet_access=False) as sandbox:
        assert sandbox.get_info().allow_internet_access is False
        sandbox.update_network({"allow_out": ["example.test"], "deny_out": ["0.0.0.0/0"]})
        told = sandbox.get_info().network
        assert told is not None
        assert told["allow_out"] == ["example.test"]
        with pytest.raises(SandboxException, match="400"):
            sandbox.update_network({"allow_out": ["127.0.0.0/8"]})
        sandbox.pause()
        with pytest.raises(SandboxException, match="paused"):
            sandbox.update_network({})


def test_requests_of_rarely_used_clients_are_answered(api: httpx.Client, server: Served) -> None:
    with made(server, timeout=30) as sandbox:
        path = f"/sandboxes/{sandbox.sandbox_id}"
        assert api.get(f"{path}/logs").json() == {"logs": [], "logEntries": []}
        assert api.post(f"{path}/refreshes", json={"duration": 600}).status_code == 204
        assert sandbox.get_info().end_at - datetime.now(UTC) > timedelta(seconds=590)
        assert [each["sandboxID"] for each in api.get("/sandboxes").json()] == [sandbox.sandbox_id]
        many = api.get("/sandboxes/metrics", params={"sandbox_ids": f"{sandbox.sandbox_id},other"}).json()
        assert list(many["sandboxes"]) == [sandbox.sandbox_id]


def test_a_sandbox_whose_desk_was_burnt_by_its_operator_is_gone(server: Served) -> None:
    with made(server) as sandbox:
        burn = [PROGRAM, "burn", sandbox.sandbox_id]
        subprocess.run(burn, check=True, env=environment(server.settings), capture_output=True)
        wait_for(lambda: not sandbox.is_running())
        with pytest.raises(SandboxNotFoundException):
            sandbox.get_info()


def test_a_sandbox_reports_its_addresses(server: Served) -> None:
    with made(server, network={"allow_public_traffic": False}) as sandbox:
        domain = server.url.rpartition("/")[2].replace("127.0.0.1", "localhost")
        assert sandbox.sandbox_domain == domain
        assert sandbox.get_host(8080) == f"8080-{sandbox.sandbox_id}.{domain}"
        assert sandbox.get_mcp_url() == f"https://50005-{sandbox.sandbox_id}.{domain}/mcp"
        assert sandbox.envd_api_url == sandbox.envd_direct_url == server.url
        assert sandbox.connection_config.api_key == server.key
        aim = {"Host": sandbox.get_host(8080)}
        assert httpx.get(server.url, headers=aim).status_code == 403
        shown = {**aim, "e2b-traffic-access-token": str(sandbox.traffic_access_token)}
        assert httpx.get(server.url, headers=shown).json()["message"] == "The sandbox is running but port is not open"
        assert sandbox.git.init("repository").exit_code == 0


def test_a_sandbox_without_mcp_servers_has_no_token_for_them(server: Served) -> None:
    with made(server) as sandbox:
        with pytest.raises(FileNotFoundException):
            sandbox.get_mcp_token()
        sandbox.files.write("/etc/mcp-gateway/.token", "written by a gateway", user="root")
        assert sandbox.get_mcp_token() == "written by a gateway"


def test_unsupported_calls_are_refused_with_a_reason_that_the_sdk_shows(server: Served) -> None:
    with pytest.raises(
        SandboxException, match=r"404: template mcp-gateway not found.*hotdesk image build ./mcp-gateway\.toml"
    ):
        Sandbox.create(mcp={}, **server.e2b)
    assert Template.exists("base", **server.e2b)
    assert not Template.exists("nobodys", **server.e2b)
    assert Sandbox.list(**server.e2b).next_items() == []


def test_a_configured_client_makes_sandboxes(server: Served) -> None:
    client = E2B(**server.e2b)
    with client.Sandbox.create(timeout=60) as sandbox:
        assert client.Sandbox.get_info(sandbox.sandbox_id).state == SandboxState.RUNNING
        page = client.Sandbox.list(limit=1)
        assert page.next_token is None
        assert [each.sandbox_id for each in page.next_items()] == [sandbox.sandbox_id]


def test_a_page_is_requested_by_its_token(server: Served) -> None:
    mark = {"token": "yes"}
    with made(server, metadata=mark), made(server, metadata=mark) as last:
        pages = Sandbox.list(query=SandboxQuery(metadata=mark), limit=1, order="asc", **server.e2b)
        pages.next_items()
        again = Sandbox.list(query=SandboxQuery(metadata=mark), order="asc", next_token=pages.next_token, **server.e2b)
        assert [each.sandbox_id for each in again.next_items()] == [last.sandbox_id]
        with pytest.raises(Exception, match="No more items"):
            again.next_items()
    with pytest.raises(SandboxException, match="400"):
        Sandbox.list(next_token="!!", **server.e2b).next_items()


@pytest.mark.anyio
async def test_the_asynchronous_sdk_does_the_same(server: Served) -> None:
    sandbox = await AsyncSandbox.create(metadata={"kind": "async"}, timeout=60, **server.e2b)
    assert (await sandbox.commands.run("echo hello")).stdout == "hello\n"
    assert (await sandbox.get_info()).metadata == {"kind": "async"}
    await sandbox.set_timeout(120)
    assert await sandbox.pause()
    assert not await sandbox.is_running()
    again = await AsyncSandbox.connect(sandbox.sandbox_id, **server.e2b)
    assert await again.is_running()
    listed = await AsyncSandbox.list(query=SandboxQuery(metadata={"kind": "async"}), **server.e2b).next_items()
    assert [each.sandbox_id for each in listed] == [sandbox.sandbox_id]
    assert await sandbox.get_metrics()
    assert await sandbox.kill()
    assert not await AsyncSandbox.kill(sandbox.sandbox_id, **server.e2b)
