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
    """SHA-256 of the brief, as it was read."""
    brain: str = ""
    """Who plans and acts, by name."""
    by: str = ""
    """`uid 0 pid 4711`."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan was made. Its text is a paper of the job's."""

    job: str
    digest: str
    steps: tuple[str, ...]
    paper: str
    round: int = 1
    findings: tuple[str, ...] = ()
    """What the audit says against it: a plan with findings goes back."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """The requirements of a plan were tried before approval."""

    job: str
    digest: str
    held: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pending:
    """A job waits for a person: the approval is for this digest, once."""

    job: str
    id: str
    kind: Literal["plan", "step", "amendment", "repeat", "question", "pilot", "cohort", "review"]
    digest: str
    """Of exactly what would be done, or of the question."""
    paper: str
    """The card: facts we worked out first, what the worker says last."""
    until: int
    """Milliseconds since 1970; then `otherwise` holds."""
    otherwise: Literal["refused", "approved"] = "refused"
    step: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision that a job waited for, and who made it."""

    job: str
    id: str
    digest: str
    """The digest of the decided subject: it differs from the question's if a person edited it."""
    answer: Literal["approved", "refused", "answered", "expired"]
    by: str
    """`uid 0 pid 4711`, or `policy auto`; empty when time ran out."""
    paper: str = ""
    """An edited plan, or the answer's words."""


@dataclass(frozen=True, slots=True)
class StepBegun:
    """A step of a job is about to be taken."""

    job: str
    step: str
    what: str
    desk: str = ""
    """The desk it is taken at."""
    attempt: int = 1
    model: str = ""
    """Who takes it."""


@dataclass(frozen=True, slots=True)
class Thought:
    """A model was asked and replied. Request and reply are papers of the job."""

    job: str
    step: str
    """Empty: the job is planned."""
    turn: int
    model: str
    paper: str
    input: int
    output: int
    cached: int
    up: int
    """Bytes of the request: what the provider was told."""
    ms: int
    dollars: float = -1.0
    """Less than nothing: no price is known."""
    address: str = ""
    """The server's address; empty: the vendor's own, or none, as for a script."""
    stored: int = 0
    """Tokens the provider keeps from now on; older journals have them in `cached`."""


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
    """Bytes of the request, the picture included: what the provider was told."""
    ms: int
    dollars: float = -1.0
    """Less than nothing: no price is known."""


@dataclass(frozen=True, slots=True)
class Acted:
    """A tool is about to be used. Its arguments are a paper of the job."""

    job: str
    step: str
    act: int
    """Counts the job's acts."""
    tool: str
    paper: str


@dataclass(frozen=True, slots=True)
class Observed:
    """The result of an act; an act without this has an unknown outcome."""

    job: str
    step: str
    act: int
    outcome: Literal["done", "failed"]
    ms: int
    paper: str


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The workspace is on disk, sealed with the job's key."""

    job: str
    step: str
    """The step that was finished last, or that is being taken."""
    act: int
    """The last act it holds."""
    sha256: str
    """Of what is on disk."""
    size: int
    ms: int = 0
    amid: bool = False
    """Whether the step was being taken."""
    side: str = ""
    """SHA-256 of the workspace beside, where the step had a desk of its own."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The workspace is again as it was before a step that failed. What left the desk stays done."""

    job: str
    step: str
    attempt: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Summed:
    """A finished step's summary for later steps, in the worker's words: a paper."""

    job: str
    step: str
    paper: str


@dataclass(frozen=True, slots=True)
class Amended:
    """The plan is another from now on, as was approved."""

    job: str
    digest: str
    steps: tuple[str, ...]
    paper: str
    step: str = ""
    """The step that asked for it."""
    rules: tuple[str, ...] = ()
    """All rules approved beyond the brief, as text."""


@dataclass(frozen=True, slots=True)
class JobPaused:
    """A job stops here and can be resumed: its workspace is kept, its desks are not."""

    job: str
    why: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """A job goes on."""

    job: str
    by: str
    step: str = ""
    """The step that was being taken."""
    unknown: tuple[str, ...] = ()
    """Acts whose outcome no one knows: `17 shell`."""


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step of a job ended. `note` may be a desk's word."""

    job: str
    step: str
    outcome: Literal["done", "failed"]
    note: str = ""
    desk: str = ""
    paper: str = ""
    """Why a worker failed, in its words."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a check in a desk of its own."""

    job: str
    desk: str
    path: str
    sha256: str
    """Of the bytes that were looked at."""
    check: str
    outcome: Literal["passed", "failed"]
    findings: tuple[str, ...]
    paper: str = ""
    """The whole verdict, with what pages look like: see `checks.written`."""
    beside: str = ""
    """SHA-256 of what the check had beside the file, as its certificate lists it; empty: nothing."""


@dataclass(frozen=True, slots=True)
class SentBack:
    """A deliverable failed its checks: a step is repeated, and its worker told why."""

    job: str
    step: str
    path: str
    sha256: str
    """Of what failed."""
    paper: str
    """What is told."""


@dataclass(frozen=True, slots=True)
class Certified:
    """The evidence of a deliverable is signed."""

    job: str
    path: str
    sha256: str
    """Of the file."""
    certificate: str
    """SHA-256 of the certificate, as it is kept."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A deliverable outlives its desk."""

    job: str
    path: str
    sha256: str
    size: int
    version: int = 1
    """Of its name in the drive."""


@dataclass(frozen=True, slots=True)
class MemoryOffered:
    """A job was given what earlier jobs left in its brief's memory."""

    job: str
    memory: str
    """The name of the memory, as the brief has it."""
    items: tuple[str, ...]
    """References in the drive: `memory/invoices/files/parse.py@2`."""
    digests: tuple[str, ...]
    """SHA-256 of each."""


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
    """Its bytes."""
    sources: tuple[str, ...] = ()
    """What the job could have read by then: `input invoices`, `host erp.example.test`, `memory invoices`."""


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
    """Of its name in the drive."""
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
    """How a job ended. `failed`: the worker's work; `broken`: hotdesk's."""

    job: str
    outcome: Literal["done", "failed", "broken", "interrupted"]
    why: str = ""


@dataclass(frozen=True, slots=True)
class JobBurnt:
    """The receipt of a job, its last event but for `Forgotten`."""

    job: str
    destroyed: tuple[str, ...]
    kept: tuple[str, ...]
    """On purpose: what, where, why, until when."""
    left: tuple[str, ...]
    """What was found that should be gone."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A job's data beside the journal was deleted: papers, checkpoints, keys."""

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
