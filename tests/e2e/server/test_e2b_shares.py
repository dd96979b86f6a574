"""Tests of share links to ports of sandboxes, and of the access log, at a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from e2b import Sandbox

from tests.e2e.server.conftest import Served, served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
CONFIG = """
[serve]
ready = {}
log = "json"
access_log = true
"""
PORT = 8000
INSIDE = r"""
import http.server, json
class Echo(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def do_GET(self):
        size = int(self.headers.get("Content-Length") or 0)
        while size > 0:
            size -= len(self.rfile.read(min(size, 1 << 20)))
        body = json.dumps({"path": self.path, "headers": dict(self.headers)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Echo).serve_forever()
"""


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with served(home / f"shares-{time.monotonic_ns()}", config=CONFIG) as found:
        yield found


@pytest.fixture(scope="module")
def sandbox(server: Served) -> Iterator[Sandbox]:
    made = Sandbox.create(network={"allow_public_traffic": False}, **server.e2b)
    made.files.write("/tmp/echo.py", INSIDE)
    made.commands.run("python3 /tmp/echo.py", background=True)
    headers = {"Host": made.get_host(PORT), "e2b-traffic-access-token": str(made.traffic_access_token)}
    end = time.monotonic() + 30
    while httpx.get(server.url, headers=headers).status_code != 200:
        assert time.monotonic() < end
    yield made
    made.kill()


@pytest.fixture
def api(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}) as client:
        yield client


def share(api: httpx.Client, sandbox: Sandbox, **order: object) -> dict[str, Any]:
    answer = api.post(f"/sandboxes/{sandbox.sandbox_id}/shares", json={"port": PORT, **order})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def visit(server: Served, url: str, **more: Any) -> httpx.Response:
    parts = urlsplit(url)
    headers = {"Host": parts.netloc, **more.pop("headers", {})}
    return httpx.request(more.pop("method", "GET"), f"{server.url}{parts.path}?{parts.query}", headers=headers, **more)


def test_a_share_link_admits_only_those_who_have_it(server: Served, sandbox: Sandbox, api: httpx.Client) -> None:
    made = share(api, sandbox, path="/page")
    assert urlsplit(made["url"]).netloc == sandbox.get_host(PORT)
    assert visit(server, f"http://{sandbox.get_host(PORT)}/page").status_code == 403
    first = visit(server, made["url"])
    assert (first.status_code, first.headers["location"]) == (303, "/page")
    cookie = first.headers["set-cookie"].partition(";")[0]
    assert first.headers["referrer-policy"] == "no-referrer"
    inside = visit(server, f"http://{sandbox.get_host(PORT)}/page?a=1", headers={"Cookie": f"{cookie}; own=kept"})
    assert inside.status_code == 200
    assert inside.json()["path"] == "/page?a=1"
    assert made["token"] not in inside.text
    assert inside.json()["headers"]["Cookie"] == "own=kept"
    by_header = visit(server, f"http://{sandbox.get_host(PORT)}/", headers={"hotdesk-share": made["token"]})
    assert (by_header.status_code, made["token"] in by_header.text) == (200, False)
    posted = visit(server, f"{made['url']}&b=2", method="POST", content=b"x")
    assert posted.json()["path"] == "/page?b=2"


def test_a_share_link_is_for_one_port_and_expires(server: Served, sandbox: Sandbox, api: httpx.Client) -> None:
    made = share(api, sandbox, expiresIn=3600)
    shown = {"hotdesk-share": made["token"]}
    assert visit(server, f"http://{sandbox.get_host(8001)}/", headers=shown).status_code == 403
    listed = api.get(f"/sandboxes/{sandbox.sandbox_id}/shares").json()
    assert made["shareID"] in [each["shareID"] for each in listed]
    assert made["token"] not in json.dumps(listed)
    assert api.delete(f"/sandboxes/{sandbox.sandbox_id}/shares/{made['shareID']}").status_code == 204
    assert visit(server, f"http://{sandbox.get_host(PORT)}/", headers=shown).status_code == 403
    short = share(api, sandbox, expiresIn=1)
    headers = {"hotdesk-share": short["token"]}
    end = time.monotonic() + 30
    status = 200
    while status != 403:
        assert status == 200
        assert time.monotonic() < end
        with suppress(httpx.ReadError):  # a response in progress is cut when its share expires
            status = visit(server, f"http://{sandbox.get_host(PORT)}/", headers=headers).status_code


@pytest.mark.parametrize("port", [49983, 49999, 3128, 0, 70000])
def test_ports_that_run_commands_are_not_shared(api: httpx.Client, sandbox: Sandbox, port: int) -> None:
    answer = api.post(f"/sandboxes/{sandbox.sandbox_id}/shares", json={"port": port})
    assert (answer.status_code, answer.json()["code"]) == (400, 400)


def access_log(server: Served) -> list[dict[str, object]]:
    return [
        json.loads(line)
        for line in server.log.read_text().splitlines(keepends=True)
        if '"access"' in line and line.endswith("\n")
    ]


def test_every_request_to_a_port_is_in_the_access_log(server: Served, sandbox: Sandbox, api: httpx.Client) -> None:
    made = share(api, sandbox)
    headers = {"hotdesk-share": made["token"]}
    visit(server, f"http://{sandbox.get_host(PORT)}/logged?secret=1", headers=headers, method="POST", content=b"12345")
    end = time.monotonic() + 30
    while not (entries := [entry for entry in access_log(server) if entry["path"] == "/logged"]):
        assert time.monotonic() < end  # an entry is written after the last byte was sent
    (entry,) = entries
    assert {**entry, "time": "", "ms": 0, "sent": 0} == {
        "time": "", "event": "access", "tenant": "default", "sandbox": sandbox.sandbox_id, "port": PORT,
        "client": "127.0.0.1", "share": made["shareID"], "method": "POST", "path": "/logged", "status": 200,
        "received": 5, "sent": 0, "ms": 0,
    }  # fmt: skip
    assert made["token"] not in server.log.read_text()
    assert "secret=1" not in server.log.read_text()


@pytest.mark.long
def test_a_large_upload_goes_through_a_port(server: Served, sandbox: Sandbox) -> None:
    headers = {"Host": sandbox.get_host(PORT), "e2b-traffic-access-token": str(sandbox.traffic_access_token)}
    headers["Content-Length"] = str(1 << 30)
    piece = bytes(1 << 20)
    answer = httpx.post(server.url, headers=headers, content=(piece for _ in range(1024)), timeout=100)
    assert answer.status_code == 200
    assert answer.json()["headers"]["Content-Length"] == str(1 << 30)
