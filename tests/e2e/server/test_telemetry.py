"""Tests of OpenTelemetry: a collector that reads the real protocol gets data on requests, without a caller's texts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from hotdesk.api.keys import ApiKeys
from tests.conftest import settings_in
from tests.e2e.conftest import environment
from tests.e2e.server.conftest import wait
from tests.stall_watch import WATCHED, require_no_stalls

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(300)]

PACKAGES = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
SOURCE = Path(__file__).parents[3] / "src"
RUN = "from hotdesk.cli import main; main()"
DECODE = """
import json, sys
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
kinds = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
print(json.dumps([MessageToDict(kinds[path].FromString(bytes.fromhex(body))) for path, body in json.load(sys.stdin)]))
"""
TOLD = {"hotdesk.part", "http.request.method", "http.route", "http.response.status_code"}
HIDDEN = ("hidden-in-a-query", "hidden-in-a-path", "hidden-in-a-body", "hidden-in-a-header")
OWN_LINE = re.compile(r"\S+Z hotdesk: (start|stop|refused) ")
PATIENCE = 60.0


@dataclass(slots=True)
class Collector:
    """What a collector received."""

    url: str
    posted: list[tuple[str, bytes]] = field(default_factory=list)


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector("")

    class Posted(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.posted.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Posted) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        server.shutdown()


@pytest.fixture(scope="module")
def python(home: Path) -> Path:
    folder = home / f"telemetry-{time.monotonic_ns()}"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    found = folder / "bin/python"
    pip = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *PACKAGES], check=True, timeout=200)
    [place] = folder.glob("lib/*/site-packages")
    (place / "ours.pth").write_text(f"{SOURCE}\n{sysconfig.get_path('purelib')}\n")
    return found


@contextmanager
def serving(python: Path, folder: Path, endpoint: str) -> Iterator[tuple[str, str, Path]]:
    """Run a server with a collector; yield its address, a key and the file of its output."""
    folder.mkdir(mode=0o755)
    settings = settings_in(folder)
    key, log = ApiKeys(settings.lib / "serve").make("test"), folder / "serve.log"
    env = {
        **environment(settings),
        **WATCHED,
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "5",
    }
    with log.open("wb") as written:
        process = subprocess.Popen([python, "-c", RUN, "serve", "--port", "0"], stderr=written, env=env)
    try:
        yield wait(process, log), key, log
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
        require_no_stalls(log)


def unexpected_lines(log: Path) -> list[str]:
    """Return the lines of a server's output that are not its own log's."""
    return [line for line in log.read_text().splitlines() if not OWN_LINE.match(line)]


def decoded(python: Path, posted: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
    told = json.dumps([(path, body.hex()) for path, body in posted])
    done = subprocess.run([python, "-c", DECODE], input=told, capture_output=True, text=True, check=True, timeout=60)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def ask(url: str, key: str) -> None:
    with httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=60) as api:
        assert api.get("/desks", params={"after": HIDDEN[0]}).status_code in (200, 422)
        assert api.get("/desks").status_code == 200
        assert api.get(f"/jobs/{HIDDEN[1]}").status_code in (404, 422)
        assert api.get(f"/{HIDDEN[1]}").status_code == 404
        assert api.post("/session", json={"key": HIDDEN[2]}).status_code == 401
        assert api.get("/desks", headers={"Authorization": f"Bearer {HIDDEN[3]}"}).status_code == 401


def named(told: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    return {each["name"]: attributes(each) for each in told}


def attributes(told: dict[str, Any]) -> dict[str, str]:
    return {each["key"]: str(next(iter(each["value"].values()))) for each in told["attributes"]}


def test_a_collector_gets_requests_and_no_text_of_a_caller(home: Path, python: Path, collector: Collector) -> None:
    with serving(python, home / f"serve-{time.monotonic_ns()}", collector.url) as (url, key, log):
        ask(url, key)
    requests = decoded(python, collector.posted)
    scopes = [scope for each in requests for kind in each.get("resourceSpans", []) for scope in kind["scopeSpans"]]
    spans = [span for scope in scopes for span in scope["spans"]]
    told = {(span["name"], attributes(span)["http.response.status_code"]) for span in spans}
    assert {("GET /api/v1/desks", "200"), ("GET /api/v1/desks", "401"), ("POST /api/v1/session", "401")} <= told
    assert {span["kind"] for span in spans} == {"SPAN_KIND_SERVER"}
    assert set().union(*(attributes(span) for span in spans)) == TOLD
    assert not any(set(span) & {"events", "links", "parentSpanId"} for span in spans)
    counted = [
        point
        for each in requests
        for kind in each.get("resourceMetrics", [])
        for metric in kind["scopeMetrics"][0]["metrics"]
        for point in metric["histogram"]["dataPoints"]
        if metric["name"] == "http.server.request.duration"
    ]
    assert {attributes(point).get("http.route") for point in counted} >= {"/api/v1/desks", "/api/v1/session"}
    sent = b"".join(body for _, body in collector.posted)
    assert [word for word in (*HIDDEN, key, key[-32:]) if word.encode() in sent] == []
    assert unexpected_lines(log) == [url]


def test_without_opentelemetrys_packages_the_server_works_and_logs_nothing(home: Path, collector: Collector) -> None:
    folder = home / f"serve-{time.monotonic_ns()}"
    with serving(Path(sys.executable), folder, collector.url) as (url, key, log):
        ask(url, key)
    assert unexpected_lines(log) == [url]
    assert collector.posted == []


def test_an_unreachable_collector_delays_nothing(home: Path, python: Path) -> None:
    with serving(python, home / f"serve-{time.monotonic_ns()}", "http://127.0.0.1:9") as (url, key, _):
        ask(url, key)
