"""Tests of two tenants of one server: neither sees, guesses or reaches anything of the other's, by any id or path."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from hotdesk.api.keys import ApiKeys
from hotdesk.desk.wall.registry import survey
from tests.e2e.conftest import Hotdesk, environment
from tests.e2e.server.conftest import Served, served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
OPEN = {"/health", "/ready"}
"""Routes that need no key."""
SIGN_IN = ("POST", "/api/v1/session")
FILE = "plans/secret-plan.txt"
BRIEF = 'goal = "x"\nmodels = {plan = "anthropic:x"}\ndeliverables = [{path = "a.json", check = "json"}]\n'
E2B = [
    ("GET", "/sandboxes/{desk}"), ("DELETE", "/sandboxes/{desk}"), ("POST", "/sandboxes/{desk}/timeout"),
    ("POST", "/sandboxes/{desk}/pause"), ("POST", "/sandboxes/{desk}/resume"), ("POST", "/sandboxes/{desk}/connect"),
    ("GET", "/sandboxes/{desk}/metrics"), ("GET", "/sandboxes/{desk}/logs"), ("POST", "/sandboxes/{desk}/snapshots"),
    ("PUT", "/sandboxes/{desk}/network"), ("POST", "/sandboxes/{desk}/refreshes"), ("POST", "/sandboxes/{desk}/fork"),
]  # fmt: skip
BODY = {"timeout": 60, "argv": ["true"], "snapshot": "x", "count": 1, "act": "take", "name": "x"}


@dataclass(frozen=True, slots=True)
class Owned:
    """What one tenant has on the server."""

    desk: str
    sandbox: str
    key: str

    @property
    def words(self) -> tuple[str, ...]:
        return self.desk, self.sandbox, self.key, FILE


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    """Run a server without ready desks, because tests inspect all desks that exist."""
    with served(home / f"serve-{time.monotonic_ns()}", config="[serve]\nready = {}\n") as found:
        yield found


@pytest.fixture(scope="module")
def other(server: Served) -> str:
    return ApiKeys(server.settings.lib / "serve").make("eve", "other")


@pytest.fixture(scope="module")
def owned(server: Served) -> Iterator[Owned]:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=30) as client:
        desk = client.post("/api/v1/desks", json={"image": "base"}).json()["id"]
        sandbox = client.post("/sandboxes", json={"templateID": "base", "timeout": 300}).json()["sandboxID"]
        assert client.put(f"/api/v1/drive/{FILE}", content=b"ours").status_code < 300
        yield Owned(desk, sandbox, server.key[4:12])
        assert client.get(f"/api/v1/desks/{desk}").status_code == 200
        assert client.get(f"/sandboxes/{sandbox}").status_code == 200
        assert client.get(f"/api/v1/drive/{FILE}").content == b"ours"
        client.delete(f"/api/v1/desks/{desk}")
        client.delete(f"/sandboxes/{sandbox}")


def routes(server: Served) -> list[tuple[str, str]]:
    """List every route the server describes, and those of E2B's control plane."""
    told: dict[str, Any] = httpx.get(f"{server.url}/api/openapi.json", headers={"X-API-Key": server.key}).json()
    described = [(method.upper(), path) for path, acts in told["paths"].items() for method in acts]
    assert len(described) > 30
    return [*described, *E2B]


def filled(path: str, owned: Owned) -> str:
    known = {"desk": owned.sandbox if path.startswith("/sandboxes") else owned.desk, "key": owned.key, "path": FILE}
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: known.get(found[1], owned.desk), path)


def answer(server: Served, key: str, method: str, path: str) -> tuple[int, str]:
    """Make a request; return status and body, but no body of endless streams."""
    with (
        httpx.Client(base_url=server.url, headers={"X-API-Key": key} if key else {}, timeout=30) as client,
        client.stream(method, path, json=BODY if method in ("POST", "PUT") else None) as told,
    ):
        if told.headers.get("content-type", "").startswith("text/event-stream"):
            return told.status_code, ""
        return told.status_code, told.read().decode(errors="replace")


def test_every_desk_is_shown_with_the_wall_its_keeper_proved(server: Served, other: str, owned: Owned) -> None:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=30) as client:
        desk = client.get(f"/api/v1/desks/{owned.desk}").json()
        assert (desk["wall"], desk["kernel"], desk["boundary"], desk["platform"]) == ("container", "host", True, "")
        assert desk["wall_version"].startswith("crun ")
        assert client.get(f"/sandboxes/{owned.sandbox}").json()["wall"] == "container"
        assert 'hotdesk_desks_by_wall{tenant="default",wall="container",kernel="host"' in client.get("/metrics").text


@pytest.mark.parametrize(("image", "screen"), [("base", False), ("desktop", True)])
def test_a_desk_is_shown_with_whether_it_has_a_screen(server: Served, image: str, screen: bool) -> None:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=30) as client:
        desk = client.post("/api/v1/desks", json={"image": image}).json()
        assert desk["screen"] is screen
        client.delete(f"/api/v1/desks/{desk['id']}")


@pytest.mark.long
def test_several_tenants_get_no_desk_on_the_hosts_kernel_unless_the_operator_allows_it(home: Path) -> None:
    with served(
        home / f"walls-{time.monotonic_ns()}", config='[serve.tenants.trusted]\nwall = "container"\n'
    ) as server:
        keys = ApiKeys(server.settings.lib / "serve")
        with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=30) as client:
            desk = client.post("/api/v1/desks", json={"image": "base"})
            assert desk.status_code == 201, desk.text
            trusted = keys.make("anna", "trusted")
            strongest = survey(server.settings).find_strongest()
            answers = [client.post(path, json=body) for path, body in (
                ("/api/v1/desks", {"image": "base"}), ("/sandboxes", {"templateID": "base"}),
                ("/api/v1/jobs", {"brief": BRIEF}),
            )]  # fmt: skip
            if strongest == "container":
                assert [each.status_code for each in answers] == [503, 503, 503]
                assert 'wall = \\"container\\" below [serve]' in answers[0].text
            else:
                assert answers[0].json()["wall"] == strongest
            theirs = client.post("/api/v1/desks", json={"image": "base"}, headers={"X-API-Key": trusted})
            assert (theirs.status_code, theirs.json()["wall"]) == (201, "container")


def test_stopping_everything_stops_only_the_tenants_own(server: Served, other: str, owned: Owned) -> None:
    assert answer(server, other, "POST", "/api/v1/fleet/stop")[0] < 500
    assert answer(server, server.key, "GET", f"/api/v1/desks/{owned.desk}")[0] == 200


def test_the_operator_sees_every_tenants_metrics_and_a_tenant_its_own(
    server: Served, other: str, owned: Owned, hotdesk: Hotdesk
) -> None:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": other}, timeout=30) as client:
        theirs = client.post("/api/v1/desks", json={"image": "base"}).json()["id"]
        fleet, numbers = client.get("/api/v1/fleet").json(), client.get("/metrics").text
        assert [each["tenant"] for each in fleet["tenants"]] == ["other"]
        assert 'tenant="default"' not in numbers
        operator = {"X-API-Key": server.key}
        fleet = client.get("/api/v1/fleet", headers=operator).json()
        shares = {each["tenant"]: each["desks"] for each in fleet["tenants"]}
        assert shares == {"default": 2, "other": 1}
        assert 'hotdesk_desks{tenant="other",state="open"} 1' in client.get("/metrics", headers=operator).text
        env = environment(server.settings)
        for command in ("ps", "usage"):
            listed = json.loads(hotdesk(command, "--json", **env).stdout)
            found = {each["tenant"]: each["id"] for each in listed if each.get("state") != "ready"}
            assert found["other"] == theirs, listed
            only = json.loads(hotdesk(command, "--json", "--tenant", "default", **env).stdout)
            assert {each["tenant"] for each in only} == {"default"}
        client.delete(f"/api/v1/desks/{theirs}")


def test_without_a_key_only_health_is_shown(server: Served, owned: Owned) -> None:
    wrong = []
    for method, route in routes(server):
        status, _ = answer(server, "", method, filled(route, owned))
        expected = (200, 503) if route in OPEN else (401, 403, 422) if (method, route) == SIGN_IN else (401,)
        if status not in expected:
            wrong.append((method, route, status))
    assert wrong == []


def test_tenants_have_separate_state_directories(server: Served, other: str, owned: Owned) -> None:
    answer(server, other, "GET", "/api/v1/desks")
    assert (server.settings.lib / "tenants" / "other" / "keys").is_dir()
    assert (server.settings.run / "tenants" / "other" / "desks").is_dir()


def test_objects_of_another_tenant_look_like_unknown_ones(server: Served, other: str, owned: Owned) -> None:
    theirs = answer(server, other, "GET", f"/api/v1/desks/{owned.desk}")
    never = answer(server, other, "GET", "/api/v1/desks/i" + "0" * 20)
    assert theirs[0] == never[0] == 404
    assert theirs[1].replace(owned.desk, "") == never[1].replace("i" + "0" * 20, "")
