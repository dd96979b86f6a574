"""Hooks for schemathesis that fill its requests with ids of real objects, in the states that operations need.

Every second request stays as generated. Where schemathesis follows links, only requests that create objects are
filled.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypedDict

import httpx
import schemathesis
from schemathesis import HookContext
from schemathesis.core.failures import Failure
from schemathesis.core.transport import Response
from schemathesis.openapi.checks import UseAfterFree
from websockets.sync.client import ClientConnection, connect

from tests.e2e.server.swarm_template import WORDS

Case = schemathesis.Case[Any]

V1, VALUE = "/api/v1", "long-enough-to-be-guarded"
VARIABLE = "HOTDESK_SCHEMA_FEED"
PATIENCE = 60.0
DEAR = 3
"""How often an operation that needs a new job is filled."""
MOST_DESKS = 4
"""Desks opened on the way that stay open; older ones are burnt."""
TRUE = ("true", "1", "on", "yes", "y", "t")
LINKS: tuple[tuple[str, str, str, str, str], ...] = (
    ("post", "/desks", "201", "desk", "$response.body#/id"),
    ("post", "/desks/{desk}/fork", "201", "desk", "$response.body#/items/0/id"),
    ("post", "/jobs", "201", "job", "$response.body#/id"),
    ("get", "/approvals", "200", "id", "$response.body#/items/0/id"),
    ("post", "/keys", "201", "key", "$response.body#/id"),
    ("put", "/vault/{name}", "200", "name", "$response.body#/name"),
    ("put", "/drive/{path}", "201", "path", "$response.body#/name"),
)
"""Sources of ids: an operation and its status, the parameter to fill, and the part of the answer to fill it with."""
SNAPSHOT = ("post", "/desks/{desk}/snapshots", "201")


def until(holds: Callable[[], object], pause: float = 0.2) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("what is fed does not come to be")
        time.sleep(pause)


class Told(TypedDict):
    """Data from the process that starts schemathesis."""

    url: str
    key: str
    log: str
    linked: bool
    """Whether ids come from links."""
    job: str
    """A job that waits at a question, at a desk with a screen."""
    desk: str
    question: str
    act: int
    """An act of that job that saw the screen."""
    swarm: str
    """A swarm that is done."""


class Feed:
    """Creates objects for requests when they are needed."""

    def __init__(self, told: Told) -> None:
        self.told = told
        headers = {"Authorization": f"Bearer {told['key']}"}
        self.api = httpx.Client(base_url=told["url"] + V1, headers=headers, timeout=PATIENCE)
        self.counts: Counter[str] = Counter()
        self.desk = self.job = self.planned = ""
        self.opened: list[str] = []
        self.screen: ClientConnection | None = None

    def feed(self, case: Case) -> None:
        label = f"{case.method} {case.operation.path.removeprefix(V1)}"
        self.spare(label, case)
        self.counts[label] += 1
        if self.counts[label] % 2 == 0:
            return
        act = ACTS.get(label) if not self.told["linked"] or label in BEGIN else None
        if act is not None and (label not in COSTLY or self.counts[label] < 2 * DEAR):
            act(self, case)
        if self.told["linked"]:
            return
        for name, find in IDS.items():
            if name in (case.path_parameters or {}) and label not in COSTLY:
                case.path_parameters[name] = find(self, case)

    def spare(self, label: str, case: Case) -> None:
        """Replace ids of objects that other requests need, unless it is harmless; schemathesis finds them in lists."""
        spared = {"desk": self.told["desk"], "job": self.told["job"], "key": self.told["key"][4:12]}
        spared |= {} if self.told["linked"] else {"id": self.told["question"]}
        for name, value in (case.path_parameters or {}).items():
            if value == spared.get(name) and label not in HARMLESS:
                case.path_parameters[name] = "i" + "0" * 20 if name in ("desk", "job") else "0" * 8

    # -- desks

    def desk_for(self, case: Case) -> str:
        """Return an open desk; for the wheel, the one whose screen is shown."""
        if case.operation.path.endswith("/wheel"):
            return self.told["desk"]
        found = self.api.get(f"/desks/{self.desk or 'i' + '0' * 20}")
        if found.status_code == 404:
            self.desk = self.api.post("/desks", json={"memory": "256M"}).raise_for_status().json()["id"]
        elif found.json()["state"] != "open" and not case.operation.path.endswith("/resume"):
            self.api.post(f"/desks/{self.desk}/resume").raise_for_status()
        return self.desk

    def look(self, case: Case) -> None:
        """Open the screen of the desk and take its wheel; a client that does not answer is soon disconnected."""
        if self.screen is not None:
            self.screen.close()
        url = f"{self.told['url'].replace('http', 'ws')}{V1}/desks/{self.told['desk']}/screen"
        self.screen = connect(url, additional_headers={"X-API-Key": self.told["key"]})
        self.screen.recv(PATIENCE)
        case.body = {"act": "take"}

    def order_desk(self, case: Case) -> None:
        case.body = {"image": "base", "memory": "256M"}

    def use_snapshot(self, case: Case) -> None:
        made = self.api.post(f"/desks/{self.desk_for(case)}/snapshots").raise_for_status()
        case.body = {"snapshot": made.json()["snapshot"]}

    def use_file(self, case: Case) -> None:
        self.api.put(f"/desks/{self.desk_for(case)}/file", params={"path": "fed"}, content=b"fed").raise_for_status()
        case.query = {**(case.query or {}), "path": "fed"}

    def use_folder(self, case: Case) -> None:
        case.query = {**(case.query or {}), "path": "/etc"}

    def sweep(self, most: int) -> None:
        while len(self.opened) > most:
            self.api.delete(f"/desks/{self.opened.pop(0)}")

    # -- jobs

    def begin(self, approve: str) -> str:
        """Begin a job that asks before it writes a file."""
        order = self.order(approve)
        return str(self.api.post("/jobs", json=order).raise_for_status().json()["id"])

    def order(self, approve: str = "auto") -> dict[str, Any]:
        upload = self.api.post("/uploads", params={"name": "names.txt"}, content=b"Anna\n").raise_for_status().json()
        files = [{"upload": upload["id"], "name": "names.txt"}]
        return {"template": "greeting", "files": files, "approve": approve}

    def order_job(self, case: Case) -> None:
        case.body = self.order()

    def own(self) -> str:
        if not self.job:
            self.job = self.begin("auto")
            until(lambda: self.api.get(f"/jobs/{self.job}").json()["state"] == "waiting")
        return self.job

    def use_running(self, case: Case) -> None:
        self.api.post(f"/jobs/{self.own()}/resume")
        case.path_parameters["job"] = self.job

    def use_stopped(self, case: Case) -> None:
        until(lambda: self.api.post(f"/jobs/{self.own()}/stop").status_code == 409, 0.5)
        case.path_parameters["job"] = self.job

    def use_forgettable(self, case: Case) -> None:
        """Use the id of a job that can be forgotten; begin another for later requests."""
        self.use_stopped(case)
        self.job = ""

    def use_swarm(self, case: Case) -> None:
        case.path_parameters["job"] = self.told["swarm"]
        if "item" in case.path_parameters:
            case.path_parameters["item"] = "line-000001"
        if "place" in case.path_parameters:
            case.path_parameters["place"] = 0
        if case.method == "GET" and case.operation.path.endswith("/items"):
            case.query = {}

    def add_items(self, case: Case) -> None:
        """Add a word to a swarm, a different one in each request."""
        self.use_swarm(case)
        words = [*WORDS, *(f"word{number}" for number in range(self.counts["POST /jobs/{job}/items"]))]
        text = "".join(f"{word}\n" for word in words).encode()
        upload = self.api.post("/uploads", params={"name": "words.txt"}, content=text).raise_for_status().json()
        case.body = {"files": [{"upload": upload["id"], "name": "words.txt"}]}

    def allow(self, case: Case) -> None:
        case.body = {"rule": "GET https://more.example.test/fed"}

    def decide(self, case: Case) -> None:
        self.planned = self.planned or self.begin("plan")
        until(self.waiting)
        found = self.waiting()[0]
        answer = {"answer": "answer", "words": "Hello"} if found["kind"] == "question" else {"answer": "approve"}
        self.planned = "" if found["kind"] == "question" else self.planned
        case.path_parameters["id"] = found["id"]
        case.body = {**answer, "digest": found["digest"]}

    def waiting(self) -> list[dict[str, Any]]:
        return [each for each in self.api.get("/approvals").json()["items"] if each["job"] == self.planned]

    # -- other objects of a tenant

    def file_for(self, case: Case) -> str:
        self.api.put("/drive/fed/file.txt", content=b"fed").raise_for_status()
        return "fed/file.txt"

    def keep_file(self, case: Case) -> None:
        case.path_parameters["path"] = "fed/kept.txt"

    def look_at(self, case: Case) -> None:
        case.body = {"kind": "drive", "path": self.file_for(case)}

    def secret_for(self, case: Case) -> str:
        self.api.put("/vault/fed", json={"value": VALUE}).raise_for_status()
        return "fed"

    def keep_secret(self, case: Case) -> None:
        case.body = {"value": VALUE}

    def key_for(self, case: Case) -> str:
        """Return the id of an existing key, but never the one of these requests."""
        order = {"name": "fed", "powers": ["drive"], "seconds": 600}
        return str(self.api.post("/keys", json=order).raise_for_status().json()["id"])

    def sign_in(self, case: Case) -> None:
        case.body = {"key": self.told["key"]}


SWARM_PATHS = ("swarm", "items", "items/{item}", "items/{item}/files/{place}", "items/{item}/proof")
IDS: dict[str, Callable[[Feed, Case], object]] = {
    "desk": Feed.desk_for,
    "job": lambda feed, _: feed.told["job"],
    "act": lambda feed, _: feed.told["act"],
    "path": Feed.file_for,
    "name": Feed.secret_for,
    "key": Feed.key_for,
}
ACTS: dict[str, Callable[[Feed, Case], None]] = {
    "POST /session": Feed.sign_in,
    "POST /desks": Feed.order_desk,
    "POST /desks/{desk}/wheel": Feed.look,
    "POST /desks/{desk}/rollback": Feed.use_snapshot,
    "POST /desks/{desk}/fork": Feed.use_snapshot,
    "GET /desks/{desk}/file": Feed.use_file,
    "DELETE /desks/{desk}/file": Feed.use_file,
    "GET /desks/{desk}/entries": Feed.use_folder,
    "POST /jobs": Feed.order_job,
    "POST /jobs/{job}/stop": Feed.use_running,
    "POST /jobs/{job}/resume": Feed.use_stopped,
    "DELETE /jobs/{job}": Feed.use_forgettable,
    "POST /jobs/{job}/allow": Feed.allow,
    **{f"GET /jobs/{{job}}/{path}": Feed.use_swarm for path in SWARM_PATHS},
    "POST /jobs/{job}/items": Feed.add_items,
    "POST /approvals/{id}": Feed.decide,
    "PUT /drive/{path}": Feed.keep_file,
    "PUT /vault/{name}": Feed.keep_secret,
    "POST /content": Feed.look_at,
}
COSTLY = (
    "POST /jobs", "POST /jobs/{job}/stop", "POST /jobs/{job}/resume", "DELETE /jobs/{job}", "POST /approvals/{id}",
    "POST /jobs/{job}/items", *(f"GET /jobs/{{job}}/{path}" for path in SWARM_PATHS),
)  # fmt: skip


BEGIN = ("POST /session", "POST /desks", "POST /jobs", "PUT /drive/{path}", "PUT /vault/{name}")
"""Operations that are filled even where ids come from links, because they create the first ids."""
HARMLESS = (
    "GET /desks/{desk}", "GET /desks/{desk}/usage", "GET /desks/{desk}/entries", "GET /desks/{desk}/file",
    "GET /desks/{desk}/wheel", "POST /desks/{desk}/wheel", "POST /desks/{desk}/snapshots", "GET /jobs/{job}",
    "GET /jobs/{job}/events", "GET /jobs/{job}/door", "GET /jobs/{job}/frames/{act}", "POST /jobs/{job}/allow",
)  # fmt: skip
"""Operations that leave the waiting job and its desk as they are."""


def linked(raw: dict[str, Any]) -> None:
    acts = {(method, path.removeprefix(V1)): act for path, each in raw["paths"].items() for method, act in each.items()}
    for method, path, status, name, expression in LINKS:
        links = acts[method, path]["responses"][status].setdefault("links", {})
        for (verb, other), act in acts.items():
            if f"{{{name}}}" in other and (verb, other) != (method, path):
                parameters = {f"path.{name}": expression}
                links[f"{verb}{other}"] = {"operationId": act["operationId"], "parameters": parameters}
    decide = acts["get", "/approvals"]["responses"]["200"]["links"]["post/approvals/{id}"]
    decide["requestBody"] = {"answer": "refuse", "digest": "$response.body#/items/0/digest"}
    for place in ("/desks/{desk}/rollback", "/desks/{desk}/fork"):
        method, path, status = SNAPSHOT
        acts[method, path]["responses"][status].setdefault("links", {})[place] = {
            "operationId": acts["post", place]["operationId"],
            "parameters": {"path.desk": "$request.path.desk"},
            "requestBody": {"snapshot": "$response.body#/snapshot"},
        }


if VARIABLE in os.environ:
    FEED = Feed(json.loads(os.environ[VARIABLE]))

    @schemathesis.hook
    def before_load_schema(context: HookContext, raw_schema: dict[str, Any]) -> None:
        if FEED.told["linked"]:
            linked(raw_schema)

    @schemathesis.hook
    def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
        """Fill a request; do not follow streams, because they would not end."""
        FEED.feed(case)
        if case.operation.path.endswith("/events"):
            query = dict(case.query or {})
            if str(query.get("follow", "true")).lower() in TRUE:
                case.query = {**query, "follow": "false"}

    @schemathesis.hook
    def filter_failure(context: HookContext, failure: Failure, case: Case, response: Response) -> bool:
        """Drop failures that are intended: the journal of a forgotten job remains readable."""
        return not (isinstance(failure, UseAfterFree) and case.operation.path.startswith(f"{V1}/jobs/"))

    @schemathesis.hook
    def after_call(context: HookContext, case: Case, response: Response) -> None:
        label = f"{case.method} {case.operation.path}"
        with open(FEED.told["log"], "a") as log:
            log.write(f"{response.status_code} {label}\n")
        if response.status_code == 201 and label == f"POST {V1}/desks":
            FEED.opened.append(response.json()["id"])
        elif response.status_code == 201 and label.endswith("/fork"):
            FEED.opened += [each["id"] for each in response.json()["items"]]
        FEED.sweep(MOST_DESKS if FEED.told["linked"] else 0)
