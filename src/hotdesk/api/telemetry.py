"""Spans and durations for an OpenTelemetry collector, sent by a separate process: the server itself never connects.

A report to that process has the part of the API, the method, the route's pattern, the status and two times; nothing a
caller wrote. The process drops its privileges before it connects. `OTEL_*` variables configure it, as OpenTelemetry
documents them.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import anyio

from hotdesk.ipc.child import SOURCE, START
from hotdesk.linux.landlock import confine

PROGRAM = "hotdesk.api.telemetry"
NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.sdk.metrics", "opentelemetry.exporter.otlp.proto.http")
_ENDPOINT_VARIABLES = tuple(f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT" for kind in ("", "TRACES_", "METRICS_"))
PASSED = ("OTEL_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "PATH")
LINE = 3
"""The sender's file descriptor of the socket to the server."""
MAX_MESSAGE_BYTES = 4096
EXIT_TIMEOUT_S = 5.0
"""Seconds the sender has to send the remaining reports."""
BUFFER = 1 << 20
"""Bytes of reports that may wait for the sender; when the buffer is full, reports are dropped."""


class Telemetry:
    """The server's end: reports requests if telemetry is enabled."""

    def __init__(self, line: socket.socket | None = None) -> None:
        self.line = line

    def tell(self, part: str, method: str, route: str, status: int, seconds: float) -> None:
        """Report a finished request; never waits."""
        if self.line is not None:
            fields = {"part": part, "method": method, "route": route, "status": status}
            times = {"begun": time.time() - seconds, "seconds": seconds}
            with suppress(OSError):
                self.line.send(json.dumps(fields | times).encode())


@asynccontextmanager
async def open_telemetry() -> AsyncIterator[Telemetry]:
    """Yield what reports requests; at the end waiting reports are sent, for at most `EXIT_TIMEOUT_S` seconds."""
    if not any(os.environ.get(name) for name in _ENDPOINT_VARIABLES) or not _is_installed():
        yield Telemetry()
        return
    line, pid = spawn()
    try:
        yield Telemetry(line)
    finally:
        line.close()
        with anyio.move_on_after(EXIT_TIMEOUT_S, shield=True):
            await anyio.to_thread.run_sync(os.waitpid, pid, 0, abandon_on_cancel=True)


def spawn() -> tuple[socket.socket, int]:
    """Start the sender; return the socket to it and its process id."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    passed = {name: value for name, value in os.environ.items() if name.upper().startswith(PASSED)}
    with theirs, open(os.devnull, "r+b") as null:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-B", "-c", START, str(SOURCE), PROGRAM],
            {"OTEL_SERVICE_NAME": "hotdesk", **passed},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), LINE),
                (os.POSIX_SPAWN_DUP2, null.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, null.fileno(), 1),
            ],
            setsid=True,
        )
    ours.setblocking(False)
    return ours, pid


def _is_installed() -> bool:
    try:
        return all(find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:
        return False


class Sender:
    """The sender's end: turns reports into spans and durations."""

    def __init__(self) -> None:
        trace, metrics = import_module("opentelemetry.sdk.trace"), import_module("opentelemetry.sdk.metrics")
        spans, meters = import_module(f"{trace.__name__}.export"), import_module(f"{metrics.__name__}.export")
        exporters = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        numbers = import_module("opentelemetry.exporter.otlp.proto.http.metric_exporter")
        self.kind: Any = import_module("opentelemetry.trace").SpanKind.SERVER
        self.traces: Any = trace.TracerProvider()
        self.traces.add_span_processor(spans.BatchSpanProcessor(exporters.OTLPSpanExporter()))
        reader = meters.PeriodicExportingMetricReader(numbers.OTLPMetricExporter())
        self.meters: Any = metrics.MeterProvider([reader])
        self.tracer = self.traces.get_tracer("hotdesk")
        meter = self.meters.get_meter("hotdesk")
        self.durations = meter.create_histogram("http.server.request.duration", "s", "Duration of requests.")

    def take(self, request: Mapping[str, Any]) -> None:
        attributes = {"hotdesk.part": request["part"], "http.request.method": request["method"]}
        attributes |= {"http.route": request["route"]} if request["route"] else {}
        attributes |= {"http.response.status_code": request["status"]} if request["status"] else {}
        begun = int(request["begun"] * 1e9)
        name = f"{request['method']} {request['route']}".strip()
        span = self.tracer.start_span(name, kind=self.kind, attributes=attributes, start_time=begun)
        span.end(begun + int(request["seconds"] * 1e9))
        self.durations.record(request["seconds"], attributes)

    def close(self) -> None:
        self.traces.shutdown()
        self.meters.shutdown()


def main() -> None:
    """Send what the server reports at descriptor 3, until the server is gone."""
    confine([], dials=True)
    line = socket.socket(fileno=LINE)
    sender = Sender()
    while data := line.recv(MAX_MESSAGE_BYTES):
        sender.take(json.loads(data))
    sender.close()
