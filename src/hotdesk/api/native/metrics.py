"""Prometheus metrics of the server, and a span for each request where tracing is configured.

Labels hold only values of ours: a part of the server, a route, a method of a short list, a class of status.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import accumulate

from starlette.types import Scope

from hotdesk.api.telemetry import Telemetry
from hotdesk.dataclass import dataclass

PREFIX = "/api/v1"
BOUNDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
"""Bounds of the histogram of durations, in seconds."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
"""The label of an unknown method, and of a status that was never sent."""
_CLASSES = {number: f"{number}xx" for number in range(1, 6)}
Key = tuple[str, str, str, int]


@dataclass(slots=True)
class Durations:
    """Durations of requests: how many up to each bound and above the one before, and their sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0


class Measures:
    """Counts requests and how long they took."""

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self.telemetry = telemetry or Telemetry()
        self.requests: dict[Key, int] = {}
        """By part, method, route and class of status."""
        self.durations: dict[tuple[str, str], Durations] = {}
        """By part and route."""
        self.begun = time.time()

    def count(self, part: str, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. Parts and routes are ours, so callers create no labels. Status 0 means no response."""
        method = method if method in METHODS else OTHER
        key = (part, method, route, status // 100)
        self.requests[key] = self.requests.get(key, 0) + 1
        took = self.durations.get((part, route))
        if took is None:
            took = self.durations[part, route] = Durations()
        took.counts[bisect_left(BOUNDS, seconds)] += 1
        took.seconds += seconds
        self.telemetry.tell(part, method, route, status, seconds)

    def iterate_lines(self) -> Iterable[str]:
        yield from _format_heading(
            "hotdesk_requests_total", "counter", "Requests by the part of the server that answered."
        )
        for (part, method, route, number), count in sorted(self.requests.items()):
            label_text = format_labels(part=part, method=method, route=route, status=_CLASSES.get(number, OTHER))
            yield f"hotdesk_requests_total{label_text} {count}"
        yield from _format_heading("hotdesk_request_seconds", "histogram", "Seconds a request took.")
        for (part, route), took in sorted(self.durations.items()):
            for bound, count in zip((*BOUNDS, "+Inf"), accumulate(took.counts), strict=True):
                yield f"hotdesk_request_seconds_bucket{format_labels(part=part, route=route, le=str(bound))} {count}"
            yield f"hotdesk_request_seconds_sum{format_labels(part=part, route=route)} {took.seconds:.6f}"
            yield f"hotdesk_request_seconds_count{format_labels(part=part, route=route)} {sum(took.counts)}"


def format_labels(**pairs: str) -> str:
    """Format labels; their values are escaped."""
    escaped = {name: text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, text in pairs.items()}
    return "{" + ",".join(f'{name}="{text}"' for name, text in escaped.items()) + "}"


def _format_heading(name: str, kind: str, words: str) -> Iterable[str]:
    """Yield the `HELP` and `TYPE` lines of a metric."""
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"


def format_values(name: str, kind: str, words: str, values: Mapping[str, float]) -> Iterable[str]:
    yield from _format_heading(name, kind, words)
    for label_text, value in values.items():
        yield f"{name}{label_text} {int(value) if value == int(value) else repr(float(value))}"


def get_route(scope: Scope) -> str:
    """Return the full route of a request; empty if no route matches its path."""
    found: str = getattr(scope.get("route"), "path", "")
    above = "/".join(scope["path"].split("/")[:3])
    return f"{above}{found}" if found and above == PREFIX and not found.startswith(PREFIX) else found
