"""Tests of desks over our own API."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from e2b import Sandbox
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from hotdesk.api.http import protocol
from hotdesk.api.native.desks import screens
from tests.e2e.server.conftest import Served
from tests.e2e.server.native import client

pytestmark = pytest.mark.container
NOBODY = "i" + "0" * 20


@pytest.fixture(scope="module")
def server(own_server: Served) -> Served:
    return own_server


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    with client(server) as made:
        yield made


@pytest.fixture(scope="module")
def desk(api: httpx.Client) -> str:
    made = api.post("/desks", json={"memory": "512M", "root": True})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def test_a_keys_tenant_is_shown(api: httpx.Client) -> None:
    told = api.get("/session").json()
    assert (told["tenant"], told["name"]) == ("default", "test")
    assert "desks" in told["powers"]


def test_without_a_key_only_liveness_is_shown(server: Served) -> None:
    assert httpx.get(f"{server.url}/health").json() == {"status": "ok"}
    assert httpx.get(f"{server.url}/ready").status_code in (200, 503)
    refused = httpx.get(f"{server.url}/api/v1/desks")
    assert (refused.status_code, refused.json()["code"]) == (401, "key.unknown")
    assert httpx.get(f"{server.url}/metrics").status_code == 401


def test_a_program_runs_and_its_exit_is_a_result(api: httpx.Client, desk: str) -> None:
    order = {"argv": ["sh", "-c", "cat; echo no >&2; exit 3"], "stdin": "yes"}
    told = api.post(f"/desks/{desk}/run", json=order).json()
    assert (told["exit_code"], told["stdout"], told["stderr"], told["timed_out"]) == (3, "yes", "no\n", False)


def test_a_repeated_request_opens_one_desk(api: httpx.Client) -> None:
    headers = {"Idempotency-Key": "one-desk"}
    first, again = (api.post("/desks", json={"memory": "256M"}, headers=headers).json() for _ in range(2))
    other = api.post("/desks", json={"memory": "300M"}, headers=headers)
    assert first["id"] == again["id"]
    assert (other.status_code, other.json()["code"]) == (409, "idempotency.reused")
    assert api.delete(f"/desks/{first['id']}").status_code == 204
    assert api.get(f"/desks/{first['id']}").status_code == 404


def test_files_come_back_as_they_were_sent_and_are_never_shown(api: httpx.Client, desk: str) -> None:
    data = bytes(range(256)) * 5000
    assert api.put(f"/desks/{desk}/file", params={"path": "a/<b>.html"}, content=data).status_code == 204
    found = api.get(f"/desks/{desk}/file", params={"path": "a/<b>.html"})
    assert found.content == data
    assert found.headers["content-disposition"].startswith("attachment")
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in found.headers["content-security-policy"]
    names = [each["name"] for each in api.get(f"/desks/{desk}/entries", params={"path": "a"}).json()["items"]]
    assert names == ["<b>.html"]
    assert api.delete(f"/desks/{desk}/file", params={"path": "a"}).status_code == 204
    gone = api.get(f"/desks/{desk}/file", params={"path": "a/<b>.html"})
    assert (gone.status_code, gone.json()["code"]) == (404, "desk.file.missing")


def test_a_paused_desk_refuses_requests_until_it_is_resumed(api: httpx.Client, desk: str) -> None:
    assert api.post(f"/desks/{desk}/pause").status_code == 204
    refused = api.post(f"/desks/{desk}/run", json={"argv": ["true"]})
    assert (refused.status_code, refused.json()["code"]) == (409, "desk.paused")
    assert api.post(f"/desks/{desk}/resume").status_code == 204
    assert api.post(f"/desks/{desk}/run", json={"argv": ["true"]}).json()["exit_code"] == 0


def test_files_go_back_to_a_snapshot_and_forks_begin_with_them(api: httpx.Client, desk: str) -> None:
    api.put(f"/desks/{desk}/file", params={"path": "kept"}, content=b"1")
    kept = api.post(f"/desks/{desk}/snapshots").json()["snapshot"]
    api.put(f"/desks/{desk}/file", params={"path": "kept"}, content=b"2")
    [fork] = api.post(f"/desks/{desk}/fork", json={"snapshot": kept}).json()["items"]
    assert api.get(f"/desks/{fork['id']}/file", params={"path": "kept"}).content == b"1"
    assert api.delete(f"/desks/{fork['id']}").status_code == 204
    assert api.post(f"/desks/{desk}/rollback", json={"snapshot": kept}).status_code == 204
    assert api.get(f"/desks/{desk}/file", params={"path": "kept"}).content == b"1"


def test_a_terminal_takes_bytes_and_a_new_size(server: Served, desk: str) -> None:
    url = f"{server.url.replace('http', 'ws')}/api/v1/desks/{desk}/terminal?rows=30&columns=90"
    with connect(url, additional_headers={"X-API-Key": server.key}) as line:
        line.send(json.dumps({"rows": 41, "columns": 101}))
        line.send(b"stty size; exit\n")
        said = b"".join(part if isinstance(part, bytes) else part.encode() for part in line)
    assert b"41 101" in said


def test_a_terminal_of_a_desk_without_egress_begins_with_that(server: Served, desk: str) -> None:
    url = f"{server.url.replace('http', 'ws')}/api/v1/desks/{desk}/terminal"
    with connect(url, additional_headers={"X-API-Key": server.key}) as line:
        line.send(b"exit\n")
        said = b"".join(part if isinstance(part, bytes) else part.encode() for part in line)
    assert b"This desk has no network access. To reach a host, " in said


def type_on(line: ClientConnection) -> None:
    while True:
        line.send(b"x")
        line.recv(timeout=30)


def test_a_terminal_whose_desk_burns_ends_without_a_log_entry(server: Served, api: httpx.Client) -> None:
    desk = api.post("/desks", json={}).raise_for_status().json()["id"]
    url = f"{server.url.replace('http', 'ws')}/api/v1/desks/{desk}/terminal"
    before = server.log.read_text()
    with connect(url, additional_headers={"X-API-Key": server.key}) as line:
        line.recv(timeout=30)
        assert api.delete(f"/desks/{desk}").status_code == 204
        with pytest.raises(ConnectionClosed):
            type_on(line)
    assert line.close_code in (1000, screens.GONE)
    assert server.log.read_text() == before


@pytest.mark.long
def test_an_idle_terminal_continues(server: Served, desk: str) -> None:
    url = f"{server.url.replace('http', 'ws')}/api/v1/desks/{desk}/terminal"
    with connect(url, additional_headers={"X-API-Key": server.key}) as line:
        line.send(f"sleep {protocol.HEAD_TIMEOUT_S + 3:.0f}; echo $((6 * 7)) there; exit\n".encode())
        said = b"".join(part if isinstance(part, bytes) else part.encode() for part in line)
    assert b"42 there" in said


@pytest.mark.parametrize("body", [{"names": {"a.test": "127.0.0.1:1"}}, {"sterile": True}, {"tenant": "other"}])
def test_fields_of_the_operator_are_refused_by_schema(api: httpx.Client, body: dict[str, object]) -> None:
    refused = api.post("/desks", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "request.invalid")


def test_a_browser_that_signed_in_changes_nothing_without_its_token(server: Served) -> None:
    origin = {"Origin": server.url}
    with httpx.Client(base_url=f"{server.url}/api/v1", headers=origin) as browser:
        signed = browser.post("/session", json={"key": server.key})
        cookie = signed.headers["set-cookie"]
        assert all(word in cookie for word in ("__Host-hotdesk=", "HttpOnly", "Secure", "SameSite=strict", "Path=/"))
        own = {"Cookie": cookie.partition(";")[0]}
        token = {"X-CSRF-Token": signed.json()["csrf"]}
        assert browser.get("/desks", headers=own).status_code == 200
        assert browser.post("/desks", json={}, headers=own).json()["code"] == "session.token"
        foreign = {**own, **token, "Origin": "http://evil.test"}
        assert browser.post("/desks", json={}, headers=foreign).json()["code"] == "session.origin"
        assert browser.delete("/session", headers={**own, **token}).status_code == 204
        assert browser.get("/desks", headers=own).status_code == 401


def test_unknown_objects_are_not_found(api: httpx.Client) -> None:
    for path in (f"/desks/{NOBODY}", f"/desks/{NOBODY}/usage", f"/jobs/{NOBODY}", "/drive/none.txt"):
        assert api.get(path).status_code == 404, path


def test_every_desk_and_key_is_in_the_journal_with_its_creator(server: Served, api: httpx.Client) -> None:
    who = f"test key {server.key[4:12]}"
    desks = {api.post("/desks", json=body).json()["id"] for body in ({}, {"allow": ["GET https://a.test"]})}
    with Sandbox.create(**server.e2b) as sandbox:
        desks.add(sandbox.sandbox_id)
    made = api.post("/keys", json={"name": "ci", "powers": ["jobs"]}).json()
    api.delete(f"/keys/{made['id']}")
    for desk in desks:
        api.delete(f"/desks/{desk}")
    rows = api.get("/journal", params={"limit": 1000}).json()["items"]
    opened = {row["data"]["desk"]: row["data"] for row in rows if row["name"] == "Opened"}
    assert {desk: opened[desk]["by"] for desk in desks} == dict.fromkeys(desks, who)
    assert desks <= {row["data"]["desk"] for row in rows if row["name"] == "Burnt"}
    keys = [(row["data"]["what"], row["data"]["by"]) for row in rows if row["name"] == "KeyChanged"]
    assert keys == [("made", who), ("revoked", who)]
    assert made["key"][12:] not in str(rows)
