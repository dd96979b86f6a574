"""Tests of tenants' quotas at a real server: no burst exceeds them, and a refusal names the quota."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from e2b import Sandbox
from e2b.exceptions import RateLimitException

from hotdesk.api.e2b.ports.traffic import AT_ONCE
from hotdesk.api.keys import ApiKeys
from hotdesk.config import get_tenant_settings
from tests.e2e.server import job_template
from tests.e2e.server.conftest import PATIENCE, Served, served
from tests.leftovers import cmdline, keepers

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
DESKS = 3
CONFIG = f"""
[serve.quota]
desks = {DESKS}

[serve.quota.busy]
desks = 3
jobs = 2

[serve.quota.single]
desks = 1

[serve.quota.small]
memory = "600M"

[serve.quota.slow]
rate = 1

[serve.quota.paced]
calls = 1
"""
NEW = {"templateID": "base", "timeout": 300}


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with served(home / f"quota-{time.monotonic_ns()}", config=CONFIG) as found:
        job_template.install(found.settings.lib / "templates")
        yield found


@pytest.fixture
def client(server: Served) -> Iterator[httpx.Client]:
    """Yield a client of a tenant that has nothing yet; remove what it created at the end."""
    with as_tenant(server, "default") as made:
        yield made
        for each in made.get("/sandboxes").json():
            made.delete(f"/sandboxes/{each['sandboxID']}")
        for each in made.get("/api/v1/desks").json()["items"]:
            made.delete(f"/api/v1/desks/{each['id']}")


def as_tenant(server: Served, tenant: str) -> httpx.Client:
    key = ApiKeys(server.settings.lib / "serve").make("test", tenant)
    return httpx.Client(base_url=server.url, headers={"X-API-Key": key}, timeout=60)


def fill(client: httpx.Client) -> list[str]:
    made = [client.post("/sandboxes", json=NEW) for _ in range(DESKS)]
    assert [each.status_code for each in made] == [201] * DESKS
    return [each.json()["sandboxID"] for each in made]


def test_a_desk_beyond_the_quota_is_refused_with_the_quota_and_the_remedy(client: httpx.Client) -> None:
    fill(client)
    told = client.post("/sandboxes", json=NEW)
    assert (told.status_code, told.json()["code"]) == (429, 429)
    assert f"uses {DESKS} of its quota of {DESKS} desks at once" in told.json()["message"]
    assert told.headers["should-retry"] == "false"


def test_our_own_api_reports_a_full_quota_with_its_own_code(client: httpx.Client) -> None:
    fill(client)
    told = client.post("/api/v1/desks", json={"image": "base"})
    assert (told.status_code, told.json()["code"]) == (429, "quota")
    assert told.headers["should-retry"] == "false"


def test_a_killed_sandbox_frees_quota(client: httpx.Client) -> None:
    first, *_ = fill(client)
    assert client.delete(f"/sandboxes/{first}").status_code == 204
    assert client.post("/sandboxes", json=NEW).status_code == 201


def test_a_killed_sandbox_frees_quota_at_once_although_its_desk_still_burns(server: Served) -> None:
    with as_tenant(server, "single") as one:
        desks, killed = get_tenant_settings(server.settings, "single").run / "desks", set()
        for _ in range(4):
            made = one.post("/sandboxes", json=NEW)
            assert made.status_code == 201, made.text
            sandbox = made.json()["sandboxID"]
            assert sandbox in os.listdir(desks)
            killed.add(sandbox)
            assert one.delete(f"/sandboxes/{sandbox}").status_code == 204
        end = time.monotonic() + PATIENCE
        while killed & set(os.listdir(desks)):
            assert time.monotonic() < end
            time.sleep(0.02)


def test_an_expired_sandbox_frees_quota(client: httpx.Client) -> None:
    first, *_ = fill(client)
    client.post(f"/sandboxes/{first}/timeout", json={"timeout": 0})
    end = time.monotonic() + PATIENCE
    while client.post("/sandboxes", json=NEW).status_code == 429:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_burst_opens_no_more_desks_than_the_quota(server: Served, client: httpx.Client) -> None:
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: client.post("/sandboxes", json=NEW).status_code, range(12)))
    assert sorted(answers) == [201] * DESKS + [429] * (12 - DESKS)
    assert len(client.get("/sandboxes").json()) == DESKS


def test_desks_sandboxes_and_forks_count_together(client: httpx.Client) -> None:
    sandbox = client.post("/sandboxes", json=NEW).json()["sandboxID"]
    assert client.post("/api/v1/desks", json={"image": "base"}).status_code == 201
    assert client.post(f"/sandboxes/{sandbox}/fork", json={"count": 2}).status_code == 429
    assert client.post(f"/sandboxes/{sandbox}/fork", json={"count": 1}).status_code == 201
    assert client.post("/sandboxes", json=NEW).status_code == 429


def test_a_paused_sandbox_counts_until_it_is_killed(client: httpx.Client) -> None:
    first, *_ = fill(client)
    assert client.post(f"/sandboxes/{first}/pause").status_code == 204
    assert client.post("/sandboxes", json=NEW).status_code == 429
    client.delete(f"/sandboxes/{first}")
    assert client.post("/sandboxes", json=NEW).status_code == 201


def test_an_e2b_program_gets_its_sdks_quota_exception(server: Served, client: httpx.Client) -> None:
    fill(client)
    with pytest.raises(RateLimitException, match="desks at once"):
        Sandbox.create(**server.e2b)


def test_quotas_of_other_tenants_do_not_interfere(server: Served, client: httpx.Client) -> None:
    fill(client)
    with as_tenant(server, "other") as other:
        told = other.post("/sandboxes", json=NEW)
        assert told.status_code == 201
        other.delete(f"/sandboxes/{told.json()['sandboxID']}")


def test_memory_is_counted_by_what_each_desk_may_use(server: Served) -> None:
    with as_tenant(server, "small") as small:
        first = small.post("/api/v1/desks", json={"image": "base", "memory": 400 << 20})
        assert first.status_code == 201, first.text
        told = small.post("/api/v1/desks", json={"image": "base", "memory": 400 << 20})
        assert told.status_code == 429
        assert "bytes of memory" in told.json()["message"]
        assert (
            "request less" in small.post("/api/v1/desks", json={"image": "base", "memory": 1 << 30}).json()["message"]
        )
        small.delete(f"/api/v1/desks/{first.json()['id']}")
        assert small.post("/api/v1/desks", json={"image": "base", "memory": 400 << 20}).status_code == 201


@pytest.mark.long
def test_the_desks_of_a_job_count_from_its_start_to_its_end(server: Served) -> None:
    with as_tenant(server, "busy") as busy:
        first = started(busy).json()["id"]
        refused = started(busy)
        assert (refused.status_code, refused.json()["code"]) == (429, "quota"), refused.text
        assert "uses 2 of its quota of 3 desks at once and requests 2 more" in refused.json()["message"]
        assert refused.headers["should-retry"] == "false"
        assert [each["id"] for each in busy.get("/api/v1/jobs").json()["items"]] == [first]
        desk = busy.post("/sandboxes", json=NEW)
        assert desk.status_code == 201, desk.text
        assert busy.post("/api/v1/desks", json={"image": "base"}).status_code == 429
        ended(busy, first)
        assert busy.post(f"/api/v1/jobs/{first}/resume").status_code == 202
        assert started(busy).status_code == 429
        ended(busy, first)
        assert busy.delete(f"/sandboxes/{desk.json()['sandboxID']}").status_code == 204
        second = started(busy)
        assert second.status_code == 201, second.text
        ended(busy, second.json()["id"])


def started(client: httpx.Client) -> httpx.Response:
    upload = client.post("/api/v1/uploads", params={"name": "names.txt"}, content=b"Anna\n").json()["id"]
    order = {"template": "greeting", "approve": "plan", "files": [{"upload": upload, "name": "names.txt"}]}
    return client.post("/api/v1/jobs", json=order)


def ended(client: httpx.Client, job: str) -> None:
    """Stop a job that waits for a person, and wait until it has."""
    end = time.monotonic() + PATIENCE
    while client.get(f"/api/v1/jobs/{job}").json()["state"] != "waiting":
        assert time.monotonic() < end
        time.sleep(0.1)
    assert client.post(f"/api/v1/jobs/{job}/stop").status_code == 202
    while client.get(f"/api/v1/jobs/{job}").json()["live"]:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_job_that_needs_more_desks_than_the_quota_is_refused(server: Served) -> None:
    with as_tenant(server, "single") as single:
        refused = started(single)
        assert refused.status_code == 429
        assert "2 desks at once exceed the quota of tenant single, which is 1" in refused.json()["message"]


def test_a_killed_keeper_frees_its_quota(server: Served) -> None:
    with as_tenant(server, "robbed") as robbed:
        fill(robbed)
        mine = [pid for pid in keepers(server.settings.run.parent) if "/tenants/robbed" in cmdline(pid)]
        os.kill(min(mine), signal.SIGKILL)  # the higher ids are its children, about to become something else
        end = time.monotonic() + PATIENCE
        while robbed.get("/sandboxes").json() or robbed.post("/sandboxes", json=NEW).status_code != 201:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert [robbed.post("/sandboxes", json=NEW).status_code for _ in range(DESKS)] == [201] * (DESKS - 1) + [429]


def test_too_many_requests_are_refused_with_a_wait_and_then_admitted(server: Served) -> None:
    with as_tenant(server, "slow") as slow:
        answers = [slow.get("/sandboxes") for _ in range(10)]
        late = [each for each in answers if each.status_code == 429]
        assert late
        assert "limited to 1 requests a second" in late[0].json()["message"]
        wait = int(late[-1].headers["retry-after"])
        assert 1 <= wait <= 2
        time.sleep(wait)
        assert slow.get("/sandboxes").status_code == 200


def test_a_browser_that_signed_in_counts_with_its_tenants_keys_and_the_page_itself_does_not(server: Served) -> None:
    key = ApiKeys(server.settings.lib / "serve").make("browser", "slow")
    with httpx.Client(base_url=server.url, timeout=60) as browser:
        signed = browser.post("/api/v1/session", json={"key": key}, headers={"Origin": server.url})
        assert signed.status_code in (200, 201), signed.text
        headers = {"Cookie": signed.headers["set-cookie"].partition(";")[0]}
        answers = [browser.get("/api/v1/jobs", headers=headers) for _ in range(10)]
        late = [each for each in answers if each.status_code == 429]
        assert late
        assert late[0].json()["code"] == "quota"
        assert 1 <= int(late[-1].headers["retry-after"]) <= 2
        assert {browser.get("/", headers=headers).status_code for _ in range(10)} == {200}


def test_calls_of_envd_and_ports_count_for_the_tenant_and_strangers_calls_do_not(server: Served) -> None:
    with as_tenant(server, "paced") as paced:
        made = paced.post("/sandboxes", json={**NEW, "secure": True}).json()
        id, token = made["sandboxID"], {"X-Access-Token": made["envdAccessToken"]}
        with httpx.Client(base_url=server.url, headers={"E2b-Sandbox-Id": id}, timeout=60) as envd:
            assert {envd.get("/envs", headers={"X-Access-Token": "no"}).status_code for _ in range(10)} == {401}
            answers = [envd.get("/envs", headers=token) for _ in range(10)]
            assert answers[0].status_code == 200, answers[0].text
            late = [each for each in answers if each.status_code == 429]
            assert late
            assert "limited to 1 requests to its sandboxes a second" in late[0].json()["message"]
            assert 1 <= int(late[-1].headers["retry-after"]) <= 2
            assert envd.get("/", headers={"E2b-Sandbox-Port": "8000"}).status_code == 429
        connected = Sandbox.connect(id, **server.e2b | {"api_key": paced.headers["X-API-Key"]})
        with pytest.raises(RateLimitException):
            [connected.commands.run("true") for _ in range(10)]
        assert paced.delete(f"/sandboxes/{id}").status_code == 204


def test_concurrent_calls_of_envd_are_limited(server: Served, client: httpx.Client) -> None:
    made = client.post("/sandboxes", json={**NEW, "secure": True}).json()
    sandbox = Sandbox.connect(made["sandboxID"], **server.e2b | {"api_key": client.headers["X-API-Key"]})
    headers = {"E2b-Sandbox-Id": made["sandboxID"], "X-Access-Token": made["envdAccessToken"]}
    program = sandbox.commands.run("sleep 600", background=True)
    order = json.dumps({"process": {"pid": program.pid}}).encode()
    sent = b"\0" + len(order).to_bytes(4, "big") + order
    hearing = {**headers, "Content-Type": "application/connect+json"}
    limits = httpx.Limits(max_connections=AT_ONCE + 8)
    with httpx.Client(base_url=server.url, headers=hearing, limits=limits, timeout=60) as envd, ExitStack() as held:
        for _ in range(AT_ONCE - 1):  # the program's own caller sees it, too
            request = envd.build_request("POST", "/process.Process/Connect", content=sent)
            answer = envd.send(request, stream=True)
            held.callback(answer.close)
            assert answer.status_code == 200
        full = httpx.get(f"{server.url}/envs", headers=headers)
        assert (full.status_code, "are running, which is the limit" in full.json()["message"]) == (429, True)
    end = time.monotonic() + PATIENCE
    while httpx.get(f"{server.url}/envs", headers=headers).status_code == 429:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert sandbox.commands.run("echo there").stdout == "there\n"
    program.kill()


def test_an_invalid_quota_stops_the_server_from_starting(home: Path) -> None:
    with (
        pytest.raises(pytest.fail.Exception, match="desk"),
        served(home / f"quota-{time.monotonic_ns()}", config="[serve.quota]\ndeks = 1\n"),
    ):
        pass
