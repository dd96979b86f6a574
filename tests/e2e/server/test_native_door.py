"""Tests of a job's door over our own API: log, allowing by one click, approvals; also screen, wheel and frames."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.e2e.server import door_template
from tests.e2e.server.conftest import Served, served
from tests.e2e.server.door_template import HOST
from tests.e2e.server.native import PATIENCE, client, job_when, waits

pytestmark = [pytest.mark.container, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with door_template.site() as settings, served(home / "native-door", config=settings) as found:
        door_template.install(found.settings.lib / "templates")
        yield found


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    with client(server) as made:
        yield made


@pytest.fixture(scope="module")
def job(api: httpx.Client) -> str:
    made = api.post("/jobs", json={"template": "fetching", "approve": "auto"})
    assert made.status_code == 201, made.text
    waits(api, made.json()["id"], "question")
    return str(made.json()["id"])


@pytest.fixture(scope="module")
def over(api: httpx.Client, job: str) -> dict[str, Any]:
    """Return the job once it is done: allow refused requests, and approve the others, as they come."""
    answered(api, waits(api, job, "question"))
    asked = waits(api, job, "door")
    assert asked["card"]["facts"]["host"] == HOST
    wrong = api.post(f"/approvals/{asked['id']}", json={"answer": "approve", "digest": "0" * 64})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "approval.closed")
    told = api.post(f"/approvals/{asked['id']}", json={"answer": "approve", "digest": asked["digest"]})
    assert told.json()["answer"] == "approved", told.text
    answered(api, waits(api, job, "question"))
    return job_when(api, job, "done")


def answered(api: httpx.Client, question: dict[str, Any]) -> None:
    order = {"answer": "answer", "words": "Yes.", "digest": question["digest"]}
    assert api.post(f"/approvals/{question['id']}", json=order).status_code == 200


def desk_of(api: httpx.Client, job: str) -> str:
    [desk] = [each["id"] for each in api.get(f"/jobs/{job}").json()["desks"] if not each["gone"]]
    return str(desk)


def looking(server: Served, desk: str) -> ClientConnection:
    url = f"{server.url.replace('http', 'ws')}/api/v1/desks/{desk}/screen"
    return connect(url, additional_headers={"X-API-Key": server.key}, subprotocols=["binary"])  # type: ignore[list-item]


@pytest.mark.long
def test_a_screen_speaks_rfb_and_a_viewer_takes_the_wheel_and_gives_it_back(
    server: Served, api: httpx.Client, job: str
) -> None:
    desk = desk_of(api, job)
    blind = api.post(f"/desks/{desk}/wheel", json={"act": "take"})
    assert (blind.status_code, blind.json()["code"]) == (409, "wheel.blind")
    with looking(server, desk) as screen:
        assert screen.subprotocol == "binary"
        assert bytes(screen.recv(10)).startswith(b"RFB 003.")  # type: ignore[arg-type]
        taken = api.post(f"/desks/{desk}/wheel", json={"act": "take"}).json()
        assert (taken["viewers"], taken["mine"]) == (1, True)
        assert taken["holder"].endswith(f"for test key {server.key[4:12]}")
        given = api.post(f"/desks/{desk}/wheel", json={"act": "give"}).json()
        assert (given["holder"], given["mine"]) == ("", False)
    end = time.monotonic() + 10
    while api.get(f"/desks/{desk}/wheel").json()["viewers"] and time.monotonic() < end:
        time.sleep(0.05)
    assert api.get(f"/desks/{desk}/wheel").json()["viewers"] == 0


def test_a_refused_request_is_allowed_by_one_click_for_its_job_and_the_journal_names_the_person(
    api: httpx.Client, job: str
) -> None:
    [refused] = [each for each in api.get(f"/jobs/{job}/door").json()["items"] if each["path"] == "/more"]
    assert (refused["verdict"], refused["rule_to_allow"]) == ("deny", f"GET http://{HOST}/more")
    told = api.post(f"/jobs/{job}/allow", json={"rule": refused["rule_to_allow"]})
    assert told.json()["desks"] == [desk_of(api, job)], told.text
    rows = api.get("/journal", params={"limit": 1000}).json()["items"]
    [event] = [row["data"] for row in rows if row["name"] == "Rescoped"]
    assert "for test key " in event["by"]
    assert api.post(f"/jobs/{job}/allow", json={"rule": f"GET http://{HOST}/denied"}).status_code == 200


@pytest.mark.parametrize(
    "rule", ["GET http://127.0.0.1/x", "GET http://10.0.0.0/8", "GET http://169.254.169.254/*", "tunnel a.test", "\n"]
)
def test_addresses_near_the_machine_and_invalid_rules_are_not_allowed(api: httpx.Client, job: str, rule: str) -> None:
    assert api.post(f"/jobs/{job}/allow", json={"rule": rule}).status_code == 400


def test_a_job_that_waits_is_neither_resumed_nor_forgotten(api: httpx.Client, job: str) -> None:
    assert api.post(f"/jobs/{job}/resume").json()["code"] == "job.running"
    assert api.delete(f"/jobs/{job}").json()["code"] == "job.running"


def test_a_file_of_an_open_desk_is_shown_at_the_second_origin(api: httpx.Client, job: str) -> None:
    desk = desk_of(api, job)
    assert api.put(f"/desks/{desk}/file", params={"path": "a.txt"}, content=b"<b>hello</b>").status_code == 204
    url = api.post("/content", json={"kind": "file", "desk": desk, "path": "a.txt"}).json()["url"]
    assert url.startswith("http://content.localhost:")
    found = looked_at(api, url)
    assert found.text == "<b>hello</b>"
    assert "sandbox" in found.headers["content-security-policy"]
    assert not found.headers["content-type"].startswith("text/html")


def test_the_door_log_has_allowed_denied_and_approved_requests(api: httpx.Client, over: dict[str, Any]) -> None:
    [item] = over["deliverables"]
    found = api.get(f"/drive/{item['name']}").json()
    assert {name: found[name] for name in ("open", "later", "denied", "asked")} == {
        "open": "200", "later": "200", "denied": "403", "asked": "200"
    }  # fmt: skip


def test_the_door_log_is_read_from_either_end(api: httpx.Client, over: dict[str, Any]) -> None:
    place = f"/jobs/{over['id']}/door"
    whole = [each["id"] for each in api.get(place).raise_for_status().json()["items"]]
    assert len(whole) > 3
    found: list[int] = []
    after: str | None = ""
    while after is not None:
        told = api.get(place, params={"newest": True, "limit": 2, "after": after}).raise_for_status().json()
        found += [each["id"] for each in told["items"]]
        after = told["next"]
    assert found == whole[::-1]


def test_frames_and_the_report_are_shown_and_contain_nothing_a_desk_wrote(
    api: httpx.Client, over: dict[str, Any]
) -> None:
    rows = api.get(f"/jobs/{over['id']}/events", params={"follow": "false"}).text
    assert '"frame": ' in rows
    number = int(rows.split('"frame": ')[1].split(",")[0])
    picture = api.get(f"/jobs/{over['id']}/frames/{number}")
    assert picture.headers["content-type"] == "image/jpeg"
    assert picture.content.startswith(b"\xff\xd8")
    assert api.get(f"/jobs/{over['id']}/frames/999999").json()["code"] == "frame.missing"
    for order in ({"kind": "frame", "frame": number}, {"kind": "report"}):
        url = api.post("/content", json={"job": over["id"], **order}).json()["url"]
        assert looked_at(api, url).status_code == 200
    drive = api.post("/content", json={"kind": "drive", "path": over["deliverables"][0]["name"]}).json()["url"]
    assert looked_at(api, drive).json()["open"] == "200"
    assert api.post("/content", json={"kind": "report"}).json()["code"] == "content.what"


def test_a_job_that_is_over_is_forgotten_and_what_it_delivered_stays(api: httpx.Client, over: dict[str, Any]) -> None:
    assert api.post(f"/jobs/{over['id']}/stop").json()["code"] == "job.still"
    assert api.post(f"/jobs/{over['id']}/resume").json()["code"] == "job.over"
    still = api.post(f"/jobs/{over['id']}/allow", json={"rule": f"GET http://{HOST}/more"})
    assert (still.status_code, still.json()["code"]) == (409, "job.still")
    end = time.monotonic() + PATIENCE
    while api.get(f"/jobs/{over['id']}").json()["live"] and time.monotonic() < end:
        time.sleep(0.1)  # its process burns its desks
    assert api.delete(f"/jobs/{over['id']}").status_code == 204
    told = api.get(f"/jobs/{over['id']}").json()
    assert (told["forgotten"], told["plan_text"]) == (True, "")
    assert api.get(f"/drive/{over['deliverables'][0]['name']}").status_code == 200


def looked_at(api: httpx.Client, url: str) -> httpx.Response:
    """Follow a link to the second origin, as a browser does: without any key."""
    parts = httpx.URL(url)
    return httpx.get(parts.copy_with(host="127.0.0.1"), headers={"Host": f"{parts.host}:{parts.port}"})
