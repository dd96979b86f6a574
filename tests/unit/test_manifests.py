"""Tests of the manifests of `deploy/` and the chart made from them; `make manifests` checks both with Helm."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from tools.manifests import (
    ADDITIONS,
    AGENT,
    CHART,
    COMMENTS,
    PODS,
    VALUES,
    build_chart,
    find_pod_faults,
    find_restricted_faults,
    find_stale,
    name_of,
    read_base,
    read_folder,
)

from hotdesk.api import settings
from hotdesk.config import GIB, MIB, parse_size

DOCUMENTS = {name_of(each): each for each in read_base()}
AGENT_POD: dict[str, Any] = DOCUMENTS[AGENT]["spec"]["template"]["spec"]
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
    agent = AGENT_POD
    assert {volume["name"]: set(volume) - {"name"} for volume in agent["volumes"]}["state"] == {"hostPath"}
    assert not agent["automountServiceAccountToken"]
    assert not SERVER["automountServiceAccountToken"]


@pytest.mark.parametrize("fault", LOOSENED)
def test_a_pod_that_is_less_than_restricted_is_found(fault: str) -> None:
    pod = copy.deepcopy(SERVER)
    LOOSENED[fault](pod, pod["containers"][0])
    assert any(fault in each for each in find_pod_faults(pod))


def test_the_volume_is_not_given_to_a_group_at_every_mount() -> None:
    assert SERVER["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def test_no_probe_asks_whether_a_desk_can_be_opened_and_all_ask_at_the_port_of_the_arguments() -> None:
    container = SERVER["containers"][0]
    port = container["args"][container["args"].index("--port") + 1]
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[kind]["exec"]["command"] == ["hotdesk-health", port]


def test_agents_are_not_evicted_and_their_class_is_admitted_where_critical_pods_are_limited() -> None:
    name = AGENT_POD["priorityClassName"]
    [scope] = DOCUMENTS["ResourceQuota/hotdesk-node"]["spec"]["scopeSelector"]["matchExpressions"]
    assert name == "system-node-critical"
    assert scope == {"scopeName": "PriorityClass", "operator": "In", "values": [name]}


def test_an_agent_stops_opening_desks_before_the_kubelet_evicts_pods() -> None:
    [floor] = [each["value"] for each in AGENT_POD["containers"][0]["env"] if each["name"] == "HOTDESK_DISK_FLOOR"]
    assert parse_size(floor) >= 10 * GIB


def test_every_pod_has_time_to_end() -> None:
    pods = [*DOCUMENTS.values(), *read_folder(PODS)]
    seconds = [
        each["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        for each in pods
        if "template" in each.get("spec", {})
    ]
    assert seconds == [150, 150, 150]


def test_the_server_reads_its_settings_and_two_full_tenants_fit_its_memory() -> None:
    table = tomllib.loads(DOCUMENTS["ConfigMap/hotdesk-server"]["data"]["config.toml"])["serve"]
    jobs = settings.read(table).quota.usual.jobs
    limit = parse_size(SERVER["containers"][0]["resources"]["limits"]["memory"].removesuffix("i"))
    assert jobs is not None
    assert 512 * MIB + 2 * (24 * MIB + jobs * 128 * MIB) <= limit


def test_names_of_many_agents_are_resolved_by_tcp() -> None:
    rules = DOCUMENTS["NetworkPolicy/hotdesk-server"]["spec"]["egress"]
    [ports] = [each["ports"] for each in rules if "to" not in each]
    assert ports == [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]


def test_comments_of_values_are_those_of_values_that_exist() -> None:
    known = {value for table in (VALUES, ADDITIONS) for values in table.values() for value in values}
    assert set(COMMENTS) <= known
