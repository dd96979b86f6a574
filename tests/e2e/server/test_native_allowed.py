"""Test of rules that people allow a job: they apply to its next desks and after a stop, and to no other job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import hotdesk
from tests.e2e.server import door_template
from tests.e2e.server.conftest import Served, served
from tests.e2e.server.door_template import HOST
from tests.e2e.server.native import client, job_when, waits

pytestmark = [pytest.mark.container, pytest.mark.timeout(240)]
BRIEF = f"""
goal = "Fetch the pages; write pages.json."
seconds = 240
egress = ["GET http://{HOST}/open", "deny http://{HOST}/denied"]

[[deliverables]]
path = "pages.json"
check = "json"
expect = {{required = ["fresh"]}}
"""
BRAIN = f'''"""A worker that fetches, waits, and fetches again elsewhere."""

import json

from hotdesk.brain.models.scripted import Hands, step

PAGES = ("more", "other", "denied")


async def statuses(hands: Hands) -> list[str]:
    """Fetch every page; give what is answered."""
    script = " ".join(
        f"curl -s -o /dev/null -w '%{{{{http_code}}}} ' --max-time 30 http://{HOST}/{{page}};" for page in PAGES
    )
    return (await hands.run(["sh", "-c", script], timeout=100)).text.split()


async def first(hands: Hands):
    """Fetch before and after people said so."""
    found = {{"before": await statuses(hands)}}
    await hands.ask("May I?")
    found["after"] = await statuses(hands)
    await hands.write("first.json", json.dumps(found).encode())


async def second(hands: Hands):
    """Fetch at a desk of its own."""
    found = json.loads(await hands.read("first.json"))
    found["fresh"] = await statuses(hands)
    await hands.write("pages.json", json.dumps(found).encode())


PLAN = (
    step(first, makes=["first.json"]),
    step(second, files=["first.json"], makes=["pages.json"], desk="fresh"),
)
'''
REFUSED, ALLOWED = ["403", "403", "403"], ["200", "403", "403"]


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with door_template.site() as settings, served(home / "native-allowed", config=settings) as found:
        folder = found.settings.lib / "templates/twice"
        folder.mkdir(parents=True)
        for file, text in (("template.toml", door_template.TEMPLATE), ("brief.toml", BRIEF), ("brain.py", BRAIN)):
            (folder / file).write_text(text)
        yield found


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    with client(server) as made:
        yield made


def begun(api: httpx.Client) -> str:
    """Begin a job; return its id once its worker was refused a page and waits."""
    made = api.post("/jobs", json={"template": "twice", "approve": "auto"})
    assert made.status_code == 201, made.text
    waits(api, made.json()["id"], "question")
    return str(made.json()["id"])


def delivered(api: httpx.Client, job: str) -> dict[str, Any]:
    """Answer everything a job waits for; return its deliverable."""
    question = waits(api, job, "question")
    order = {"answer": "answer", "words": "Yes.", "digest": question["digest"]}
    assert api.post(f"/approvals/{question['id']}", json=order).status_code == 200
    [item] = job_when(api, job, "done")["deliverables"]
    found: dict[str, Any] = api.get(f"/drive/{item['name']}").json()
    return found


@pytest.mark.long
def test_an_allowed_rule_applies_after_a_stop_and_at_a_new_desk_of_the_same_job_only(
    server: Served, api: httpx.Client
) -> None:
    job = begun(api)
    with hotdesk.blocking.Client(server.url, server.key) as people:
        told = people.allow(job, f"GET http://{HOST}/more")
        assert (told.rule, len(told.desks)) == (f"GET http://{HOST}/more", 1)
        assert people.allow(job, f"GET http://{HOST}/denied").desks == told.desks
    assert api.post(f"/jobs/{job}/stop").status_code == 202
    stopped = job_when(api, job, "paused")
    assert (stopped["why"], stopped["pending"]) == ("the job was asked to stop", [])
    assert [each["state"] for each in api.get("/jobs").json()["items"] if each["id"] == job] == ["paused"]
    assert waits(api, job, "question")["job"] == job  # an answer now would count
    assert api.post(f"/jobs/{job}/resume").status_code == 202
    assert delivered(api, job) == {"before": REFUSED, "after": ALLOWED, "fresh": ALLOWED}
    rows = api.get("/journal", params={"limit": 1000}).json()["items"]
    changes = [row["data"] for row in rows if row["name"] == "Rescoped"]
    desks = [each["id"] for each in api.get(f"/jobs/{job}").json()["desks"]]
    assert len({each["desk"] for each in changes}) == 3
    assert {each["desk"] for each in changes} <= set(desks)
    assert all(each["by"].endswith(f"for test key {server.key[4:12]}") for each in changes)
    assert delivered(api, begun(api)) == {"before": REFUSED, "after": REFUSED, "fresh": REFUSED}
