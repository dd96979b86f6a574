"""Events of a swarm, in its job's chain. One event an item, so that ten thousand stay small."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hotdesk.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SwarmBegun:
    """Which items a swarm is carried out for."""

    job: str
    items: int
    manifest: str
    """SHA-256 of the list of items: of each its name, and the SHA-256 of what it holds."""
    paper: str
    """That list."""
    writes: bool = False
    """Whether the plan may change something outside: then each item is noted before it begins."""


@dataclass(frozen=True, slots=True)
class ItemsOffered:
    """Somebody put more items beside the brief for the swarm."""

    job: str
    by: str


@dataclass(frozen=True, slots=True)
class ItemsAdded:
    """Items were added; those before keep their places."""

    job: str
    items: int
    """All of them, those before included."""
    manifest: str
    """SHA-256 of the list of all items."""
    paper: str
    """That list."""


@dataclass(frozen=True, slots=True)
class ItemsBegun:
    """Items are about to be worked at that may change something outside."""

    job: str
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemEnded:
    """An item ended. The last such event of an item counts; a swarm's certificate has the hash of each."""

    job: str
    item: str
    index: int
    """Its place in the list of items."""
    input: str
    """SHA-256 of what the item holds."""
    outcome: Literal["done", "quarantined"]
    desk: str
    """The desk it was worked at; empty: it never had one."""
    clean: str
    """The clean desk in which its deliverables were looked at; empty: none was."""
    paths: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    """SHA-256 of each deliverable."""
    sizes: tuple[int, ...] = ()
    checks: tuple[str, ...] = ()
    """The checks that all of them passed."""
    attempt: int = 1
    why: str = ""
    """Why it is in quarantine, in our words."""
    cause: str = ""
    """The kind of that: `check`, `step`, `time`, `desk`, `input`, `unknown`."""
    paper: str = ""
    """What was done, seen and made: calls, observations, verdicts."""
    files: tuple[str, ...] = ()
    """Papers with the bytes of the deliverables."""
    ms: int = 0
    tokens: int = 0
    dollars: float = 0.0
    acts: int = 0


@dataclass(frozen=True, slots=True)
class PilotEnded:
    """The cost of the first items, and the estimate for all."""

    job: str
    items: tuple[str, ...]
    dollars: float
    """Forecast for all items."""
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ReduceBegun:
    """The job that builds the report from all results is about to begin."""

    job: str
    reduce: str
    """That job's id."""
    results: str
    """SHA-256 of the list of results it gets."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """The report is built, verified and kept."""

    job: str
    reduce: str
    paths: tuple[str, ...]
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemReviewed:
    """A person compared an item's result with its source."""

    job: str
    item: str
    verdict: Literal["right", "wrong"]
    by: str


@dataclass(frozen=True, slots=True)
class SwarmCertified:
    """The records of all items are signed, as one root."""

    job: str
    root: str
    """Of the Merkle tree over the items' records."""
    certificate: str
    """SHA-256 of the certificate."""


SwarmEvent: TypeAlias = (
    SwarmBegun
    | ItemsOffered
    | ItemsAdded
    | ItemsBegun
    | ItemEnded
    | PilotEnded
    | ReduceBegun
    | Reduced
    | ItemReviewed
    | SwarmCertified
)
