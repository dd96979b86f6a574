"""Events of a swarm, in its job's chain. One event per item, so that swarms of ten thousand items stay small."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hotdesk.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SwarmBegun:
    """A swarm started."""

    job: str
    items: int
    manifest: str
    """SHA-256 of the list of items: key, SHA-256 of the content and file name of each."""
    paper: str
    """The paper with that list."""
    writes: bool = False
    """Whether the plan may change something outside. If so, `ItemsBegun` is recorded before each item."""


@dataclass(frozen=True, slots=True)
class ItemsOffered:
    """More items were offered beside the brief."""

    job: str
    by: str


@dataclass(frozen=True, slots=True)
class ItemsAdded:
    """Items were added; those before keep their places."""

    job: str
    items: int
    """Number of all items, including the earlier ones."""
    manifest: str
    """SHA-256 of the list of all items."""
    paper: str
    """The paper with that list."""


@dataclass(frozen=True, slots=True)
class ItemsBegun:
    """Items that may change something outside are about to start."""

    job: str
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemsUsed:
    """What unfinished items have used, written now and then and when a swarm stops. The last such event counts."""

    job: str
    items: tuple[str, ...]
    tokens: tuple[int, ...]
    """For each of these items, like the fields below."""
    dollars: tuple[float, ...]
    acts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ItemEnded:
    """An item ended. The last such event of an item counts; the certificate's hash tree includes it."""

    job: str
    item: str
    index: int
    """Its place in the list of items."""
    input: str
    """SHA-256 of the item's content."""
    outcome: Literal["done", "quarantined"]
    desk: str
    """The desk of its last attempt; empty: it had none."""
    clean: str
    """The clean desk that checked its deliverables; empty: none did."""
    paths: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    """SHA-256 of each deliverable."""
    sizes: tuple[int, ...] = ()
    checks: tuple[str, ...] = ()
    """The checks that all deliverables passed."""
    attempt: int = 1
    why: str = ""
    """Why it is in quarantine, in hotdesk's own words."""
    cause: str = ""
    """The kind of failure: `check`, `step`, `time`, `budget`, `desk`, `input` or `unknown`."""
    paper: str = ""
    """The paper with tool calls, observations and verdicts."""
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
    """Estimate for all items."""
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ReduceBegun:
    """The job that builds the report from all results is about to start."""

    job: str
    reduce: str
    """That job's id."""
    results: str
    """SHA-256 of its list of results."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """The report was built, verified and stored."""

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
    """The records of all items were signed, as one root."""

    job: str
    root: str
    """Root of the Merkle tree over the items' records."""
    certificate: str
    """SHA-256 of the certificate."""


SwarmEvent: TypeAlias = (
    SwarmBegun
    | ItemsOffered
    | ItemsAdded
    | ItemsBegun
    | ItemsUsed
    | ItemEnded
    | PilotEnded
    | ReduceBegun
    | Reduced
    | ItemReviewed
    | SwarmCertified
)
