"""Tests of a swarm over our own API: started, followed, its evidence and register read; invisible to other tenants."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from hotdesk.api.keys import ApiKeys
from hotdesk.drive.swarm_certificate import read_proof
from hotdesk.linux.cgroup import Cgroup, find_hierarchies
from tests.e2e.server import swarm_template
from tests.e2e.server.conftest import Served
from tests.e2e.server.native import PATIENCE, client, job_when, waits
from tests.e2e.server.swarm_template import HOSTILE, WORDS
from tests.e2e.swarm_processes import find_parts

pytestmark = [pytest.mark.container, pytest.mark.timeout(240)]
ITEMS = [f"line-{number:06}" for number in range(1, len(WORDS) + 1)]


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    swarm_template.install(server.settings.lib / "templates", "counted")
    swarm_template.install(server.settings.lib / "templates", "slow", waits=2.0)
    with client(server) as made:
        yield made


def start(api: httpx.Client, **order: object) -> str:
    upload = api.post("/uploads?name=words.txt", content="".join(f"{word}\n" for word in WORDS).encode()).json()["id"]
    files = [{"upload": upload, "name": "words.txt"}]
    made = api.post("/jobs", json={"template": "counted", "files": files, "approve": "auto", **order})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


@pytest.fixture(scope="module")
def job(api: httpx.Client) -> str:
    """Return a swarm that is done, after its pilot was approved."""
    made = start(api, swarm={"pilot": 1, "most": 4})
    pilot = waits(api, made, "pilot")
    assert "forecast for all" in pilot["card"]["facts"]
    order = {"answer": "approve", "digest": pilot["digest"]}
    assert api.post(f"/approvals/{pilot['id']}", json=order).status_code == 200
    job_when(api, made, "done")
    return made


def test_a_swarm_is_followed_to_its_register(api: httpx.Client, job: str) -> None:
    told = api.get(f"/jobs/{job}").json()
    assert told["items"] == {"total": 5, "done": 4, "quarantined": 1}
    swarm = api.get(f"/jobs/{job}/swarm").json()
    assert (swarm["items"], swarm["done"], swarm["quarantined"]) == (5, 4, 1)
    [group] = swarm["failures"]
    assert (group["cause"], group["count"], group["examples"]) == ("step", 1, [ITEMS[2]])
    assert len(swarm["root"]) == 64
    [file] = swarm["report"]
    data = api.get(f"/drive/{file['name']}").content
    assert hashlib.sha256(data).hexdigest() == file["sha256"]
    rows = [f"{item},{len(word)}" for item, word in zip(ITEMS, WORDS, strict=True) if word != "broken"]
    assert data.decode().split() == ["item,letters", *rows]


def test_a_swarm_yields_to_other_tenants_with_every_process_and_desk(server: Served, api: httpx.Client) -> None:
    job = start(api, template="slow", swarm={"most": 2})
    end, shares, usual = time.monotonic() + PATIENCE, set[int](), {2, 100, 1024}  # of spare desks, and of all others
    hierarchies = find_hierarchies()
    name = "cpu.shares" if hierarchies.version == 1 else "cpu.weight"
    before = {path.name for path in (server.settings.run / "desks").glob("i*")}
    while not shares - usual and time.monotonic() < end:
        owners = [int(path.name) for path in Path("/proc").glob("[0-9]*") if f"--id\0{job}" in read_command(path)]
        desks = {path.name for path in (server.settings.run / "desks").glob("i*")} - before
        places = [Cgroup(hierarchies, desk).get_folder("cpu") / name for desk in desks]
        with suppress(OSError):
            shares |= {int(place.read_text()) for place in places}
    parts = find_parts(owners[0])
    levels = {part: os.getpriority(os.PRIO_PROCESS, pid) for part, pid in parts.items()}
    assert {"owner", "keeper", "keys"} <= set(levels)
    assert len(set(levels.values())) == 1
    assert levels["owner"] >= 10, levels
    share = round(1024 / 1.25 ** levels["owner"])
    assert shares - usual == {share if hierarchies.version == 1 else share * 100 // 1024}
    job_when(api, job, "done")


def read_command(path: Path) -> str:
    try:
        return (path / "cmdline").read_text(errors="replace")
    except OSError:
        return ""


def test_the_map_has_every_item_page_by_page(api: httpx.Client, job: str) -> None:
    found: dict[str, str] = {}
    after, pages = 0, 0
    while True:
        told = api.get(f"/jobs/{job}/items?after={after}&limit=2").json()
        found |= {each["item"]: each["state"] for each in told["items"]}
        after, pages = told["last"], pages + 1
        if not told["more"]:
            break
    assert (found, pages) == ({item: "quarantined" if item == ITEMS[2] else "done" for item in ITEMS}, 3)
    assert api.get(f"/jobs/{job}/items?after={after}").json()["items"] == []


def test_an_item_has_its_evidence_its_file_and_its_proof(api: httpx.Client, job: str) -> None:
    told: dict[str, Any] = api.get(f"/jobs/{job}/items/{ITEMS[1]}").json()
    assert (told["outcome"], told["desk"] != told["clean_desk"]) == ("done", True)
    assert "json" in told["checks"]
    assert json.loads(told["files"][0]["text"]) == {"letters": 5, "word": f"{HOSTILE}three"}
    file = api.get(f"/jobs/{job}/items/{ITEMS[1]}/files/0")
    assert hashlib.sha256(file.content).hexdigest() == told["files"][0]["sha256"]
    assert file.headers["content-disposition"].startswith("attachment")
    proof = read_proof(api.get(f"/jobs/{job}/items/{ITEMS[1]}/proof").content)
    assert proof.leads_to(api.get(f"/jobs/{job}/swarm").json()["root"])
    failed = api.get(f"/jobs/{job}/items/{ITEMS[2]}").json()
    assert failed["cause"] == "step"
    assert any(HOSTILE in entry["text"] for each in failed["attempts"] for entry in each["entries"])


@pytest.mark.long
def test_another_tenant_neither_sees_nor_approves_a_swarm(server: Served, api: httpx.Client, job: str) -> None:
    waiting = start(api, swarm={"pilot": 1})
    pilot = waits(api, waiting, "pilot")
    with client(server, ApiKeys(server.settings.lib / "serve").make("eve", "other")) as other:
        paths = ["", "/swarm", "/items", f"/items/{ITEMS[0]}", f"/items/{ITEMS[0]}/files/0", f"/items/{ITEMS[0]}/proof"]
        assert {other.get(f"/jobs/{each}{path}").status_code for each in (job, waiting) for path in paths} == {404}
        assert other.get("/approvals").json()["items"] == []
        order = {"answer": "approve", "digest": pilot["digest"]}
        assert other.post(f"/approvals/{pilot['id']}", json=order).status_code == 404
        assert other.post(f"/jobs/{waiting}/resume", json={"quarantine": "accept"}).status_code == 404
        assert 'tenant="default"' not in other.get(f"{server.url}/metrics").text
    assert api.post(f"/approvals/{pilot['id']}", json={**order, "answer": "refuse"}).status_code == 200
    job_when(api, waiting, "interrupted", "failed", "paused", "broken")


@pytest.mark.long
def test_a_job_that_is_not_a_swarm_has_no_items_and_takes_no_swarm_options(api: httpx.Client) -> None:
    brief = 'goal = "x"\nmodels = {plan = "anthropic:x"}\ndeliverables = [{path = "a.json", check = "json"}]\n'
    refused = api.post("/jobs", json={"brief": brief, "swarm": {"pilot": 1}})
    assert (refused.status_code, refused.json()["code"]) == (400, "brief.swarm")
    every = api.post("/jobs", json={"template": "counted", "approve": "every"})
    assert (every.status_code, every.json()["code"]) == (400, "brief.approve")
    assert api.get(f"/jobs/i{'0' * 20}/swarm").status_code == 404


@pytest.mark.long
def test_items_are_added_to_a_swarm_that_is_done_and_what_failed_is_retried(api: httpx.Client) -> None:
    made = start(api)
    job_when(api, made, "done")
    root = api.get(f"/jobs/{made}/swarm").json()["root"]
    words = "".join(f"{word}\n" for word in [*WORDS, "thirteen"])
    upload = api.post("/uploads?name=words.txt", content=words.encode()).json()["id"]
    other = api.post(f"/jobs/{made}/items", json={"files": [{"upload": upload, "name": "brief.json"}]})
    assert (other.status_code, other.json()["code"]) == (400, "brief.file")
    added = api.post(f"/jobs/{made}/items", json={"files": [{"upload": upload, "name": "words.txt"}]})
    assert added.status_code == 202, added.text
    wait_for_items(api, made, 6)
    swarm = api.get(f"/jobs/{made}/swarm").json()
    assert (swarm["items"], swarm["done"], swarm["quarantined"]) == (6, 5, 1)
    assert swarm["root"] != root
    assert b"line-000006,8" in api.get(f"/drive/{swarm['report'][0]['name']}").content
    assert api.post(f"/jobs/{made}/resume", json={}).status_code == 409
    assert api.post(f"/jobs/{made}/resume", json={"quarantine": "retry"}).status_code == 202
    job_when(api, made, "done")


def wait_for_items(api: httpx.Client, job: str, count: int) -> None:
    """Wait until a swarm is done with so many items, and signed."""
    end = time.monotonic() + 60
    while True:
        told = api.get(f"/jobs/{job}").json()
        swarm = api.get(f"/jobs/{job}/swarm").json()
        if told["state"] == "done" and not told["live"] and swarm["items"] == count and swarm["root"]:
            return
        assert time.monotonic() < end, (told["state"], told["why"], swarm)
        time.sleep(0.2)
