"""What tenants may have of a real server: no burst gets more, and whoever has enough is told so clearly."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from e2b import Sandbox
from e2b.exceptions import RateLimitException

from hotdesk.api.keys import Keys
from tests.e2e.server.conftest import PATIENCE, Served, served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
DESKS = 3
CONFIG = f"""
[serve.quota]
desks = {DESKS}

[serve.quota.small]
memory = "600M"

[serve.quota.slow]
rate = 1
"""
NEW = {"templateID": "base", "timeout": 300}


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    """Give a server whose tenants may have little."""
    with served(home / f"quota-{time.monotonic_ns()}", config=CONFIG) as found:
        yield found


@pytest.fixture
def client(server: Served) -> Iterator[httpx.Client]:
    """Give a client of a tenant that has nothing yet; what it made is gone afterwards."""
    with as_tenant(server, "default") as made:
        yield made
        for each in made.get("/sandboxes").json():
            made.delete(f"/sandboxes/{each['sandboxID']}")
        for each in made.get("/api/v1/desks").json()["items"]:
            made.delete(f"/api/v1/desks/{each['id']}")


def as_tenant(server: Served, tenant: str) -> httpx.Client:
    """Give a client of a tenant."""
    key = Keys(server.settings.lib / "serve").make("test", tenant)
    return httpx.Client(base_url=server.url, headers={"X-API-Key": key}, timeout=60)


def fill(client: httpx.Client) -> list[str]:
    """Make as many sandboxes as may be."""
    made = [client.post("/sandboxes", json=NEW) for _ in range(DESKS)]
    assert [each.status_code for each in made] == [201] * DESKS
    return [each.json()["sandboxID"] for each in made]


def test_one_desk_too_many_is_refused_with_what_there_is_and_what_helps(client: httpx.Client) -> None:
    fill(client)
    told = client.post("/sandboxes", json=NEW)
    assert (told.status_code, told.json()["code"]) == (429, 429)
    assert f"has {DESKS} of the {DESKS} desks at once it may have" in told.json()["message"]
    assert told.headers["should-retry"] == "false"


def test_our_own_api_says_it_in_its_own_words(client: httpx.Client) -> None:
    fill(client)
    told = client.post("/api/v1/desks", json={"image": "base"})
    assert (told.status_code, told.json()["code"]) == (429, "quota")
    assert told.headers["should-retry"] == "false"


def test_a_sandbox_that_is_killed_makes_room(client: httpx.Client) -> None:
    first, *_ = fill(client)
    assert client.delete(f"/sandboxes/{first}").status_code == 204
    assert client.post("/sandboxes", json=NEW).status_code == 201


def test_a_sandbox_whose_time_is_over_makes_room(client: httpx.Client) -> None:
    first, *_ = fill(client)
    client.post(f"/sandboxes/{first}/timeout", json={"timeout": 0})
    end = time.monotonic() + PATIENCE
    while client.post("/sandboxes", json=NEW).status_code == 429:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_burst_gets_as_many_as_may_be_and_not_one_more(server: Served, client: httpx.Client) -> None:
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: client.post("/sandboxes", json=NEW).status_code, range(12)))
    assert sorted(answers) == [201] * DESKS + [429] * (12 - DESKS)
    assert len(client.get("/sandboxes").json()) == DESKS


def test_desks_sandboxes_and_forks_count_together(client: httpx.Client) -> None:
    sandbox = client.post("/sandboxes", json=NEW).json()["sandboxID"]
    assert client.post("/api/v1/desks", json={"image": "base"}).status_code == 201
    assert client.post(f"/sandboxes/{sandbox}/fork", json={"count": 2}).status_code == 429
    assert client.post(f"/sandboxes/{sandbox}/fork", json={"count": 1}).status_code == 201
    assert client.post("/sandboxes", json=NEW).status_code == 429


def test_a_paused_sandbox_counts_until_it_is_killed(client: httpx.Client) -> None:
    first, *_ = fill(client)
    assert client.post(f"/sandboxes/{first}/pause").status_code == 204
    assert client.post("/sandboxes", json=NEW).status_code == 429
    client.delete(f"/sandboxes/{first}")
    assert client.post("/sandboxes", json=NEW).status_code == 201


def test_an_e2b_program_is_told_by_the_exception_it_knows(server: Served, client: httpx.Client) -> None:
    fill(client)
    with pytest.raises(RateLimitException, match="desks at once"):
        Sandbox.create(**server.e2b)


def test_another_tenant_is_not_in_the_way(server: Served, client: httpx.Client) -> None:
    fill(client)
    with as_tenant(server, "other") as other:
        told = other.post("/sandboxes", json=NEW)
        assert told.status_code == 201
        other.delete(f"/sandboxes/{told.json()['sandboxID']}")


def test_memory_is_counted_by_what_each_desk_may_use(server: Served) -> None:
    with as_tenant(server, "small") as small:
        first = small.post("/api/v1/desks", json={"image": "base", "memory": 400 << 20})
        assert first.status_code == 201, first.text
        told = small.post("/api/v1/desks", json={"image": "base", "memory": 400 << 20})
        assert told.status_code == 429
        assert "bytes of memory" in told.json()["message"]
        assert (
            "ask for less" in small.post("/api/v1/desks", json={"image": "base", "memory": 1 << 30}).json()["message"]
        )
        small.delete(f"/api/v1/desks/{first.json()['id']}")
        assert small.post("/api/v1/desks", json={"image": "base", "memory": 400 << 20}).status_code == 201


def test_who_asks_too_often_is_told_how_long_to_wait_and_then_let_in(server: Served) -> None:
    with as_tenant(server, "slow") as slow:
        answers = [slow.get("/sandboxes") for _ in range(10)]
        late = [each for each in answers if each.status_code == 429]
        assert late
        assert "more than 1 times a second" in late[0].json()["message"]
        wait = int(late[-1].headers["retry-after"])
        assert 1 <= wait <= 2
        time.sleep(wait)
        assert slow.get("/sandboxes").status_code == 200


def test_a_quota_that_cannot_be_meant_stops_the_server_from_starting(home: Path) -> None:
    with (
        pytest.raises(pytest.fail.Exception, match="desk"),
        served(home / f"quota-{time.monotonic_ns()}", config="[serve.quota]\ndeks = 1\n"),
    ):
        pass
