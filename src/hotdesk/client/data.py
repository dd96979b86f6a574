"""Types of a server's responses. Unknown fields of a newer server are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, TypeVar

from hotdesk.dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeskShown:
    """An open desk."""

    id: str
    image: str
    state: str
    opened: float
    deadline: float
    cpus: float
    memory: int
    job: str = ""
    wall: str = ""
    """The wall that its keeper proved. Empty: an earlier server does not report it."""
    kernel: str = ""
    """The kernel that serves its system calls: the host's (`host`), gVisor's (`sentry`) or its own (`own`)."""
    boundary: bool = False
    """Whether the makers of the wall call it an isolation boundary."""
    wall_version: str = ""
    """The program that implements the wall, with its version."""
    platform: str = ""
    node: str = ""
    """The node that has it. Empty: the server's own machine."""
    screen: bool = True
    """Whether its image has a screen. An earlier server does not report it."""


@dataclass(frozen=True, slots=True)
class Deliverable:
    """A file that a job made."""

    path: str
    sha256: str
    verdict: str
    """`passed`, `failed`, or empty if it has no checks."""
    name: str | None = None
    """Its name in the drive. `None`: it is not in the drive."""
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
    """Whether a process works on it. A job that is neither over nor live can be resumed."""
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
    """A decision that a person has to make."""

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
    """A rule that was added to a job, and the desks that already have it."""

    rule: str
    desks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SecretShown:
    name: str
    kind: str
    version: int
    created: float
    changed: float


@dataclass(frozen=True, slots=True)
class Kept:
    """A version of a file in the drive."""

    name: str
    version: int
    sha256: str
    size: int
    at: float
    job: str = ""
    certificate: str = ""


@dataclass(frozen=True, slots=True)
class Happened:
    """One journal event."""

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
    if name == "deliverables" and isinstance(value, list):
        return tuple(read(Deliverable, each) for each in value)
    return tuple(value) if isinstance(value, list) else value
