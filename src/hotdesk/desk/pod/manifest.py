"""The pod of one desk, as a pure function; and the comparison of what was sent with what the API server stored.

The comparison knows what an API server adds (`_ADDED`). Everything else that is missing, different or new is reported:
an old server drops fields that it does not know, and an admission webhook may add containers or loosen the pod.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from hotdesk.dataclass import dataclass

Document: TypeAlias = dict[str, Any]
PodState = Literal["starting", "ready", "claimed"]
PROGRAM = (Path(__file__).resolve().parents[3] / "hotdesk_guest/dial.py").read_text()
"""The program that a pod starts with: it connects to the agent, which sends the guest's code."""
CONTAINER = "desk"
APP, AGENT, DESK, STATE = "app", "hotdesk/agent", "hotdesk/desk", "hotdesk/state"
"""Labels: always `hotdesk-desk`; the agent that creates the pod; the desk's id; a `PodState`."""
APP_VALUE = "hotdesk-desk"
HOME = "/home/user"
RUN = "/run/hotdesk"
_RUN_BYTES = 16 << 20
_TMP_BYTES = 1 << 30
_UNREACHABLE_SECONDS = 10
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """What all desks of one image behind one wall have in common."""

    namespace: str
    image: str
    """The container image's reference, best with its digest."""
    runtime_class: str = ""
    """The RuntimeClass, such as `gvisor`; empty: the nodes' usual runtime."""
    agent: str = "agent"
    """The name of the agent that creates the pods."""
    python: str = "/usr/bin/python3"
    """The image's Python, 3.9 or later."""
    user: int = 1000
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    node_selector: Mapping[str, str] = field(default_factory=lambda: {"hotdesk": "pods"})
    tolerated: tuple[str, str] = ("hotdesk", "pods")
    """Key and value of the taint of the nodes for desks."""
    own_user_namespace: bool = False
    """Whether pods have user namespaces of their own (`hostUsers: false`); servers before 1.25 do not know that."""
    owner: tuple[str, str] = ("", "")
    """Name and uid of the agent's own pod: Kubernetes deletes a desk's pod after its agent's. Empty: none."""


@dataclass(frozen=True, slots=True)
class PodOrder:
    """One desk's pod."""

    name: str
    cpus: float
    memory: int
    """Bytes."""
    disk: int
    """Bytes that the desk may write to its node's disk."""
    seconds: float
    """Seconds after which Kubernetes ends the pod, whatever the agent does."""
    address: str = ""
    """The agent's address, as ADDRESS:PORT. A pod resolves no names."""
    token: str = ""
    """The token that the guest presents once."""
    certificate: str = ""
    """The only certificate, in PEM form, that the guest accepts from the agent."""
    state: PodState = "starting"
    command: tuple[str, ...] = ()
    """A program to run instead of a guest, for probes."""


def build_pod(template: PodTemplate, order: PodOrder) -> Document:
    """Return the manifest of one desk's pod."""
    pod: Document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": order.name,
            "namespace": template.namespace,
            "labels": {APP: APP_VALUE, AGENT: template.agent, DESK: order.name, STATE: order.state},
        },
        "spec": _build_spec(template, order),
    }
    name, uid = template.owner
    if name:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
        pod["metadata"]["ownerReferences"] = [{**owner, "controller": False, "blockOwnerDeletion": False}]
    return pod


def _build_spec(template: PodTemplate, order: PodOrder) -> Document:
    key, value = template.tolerated
    spec: Document = {
        "activeDeadlineSeconds": max(1, math.ceil(order.seconds)),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "nodeSelector": dict(template.node_selector),
        "tolerations": [
            {"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"},
            *(
                {
                    "key": f"node.kubernetes.io/{trouble}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _UNREACHABLE_SECONDS,
                }
                for trouble in ("not-ready", "unreachable")
            ),
        ],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": template.user,
            "runAsGroup": template.user,
            "fsGroup": template.user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_build_container(template, order)],
        "volumes": [
            {"name": "home", "emptyDir": {"sizeLimit": format_bytes(order.disk)}},
            {"name": "tmp", "emptyDir": {"sizeLimit": format_bytes(min(order.disk, _TMP_BYTES))}},
            {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": format_bytes(_RUN_BYTES)}},
        ],
    }
    if template.runtime_class:
        spec["runtimeClassName"] = template.runtime_class
    if template.own_user_namespace:
        spec["hostUsers"] = False
    return spec


def _build_container(template: PodTemplate, order: PodOrder) -> Document:
    size = {
        "cpu": format_cpus(order.cpus),
        "memory": format_bytes(order.memory),
        "ephemeral-storage": format_bytes(order.disk),
    }
    variables = {"HOME": HOME, "USER": "user", "LOGNAME": "user", "LANG": "C.UTF-8", "PATH": _PATH}
    if not order.command:
        variables |= {
            "HOTDESK_AGENT": order.address,
            "HOTDESK_TOKEN": order.token,
            "HOTDESK_CERTIFICATE": order.certificate,
        }
    return {
        "name": CONTAINER,
        "image": template.image,
        "imagePullPolicy": template.pull_policy,
        "command": list(order.command or (template.python, "-I", "-S", "-B", "-c", PROGRAM)),
        "workingDir": HOME,
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": {"requests": size, "limits": dict(size)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "home", "mountPath": HOME},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - in the pod
            {"name": "run", "mountPath": RUN},
        ],
    }


def format_cpus(cpus: float) -> str:
    """Write CPUs as an API server stores them."""
    thousandths = max(1, round(cpus * 1000))
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


def format_bytes(size: int) -> str:
    """Write a size, rounded up to MiB, as an API server stores it."""
    amount, unit = max(1, -(-size // _MIB)), 0
    while amount % 1024 == 0:
        amount, unit = amount // 1024, unit + 1
    return f"{amount}{('Mi', 'Gi', 'Ti', 'Pi')[unit]}"


# -- what was stored ----------------------------------------------------------------------------------------------

_NODE_TROUBLE = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_ADDED: Mapping[str, Callable[[Any], bool]] = {
    "spec.nodeName": lambda value: isinstance(value, str),
    "spec.overhead": lambda value: isinstance(value, dict),
    "spec.preemptionPolicy": lambda value: isinstance(value, str),
    "spec.priority": lambda value: isinstance(value, int),
    "spec.schedulerName": lambda value: isinstance(value, str),
    "spec.serviceAccount": lambda value: value == "default",
    "spec.serviceAccountName": lambda value: value == "default",
    "spec.containers.0.terminationMessagePath": lambda value: value == "/dev/termination-log",
    "spec.containers.0.terminationMessagePolicy": lambda value: value == "File",
    "metadata.annotations": lambda value: (
        isinstance(value, dict)
        and all(
            each == "kubernetes.io/limit-ranger"
            or (each == "seccomp.security.alpha.kubernetes.io/pod" and text == "runtime/default")
            for each, text in value.items()
        )
    ),
}
"""Fields that an API server or scheduler adds to a pod, and whether an added value is harmless."""
_FREE = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
"""Fields of the metadata that only the server sets."""
_NARROWING = ("spec.nodeSelector",)
"""Objects to which a RuntimeClass may add fields: each makes the pod fit fewer nodes."""


def find_differences(sent: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """List what the stored pod has not, has differently, or has in addition to the one sent; empty: it may be used.

    The state's label and `activeDeadlineSeconds` may differ, because a claim changes them; a longer time is reported.
    """
    sent = {"metadata": dict(sent["metadata"]), "spec": dict(sent["spec"])}
    labels = {name: value for name, value in sent["metadata"]["labels"].items() if name != STATE}
    stored_labels = dict(_get(stored, "metadata", "labels"))
    stored_labels.pop(STATE, None)
    sent["metadata"]["labels"] = labels
    metadata = {name: value for name, value in _get(stored, "metadata").items() if name not in _FREE}
    found = list(_compare(sent["metadata"], {**metadata, "labels": stored_labels}, "metadata"))
    spec = dict(_get(stored, "spec"))
    seconds, allowed = spec.get("activeDeadlineSeconds"), sent["spec"]["activeDeadlineSeconds"]
    if isinstance(seconds, int) and 0 < seconds <= allowed:
        spec["activeDeadlineSeconds"] = allowed
    return found + list(_compare(sent["spec"], spec, "spec"))


def _get(document: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        document = document.get(name) if isinstance(document.get(name), Mapping) else {}  # type: ignore[assignment]
    return document


def _compare(sent: Any, stored: Any, path: str) -> Iterator[str]:
    if isinstance(sent, Mapping) and isinstance(stored, Mapping):
        yield from _compare_objects(sent, stored, path)
    elif path == "spec.tolerations" and isinstance(stored, Sequence):
        yield from _compare_tolerations(sent, stored)
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for number, (each, other) in enumerate(zip(sent, stored, strict=True)):
            yield from _compare(each, other, f"{path}.{number}")
    elif type(sent) is not type(stored) or sent != stored:
        yield f"{path} is different"


def _compare_objects(sent: Mapping[str, Any], stored: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, value in sent.items():
        if name in stored:
            yield from _compare(value, stored[name], f"{path}.{name}")
        elif value is not False or f"{path}.{name}" in _MEANINGFUL_FALSE:
            yield f"{path}.{name} is missing"
    if path in _NARROWING:
        return
    for name, value in stored.items():
        if name not in sent and not (f"{path}.{name}" in _ADDED and _ADDED[f"{path}.{name}"](value)):
            yield f"{path}.{name} was added"


_MEANINGFUL_FALSE = frozenset(
    {
        "spec.automountServiceAccountToken",
        "spec.enableServiceLinks",
        "spec.hostUsers",
        "spec.containers.0.securityContext.allowPrivilegeEscalation",
    }
)
"""Fields that mean true where they are absent."""


def _compare_tolerations(sent: Sequence[Any], stored: Sequence[Any]) -> Iterator[str]:
    if any(each not in stored for each in sent):
        yield "spec.tolerations are missing"
    for each in stored:
        if each not in sent and not (isinstance(each, Mapping) and each.get("key") in _NODE_TROUBLE):
            yield "spec.tolerations were added"
