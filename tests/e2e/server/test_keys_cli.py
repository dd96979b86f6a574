"""Tests of `hotdesk key`: a key is shown once, listed without its secret, and changes apply to a running server."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import httpx
import pytest

from hotdesk.api.caller import POWERS
from hotdesk.api.keys import SHAPE
from tests.e2e.conftest import PROGRAM, environment
from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]


def key(server: Served, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run `hotdesk key` on a server's machine."""
    env = {**environment(server.settings), "HOTDESK_TENANT": "elsewhere"}  # keys are the machine's, not a tenant's
    return subprocess.run([PROGRAM, "key", *argv], env=env, capture_output=True, text=True, timeout=60, check=False)


def made(server: Served, *argv: str) -> str:
    done = key(server, "new", *argv)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def listed(server: Served, *argv: str) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in json.loads(key(server, "ls", "--json", *argv).stdout)}


def status(server: Served, shown: str, path: str = "/api/v1/desks") -> int:
    return httpx.get(f"{server.url}{path}", headers={"X-API-Key": shown}, timeout=30).status_code


def test_a_new_key_is_one_line_that_opens_a_running_server_at_once(server: Served) -> None:
    done = key(server, "new", "--name", "ci")
    assert SHAPE.fullmatch(done.stdout.strip())
    assert done.stderr == ""
    assert status(server, done.stdout.strip()) == 200


def test_a_new_key_as_json_has_its_tenant_and_powers(server: Served) -> None:
    told = json.loads(
        made(server, "--name", "anna", "--tenant", "acme", "--power", "jobs", "--expires", "30d", "--json")
    )
    assert SHAPE.fullmatch(told["key"])
    assert told["id"] == told["key"][4:12]
    assert (told["name"], told["tenant"], told["powers"], told["state"]) == ("anna", "acme", ["jobs"], "valid")
    assert told["expires"] - told["made"] == pytest.approx(30 * 86400, abs=1)


def test_a_key_has_every_power_by_default(server: Served) -> None:
    shown = made(server, "--name", "all")
    assert listed(server)[shown[4:12]]["powers"] == sorted(POWERS)


def test_a_key_is_refused_where_it_lacks_the_power(server: Served) -> None:
    shown = made(server, "--name", "e2b", "--power", "sandboxes")
    assert status(server, shown, "/sandboxes") == 200
    assert status(server, shown) == 403
    assert status(server, made(server, "--name", "jobs", "--power", "jobs"), "/sandboxes") == 401


@pytest.mark.parametrize("argv", [["ls"], ["ls", "--json"]], ids=["table", "json"])
def test_a_list_shows_no_key_and_nothing_of_its_secret(server: Served, argv: list[str]) -> None:
    shown = made(server, "--name", "listed")
    told = key(server, *argv).stdout
    assert shown[4:12] in told
    assert "listed" in told
    assert shown not in told
    assert shown[12:] not in told
    assert "digest" not in told


def test_a_list_may_be_of_one_tenant_alone(server: Served) -> None:
    shown = made(server, "--name", "tenant", "--tenant", "lonely")
    assert list(listed(server, "--tenant", "lonely")) == [shown[4:12]]


def test_a_revoked_key_is_invalid_at_once_and_stays_in_the_list(server: Served) -> None:
    shown = made(server, "--name", "leaver")
    assert status(server, shown) == 200
    assert key(server, "revoke", shown[4:12]).returncode == 0
    assert status(server, shown) == 401
    assert status(server, shown, "/sandboxes") == 401
    assert listed(server)[shown[4:12]]["state"] == "revoked"
    assert key(server, "revoke", shown[4:12]).returncode == 0  # repeating it is no error


def test_a_browser_that_signed_in_is_signed_out_with_its_key(server: Served) -> None:
    shown = made(server, "--name", "browser")
    with httpx.Client(base_url=server.url, headers={"Origin": server.url}, timeout=30) as client:
        begun = client.post("/api/v1/session", json={"key": shown})
        cookie = {"Cookie": begun.headers["set-cookie"].partition(";")[0]}
        assert client.get("/api/v1/desks", headers=cookie).status_code == 200
        key(server, "revoke", shown[4:12])
        assert client.get("/api/v1/desks", headers=cookie).status_code == 401


@pytest.mark.long
def test_a_key_expires(server: Served) -> None:
    shown = made(server, "--name", "brief", "--expires", "2s")
    end = listed(server)[shown[4:12]]["expires"]
    assert status(server, shown) == 200 or time.time() >= end
    time.sleep(max(0.0, end - time.time()) + 0.05)
    assert status(server, shown) == 401
    assert listed(server)[shown[4:12]]["state"] == "expired"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["new", "--name", "a b"], "not a valid key name"),
        (["new", "--name", "a", "--tenant", "../x"], "not a valid tenant name"),
        (["new", "--name", "a", "--expires", "soon"], "not a valid lifetime"),
        (["new", "--name", "a", "--power", "root"], "invalid choice"),
        (["revoke", "00000000"], "there is no key '00000000'; `hotdesk key ls` lists the keys"),
    ],
    ids=["name", "tenant", "expires", "power", "unknown"],
)
def test_invalid_options_are_refused_with_the_remedy(server: Served, argv: list[str], why: str) -> None:
    before = listed(server)
    done = key(server, *argv)
    assert done.returncode != 0
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert listed(server) == before
