"""Tests of our OpenAPI description: operations behave as described, and no request breaks the server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from hotdesk.api.keys import ApiKeys
from hotdesk.api.native.events import MAX_STREAMS
from tests.e2e.server import door_template, job_template, swarm_template
from tests.e2e.server.conftest import PATIENCE, Served, served
from tests.e2e.server.native import client, job_when, waits
from tests.e2e.server.schema_feed import LINKS, VARIABLE, Told
from tests.e2e.server.swarm_template import WORDS

pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[3]
V1 = "/api/v1"
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance", "negative_data_rejection", "ignored_auth", "unsupported_method",
    "missing_required_header", "allow_header_conformance",
)  # fmt: skip
LATER = ("use_after_free", "ensure_resource_availability")
"""Checks that need a chain of requests."""
STOP = f"{V1}/fleet/stop"
"""Ends everything of the caller's tenant, so a tenant without anything else calls it."""
LEAST, MOST_RUNS = 3, 6
"""How many runs follow links: at least, and at most until every kind of id was followed."""
STREAMS = (f"{V1}/events", f"{V1}/jobs/{{job}}/events")
QUOTA = "[serve.quota]\ndesks = 64\n"
NOBODY = "i" + "0" * 20
MANY = httpx.Limits(max_connections=None)


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with door_template.site() as site, served(home / "native-schema", config=site + QUOTA) as found:
        install(found.settings.lib / "templates")
        yield found


def install(templates: Path) -> None:
    """Install templates of jobs that last as long as the tests; the one with a screen keeps its desk while it waits."""
    door_template.install(templates)
    job_template.install(templates)
    swarm_template.install(templates)
    for brief in templates.glob("*/brief.toml"):
        brief.write_text(re.sub("(?m)^seconds = .*$", "seconds = 3000", brief.read_text()))
    brain = templates / "fetching/brain.py"
    brain.write_text(brain.read_text().replace('makes=["pages.json"]', 'makes=["pages.json"], live=True'))


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    with client(server) as made:
        yield made


@pytest.fixture(scope="module")
def told(server: Served, api: httpx.Client) -> Told:
    job = api.post("/jobs", json={"template": "fetching", "approve": "auto"}).raise_for_status().json()["id"]
    question = waits(api, job, "question")["id"]
    [desk] = [each["id"] for each in api.get(f"/jobs/{job}").json()["desks"]]
    rows = api.get(f"/jobs/{job}/events", params={"follow": "false"}).text
    act = int(rows.split('"frame": ')[1].split(",")[0])
    return Told(
        url=server.url, key=server.key, log="", linked=False, act=act, swarm=begin_swarm(api), job=job, desk=desk,
        question=question,
    )  # fmt: skip


def begin_swarm(api: httpx.Client) -> str:
    """Run a swarm to its end; return its id."""
    text = "".join(f"{word}\n" for word in WORDS).encode()
    upload = api.post("/uploads", params={"name": "words.txt"}, content=text).raise_for_status().json()["id"]
    files = [{"upload": upload, "name": "words.txt"}]
    order = {"template": "letters", "files": files, "approve": "auto"}
    swarm = str(api.post("/jobs", json=order).raise_for_status().json()["id"])
    job_when(api, swarm, "done")
    return swarm


def tried(told: Told, *options: str, seed: int = 1, checks: tuple[str, ...] = CHECKS) -> dict[str, set[int]]:
    """Run schemathesis; return the statuses of each operation. Fail with its full report if it finds anything."""
    program = str(Path(sys.executable).parent / "schemathesis")
    command = [
        program, "run", f"{told['url']}/api/openapi.json", "-H", f"Authorization: Bearer {told['key']}",
        "--checks", ",".join(checks), "--request-timeout", "30", "--seed", str(seed), "--workers", "1", "--no-color",
        "--generation-database", "none", *options,
    ]  # fmt: skip
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": "tests.e2e.server.schema_feed",
        VARIABLE: json.dumps(told),
    }  # fmt: skip
    folder = Path(told["log"]).parent
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=500, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-2000:]
    found: dict[str, set[int]] = {}
    for line in Path(told["log"]).read_text().splitlines():
        status, _, label = line.partition(" ")
        found.setdefault(label, set()).add(int(status))
    return found


def described(server: Served) -> dict[str, dict[str, Any]]:
    paths = httpx.get(f"{server.url}/api/openapi.json").json()["paths"]
    return {f"{method.upper()} {path}": act for path, acts in paths.items() for method, act in acts.items()}


def is_met(answers: set[int]) -> bool:
    return any(200 <= status < 300 for status in answers)


def test_schemathesis_finds_nothing_and_every_operation_succeeds_once(
    server: Served, told: Told, tmp_path: Path
) -> None:
    whole: Told = {**told, "log": str(tmp_path / "answers")}
    options = ["--phases", "examples,coverage,fuzzing", "--max-examples", "6"]
    found = tried(whole, *options, "--exclude-path", STOP)
    other = ApiKeys(server.settings.lib / "serve").make("stopper", "stopped")
    alone: Told = {**told, "key": other, "log": str(tmp_path / "stopped")}
    found |= tried(alone, *options, "--include-path", STOP)
    assert sorted(label for label in described(server) if not is_met(found.get(label, set()))) == []


def test_schemathesis_finds_nothing_when_it_follows_links(server: Served, told: Told, tmp_path: Path) -> None:
    whole: Told = {**told, "log": str(tmp_path / "answers"), "linked": True}
    (tmp_path / "schemathesis.toml").write_text("[phases.stateful]\nmax-steps = 12\n")
    options = ["--phases", "stateful", "--max-examples", "60"]
    tried(whole, *options, "--include-path-regex", "/drive", checks=CHECKS + LATER)  # it never begins there itself
    for seed in range(1, MOST_RUNS + 1):
        found = tried(whole, *options, "--exclude-path", STOP, seed=seed, checks=CHECKS + LATER)
        if seed >= LEAST and not unfollowed(found):
            break
    assert unfollowed(found) == []


def unfollowed(found: dict[str, set[int]]) -> list[str]:
    """List the kinds of ids that no operation used with success, besides those that create them."""
    made = {f"{method.upper()} {V1}{path}" for method, path, *_ in LINKS}
    met = [label for label, answers in found.items() if label not in made and is_met(answers)]
    return [name for *_, name, _ in LINKS if not any(f"{{{name}}}" in label for label in met)]


def test_every_route_is_described_with_its_errors(server: Served) -> None:
    for label, act in described(server).items():
        assert act["summary"], label
        if f" {V1}/" in label:
            assert {"401", "403", "422", "429"} <= set(act["responses"]), label


@pytest.mark.parametrize("path", STREAMS)
def test_a_stream_continues_as_it_is_described_and_its_errors_are_no_streams(
    server: Served, api: httpx.Client, told: Told, path: str
) -> None:
    place = path.removeprefix(V1).replace("{job}", told["job"])
    with api.stream("GET", place) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        lines = answer.iter_lines()
        assert [next(lines) for _ in range(3)] == ["id: 0", "retry: 2000", ""]
    unknown = api.get(path.removeprefix(V1).replace("{job}", NOBODY), params={"follow": "false"})
    errors = {
        401: httpx.get(f"{server.url}{V1}{place}"),
        422: api.get(place, params={"after": "-1"}),
        404: unknown if "{job}" in path else api.get("/events/x"),
    }
    for status, error in errors.items():
        assert (error.status_code, error.headers["content-type"]) == (status, "application/json")
        assert sorted(error.json()) == ["code", "message"]


@pytest.mark.parametrize("path", STREAMS)
def test_streams_end_when_their_reader_disconnects(api: httpx.Client, told: Told, path: str) -> None:
    place = path.removeprefix(V1).replace("{job}", told["job"])
    with ExitStack() as streams, httpx.Client(base_url=api.base_url, headers=api.headers, limits=MANY) as reader:
        answers = [streams.enter_context(reader.stream("GET", place)).status_code for _ in range(MAX_STREAMS)]
        assert answers == [200] * MAX_STREAMS
        refused = api.get(place)
        assert (refused.status_code, refused.json()["code"]) == (429, "events.many")
    end = time.monotonic() + PATIENCE
    while (status := api.get(place, params={"follow": "false"}).status_code) != 200 and time.monotonic() < end:
        time.sleep(0.1)
    assert status == 200


@pytest.fixture
def waiting(api: httpx.Client) -> tuple[str, str]:
    upload = api.post("/uploads", params={"name": "names.txt"}, content=b"Anna\n").json()["id"]
    files = [{"upload": upload, "name": "names.txt"}]
    order = {"template": "greeting", "files": files, "approve": "auto"}
    job = api.post("/jobs", json=order).raise_for_status().json()["id"]
    waits(api, job, "question")
    [desk] = [each["id"] for each in api.get(f"/jobs/{job}").json()["desks"]]
    return job, desk


def test_a_job_stops_although_its_desk_is_paused(api: httpx.Client, waiting: tuple[str, str]) -> None:
    job, desk = waiting
    assert api.post(f"/desks/{desk}/pause").status_code == 204
    assert api.post(f"/jobs/{job}/stop").status_code == 202
    end = time.monotonic() + PATIENCE
    while (status := api.delete(f"/jobs/{job}").status_code) == 409 and time.monotonic() < end:
        time.sleep(0.1)
    assert status == 204


def test_a_desk_of_a_job_is_burnt_by_the_process_it_belongs_to(api: httpx.Client, waiting: tuple[str, str]) -> None:
    _, desk = waiting
    assert api.delete(f"/desks/{desk}").status_code == 204
    assert api.get(f"/desks/{desk}").status_code == 404
