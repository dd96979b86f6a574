"""Typed data of a server's responses. Unknown fields of a newer server are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, TypeVar

from hotdesk.dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeskShown:
    """A desk that is open."""

    id: str
    image: str
    state: str
    opened: float
    deadline: float
    cpus: float
    memory: int
    job: str = ""
    wall: str = ""
    """The wall that its keeper proved; empty: an earlier server does not say."""
    kernel: str = ""
    """What answers its programs' system calls: `host`, `sentry` or `own`."""
    boundary: bool = False
    """Whether the wall's makers call it an isolation boundary."""
    wall_version: str = ""
    """The program that put the wall up, with its version."""
    platform: str = ""
    node: str = ""
    """The node that has it; empty: the server's own machine."""


@dataclass(frozen=True, slots=True)
class Deliverable:
    """A file a job made."""

    path: str
    sha256: str
    verdict: str
    """`passed`, `failed`, or empty: nothing was asked for."""
    name: str | None = None
    """Its name in the drive; None: it is not kept."""
    size: int | None = None
    certificate: str = ""
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """A job's state."""

    id: str
    task: str
    state: str
    why: str
    by: str
    live: bool = False
    """Whether a process works at it; one that is neither over nor live can be resumed."""
    begun: float | None = None
    ended: float | None = None
    cost: float | None = None
    tokens: int = 0
    acts: int = 0
    plan: str = ""
    plan_text: str = ""
    pending: tuple[str, ...] = ()
    steps: tuple[Mapping[str, object], ...] = ()
    desks: tuple[Mapping[str, object], ...] = ()
    deliverables: tuple[Deliverable, ...] = ()

    @property
    def over(self) -> bool:
        """Return whether the job has ended for good."""
        return self.state in ("done", "failed", "broken", "interrupted")


@dataclass(frozen=True, slots=True)
class Approval:
    """Something that waits for a person."""

    id: str
    kind: str
    digest: str
    until: float
    job: str | None = None
    desk: str | None = None
    task: str = ""
    by: str = ""
    plan_text: str = ""
    card: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """The rules that a job's desks have beside its brief, and the desks that have them by now."""

    rule: str
    desks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SecretShown:
    """The public part of a secret."""

    name: str
    kind: str
    version: int
    created: float
    changed: float


@dataclass(frozen=True, slots=True)
class Kept:
    """A version of a name in the drive."""

    name: str
    version: int
    sha256: str
    size: int
    at: float
    job: str = ""
    certificate: str = ""


@dataclass(frozen=True, slots=True)
class Happened:
    """One event."""

    id: int
    chain: str
    at: float
    name: str
    data: Mapping[str, object] = field(default_factory=dict)


def read(kind: type[T], data: Mapping[str, Any]) -> T:
    """Parse a server's JSON; unknown fields are ignored."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: _read_field(name, value) for name, value in data.items() if name in names})


def _read_field(name: str, value: object) -> object:
    """Read one field; lists are tuples."""
    if name == "deliverables" and isinstance(value, list):
        return tuple(read(Deliverable, each) for each in value)
    return tuple(value) if isinstance(value, list) else value
