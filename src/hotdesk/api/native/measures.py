"""Numbers about the server, as Prometheus reads them; and spans, where OpenTelemetry is installed and set up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

BOUNDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
"""Seconds, for the histogram of durations."""
Key = tuple[str, str, str]


class Measures:
    """Counts requests and how long they took."""

    def __init__(self) -> None:
        self.requests: Counter[Key] = Counter()
        """By method, route and status."""
        self.buckets: Counter[tuple[str, float]] = Counter()
        self.seconds: dict[str, float] = {}
        self.begun = time.time()

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Take a request in; routes are ours, so that no caller makes new ones."""
        self.requests[method, route, str(status)] += 1
        self.seconds[route] = self.seconds.get(route, 0.0) + seconds
        for bound in BOUNDS:
            if seconds <= bound:
                self.buckets[route, bound] += 1

    def lines(self) -> Iterable[str]:
        """Write requests and durations."""
        yield "# TYPE hotdesk_requests_total counter"
        for (method, route, status), count in sorted(self.requests.items()):
            yield f"hotdesk_requests_total{labels(method=method, route=route, status=status)} {count}"
        yield "# TYPE hotdesk_request_seconds histogram"
        for route in sorted(self.seconds):
            total = sum(count for (_, name, _), count in self.requests.items() if name == route)
            for bound in BOUNDS:
                told = labels(route=route, le=str(bound))
                yield f"hotdesk_request_seconds_bucket{told} {self.buckets[route, bound]}"
            yield f"hotdesk_request_seconds_bucket{labels(route=route, le='+Inf')} {total}"
            yield f"hotdesk_request_seconds_sum{labels(route=route)} {self.seconds[route]:.6f}"
            yield f"hotdesk_request_seconds_count{labels(route=route)} {total}"


def labels(**told: str) -> str:
    """Write labels; nothing in a value ends it."""
    escaped = {name: text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, text in told.items()}
    return "{" + ",".join(f'{name}="{text}"' for name, text in escaped.items()) + "}"


def gauge(name: str, values: Mapping[str, float]) -> Iterable[str]:
    """Write what is so now, by labels."""
    yield f"# TYPE {name} gauge"
    for told, value in values.items():
        yield f"{name}{told} {value:g}"


class Measured:
    """Counts what passes, and traces it where somebody wants that."""

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        self.app, self.measures = app, measures
        self.tracer: Any = tracer()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and take the time."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.monotonic(), 500
        span = self.tracer.start_span(scope["method"]) if self.tracer is not None else None

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, told)
        finally:
            route = getattr(scope.get("route"), "path", "")
            self.measures.count(scope["method"], route, status, time.monotonic() - begun)
            if span is not None:
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.response.status_code", status)
                span.end()


def tracer() -> Any:
    """Give a tracer where OpenTelemetry is installed; its own environment says where spans go. None: nowhere."""
    if find_spec("opentelemetry") is None:
        return None
    return import_module("opentelemetry.trace").get_tracer("hotdesk")
