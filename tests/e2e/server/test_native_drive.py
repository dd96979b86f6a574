"""Tests of drive, journal, keys and fleet over our own API."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.conftest import PROGRAM, environment
from tests.e2e.server.conftest import Served
from tests.e2e.server.native import client

pytestmark = pytest.mark.container


@pytest.fixture(scope="module")
def server(own_server: Served) -> Served:
    return own_server


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    with client(server) as made:
        yield made


def test_a_file_is_stored_by_name_and_version_and_its_change_is_in_the_journal(api: httpx.Client) -> None:
    for data in (b"one", b"two"):
        assert api.put("/drive/reports/june.txt", content=data).status_code == 201
    assert api.get("/drive/reports/june.txt").content == b"two"
    assert api.get("/drive/reports/june.txt@1").content == b"one"
    assert api.get("/drive/reports/june.txt?certificate=1").json()["code"] == "certificate.missing"
    assert [each["version"] for each in api.get("/drive", params={"prefix": "reports/"}).json()["items"]] == [2]
    assert api.delete("/drive/reports/june.txt").status_code == 204
    assert api.get("/drive/reports/june.txt").status_code == 404
    rows = api.get("/journal", params={"limit": 1000}).json()["items"]
    changes = [row["data"] for row in rows if row["name"] == "DriveChanged"]
    assert [each["what"] for each in changes] == ["put", "put", "removed", "removed"]
    assert all(each["by"].startswith("test key ") for each in changes)


@pytest.mark.parametrize("name", ["%2e%2e/up", "a/%2e%2e/%2e%2e/b", "a//b", "a%00b", "a%2f..%2fb"])
def test_a_name_that_is_a_path_traversal_is_refused(api: httpx.Client, name: str) -> None:
    assert api.put(f"/drive/x/{name}", content=b"1").status_code in (400, 404, 405)


def test_secrets_are_listed_by_name_and_never_by_value(api: httpx.Client, server: Served) -> None:
    env = environment(server.settings)
    subprocess.run([PROGRAM, "vault", "set", "erp-token"], input=b"hunter2-secret", env=env, check=True, timeout=60)
    told = api.get("/vault")
    assert [(each["name"], each["kind"]) for each in told.json()["items"]] == [("erp-token", "token")]
    assert "hunter2" not in told.text


def test_a_new_key_has_only_the_requested_powers(api: httpx.Client, server: Served) -> None:
    made = api.post("/keys", json={"name": "anna", "powers": ["drive"], "seconds": 600}).json()
    assert made["id"] in {each["id"] for each in api.get("/keys").json()["items"]}
    assert made["key"] not in api.get("/keys").text
    with client(server, made["key"]) as other:
        assert other.get("/drive").status_code == 200
        refused = other.get("/desks")
        assert (refused.status_code, refused.json()["code"]) == (403, "key.power")


def test_the_fleet_lists_what_runs_and_stopping_it_burns_desks_without_owner(api: httpx.Client) -> None:
    desk = api.post("/desks", json={"memory": "256M"}).json()["id"]
    assert api.get("/fleet").json()["desks"] == 1
    assert api.post("/fleet/stop", json={}).json() == {"jobs": [], "desks": [desk]}
    assert api.get("/fleet").json()["desks"] == 0


def test_numbers_are_reported_as_prometheus_reads_them(server: Served) -> None:
    told = httpx.get(f"{server.url}/metrics", headers={"X-API-Key": server.key})
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    place = 'part="native",method="GET",route="/api/v1/fleet",status="2xx"'
    assert f"hotdesk_requests_total{{{place}}}" in told.text
    assert 'hotdesk_spend_dollars_total{tenant="default"} 0' in told.text
