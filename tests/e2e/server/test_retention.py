"""Test of a server's retention: what is stored of an inactive job is deleted, for each tenant, and recorded."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import httpx
import pytest

from hotdesk.api.keys import ApiKeys
from hotdesk.config import get_tenant_settings
from tests.e2e.server.conftest import served
from tests.e2e.server.native import client, job_when

pytestmark = pytest.mark.container
BRIEF = 'goal = "x"\ndeliverables = [{path = "a.json", check = "json"}]\n'
SECONDS = 60.0


def test_old_jobs_of_every_tenant_are_deleted_and_their_events_stay(home: Path) -> None:
    config = "[jobs]\nretention_days = 0\n[serve]\nready = {}\n"
    with served(home / f"serve-{time.monotonic_ns()}", config=config) as server:
        other = ApiKeys(server.settings.lib / "serve").make("test", "acme")
        for name, key in (("default", server.key), ("acme", other)):
            with client(server, key) as api:
                order = {"brief": BRIEF, "models": ["openai:gpt-5"]}
                job = api.post("/jobs", json=order).raise_for_status().json()["id"]
                job_when(api, job, "paused")  # it has no key for its model
                lib = get_tenant_settings(server.settings, name).lib
                folders = [lib / "jobs" / job, lib / "orders" / job]
                assert all(each.is_dir() for each in folders)
                end = time.monotonic() + SECONDS
                while any(each.exists() for each in folders):
                    assert time.monotonic() < end, server.log.read_text()
                    server.process.send_signal(signal.SIGHUP)  # begins a pass
                    time.sleep(0.5)
                assert read_last_event(api, job) == ("Forgotten", "this server", "no activity for 0 days")
                refused = api.post(f"/jobs/{job}/resume", json={})
                assert (refused.status_code, refused.json()["code"]) == (409, "job.forgotten")


def read_last_event(api: httpx.Client, job: str) -> tuple[str, str, str]:
    lines = api.get(f"/jobs/{job}/events?follow=false").raise_for_status().text.splitlines()
    row = json.loads([line.removeprefix("data: ") for line in lines if line.startswith("data: ")][-1])
    return row["name"], row["data"]["by"], row["data"]["why"]
