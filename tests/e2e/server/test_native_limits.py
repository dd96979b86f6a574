"""Tests of limits of our own API: quotas, who may approve, what a brief may contain, rate limits."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from hotdesk.api.keys import ApiKeys
from hotdesk.api.native.events import MAX_STREAMS as MOST_STREAMS
from hotdesk.api.native.uploads import MAX_UPLOADS as MOST_UPLOADS
from tests.e2e.server import job_template
from tests.e2e.server.conftest import Served, served
from tests.e2e.server.native import PATIENCE, client, job_when, waits
from tests.leftovers import cmdline, pids

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
SETTINGS = """
[serve]
requester_may_approve = false
[serve.quota]
desks = 2
jobs = 1
"""
BRIEF = """
goal = "Do it."
models = {plan = "anthropic:x"}
deliverables = [{path = "a.json", check = "json"}]
"""
RESERVED = {
    "names": 'names = {"a.test" = "127.0.0.1:1"}',
    "brain": 'brain = "x.py"',
    "script": 'script = "x.py"',
    "command": 'command = ["sh"]',
    "program": 'program = "sh"',
    "wall": 'wall = "local"',
}
NEAR = ("http://127.0.0.1/*", "https://10.1.2.3", "192.168.0.0/16", "http://[::1]/x", "https://a.test private",
        "http://169.254.169.254/latest")  # fmt: skip


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with served(home / "native-limits", config=SETTINGS) as found:
        job_template.install(found.settings.lib / "templates")
        yield found


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    with client(server) as made:
        yield made


@pytest.fixture(scope="module")
def boss(server: Served) -> Iterator[httpx.Client]:
    with client(server, ApiKeys(server.settings.lib / "serve").make("boss")) as made:
        yield made


def started(api: httpx.Client) -> str:
    """Start a job whose plan waits for a person; return its id."""
    upload = api.post("/uploads", params={"name": "names.txt"}, content=b"Anna\n").json()
    files = [{"upload": upload["id"], "name": "names.txt"}]
    order = {"template": "greeting", "approve": "plan", "files": files}
    while (made := api.post("/jobs", json=order)).status_code == 429:
        time.sleep(0.1)  # the process of the previous job has not ended yet
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def decided(api: httpx.Client, waiting: dict[str, Any], **told: str) -> httpx.Response:
    return api.post(f"/approvals/{waiting['id']}", json={"digest": waiting["digest"], **told})


@pytest.mark.long
def test_a_plan_is_edited_by_another_person_and_the_job_is_stopped_resumed_and_done(
    api: httpx.Client, boss: httpx.Client
) -> None:
    job = started(api)
    plan = waits(api, job, "plan")
    barred = decided(api, plan, answer="approve")
    assert (barred.status_code, barred.json()["code"]) == (403, "approval.requester")
    assert decided(boss, plan, answer="answer", words="x").json()["code"] == "approval.kind"
    assert decided(boss, plan, answer="edit", plan="no plan").status_code == 400
    edited = plan["plan_text"].replace("Ask how, and write it down.", "Ask first.")
    assert edited != plan["plan_text"]
    assert decided(boss, plan, answer="edit", plan=edited).json()["answer"] == "approved"
    assert decided(boss, plan, answer="approve").json()["code"] in ("approval.closed", "approval.missing")
    waits(api, job, "question")
    assert [step["intent"] for step in api.get(f"/jobs/{job}").json()["steps"]] == ["Ask first."]
    second = api.post("/jobs", json={"brief": BRIEF})
    assert (second.status_code, second.json()["code"]) == (429, "quota"), second.text
    assert api.post(f"/jobs/{job}/stop").status_code == 202
    while (resumed := api.post(f"/jobs/{job}/resume", json={"limits": {"seconds": 120}})).status_code == 409:
        assert resumed.json()["code"] == "job.running"  # it has not stopped yet
    assert resumed.status_code == 202
    assert decided(boss, waits(api, job, "question"), answer="answer", words="Hi").status_code == 200
    job_when(api, job, "done")


@pytest.mark.long
def test_a_plan_that_is_refused_ends_its_job_and_everything_is_stopped_at_once(
    api: httpx.Client, boss: httpx.Client
) -> None:
    job = started(api)
    assert decided(boss, waits(api, job, "plan"), answer="refuse", words="Not so.").json()["answer"] == "refused"
    told = ended(api, job)
    assert told["state"] in ("failed", "interrupted")
    other = started(api)
    waits(api, other, "plan")
    assert boss.post("/fleet/stop", json={}).json()["jobs"] == [other]
    assert ended(api, other)["state"] != "running"


@pytest.mark.long
def test_a_job_whose_process_is_killed_while_it_waits_still_waits_is_not_live_and_continues(
    server: Served, api: httpx.Client, boss: httpx.Client
) -> None:
    job = started(api)
    plan = waits(api, job, "plan")
    assert api.get(f"/jobs/{job}").json()["live"]
    [process] = [pid for pid in pids() if job in cmdline(pid) and "--json" in cmdline(pid)]
    os.kill(process, signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    while (told := api.get(f"/jobs/{job}").json())["live"]:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert (told["state"], told["pending"]) == ("waiting", [plan["id"]])
    assert api.post(f"/jobs/{job}/stop").json()["code"] == "job.still"
    assert api.post(f"/jobs/{job}/resume").json()["live"]
    assert decided(boss, waits(api, job, "plan"), answer="refuse", words="No.").status_code == 200
    ended(api, job)


def ended(api: httpx.Client, job: str) -> dict[str, Any]:
    """Wait until no process works at a job any more, so that its place is free."""
    while api.delete(f"/jobs/{job}").status_code == 409:
        pass
    told: dict[str, Any] = api.get(f"/jobs/{job}").json()
    return told


def test_a_desk_beyond_the_tenants_quota_is_refused_until_one_is_burnt(api: httpx.Client) -> None:
    desk, other = (api.post("/desks", json={"memory": "256M"}).json()["id"] for _ in range(2))
    for refused in (api.post("/desks", json={"memory": "256M"}), api.post(f"/desks/{desk}/fork", json={})):
        assert (refused.status_code, refused.json()["code"]) == (429, "quota")
        assert refused.headers["should-retry"] == "false"
    assert api.delete(f"/desks/{desk}").status_code == 204
    again = api.post("/desks", json={"memory": "256M"})
    assert again.status_code == 201
    for each in (other, again.json()["id"]):
        api.delete(f"/desks/{each}")


@pytest.mark.parametrize("field", RESERVED)
def test_a_brief_cannot_set_options_of_the_operator(api: httpx.Client, field: str) -> None:
    refused = api.post("/jobs", json={"brief": f"{RESERVED[field]}\n{BRIEF}"})
    assert (refused.status_code, refused.json()["code"]) == (400, "brief.reserved"), refused.text


@pytest.mark.parametrize("rule", NEAR)
def test_neither_a_brief_nor_a_desk_reaches_private_addresses(api: httpx.Client, rule: str) -> None:
    refused = api.post("/jobs", json={"brief": f"egress = [{json.dumps(rule)}]\n{BRIEF}"})
    assert refused.status_code == 400
    assert "is not a public internet host" in refused.json()["message"]
    refused = api.post("/desks", json={"memory": "256M", "allow": [rule]})
    assert refused.status_code == 400
    assert "is not a public internet host" in refused.json()["message"]


def test_a_key_that_is_revoked_opens_nothing_from_then_on(server: Served, api: httpx.Client) -> None:
    made = api.post("/keys", json={"name": "leaver", "powers": ["drive"]}).json()
    with client(server, made["key"]) as leaver:
        assert leaver.get("/drive").status_code == 200
        assert api.delete(f"/keys/{made['id']}").status_code == 204
        assert leaver.get("/drive").status_code == 401
    assert api.delete("/keys/00000000").json()["code"] == "key.missing"


def test_secrets_are_stored_replaced_and_removed_and_never_shown(server: Served, api: httpx.Client) -> None:
    for version, value in enumerate(("hunter2-first", "hunter2-second"), 1):
        told = api.put("/vault/crm-token", json={"value": value})
        assert (told.status_code, told.json()["version"]) == (200, version), told.text
        assert "hunter2" not in told.text + api.get("/vault").text
    assert api.put("/vault/login", json={"kind": "basic", "value": "anna:hunter2-third"}).json()["kind"] == "basic"
    for wrong in ({"kind": "command", "value": "/bin/sh -c x"}, {"kind": "oauth2", "value": "x" * 20}, {"value": ""}):
        assert api.put("/vault/wrong", json=wrong).status_code == 422
    short = api.put("/vault/wrong", json={"value": "abc"})
    assert (short.status_code, short.json()["code"]) == (400, "brief")
    assert [each["name"] for each in api.get("/vault").json()["items"]] == ["crm-token", "login"]
    assert api.delete("/vault/crm-token").status_code == 204
    assert api.delete("/vault/crm-token").json()["code"] == "secret.missing"
    told = api.get("/journal", params={"limit": 1000})
    assert "hunter2" not in told.text + server.log.read_text()
    changes = [row["data"] for row in told.json()["items"] if row["name"] == "VaultChanged"]
    assert all(each.keys() == {"job", "name", "what", "by"} for each in changes)
    assert {each["by"] for each in changes} == {f"test key {server.key[4:12]}"}
    assert [(each["name"], each["what"]) for each in changes if each["name"] != "wrong"] == [
        ("crm-token", "put"), ("crm-token", "put"), ("login", "put"), ("crm-token", "removed")
    ]  # fmt: skip


def test_uploads_that_belong_to_no_job_are_limited(server: Served, api: httpx.Client) -> None:
    api.post("/uploads", params={"name": "first"}, content=b"x").raise_for_status()
    folder = server.settings.lib / "serve/uploads"
    for number in range(MOST_UPLOADS):
        (folder / f"{number:032x}").touch()
    refused = api.post("/uploads", params={"name": "x"}, content=b"x")
    assert (refused.status_code, refused.json()["code"]) == (429, "upload.many")


def test_trying_keys_is_slowed_down(server: Served) -> None:
    answers = [httpx.post(f"{server.url}/api/v1/session", json={"key": f"e2b_{n:040x}"}) for n in range(21)]
    assert {each.status_code for each in answers[:20]} == {401}
    assert (answers[20].status_code, answers[20].headers["retry-after"]) == (429, "60")


@pytest.mark.long
def test_streams_are_counted_and_have_keepalives(server: Served) -> None:
    with ExitStack() as open_streams:
        lines = [open_streams.enter_context(stream(server)) for _ in range(MOST_STREAMS)]
        with stream(server) as refused:
            assert b" 429 " in refused.recv(4096)
        lines[0].settimeout(30)
        said = b""
        while b": nothing new" not in said:
            said += lines[0].recv(65536)


@pytest.mark.long
def test_a_burst_opens_no_more_streams_than_the_limit(server: Served) -> None:
    with ExitStack() as open_streams:
        lines = [open_streams.enter_context(begun(server)) for _ in range(MOST_STREAMS + 40)]
        for line in lines:
            line.sendall(asking(server))
        answers = Counter(line.recv(4096).split()[1] for line in lines)
    assert answers == {b"200": MOST_STREAMS, b"429": 40}


def stream(server: Served) -> socket.socket:
    line = begun(server)
    line.sendall(asking(server))
    line.recv(1)
    return line


def begun(server: Served) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def asking(server: Served) -> bytes:
    return f"GET /api/v1/events?after=now HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {server.key}\r\n\r\n".encode()
