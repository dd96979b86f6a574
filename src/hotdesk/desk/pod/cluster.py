"""The cluster as an agent for pods needs it: create, claim and delete pods, and follow what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hotdesk.dataclass import dataclass
from hotdesk.desk.pod.manifest import Document

_MAX_TEXT = 300
_FATAL = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "InvalidImageName", "RunContainerError"}
)
"""Reasons of a waiting container for which it will not start by itself."""


@dataclass(frozen=True, slots=True)
class PodReport:
    """One pod, as the API server reports it."""

    name: str
    uid: str = ""
    version: str = ""
    """Its resource version."""
    address: str = ""
    node: str = ""
    """The node it runs on."""
    failure: str = ""
    """Why it has ended or will not start; empty: neither."""
    is_deleted: bool = False


class PodCluster(Protocol):
    """One namespace of a cluster. Errors are `HostError`."""

    async def create(self, pod: Document) -> Document:
        """Create a pod; return it as stored."""
        ...

    async def claim(self, name: str, version: str, seconds: int) -> Document:
        """Change a pod's state to `claimed`, and the seconds it may run, if it still has this version; return it.

        Raise `StaleError` if it has another version by now.
        """
        ...

    async def read(self, name: str) -> Document:
        """Return a pod as stored; raise `DeskGone` if there is none."""
        ...

    async def delete(self, name: str, uid: str) -> None:
        """Delete a pod. One that is gone, or another of the same name, is no error and stays untouched."""
        ...

    async def delete_all(self) -> None:
        """Delete all pods of this agent."""
        ...

    async def follow(self, note: Callable[[PodReport], None]) -> None:
        """Report every pod of this agent and each of its changes, until cancelled."""
        ...


class StaleError(Exception):
    """A pod was changed since it was read."""


def parse_pod(pod: Mapping[str, Any], *, is_deleted: bool = False) -> PodReport:
    """Return what an agent needs to know of a pod; anything malformed counts as absent."""
    metadata, status = _get_table(pod, "metadata"), _get_table(pod, "status")
    return PodReport(
        _get_text(metadata, "name"),
        _get_text(metadata, "uid"),
        _get_text(metadata, "resourceVersion"),
        _get_text(status, "podIP"),
        _get_text(_get_table(pod, "spec"), "nodeName"),
        _find_failure(status),
        is_deleted,
    )


def _find_failure(status: Mapping[str, Any]) -> str:
    if status.get("phase") in ("Failed", "Succeeded"):
        reason, message = _get_text(status, "reason"), _get_text(status, "message")
        return f"its pod ended{f' ({reason}: {message})' if reason else ''}"
    listed = status.get("containerStatuses")
    for each in listed if isinstance(listed, list) else []:
        waiting = _get_table(_get_table(each, "state"), "waiting")
        if (reason := _get_text(waiting, "reason")) in _FATAL:
            return f"its pod cannot start ({reason}: {_get_text(waiting, 'message')})"
    return ""


def _get_table(value: object, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _get_text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return found[:_MAX_TEXT] if isinstance(found, str) else ""
