"""Tests of what an agent reads from API servers, and of what it offers."""

from __future__ import annotations

from typing import Any

import pytest

from hotdesk.desk.pod.catalog import PodCatalog
from hotdesk.desk.pod.cluster import PodReport, parse_pod
from hotdesk.desk.pod.door_setup import CERTIFICATE, build_pod_environment, build_pod_files
from hotdesk.desk.pod.manifest import RUN, PodTemplate
from hotdesk.desk.seam import Spec
from hotdesk.errors import WallError

WAITING = {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "absent"}}}]}


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        ({"phase": "Running"}, ""),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, "its pod ended (Evicted: disk)"),
        ({"phase": "Succeeded"}, "its pod ended"),
        (WAITING, "its pod cannot start (ErrImageNeverPull: absent)"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, ""),
        ({"containerStatuses": "x"}, ""),
        ({"containerStatuses": [None, {"state": []}]}, ""),
    ],
)
def test_a_pods_failure_is_named(status: dict[str, Any], failure: str) -> None:
    assert parse_pod({"metadata": {"name": "a"}, "status": status}).failure == failure


@pytest.mark.parametrize("pod", [{}, {"metadata": None, "status": 7}, {"metadata": {"name": ["x"]}}])
def test_a_malformed_pod_is_an_empty_report(pod: dict[str, Any]) -> None:
    assert parse_pod(pod) == PodReport("")


def test_texts_of_a_cluster_are_short() -> None:
    assert len(parse_pod({"metadata": {"name": "x" * 10_000}}).name) == 300


def test_walls_of_pods_have_fewer_abilities() -> None:
    catalog = PodCatalog(PodTemplate("desks", ""), {"base": "base:1"}, {"container": "", "gvisor": "gvisor"})
    for status in catalog.list_walls().statuses.values():
        assert not status.traits.can_keep_memory
        assert not status.traits.can_dial
    template = catalog.find_template(Spec(wall="gvisor"))
    assert (template.image, template.runtime_class) == ("base:1", "gvisor")
    with pytest.raises(WallError, match="container, gvisor here, not microvm"):
        catalog.find_template(Spec(wall="microvm"))


def test_every_file_that_programs_are_told_of_is_written() -> None:
    files = build_pod_files("certificate")
    assert files[CERTIFICATE] == "certificate"
    named = {value.removeprefix("--require=") for value in build_pod_environment(has_door=True).values()}
    assert {each for each in named if each.startswith("/")} == set(files)
    assert all(each.startswith(f"{RUN}/") for each in files)
    assert build_pod_files("") == {}
    assert not any(each.startswith("/") for each in build_pod_environment(has_door=False).values())
