"""Events of a job: before and after everything it does."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.event.operator import DriveChanged, ImageSigned, KeyChanged, VaultChanged, VolumeChanged


@dataclass(frozen=True, slots=True)
class JobBegun:
    """A brief is about to be carried out."""

    job: str
    goal: str
    brief: str
    """SHA-256 of the brief as it was read."""
    brain: str = ""
    """The name of the brain that plans and acts."""
    by: str = ""
    """Such as `uid 0 pid 4711`."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan was made. Its text is a paper of the job."""

    job: str
    digest: str
    steps: tuple[str, ...]
    paper: str
    round: int = 1
    findings: tuple[str, ...] = ()
    """Objections of the audit. A plan with findings goes back to the planner."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """The requirements of a plan were tested before approval."""

    job: str
    digest: str
    held: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pending:
    """A job waits for a person. The approval applies to this digest, once."""

    job: str
    id: str
    kind: Literal["plan", "step", "amendment", "repeat", "question", "pilot", "cohort", "review"]
    digest: str
    """SHA-256 of exactly what would be done, or of the question."""
    paper: str
    """The approval card: facts established by hotdesk first, the worker's text last."""
    until: int
    """Milliseconds since the epoch, after which `otherwise` applies."""
    otherwise: Literal["refused", "approved"] = "refused"
    step: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision that a job waited for, and who made it."""

    job: str
    id: str
    digest: str
    """Digest of the decided subject. It differs from the question's if a person edited the plan."""
    answer: Literal["approved", "refused", "answered", "expired"]
    by: str
    """Such as `uid 0 pid 4711` or `policy auto`; empty if it expired."""
    paper: str = ""
    """An edited plan, or the text of the answer."""


@dataclass(frozen=True, slots=True)
class StepBegun:
    """A step of a job is about to start."""

    job: str
    step: str
    what: str
    desk: str = ""
    """The desk of the step."""
    attempt: int = 1
    model: str = ""
    """The model of the step's worker."""


@dataclass(frozen=True, slots=True)
class Thought:
    """A model was called and replied. Request and reply are papers of the job."""

    job: str
    step: str
    """The step; empty while the job is planned."""
    turn: int
    model: str
    paper: str
    input: int
    output: int
    cached: int
    up: int
    """Bytes of the request to the provider."""
    ms: int
    dollars: float = -1.0
    """Cost in dollars; negative: the price is unknown."""
    address: str = ""
    """The server's address. Empty: the vendor's own, or none, as for a script."""
    stored: int = 0
    """Tokens written to the provider's prompt cache. Older journals have them in `cached`."""
    is_unused: bool = False
    """Whether another model was asked instead, or the same one with less: the reply was paid for and has no turn."""


@dataclass(frozen=True, slots=True)
class VisionAsked:
    """A vision model was asked about a picture, for a tool of a step. Question and answer are a paper."""

    job: str
    step: str
    model: str
    paper: str
    outcome: Literal["done", "failed"]
    input: int
    output: int
    cached: int
    stored: int
    up: int
    """Bytes of the request to the provider, including the picture."""
    ms: int
    dollars: float = -1.0
    """Cost in dollars; negative: the price is unknown."""


@dataclass(frozen=True, slots=True)
class Acted:
    """A tool is about to be used. Its arguments are a paper of the job."""

    job: str
    step: str
    act: int
    """Number of the act in the job."""
    tool: str
    paper: str


@dataclass(frozen=True, slots=True)
class Observed:
    """The result of an act. An act without this event has an unknown outcome."""

    job: str
    step: str
    act: int
    outcome: Literal["done", "failed"]
    ms: int
    paper: str


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The workspace was saved to disk, encrypted with the job's key."""

    job: str
    step: str
    """The step that was finished last, or that is in progress."""
    act: int
    """The last act that it includes."""
    sha256: str
    """SHA-256 of the encrypted file."""
    size: int
    ms: int = 0
    amid: bool = False
    """Whether the step was in progress."""
    side: str = ""
    """SHA-256 of the side desk's workspace; empty if the step had no desk of its own."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The workspace was restored to its state before a failed step. Effects outside the desk remain."""

    job: str
    step: str
    attempt: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Summed:
    """A finished step's summary for later steps, written by the worker: a paper."""

    job: str
    step: str
    paper: str


@dataclass(frozen=True, slots=True)
class Amended:
    """The plan was replaced, as approved."""

    job: str
    digest: str
    steps: tuple[str, ...]
    paper: str
    step: str = ""
    """The step that asked for the change."""
    rules: tuple[str, ...] = ()
    """All rules approved in addition to the brief, as text."""


@dataclass(frozen=True, slots=True)
class JobPaused:
    """A job stops and can be resumed: its workspace is kept, its desks are not."""

    job: str
    why: str
    cause: Literal["", "budget", "model", "machine", "person"] = ""
    """What stopped it: a spent budget, its models' provider, the machine, or a request; empty in older journals."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A job continues."""

    job: str
    by: str
    step: str = ""
    """The step that was in progress."""
    unknown: tuple[str, ...] = ()
    """Acts with an unknown outcome, such as `17 shell`."""


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step of a job ended. `note` may be text from a desk."""

    job: str
    step: str
    outcome: Literal["done", "failed"]
    note: str = ""
    desk: str = ""
    paper: str = ""
    """A paper with the reason of a failure, written by the worker."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a check in a desk of its own."""

    job: str
    desk: str
    path: str
    sha256: str
    """SHA-256 of the checked bytes."""
    check: str
    outcome: Literal["passed", "failed"]
    findings: tuple[str, ...]
    paper: str = ""
    """The whole verdict with page images, as a paper: see `checks.written`."""
    beside: str = ""
    """SHA-256 of the files beside the checked file, as in its certificate; empty: there were none."""


@dataclass(frozen=True, slots=True)
class SentBack:
    """A deliverable failed its checks: a step is repeated, and its worker gets the findings."""

    job: str
    step: str
    path: str
    sha256: str
    """SHA-256 of the failed file."""
    paper: str
    """The findings for the worker."""


@dataclass(frozen=True, slots=True)
class Certified:
    """The evidence of a deliverable was signed."""

    job: str
    path: str
    sha256: str
    """SHA-256 of the file."""
    certificate: str
    """SHA-256 of the certificate as stored."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A deliverable was stored in the drive."""

    job: str
    path: str
    sha256: str
    size: int
    version: int = 1
    """Its version in the drive."""


@dataclass(frozen=True, slots=True)
class MemoryOffered:
    """A job was given what earlier jobs left in its brief's memory."""

    job: str
    memory: str
    """The name of the memory in the brief."""
    items: tuple[str, ...]
    """References in the drive, such as `memory/invoices/files/parse.py@2`."""
    digests: tuple[str, ...]
    """SHA-256 of each item."""


@dataclass(frozen=True, slots=True)
class MemoryStaged:
    """A worker chose something to leave for later jobs. It is kept if the job's deliverables pass their checks."""

    job: str
    step: str
    kind: Literal["fact", "file"]
    name: str
    sha256: str
    size: int
    paper: str
    """A paper with its bytes."""
    sources: tuple[str, ...] = ()
    """Sources the job could have read before: `input invoices`, `host erp.example.test`, `memory invoices`."""


@dataclass(frozen=True, slots=True)
class MemoryKept:
    """A worker's file or fact was stored in its brief's memory."""

    job: str
    memory: str
    kind: Literal["fact", "file"]
    name: str
    sha256: str
    size: int
    version: int
    """Its version in the drive."""
    step: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryDropped:
    """A file or fact was not stored in a memory, not offered from it, or removed from it."""

    job: str
    memory: str
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The end of a job. `failed`: the worker failed; `broken`: hotdesk failed."""

    job: str
    outcome: Literal["done", "failed", "broken", "interrupted"]
    why: str = ""


@dataclass(frozen=True, slots=True)
class JobBurnt:
    """The receipt of a job, its last event except `Forgotten`."""

    job: str
    destroyed: tuple[str, ...]
    kept: tuple[str, ...]
    """Kept on purpose: what, where, why, until when."""
    left: tuple[str, ...]
    """Left behind: what should be gone, but was found."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A job's data outside the journal was deleted: papers, checkpoints, keys."""

    job: str
    by: str
    why: str = ""


JobEvent: TypeAlias = (
    JobBegun
    | Planned
    | Preflight
    | Pending
    | Decided
    | StepBegun
    | Thought
    | VisionAsked
    | Acted
    | Observed
    | Checkpointed
    | RolledBack
    | Summed
    | Amended
    | JobPaused
    | Resumed
    | StepEnded
    | Verified
    | SentBack
    | Certified
    | Kept
    | MemoryOffered
    | MemoryStaged
    | MemoryKept
    | MemoryDropped
    | JobEnded
    | JobBurnt
    | Forgotten
    | DriveChanged
    | VaultChanged
    | KeyChanged
    | ImageSigned
    | VolumeChanged
)
