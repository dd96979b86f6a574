"""Tests of the manifest of a desk's pod, and of its comparison with what an API server stored."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from hotdesk.desk.pod.manifest import PodOrder, PodTemplate, build_pod, find_differences, format_bytes, format_cpus

TEMPLATE = PodTemplate("desks", "registry.example/base@sha256:00", "gvisor", owner=("agent-0", "u-1"))
ORDER = PodOrder("iabc", 1.5, 512 << 20, 1 << 30, 3600.2, "10.0.0.7:3720", "t" * 43, "-----BEGIN CERTIFICATE-----")


def make_stored(sent: dict[str, Any]) -> dict[str, Any]:
    """Return a pod as Kubernetes 1.20 and newer store it: with defaults, and what admission adds."""
    stored = copy.deepcopy(sent)
    stored["metadata"] |= {
        "uid": "u-2",
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-19T00:00:00Z",
        "managedFields": [{}],
        "annotations": {"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"},
    }
    spec = stored["spec"]
    spec |= {
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "overhead": {"memory": "64Mi"},
        "nodeName": "node1",
    }
    spec["nodeSelector"]["runtime"] = "gvisor"
    spec["containers"][0] |= {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    for owner in stored["metadata"]["ownerReferences"]:
        del owner["controller"]  # a server leaves false out
    stored["status"] = {"phase": "Pending"}
    return stored


def test_what_a_server_adds_is_no_difference() -> None:
    sent = build_pod(TEMPLATE, ORDER)
    assert find_differences(sent, make_stored(sent)) == []


def test_a_claim_changes_the_state_and_shortens_the_time() -> None:
    sent = build_pod(TEMPLATE, ORDER)
    stored = make_stored(sent)
    stored["metadata"]["labels"]["hotdesk/state"] = "claimed"
    stored["spec"]["activeDeadlineSeconds"] = 60
    assert find_differences(sent, stored) == []
    stored["spec"]["activeDeadlineSeconds"] = 4000
    assert find_differences(sent, stored) == ["spec.activeDeadlineSeconds is different"]


def drop(*path: str | int) -> Callable[[dict[str, Any]], None]:
    def change(stored: Any) -> None:
        for each in path[:-1]:
            stored = stored[each]
        del stored[path[-1]]

    return change


def put(value: object, *path: str | int) -> Callable[[dict[str, Any]], None]:
    def change(stored: Any) -> None:
        for each in path[:-1]:
            stored = stored.setdefault(each, {}) if isinstance(stored, dict) else stored[each]
        if isinstance(stored, list):
            stored.append(value)
        else:
            stored[path[-1]] = value

    return change


BOX = ("spec", "containers", 0)
LOOSENED = {
    "spec.containers.0.securityContext.readOnlyRootFilesystem": drop(*BOX, "securityContext", "readOnlyRootFilesystem"),
    "spec.containers.0.securityContext.allowPrivilegeEscalation": drop(
        *BOX, "securityContext", "allowPrivilegeEscalation"
    ),
    "spec.containers.0.securityContext.privileged": put(True, *BOX, "securityContext", "privileged"),
    "spec.containers.0.securityContext.capabilities.add": put(
        ["NET_ADMIN"], *BOX, "securityContext", "capabilities", "add"
    ),
    "spec.containers.0.securityContext.capabilities.drop": put([], *BOX, "securityContext", "capabilities", "drop"),
    "spec.containers.0.image": put("other", *BOX, "image"),
    "spec.containers.0.command": put(["sh"], *BOX, "command"),
    "spec.containers.0.env": put({"name": "X", "value": "1"}, *BOX, "env", "-"),
    "spec.containers.0.lifecycle": put({}, *BOX, "lifecycle"),
    "spec.containers.0.resources.limits.memory": put("64Gi", *BOX, "resources", "limits", "memory"),
    "spec.containers": put({"name": "sidecar"}, "spec", "containers", "-"),
    "spec.initContainers": put([{"name": "injected"}], "spec", "initContainers"),
    "spec.ephemeralContainers": put([{"name": "debugger"}], "spec", "ephemeralContainers"),
    "spec.securityContext.runAsNonRoot": drop("spec", "securityContext", "runAsNonRoot"),
    "spec.securityContext.seccompProfile": drop("spec", "securityContext", "seccompProfile"),
    "spec.securityContext.sysctls": put([], "spec", "securityContext", "sysctls"),
    "spec.runtimeClassName": drop("spec", "runtimeClassName"),
    "spec.automountServiceAccountToken": drop("spec", "automountServiceAccountToken"),
    "spec.hostNetwork": put(True, "spec", "hostNetwork"),
    "spec.hostPID": put(True, "spec", "hostPID"),
    "spec.shareProcessNamespace": put(True, "spec", "shareProcessNamespace"),
    "spec.serviceAccountName": put("admin", "spec", "serviceAccountName"),
    "spec.dnsPolicy": put("ClusterFirst", "spec", "dnsPolicy"),
    "spec.dnsConfig.nameservers": put(["10.96.0.10"], "spec", "dnsConfig", "nameservers"),
    "spec.volumes": put({"name": "token", "projected": {}}, "spec", "volumes", "-"),
    "spec.nodeSelector.hotdesk": put("other", "spec", "nodeSelector", "hotdesk"),
    "spec.tolerations": put({"operator": "Exists"}, "spec", "tolerations", "-"),
    "metadata.annotations": put("unconfined", "metadata", "annotations", "dev.gvisor.spec.mount.x"),
    "metadata.labels.hotdesk/agent": put("other", "metadata", "labels", "hotdesk/agent"),
    "metadata.finalizers": put(["x/y"], "metadata", "finalizers"),
    "spec.activeDeadlineSeconds": drop("spec", "activeDeadlineSeconds"),
}


@pytest.mark.parametrize("place", LOOSENED)
def test_a_loosened_pod_is_reported(place: str) -> None:
    sent = build_pod(TEMPLATE, ORDER)
    stored = make_stored(sent)
    LOOSENED[place](stored)
    found = find_differences(sent, stored)
    assert found
    assert found[0].startswith(place)


def test_a_server_that_drops_host_users_is_reported() -> None:
    sent = build_pod(PodTemplate("desks", "base", own_user_namespace=True), ORDER)
    sent["metadata"]["ownerReferences"] = []
    stored = make_stored(sent)
    del stored["spec"]["hostUsers"]
    assert find_differences(sent, stored) == ["spec.hostUsers is missing"]


def test_an_empty_object_is_reported() -> None:
    assert find_differences(build_pod(TEMPLATE, ORDER), {})
    assert find_differences(build_pod(TEMPLATE, ORDER), {"metadata": [], "spec": "x"})


def test_requests_equal_limits() -> None:
    resources = build_pod(TEMPLATE, ORDER)["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"] == {
        "cpu": "1500m",
        "memory": "512Mi",
        "ephemeral-storage": "1Gi",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "1Mi"), (1, "1Mi"), (1 << 20, "1Mi"), (3 << 29, "1536Mi"), (2 << 30, "2Gi"), (1 << 50, "1Pi")],
)
def test_sizes_are_written_as_stored(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(("cpus", "text"), [(0.0001, "1m"), (0.5, "500m"), (1, "1"), (2.0, "2"), (1.2345, "1234m")])
def test_cpus_are_written_as_stored(cpus: float, text: str) -> None:
    assert format_cpus(cpus) == text


def test_a_pod_needs_no_name_server_and_no_token_of_the_cluster() -> None:
    spec = build_pod(TEMPLATE, ORDER)["spec"]
    assert spec["dnsPolicy"] == "None"
    assert spec["automountServiceAccountToken"] is False
    assert all("secret" not in each and "hostPath" not in each for each in spec["volumes"])
