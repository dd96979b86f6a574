"""Tests of sandboxes that are killed during another request: both are answered, and never with a server error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
ROUNDS = 4
Ask = tuple[str, str, dict[str, Any]]
KILL: Ask = ("DELETE", "", {})
PAUSE: Ask = ("POST", "/pause", {})
HALT: Ask = ("POST", "/pause", {"memory": False})
WAKE: Ask = ("POST", "/connect", {"timeout": 60})
FORK: Ask = ("POST", "/fork", {"timeout": 60, "count": 2})
KEEP: Ask = ("POST", "/snapshots", {})
END: Ask = ("POST", "/timeout", {"timeout": 0})
REACH: Ask = ("PUT", "/network", {"allow_internet_access": False})
MEASURE: Ask = ("GET", "/metrics", {})


@pytest.fixture
def api(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=60) as client:
        yield client


def made(api: httpx.Client, **options: Any) -> str:
    told = api.post("/v2/sandboxes", json={"templateID": "base", "timeout": 60, **options})
    return str(told.json()["sandboxID"])


def together(api: httpx.Client, sandbox: str, *asks: Ask, apart: float = 0.0) -> list[int]:
    """Send several requests about a sandbox, each `apart` seconds after the one before; return their statuses."""

    def ask(number: int) -> int:
        method, path, body = asks[number]
        time.sleep(number * apart)
        sent = body if method in ("POST", "PUT") else None
        return api.request(method, f"/sandboxes/{sandbox}{path}", json=sent).status_code

    with ThreadPoolExecutor(len(asks)) as threads:
        return list(threads.map(ask, range(len(asks))))


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("before", "act"),
    [
        pytest.param((), KILL, id="killed"),
        pytest.param((), PAUSE, id="paused"),
        pytest.param((), HALT, id="halted"),
        pytest.param((PAUSE,), WAKE, id="woken"),
        pytest.param((HALT,), WAKE, id="booted"),
        pytest.param((), FORK, id="forked"),
        pytest.param((), KEEP, id="kept"),
        pytest.param((), END, id="ended"),
        pytest.param((), REACH, id="changed"),
        pytest.param((), MEASURE, id="measured"),
    ],
)
def test_a_sandbox_is_killed_during_any_other_request(api: httpx.Client, before: tuple[Ask, ...], act: Ask) -> None:
    for number in range(ROUNDS):
        sandbox = made(api, autoPause=act is END)
        for each in before:
            assert together(api, sandbox, each)[0] < 300
        told = together(api, sandbox, act, KILL, KILL, apart=number * 0.004)
        assert set(told[1:]) <= {204, 404}, told
        assert told[0] in (200, 201, 204, 404, 409), told
        assert api.get(f"/sandboxes/{sandbox}").status_code == 404
    for each in api.get("/v2/sandboxes").json():
        assert api.delete(f"/sandboxes/{each['sandboxID']}").status_code == 204


def test_a_sandbox_is_killed_at_the_moment_its_time_is_up(api: httpx.Client) -> None:
    for number in range(ROUNDS):
        sandbox = made(api, timeout=1)
        time.sleep(0.94 + number * 0.02)
        assert set(together(api, sandbox, KILL, KILL)) <= {204, 404}
        assert api.get(f"/sandboxes/{sandbox}").status_code == 404
