"""Tests of a server's metrics and readiness: every part is counted, and no text of a caller appears."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hotdesk.api.keys import ApiKeys
from tests.e2e.server.conftest import PATIENCE, Served, served

pytestmark = [pytest.mark.container, pytest.mark.timeout(180)]
COUNTED = re.compile(r'hotdesk_requests_total\{part="(\w*)",method="(\w+)",route="([^"]*)",status="(\w+)"\} (\d+)')
HIDDEN = "hidden-word"


@pytest.fixture(scope="module")
def server(own_server: Served) -> Served:
    return own_server


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=60) as made:
        yield made


def counted(client: httpx.Client) -> dict[tuple[str, str, str, str], int]:
    found = COUNTED.findall(client.get("/metrics").raise_for_status().text)
    return {(part, method, route, status): int(count) for part, method, route, status, count in found}


def test_every_part_is_counted_by_its_routes_and_by_nothing_a_caller_wrote(client: httpx.Client) -> None:
    made = client.post("/sandboxes", json={"templateID": "base", "timeout": 300}).raise_for_status().json()
    name = made["sandboxID"]
    inside = {"E2b-Sandbox-Id": name}
    asked = [
        (client.get(f"/sandboxes/{name}"), 200, ("e2b", "GET", "/sandboxes/{sandbox}", "2xx")),
        (client.get(f"/{HIDDEN}"), 404, ("e2b", "GET", "", "4xx")),
        (client.get("/sandboxes", headers={"X-API-Key": HIDDEN}), 401, ("e2b", "GET", "/sandboxes", "4xx")),
        (client.get("/health", headers=inside), 204, ("envd", "GET", "/health", "2xx")),
        (client.get(f"/{HIDDEN}", headers=inside), 404, ("envd", "GET", "", "4xx")),
        (client.get("/files", params={"signature": HIDDEN}), 401, ("envd", "GET", "/files", "4xx")),
        (client.get(f"/{HIDDEN}", headers={**inside, "E2b-Sandbox-Port": "8000"}), 502, ("port", "GET", "", "5xx")),
        (client.get("/mcp"), 401, ("mcp", "GET", "/mcp", "4xx")),
        (client.get(f"/api/v1/desks/{name}"), 200, ("native", "GET", "/api/v1/desks/{desk}", "2xx")),
        (client.get(f"/api/v1/{HIDDEN}"), 404, ("native", "GET", "", "4xx")),
        (client.get("/"), 200, ("page", "GET", "/", "2xx")),
        (client.get(f"/web/{HIDDEN}.js"), 404, ("page", "GET", "/web/{file}", "4xx")),
        (client.get("/", headers={"Host": f"{HIDDEN}.test"}), 421, ("none", "GET", "", "4xx")),
    ]
    found = counted(client)
    assert [(told.status_code // 100, place[0]) for told, _, place in asked] == [
        (status // 100, place[0]) for _, status, place in asked
    ]
    assert [place for _, _, place in asked if place not in found] == []
    text = client.get("/metrics").text
    assert [word for word in (HIDDEN, name, "8000") if word in text] == []
    assert 'hotdesk_request_seconds_bucket{part="e2b",route="/sandboxes/{sandbox}",le="+Inf"} 1' in text
    client.delete(f"/sandboxes/{name}")


def test_every_metric_has_a_description_and_is_exact(server: Served) -> None:
    text = httpx.get(f"{server.url}/metrics", headers={"X-API-Key": server.key}, timeout=30).text
    lines = text.splitlines()
    kinds = dict(line.split(" ")[2:4] for line in lines if line.startswith("# TYPE "))
    helped = {line.split(" ")[2] for line in lines if line.startswith("# HELP ")}
    assert helped == kinds.keys()
    assert all((kind == "counter") == name.endswith("_total") for name, kind in kinds.items())
    (begun,) = (float(line.split(" ")[1]) for line in lines if line.startswith("hotdesk_start_time_seconds "))
    assert abs(time.time() - begun) < 3600
    assert begun != round(begun, -1)


@pytest.mark.long
def test_prometheus_own_check_finds_nothing_wrong(server: Served) -> None:
    text = httpx.get(f"{server.url}/metrics", headers={"X-API-Key": server.key}, timeout=30).text
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def ready_when(url: str, status: int, code: str = "") -> httpx.Response:
    """Wait until a server's readiness has this status, and this error code if one is given."""
    end = time.monotonic() + PATIENCE
    while (told := httpx.get(f"{url}/ready", timeout=30)).status_code != status or code not in told.text:
        assert time.monotonic() < end, told.text
        time.sleep(0.1)
    return told


@pytest.mark.long
def test_a_server_whose_keeper_cannot_start_is_not_ready_until_it_can(server: Served) -> None:
    ready_when(server.url, 200)
    place = server.settings.run / "tenants/stuck"
    place.parent.mkdir(exist_ok=True)
    place.write_text("in the way")
    headers = {"X-API-Key": ApiKeys(server.settings.lib / "serve").make("stuck", "stuck")}
    assert httpx.get(f"{server.url}/api/v1/desks", headers=headers, timeout=60).status_code == 503
    told = ready_when(server.url, 503).json()
    assert told["code"] == "ready.keeper"
    assert [word for word in ("stuck", str(server.settings.run.parent)) if word in told["message"]] == []
    place.unlink()
    assert ready_when(server.url, 200).json() == {"status": "ready"}


@pytest.mark.long
def test_a_server_with_a_full_disk_is_not_ready_and_tells_unauthenticated_callers_nothing(home: Path) -> None:
    folder = home / f"full-{time.monotonic_ns()}"
    with served(folder, config=f"disk_floor = {1 << 60}\n") as full:
        told = ready_when(full.url, 503).json()
        assert told["code"] == "ready.disk"
        assert [word for word in (str(folder), "GiB") if word in told["message"]] == []


@pytest.mark.long
def test_a_server_without_its_ready_desks_is_not_ready(home: Path) -> None:
    folder = home / f"shelf-{time.monotonic_ns()}"
    with served(folder) as found:
        ready_when(found.url, 200)
        sealed = found.settings.run / "desks"
        sealed.rename(folder / "moved")
        sealed.write_text("in the way")
        try:
            httpx.post(
                f"{found.url}/sandboxes", json={"templateID": "base"}, headers={"X-API-Key": found.key}, timeout=60
            )
            assert ready_when(found.url, 503, "ready.pool").json()["code"] == "ready.pool"
        finally:
            sealed.unlink()
            (folder / "moved").rename(sealed)
