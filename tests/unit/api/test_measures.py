"""Tests of request metrics: labels are part, route and class, and never text a caller wrote."""

from __future__ import annotations

import pytest
from starlette.types import Scope

from hotdesk.api.e2b.routes import call_route, control_route
from hotdesk.api.http.dispatch import Aim
from hotdesk.api.http.metrics_middleware import of_traffic, page_route
from hotdesk.api.native.metrics import Measures

ID = "i0123456789abcdefghij"


def at(path: str, port: int = 49983) -> Scope:
    return {"path": path, "aim": Aim(ID, port)}


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/sandboxes", "/sandboxes"),
        ("/v2/sandboxes", "/v2/sandboxes"),
        ("/sandboxes/metrics", "/sandboxes/metrics"),
        (f"/sandboxes/{ID}", "/sandboxes/{sandbox}"),
        (f"/sandboxes/{ID}/pause", "/sandboxes/{sandbox}/pause"),
        (f"/v2/sandboxes/{ID}/logs", "/v2/sandboxes/{sandbox}/logs"),
        (f"/sandboxes/{ID}/secret-word", ""),
        (f"/sandboxes/{ID}/pause/more", ""),
        ("/templates/secret-word/x", "/templates/*"),
        ("/v3/templates", "/v3/templates/*"),
        ("/snapshots", "/snapshots"),
        ("/secret-word", ""),
        ("/v2", ""),
        ("/v2/v2/v2", ""),
        ("", ""),
    ],
)
def test_a_path_of_the_control_plane_is_counted_by_its_route(path: str, route: str) -> None:
    assert control_route(at(path)) == route


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/health", "/health"),
        ("/process.Process/Start", "/process.Process/Start"),
        ("/filesystem.Filesystem/ListDir", "/filesystem.Filesystem/ListDir"),
        ("/process.Process/Secret", ""),
        ("/init", ""),
    ],
)
def test_a_call_of_envd_is_counted_by_its_route(path: str, route: str) -> None:
    assert call_route(at(path)) == route


def test_all_port_traffic_is_counted_together() -> None:
    assert of_traffic(at("/health", 8000)) == ("port", "")
    assert of_traffic(at("/health")) == ("envd", "/health")


def test_the_page_is_counted_by_its_kinds_of_files() -> None:
    paths = ("/", "/web/job.js", "/content/secret", "/else")
    assert [page_route(at(path)) for path in paths] == ["/", "/web/{file}", "/content/{link}", ""]


def test_durations_are_reported_as_a_histogram_and_statuses_by_class() -> None:
    measures = Measures()
    for status, seconds in ((200, 0.001), (201, 0.02), (404, 0.3), (0, 20.0)):
        measures.count("e2b", "GET", "/sandboxes", status, seconds)
    told = list(measures.iterate_lines())
    place = 'part="e2b",route="/sandboxes"'
    counts = [line.rpartition(" ")[2] for line in told if line.startswith("hotdesk_request_seconds_bucket")]
    assert counts == ["1", "2", "2", "3", "3", "3", "4"]
    assert f"hotdesk_request_seconds_sum{{{place}}} 20.321000" in told
    assert f"hotdesk_request_seconds_count{{{place}}} 4" in told
    totals = [line for line in told if line.startswith("hotdesk_requests_total")]
    words = ("other", "2xx", "4xx")
    assert totals == [
        f'hotdesk_requests_total{{part="e2b",method="GET",route="/sandboxes",status="{word}"}} {count}'
        for word, count in zip(words, (1, 2, 1), strict=True)
    ]


def test_unknown_methods_are_counted_together() -> None:
    measures = Measures()
    for number in range(1000):
        measures.count("port", f"M{number}", "", 200 + number % 400, 0.1)
    assert {(key[1], key[3]) for key in measures.requests} == {("other", number) for number in (2, 3, 4, 5)}
