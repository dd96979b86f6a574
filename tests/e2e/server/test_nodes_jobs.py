"""Tests of jobs whose desks are on nodes: started over the API; they continue when a node or the server is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from hotdesk.drive.chain import Row
from hotdesk.drive.journal import FILE, read
from tests.cluster_room import ClusterRoom, ServerProcess
from tests.conftest import settings_in, state_directory
from tests.e2e.server import door_template, job_template, swarm_template
from tests.ordinary_user import UID

pytestmark = [pytest.mark.container, pytest.mark.timeout(600), pytest.mark.long]
PATIENCE = 180.0
SLOW = '''"""A worker that writes two files in two steps, the second slowly."""

from hotdesk.brain.models.scripted import Hands, step


async def first(hands: Hands):
    """Write down that it was here."""
    return await hands.run(["sh", "-c", "echo first >> trace"])


async def second(hands: Hands):
    """Take its time, and write the result."""
    await hands.run(["sh", "-c", "sleep 4"])
    await hands.run(["sh", "-c", "echo second >> trace"])
    return await hands.run(["sh", "-c", """printf '{"hello": "%s"}' "$(wc -l < trace)" > hello.json"""])


PLAN = (step(first, makes=["trace"]), step(second, files=["trace"], makes=["hello.json"]))
'''


@pytest.fixture
def room() -> Iterator[ClusterRoom]:
    """Yield a folder for a cluster of two nodes, with templates."""
    with state_directory() as folder:
        found = ClusterRoom(folder)
        templates = settings_in(folder / "home").lib / "templates"
        job_template.install(templates)
        job_template.install(templates, "slow")
        swarm_template.install(templates, "counted")
        door_template.install(templates)
        (templates / "slow/brain.py").write_text(SLOW)
        (templates / "slow/brief.toml").write_text(job_template.BRIEF.replace('inputs = ["names.txt"]\n', ""))
        (templates / "slow/template.toml").write_text(job_template.TEMPLATE.replace('files = ["names.txt"]\n', ""))
        try:
            found.start_node("n1")
            found.start_node("n2")
            yield found
        finally:
            found.close()


@contextmanager
def client(server: ServerProcess) -> Iterator[httpx.Client]:
    """Yield a client of the native API."""
    headers = {"Authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=f"{server.url}/api/v1", headers=headers, timeout=60) as made:
        yield made


def wait_for(api: httpx.Client, job: str, *states: str, bad: tuple[str, ...] = ("broken", "failed")) -> dict[str, Any]:
    """Wait until a job is in one of these states, and return it."""
    end = time.monotonic() + PATIENCE
    while True:
        told: dict[str, Any] = api.get(f"/jobs/{job}").raise_for_status().json()
        if told["state"] in states:
            return told
        assert time.monotonic() < end, (told, explain(job))
        assert told["state"] not in bad, (told, explain(job))
        time.sleep(0.1)


FOLDERS: list[Path] = []


def explain(job: str) -> str:
    """Return the output of a job's process."""
    return "\n".join(each.read_text()[-3000:] for folder in FOLDERS for each in folder.glob(f"**/orders/{job}/std*"))


def events(room: ClusterRoom, chain: str) -> list[Row]:
    """Return the events of a chain in the server's journal."""
    return list(read(settings_in(room.folder / "home").lib / "keys" / FILE, chain))


def begin_slow(api: httpx.Client, room: ClusterRoom) -> tuple[str, str]:
    """Begin the slow job; return its id and, once its second step has begun, the node that has its desk."""
    FOLDERS[:] = [room.folder]
    made = api.post("/jobs", json={"template": "slow", "values": {"whom": "Anna"}, "approve": "auto"})
    assert made.status_code == 201, made.text
    job = str(made.json()["id"])
    end = time.monotonic() + PATIENCE
    while True:
        told = api.get(f"/jobs/{job}").json()
        begun = [row for row in events(room, job) if row.name == "StepBegun" and '"second"' in row.data]
        desks = [each for each in api.get("/desks").json()["items"] if each["job"] == job]
        if begun and desks:
            return job, str(desks[0]["node"])
        assert time.monotonic() < end, (told, explain(job))
        time.sleep(0.1)


def check_done(api: httpx.Client, room: ClusterRoom, job: str) -> None:
    """Check that a job is done, its first step was done once, and its file was verified and is signed."""
    told = wait_for(api, job, "done", bad=("broken", "failed"))
    [item] = told["deliverables"]
    assert (item["path"], item["verdict"]) == ("hello.json", "passed")
    rows = events(room, job)
    assert [row.name for row in rows].count("Kept") == 1
    assert [row.name for row in rows].count("Certified") == 1
    assert sum(row.name == "StepEnded" and '"first"' in row.data and '"done"' in row.data for row in rows) == 1
    found = [file for file in settings_in(room.folder / "home").lib.glob("drive/blobs/**/*") if file.is_file()]
    assert any(file.read_bytes() == b'{"hello": "2"}' for file in found), found


def test_a_job_on_a_node_is_started_answered_verified_and_signed(room: ClusterRoom) -> None:
    FOLDERS[:] = [room.folder]
    with room.serve(*(each.address for each in room.nodes.values())) as server, client(server) as api:
        upload = api.post("/uploads", params={"name": "names.txt"}, content=b"Anna\n").json()
        order = {"template": "greeting", "values": {"whom": "Anna"}, "approve": "plan",
                 "files": [{"upload": upload["id"], "name": "names.txt"}]}  # fmt: skip
        made = api.post("/jobs", json=order)
        assert made.status_code == 201, made.text
        job = made.json()["id"]
        end = time.monotonic() + PATIENCE
        answered: list[str] = []
        while (state := api.get(f"/jobs/{job}").json()["state"]) != "done":
            assert time.monotonic() < end
            assert state not in ("broken", "failed", "paused"), explain(job)
            for each in api.get("/approvals").json()["items"]:
                if each["id"] in answered:
                    continue
                what = {"answer": "approve"} if each["kind"] == "plan" else {"answer": "answer", "words": "Good day"}
                settled = api.post(f"/approvals/{each['id']}", json={**what, "digest": each["digest"]})
                assert settled.status_code == 200, settled.text
                answered.append(each["id"])
            time.sleep(0.1)
        told = api.get(f"/jobs/{job}").json()
        assert [each["verdict"] for each in told["deliverables"]] == ["passed"]
        rows = events(room, job)
        assert {"JobBegun", "Verified", "Certified", "Kept", "JobBurnt"} <= {row.name for row in rows}
        assert '"by": "uid 60000' in rows[0].data or f"uid {UID}" in rows[0].data
        assert api.get("/desks").json()["items"] == []


def test_a_job_continues_elsewhere_when_its_node_is_killed(room: ClusterRoom) -> None:
    with room.serve(*(each.address for each in room.nodes.values())) as server, client(server) as api:
        job, node = begin_slow(api, room)
        room.nodes[node].kill()
        killed = time.time()
        check_done(api, room, job)
        [resumed] = [row for row in events(room, job) if row.name == "Resumed"]
        assert resumed.at / 1000 - killed <= 30
        print(f"resumed {resumed.at / 1000 - killed:.1f} s after its node was killed")


def test_a_job_continues_after_its_server_was_killed(room: ClusterRoom) -> None:
    addresses = [each.address for each in room.nodes.values()]
    with room.serve(*addresses) as first, client(first) as api:
        job, _ = begin_slow(api, room)
        first.process.kill()
    with room.serve(*addresses) as second, client(second) as api:
        told = wait_for(api, job, "paused", "killed", bad=("broken", "failed"))
        assert told
        assert api.post(f"/jobs/{job}/resume", json={}).status_code in (200, 202, 204)
        check_done(api, room, job)
        end = time.monotonic() + 30
        while api.get("/desks").json()["items"]:
            assert time.monotonic() < end
            time.sleep(0.2)


def test_a_swarm_loses_no_item_when_a_node_is_killed(room: ClusterRoom) -> None:
    FOLDERS[:] = [room.folder]
    words = ["broken" if number == 5 else "w" * (number + 1) for number in range(16)]
    with room.serve(*(each.address for each in room.nodes.values())) as server, client(server) as api:
        upload = api.post("/uploads?name=words.txt", content="".join(f"{word}\n" for word in words).encode()).json()
        order = {"template": "counted", "approve": "auto", "swarm": {"most": 4},
                 "files": [{"upload": upload["id"], "name": "words.txt"}]}  # fmt: skip
        made = api.post("/jobs", json=order)
        assert made.status_code == 201, made.text
        job = str(made.json()["id"])
        end = time.monotonic() + PATIENCE
        nodes: set[str] = set()
        while (api.get(f"/jobs/{job}").json()["items"] or {"done": 0})["done"] < 3:
            nodes |= {each["node"] for each in api.get("/desks").json()["items"]}
            assert time.monotonic() < end, explain(job)
            time.sleep(0.05)
        room.nodes["n1"].kill()
        wait_for(api, job, "done")
        assert nodes == {"n1", "n2"}
        swarm = api.get(f"/jobs/{job}/swarm").json()
        assert (swarm["items"], swarm["done"], swarm["quarantined"]) == (16, 15, 1), swarm["failures"]
        assert [group["cause"] for group in swarm["failures"]] == ["step"]
        register = api.get(f"/drive/{swarm['report'][0]['name']}").text
        assert len(register.splitlines()) == 16


def find_waiting(api: httpx.Client, job: str, kind: str) -> dict[str, Any]:
    end = time.monotonic() + PATIENCE
    while True:
        for each in api.get("/approvals").raise_for_status().json()["items"]:
            if each["job"] == job and each["kind"] == kind:
                return dict(each)
        assert time.monotonic() < end, (api.get(f"/jobs/{job}").json(), explain(job))
        time.sleep(0.1)


def settle(api: httpx.Client, waiting: dict[str, Any], **answer: str) -> None:
    told = api.post(f"/approvals/{waiting['id']}", json={**answer, "digest": waiting["digest"]})
    assert told.status_code == 200, told.text


def test_a_request_of_a_worker_at_a_screen_on_a_node_is_approved_by_a_person(room: ClusterRoom) -> None:
    FOLDERS[:] = [room.folder]
    addresses = [each.address for each in room.nodes.values()]
    with (
        door_template.site() as config,
        room.serve(*addresses, config=config) as server,
        client(server) as api,
    ):
        made = api.post("/jobs", json={"template": "fetching", "approve": "auto"})
        assert made.status_code == 201, made.text
        job = str(made.json()["id"])
        question = find_waiting(api, job, "question")
        [desk] = [each["id"] for each in api.get("/desks").json()["items"] if each["job"] == job]
        url = f"{server.url.replace('http', 'ws')}/api/v1/desks/{desk}/screen"
        with connect(url, additional_headers={"X-API-Key": server.key}) as screen:
            greeting = screen.recv(30)
            assert isinstance(greeting, bytes)
            assert greeting.startswith(b"RFB 003.")
        settle(api, question, answer="answer", words="Yes.")
        settle(api, find_waiting(api, job, "door"), answer="approve")
        settle(api, find_waiting(api, job, "question"), answer="answer", words="Yes.")
        told = wait_for(api, job, "done")
        assert [each["verdict"] for each in told["deliverables"]] == ["passed"]
        pages = api.get(f"/drive/{job}/pages.json").json()
        assert pages == {"open": "200", "more": "403", "later": "403", "denied": "403", "asked": "200"}
        end = time.monotonic() + 20
        while not {"Exchange", "Answered", "Burnt"} <= {row.name for row in events(room, desk)}:
            assert time.monotonic() < end, [row.name for row in events(room, desk)]
            time.sleep(0.1)
        assert {row.actor for row in events(room, desk) if row.name == "Exchange"} == {"node"}
