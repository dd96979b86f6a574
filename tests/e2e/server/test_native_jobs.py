"""Tests of jobs over our own API: started, approved, answered, inspected."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.server import job_template
from tests.e2e.server.conftest import Served
from tests.e2e.server.native import client, job_when, waits

pytestmark = pytest.mark.container


@pytest.fixture(scope="module")
def server(own_server: Served) -> Served:
    return own_server


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    job_template.install(server.settings.lib / "templates")
    with client(server) as made:
        yield made


@pytest.fixture(scope="module")
def done(api: httpx.Client) -> str:
    upload = api.post("/uploads", params={"name": "names.txt"}, content=b"Anna\n").json()
    order = {"template": "greeting", "values": {"whom": "Anna"}, "approve": "plan",
             "files": [{"upload": upload["id"], "name": "names.txt"}]}  # fmt: skip
    made = api.post("/jobs", json=order)
    assert made.status_code == 201, made.text
    job = made.json()["id"]
    plan = waits(api, job, "plan")
    assert "greet" in plan["plan_text"]
    answer = {"answer": "approve", "digest": plan["digest"]}
    assert api.post(f"/approvals/{plan['id']}", json=answer).json()["answer"] == "approved"
    question = waits(api, job, "question")
    assert question["card"]["words"] == "How shall I greet?"
    answer = {"answer": "answer", "words": "Good day", "digest": question["digest"]}
    assert api.post(f"/approvals/{question['id']}", json=answer).status_code == 200
    job_when(api, job, "done")
    return str(job)


def test_a_job_ends_with_a_verified_deliverable(api: httpx.Client, done: str) -> None:
    told = api.get(f"/jobs/{done}").json()
    [item] = told["deliverables"]
    assert (told["task"], told["by"], told["state"]) == ("Greet Anna: write hello.json.", "test", "done")
    assert (item["path"], item["verdict"]) == ("hello.json", "passed")
    assert [(step["name"], step["outcome"]) for step in told["steps"]] == [("greet", "done")]


def test_events_continue_after_a_given_number(api: httpx.Client, done: str) -> None:
    rows = events(api, f"/jobs/{done}/events?follow=false")
    again = events(api, f"/jobs/{done}/events?follow=false", {"Last-Event-ID": str(rows[3]["id"])})
    names = [row["name"] for row in rows]
    assert names[0] == "JobBegun"
    assert names[-1] == "JobBurnt"
    assert again == rows[4:]


def test_events_from_now_on_begin_with_the_newest_number_and_nothing_old(api: httpx.Client, done: str) -> None:
    rows = events(api, "/events?follow=false")
    told = api.get("/events?follow=false&after=now").raise_for_status().text
    assert told.splitlines() == [f"id: {rows[-1]['id']}", "retry: 2000", ""]


def test_a_missing_or_incomplete_model_name_gets_a_clear_error(api: httpx.Client) -> None:
    brief = 'goal = "x"\ndeliverables = [{path = "a.json", check = "json"}]\n'
    assert api.get("/jobs/models").json() == {"items": [], "default": None, "providers": ["anthropic", "openai"]}
    for models, words in ((None, "this server has no default"), (["gpt-5"], "write openai:gpt-5"),
                          (["claude"], "write anthropic:MODEL, as in anthropic:claude-sonnet-5")):  # fmt: skip
        told = api.post("/jobs", json={"brief": brief, **({"models": models} if models else {})})
        assert (told.status_code, told.json()["code"]) == (400, "brief.models")
        assert words in told.json()["message"]


def test_models_that_the_brief_of_a_client_names_are_checked_too(api: httpx.Client) -> None:
    for line in ('models = {plan = "NAME"}', 'models = {plan = "openai:gpt-5", act = "NAME"}', 'look = "NAME"'):
        brief = f'goal = "x"\n{line}\ndeliverables = [{{path = "a.json", check = "json"}}]\n'
        told = api.post("/jobs", json={"brief": brief.replace("NAME", "chat:x"), "models": ["openai:gpt-5"]})
        assert (told.status_code, told.json()["code"]) == (400, "brief")
        assert "chat:x" in told.json()["message"]
    made = api.post("/jobs", json={"brief": brief.replace("NAME", "openai:gpt-5"), "models": ["openai:gpt-5"]})
    assert made.status_code == 201, made.text


@pytest.mark.long
def test_a_paused_job_continues_with_a_key_and_with_no_model_that_is_not_allowed(
    api: httpx.Client, server: Served
) -> None:
    brief = 'goal = "x"\ndeliverables = [{path = "a.json", check = "json"}]\n'
    job = api.post("/jobs", json={"brief": brief, "models": ["openai:gpt-5"]}).raise_for_status().json()["id"]
    told = job_when(api, job, "paused")
    assert told["needs_model"]
    assert "no API key was found" in told["why"]
    refused = api.post(f"/jobs/{job}/resume", json={"models": ["chat:x@http://127.0.0.1:1/v1"]})
    assert (refused.status_code, refused.json()["code"]) == (400, "brief.models")
    for key in ("", "a b", "x\n", "schl\u00fcssel", "x" * 501):
        assert api.post(f"/jobs/{job}/resume", json={"key": key}).status_code == 422
    changed = api.post(f"/jobs/{job}/resume", json={"models": ["anthropic:claude-sonnet-5"]})
    assert changed.status_code == 202
    told = job_when(api, job, "paused")
    assert "anthropic:claude-sonnet-5 could not be called" in told["why"]
    assert api.post(f"/jobs/{job}/resume", json={}).status_code == 202  # the new model is remembered
    assert "anthropic:claude-sonnet-5 could not be called" in job_when(api, job, "paused")["why"]


def events(api: httpx.Client, path: str, headers: dict[str, str] | None = None) -> list[dict[str, object]]:
    lines = api.get(path, headers=headers).raise_for_status().text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
