"""Tests of the manifests of `deploy/` and the chart made from them; `make manifests` checks both with Helm."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tools.manifests import (
    AGENT,
    CHART,
    build_chart,
    find_pod_faults,
    find_restricted_faults,
    find_stale,
    name_of,
    read_base,
)

DOCUMENTS = {name_of(each): each for each in read_base()}
SERVER: dict[str, Any] = DOCUMENTS["StatefulSet/hotdesk-server"]["spec"]["template"]["spec"]
LOOSENED: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "may run as root": lambda pod, own: pod["securityContext"].pop("runAsNonRoot"),
    "volume state is of kind hostPath": lambda pod, own: pod["volumes"].append({"name": "state", "hostPath": {}}),
    "may gain privileges": lambda pod, own: own["securityContext"].update(allowPrivilegeEscalation=True),
    "has capabilities": lambda pod, own: own["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
    "has no seccomp profile": lambda pod, own: pod["securityContext"].pop("seccompProfile"),
    "hostNetwork is set": lambda pod, own: pod.update(hostNetwork=True),
    "takes a port of its node": lambda pod, own: own.update(ports=[{"containerPort": 1, "hostPort": 1}]),
}


def test_the_chart_is_as_the_manifests_make_it() -> None:
    assert find_stale(build_chart(list(DOCUMENTS.values()))) == []
    assert (CHART / "Chart.yaml").is_file()


def test_the_server_is_admitted_by_the_standard_restricted_and_nothing_but_agents_is_privileged() -> None:
    assert find_restricted_faults(list(DOCUMENTS.values())) == []
    agent = DOCUMENTS[AGENT]["spec"]["template"]["spec"]
    assert {volume["name"]: set(volume) - {"name"} for volume in agent["volumes"]}["state"] == {"hostPath"}
    assert not agent["automountServiceAccountToken"]
    assert not SERVER["automountServiceAccountToken"]


@pytest.mark.parametrize("fault", LOOSENED)
def test_a_pod_that_is_less_than_restricted_is_found(fault: str) -> None:
    pod = copy.deepcopy(SERVER)
    LOOSENED[fault](pod, pod["containers"][0])
    assert any(fault in each for each in find_pod_faults(pod))
