"""Helpers for tests of our own API: a client, and waiting for a job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.e2e.server.conftest import Served

PATIENCE = 60.0


@contextmanager
def client(server: Served, key: str = "") -> Iterator[httpx.Client]:
    """Yield a client with a key; by default with the server's own, which may do everything."""
    headers = {"Authorization": f"Bearer {key or server.key}"}
    with httpx.Client(base_url=f"{server.url}/api/v1", headers=headers, timeout=60) as made:
        yield made


def job_when(api: httpx.Client, job: str, *states: str) -> dict[str, Any]:
    end = time.monotonic() + PATIENCE
    while True:
        told: dict[str, Any] = api.get(f"/jobs/{job}").raise_for_status().json()
        if told["state"] in states:
            return told
        assert time.monotonic() < end, told
        assert told["state"] not in ("broken", "failed", "killed"), told
        time.sleep(0.1)


def waits(api: httpx.Client, job: str, kind: str) -> dict[str, Any]:
    end = time.monotonic() + PATIENCE
    while True:
        for each in api.get("/approvals").raise_for_status().json()["items"]:
            if each["job"] == job and each["kind"] == kind:
                found: dict[str, Any] = each
                return found
        assert time.monotonic() < end, api.get(f"/jobs/{job}").json()
        time.sleep(0.1)
