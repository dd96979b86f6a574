"""Attacks by one tenant on another: a request with another tenant's id is answered as one with an unknown id."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from hotdesk.api.keys import ApiKeys
from hotdesk.api.native.app import NOUNS
from hotdesk.api.tenants import get_settings
from hotdesk.drive.identity import OPERATOR
from hotdesk.drive.keep import Drive
from hotdesk.drive.memory import MemoryStore
from tests.e2e.server import job_template, swarm_template
from tests.e2e.server.conftest import Served, served
from tests.e2e.server.native import client, job_when, waits
from tests.e2e.server.swarm_template import WORDS
from tests.security.guards import STATE_SHARED, Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
SECRET = "their-secret-which-is-long"
NEVER = {
    "desk": "i" + "0" * 20, "job": "i" + "1" * 20, "act": "1", "id": "0" * 8, "path": "plans/nobodys.txt",
    "name": "nobodys-token", "memory": "nobodys", "key": "1" * 8,
    "snapshot": "nobodys", "digest": "0" * 64, "upload": "0" * 32,
    "swarm": "i" + "3" * 20, "item": "line-000001", "place": "0",
}  # fmt: skip
"""Ids that never existed, by the parameter names of routes."""
OWN = {("PUT", "/vault/{name}"), ("PUT", "/drive/{path}")}
"""Routes that create something of the caller's own, under any name."""
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/desks/{desk}/run"): {"argv": ["true"]},
    ("POST", "/desks/{desk}/rollback"): {"snapshot": "{snapshot}"},
    ("POST", "/desks/{desk}/fork"): {"snapshot": "{snapshot}"},
    ("POST", "/desks/{desk}/wheel"): {"act": "take"},
    ("POST", "/jobs/{job}/items"): {"files": [{"name": "names.txt", "upload": "{upload}"}]},
    ("POST", "/jobs/{job}/allow"): {"rule": "GET https://a.test/"},
    ("POST", "/approvals/{id}"): {"answer": "approve", "digest": "{digest}"},
    ("PUT", "/vault/{name}"): {"value": "mine-and-mine-alone"},
}
QUERIES = {
    "/desks/{desk}/file": {"path": "theirs.txt"},
    "/jobs/{job}/events": {"follow": "false"},
}
ORDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "a file of a desk": ("/content", {"kind": "file", "desk": "{desk}", "path": "theirs.txt"}),
    "a file of the drive": ("/content", {"kind": "drive", "path": "{path}"}),
    "a report": ("/content", {"kind": "report", "job": "{job}"}),
    "a screenshot": ("/content", {"kind": "frame", "job": "{job}", "frame": 1}),
    "an upload": ("/jobs", {"template": "greeting", "files": [{"upload": "{upload}", "name": "names.txt"}]}),
}
LISTS: dict[str, tuple[str, dict[str, str]]] = {
    "a chain": ("/journal", {"chain": "{job}"}),
    "a prefix": ("/drive", {"prefix": "{path}"}),
    "a memory": ("/memory", {"memory": "{memory}"}),
    **{f"after {name}": (f"/{noun}", {"after": f"{{{name}}}"}) for noun, name in (
        ("desks", "desk"), ("jobs", "job"), ("approvals", "id"), ("drive", "path"), ("vault", "name"), ("keys", "key"),
    )},
}  # fmt: skip
OF_SWARMS = ("/jobs/{job}/swarm", "/jobs/{job}/items")
"""Path prefixes that only a swarm has."""
CHANGES = re.compile(r'"(at|created|changed)":[0-9.e+]+')


@dataclass(frozen=True, slots=True)
class Theirs:
    """What one tenant has."""

    ids: dict[str, str]
    order: dict[str, Any]
    """The request its desk was opened with, and the Idempotency-Key."""


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with served(home / "tenant-attacked") as found:
        job_template.install(found.settings.lib / "templates")
        swarm_template.install(found.settings.lib / "templates")
        yield found


@pytest.fixture(scope="module")
def theirs(server: Served) -> Iterator[Theirs]:
    """Yield the attacked tenant's objects, one of each kind that has an id; all must still exist in the end."""
    with client(server) as api:
        order: dict[str, Any] = {"headers": {"Idempotency-Key": "theirs"}, "json": {"memory": "256M"}}
        desk = api.post("/desks", **order).raise_for_status().json()["id"]
        api.put(f"/desks/{desk}/file", params={"path": "theirs.txt"}, content=b"theirs").raise_for_status()
        api.put("/drive/plans/theirs.txt", content=b"theirs").raise_for_status()
        api.put("/vault/their-token", json={"value": SECRET}).raise_for_status()
        drive = Drive(get_settings(server.settings, "default").lib / "drive")
        MemoryStore(drive, OPERATOR).keep("theirs", "fact", "0" * 16, b"theirs", job="i" + "2" * 20, brief="")
        assert [each["text"] for each in api.get("/memory").json()["items"]] == ["theirs"]
        upload = api.post("/uploads", params={"name": "names.txt"}, content=b"Anna\n").raise_for_status().json()["id"]
        files = [{"upload": upload, "name": "names.txt"}]
        job = api.post("/jobs", json={"template": "greeting", "files": files, "approve": "plan"}).json()["id"]
        plan = waits(api, job, "plan")
        swarm = begin_swarm(api)
        key = api.post("/keys", json={"name": "second", "powers": ["drive"]}).raise_for_status().json()["id"]
        snapshot = api.post(f"/desks/{desk}/snapshots").raise_for_status().json()["snapshot"]
        yield Theirs({
            "desk": desk, "job": job, "act": "1", "id": plan["id"], "path": "plans/theirs.txt", "name": "their-token",
            "memory": "theirs",
            "key": key, "snapshot": snapshot, "digest": plan["digest"], "upload": upload,
            "swarm": swarm, "item": "line-000001", "place": "0",
        }, order)  # fmt: skip
        assert api.get(f"/desks/{desk}").raise_for_status().json()["state"] == "open"
        assert api.get(f"/desks/{desk}/file", params={"path": "theirs.txt"}).content == b"theirs"
        assert api.get("/drive/plans/theirs.txt").content == b"theirs"
        assert [(each["name"], each["version"]) for each in api.get("/vault").json()["items"]] == [("their-token", 1)]
        assert waits(api, job, "plan")["id"] == plan["id"]
        assert api.get(f"/jobs/{swarm}/items").raise_for_status().json()["total"] == len(WORDS)
        assert [each["revoked"] for each in api.get("/keys").json()["items"]] == [None, None]


def begin_swarm(api: httpx.Client) -> str:
    """Have a swarm carried out; return its id."""
    text = "".join(f"{word}\n" for word in WORDS).encode()
    upload = api.post("/uploads", params={"name": "words.txt"}, content=text).raise_for_status().json()["id"]
    order = {"template": "letters", "files": [{"upload": upload, "name": "words.txt"}], "approve": "auto"}
    swarm = str(api.post("/jobs", json=order).raise_for_status().json()["id"])
    job_when(api, swarm, "done")
    return swarm


@pytest.fixture(scope="module")
def eve(server: Served, theirs: Theirs) -> Iterator[httpx.Client]:
    with client(server, ApiKeys(server.settings.lib / "serve").make("eve", "other")) as made:
        yield made


def described() -> list[tuple[str, str]]:
    """List every documented operation with an id in its path; those that end or create something come last."""
    app = FastAPI()
    for noun in NOUNS:
        app.include_router(noun.router)
    found = [(method.upper(), path) for path, acts in app.openapi()["paths"].items() for method in acts]
    return sorted((each for each in found if "{" in each[1]), key=lambda each: (each in OWN, each[0] == "DELETE"))


BY_ID = described()


def filled(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: filled(each, ids) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, ids) for each in value]
    return re.sub(r"\{(\w+)\}", lambda hole: ids[hole[1]], value) if isinstance(value, str) else value


def answer(asker: httpx.Client, method: str, path: str, ids: dict[str, str], **more: Any) -> tuple[int, str, str]:
    """Send a request with ids; return the status, the type and the text without ids and times."""
    told = asker.request(method, filled(path, ids), **filled(more, ids))
    text = CHANGES.sub("", told.text)
    for name, value in sorted(ids.items(), key=lambda each: -len(each[1])):
        text = text.replace(value, name) if len(value) > 1 else text
    return told.status_code, told.headers.get("content-type", ""), text


@no_guard("it reads the table of attacks, and takes nothing out")
def test_every_operation_with_an_id_is_attacked() -> None:
    assert len(BY_ID) > 25
    assert {name for _, path in BY_ID for name in re.findall(r"\{(\w+)\}", path)} <= set(NEVER)


@falls_without(
    "a tenant's state is its own, by any id",
    STATE_SHARED,
    cases=[" ".join(each) for each in BY_ID if "{key}" not in each[1]],
)
@falls_without(
    "whose keys there are",
    Removal("access/keys.py", "        if each.tenant == context.tenant.name\n", "        if each.tenant\n"),
    cases="DELETE /keys/{key}",
)
@pytest.mark.parametrize(("method", "path"), BY_ID, ids=[" ".join(each) for each in BY_ID])
def test_another_tenants_id_is_answered_as_unknown(eve: httpx.Client, theirs: Theirs, method: str, path: str) -> None:
    more: dict[str, Any] = {"params": QUERIES.get(path, {})}
    more |= {"json": BODIES[method, path]} if (method, path) in BODIES else {}
    asked = path.replace("{job}", "{swarm}") if path.startswith(OF_SWARMS) else path
    found = answer(eve, method, asked, theirs.ids, **more)
    never = answer(eve, method, asked, NEVER, **more)
    if (method, path) in OWN:
        assert [eve.delete(filled(path, ids)).status_code for ids in (theirs.ids, NEVER)] == [204, 204]
    assert found == never
    assert (found[0] == 404) is ((method, path) not in OWN), found


@falls_without("a tenant's state is its own, in orders and lists", STATE_SHARED)
@pytest.mark.parametrize(("path", "order"), ORDERS.values(), ids=ORDERS)
def test_a_request_body_with_another_tenants_id_is_answered_as_unknown(
    eve: httpx.Client, theirs: Theirs, path: str, order: dict[str, Any]
) -> None:
    found = answer(eve, "POST", path, theirs.ids, json=order)
    assert found == answer(eve, "POST", path, NEVER, json=order)
    assert found[0] == 404, found


@falls_without(
    "a tenant's state is its own, in orders and lists",
    cases="a chain | a prefix | a memory | after desk | after job | after id | after path | after name",
)
@falls_without("whose keys there are", cases="after key")
@pytest.mark.parametrize(("path", "query"), LISTS.values(), ids=LISTS)
def test_a_list_filtered_by_another_tenants_id_is_as_for_an_unknown_one(
    eve: httpx.Client, theirs: Theirs, path: str, query: dict[str, str]
) -> None:
    found = answer(eve, "GET", path, theirs.ids, params=query)
    assert found == answer(eve, "GET", path, NEVER, params=query)
    assert found[0] == 200, found


@falls_without(
    "whose an Idempotency-Key is",
    Removal(
        "access/auth.py",
        "store.run_once(caller.tenant, key, body, work, (caller.key, act))\n",
        'store.run_once("", key, body, work, ("", act))\n',
    ),
)
def test_another_tenants_idempotency_key_returns_nothing_of_theirs(eve: httpx.Client, theirs: Theirs) -> None:
    made = eve.post("/desks", **theirs.order).raise_for_status().json()["id"]
    assert made != theirs.ids["desk"]
    assert eve.delete(f"/desks/{made}").status_code == 204
