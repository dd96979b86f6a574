"""What happened: frozen, versioned, plain data; and `Note`, which takes it down."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

VERSION = 1
PLAIN = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
"""Made once: for each event anew it costs more than the event."""


@dataclass(frozen=True, slots=True)
class RootAct:
    """A program is about to run as root inside a desk."""

    desk: str
    by: Literal["owner", "sudo"]
    """Who asked: the desk's owner, or a program inside that called `sudo`."""
    argv: tuple[str, ...]
    cwd: str
    number: int = 0
    """Which of `sudo`'s acts it is."""


@dataclass(frozen=True, slots=True)
class RootActEnded:
    """What `sudo` ran is over. The exit code is the guest's word."""

    desk: str
    number: int
    exit_code: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A desk is about to be opened with a way out."""

    desk: str
    scope: str
    """SHA-256 of the scope it was given, as JSON."""
    rules: tuple[str, ...]
    grants: tuple[str, ...]
    """As text: `erp-token@erp.test bearer`. Never a value."""


@dataclass(frozen=True, slots=True)
class Proven:
    """The canaries that ran inside before hand-over, and whether each held."""

    desk: str
    held: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Burnt:
    """A desk is gone, and why; its grants with it."""

    desk: str
    why: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request at the door, and what became of it."""

    desk: str
    step: str
    verdict: Literal["allow", "deny", "ask", "broken"]
    """`broken`: it was no request anybody could judge."""
    rule: str
    """The rule that decided, as text; or why none did."""
    method: str
    scheme: str
    host: str
    port: int
    path: str
    """The canonical path; of a query the names only."""
    status: int
    """What the desk was answered; 0: nothing."""
    up: int
    """Bytes sent upstream."""
    down: int
    """Bytes that came back."""
    ms: int
    grants: tuple[str, ...] = ()
    """Which secrets went along, and where: `erp-token in header authorization`. Never a value."""
    note: str = ""
    """Anything else a person should know: why it failed, what was scrubbed."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something no honest desk does: a placeholder sent where it is not granted, a secret that came back unasked."""

    desk: str
    what: Literal["placeholder", "leak", "foreign"]
    secret: str
    host: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Revoked:
    """A grant ended before its desk did."""

    desk: str
    grant: str
    why: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A desk asks for more than it has. What `reason` says is the desk's word."""

    desk: str
    id: str
    digest: str
    """Of the exact rule that would be added: what is approved is this, once."""
    rule: str
    method: str
    host: str
    path: str
    seconds: float
    """How long the answer is waited for."""
    reason: str = ""
    size: int = -1
    """Bytes of the body that would be sent; -1: it is no request but a rule; -2: it does not say how many."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of an ask, and who said so."""

    desk: str
    id: str
    digest: str
    answer: Literal["approved", "refused", "expired"]
    by: str
    """`uid 0 pid 4711`; empty when time ran out."""


@dataclass(frozen=True, slots=True)
class Used:
    """A worker used a tool at a desk. What it was used with is not here: that may hold secrets."""

    desk: str
    tool: str
    outcome: Literal["done", "failed", "refused", "wrong"]
    """`refused`: it may not be used now; `wrong`: nothing ran, for it was asked for what cannot be meant."""
    ms: int
    fallback: str = ""
    """Which way was taken when the first did not lead there."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class TookOver:
    """A person takes the wheel of a desk: its worker's tools are refused from now on."""

    desk: str
    viewer: int
    """Which of the desk's viewers."""
    by: str
    """`uid 0 pid 4711`."""


@dataclass(frozen=True, slots=True)
class HandedBack:
    """A person handed the wheel back. What they did is theirs, not the worker's; which keys is not written down."""

    desk: str
    viewer: int
    by: str
    """`uid 0 pid 4711`; empty when nobody did it."""
    seconds: float
    clicks: int
    keys: int
    note: str = ""
    """Why, when nobody did it."""


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
    """What a plan needs was tried before anybody approved it."""

    job: str
    digest: str
    held: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pending:
    """A job waits for a person: what is approved is the digest, once."""

    job: str
    id: str
    kind: Literal["plan", "step", "amendment", "repeat", "question"]
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
    """What came of waiting, and who said so."""

    job: str
    id: str
    digest: str
    """Of what was decided: another than was asked when a person edited it."""
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
    """A model was asked and replied. What it was told and said are papers of the job's."""

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


@dataclass(frozen=True, slots=True)
class Acted:
    """A tool is about to be used. What it is used with is a paper of the job's."""

    job: str
    step: str
    act: int
    """Counts the job's acts."""
    tool: str
    paper: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What came of an act; an act without this has an outcome nobody knows."""

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
    """What a finished step leaves for the next ones to know, in the worker's words: a paper."""

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
    """What was approved beyond the brief, all told, as text."""


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
    """Acts whose outcome nobody knows: `17 shell`."""


@dataclass(frozen=True, slots=True)
class StepEnded:
    """How a step of a job ended. What `note` says may be a desk's word."""

    job: str
    step: str
    outcome: Literal["done", "failed"]
    note: str = ""
    desk: str = ""
    paper: str = ""
    """Why a worker failed, in its words."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What a check in a desk of its own found."""

    job: str
    desk: str
    path: str
    sha256: str
    """Of the bytes that were looked at."""
    check: str
    outcome: Literal["passed", "failed"]
    findings: tuple[str, ...]


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
    """What a job kept beside the journal is gone: papers, checkpoints, keys."""

    job: str
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class DriveChanged:
    """A name in the drive was written or removed by hand."""

    job: str
    """The act's own id."""
    name: str
    what: Literal["put", "removed"]
    by: str
    sha256: str = ""
    size: int = 0
    version: int = 0


JobEvent: TypeAlias = (
    JobBegun
    | Planned
    | Preflight
    | Pending
    | Decided
    | StepBegun
    | Thought
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
    | Kept
    | JobEnded
    | JobBurnt
    | Forgotten
    | DriveChanged
)
DeskEvent: TypeAlias = (
    RootAct
    | RootActEnded
    | Opened
    | Proven
    | Burnt
    | Exchange
    | Alarm
    | Revoked
    | Asked
    | Answered
    | Used
    | TookOver
    | HandedBack
)
Event: TypeAlias = DeskEvent | JobEvent
Note: TypeAlias = Callable[[Event], None]
"""Takes an event down; `HostError` when it cannot."""


def chain_of(event: Event) -> str:
    """Give the chain an event belongs to: its job's, or its desk's."""
    return event.job if isinstance(event, JobEvent) else event.desk


def to_json(event: Event) -> str:
    """Write an event's fields as one line of plain ASCII; what is no text or number cannot be in it."""
    return PLAIN.encode(as_dict(event))


def as_dict(event: Event) -> dict[str, object]:
    """Give an event's fields. They are plain values, so that nothing has to be copied."""
    return {name: getattr(event, name) for name in event.__slots__}


def from_json(name: str, data: str, version: int = VERSION) -> Event:
    """Read an event strictly; `ValueError` for what no known version wrote. A field with a default may be missing."""
    shape = shapes().get(name)
    if shape is None or version != VERSION:
        raise ValueError(f"no event {name!r} of version {version}")
    told = json.loads(data)
    if not isinstance(told, dict) or not told.keys() <= shape.fits.keys():
        raise ValueError(f"{name} has other fields than {sorted(shape.fits)}")
    if not shape.needed <= told.keys() or not all(shape.fits[field](value) for field, value in told.items()):
        raise ValueError(f"{name} lacks a field, or one is of another type")
    event: Event = shape.kind(
        **{field: tuple(value) if type(value) is list else value for field, value in told.items()}
    )
    return event


@dataclass(frozen=True, slots=True)
class Shape:
    """What an event of one kind is made of."""

    kind: Callable[..., Event]
    needed: frozenset[str]
    """Fields without a default."""
    fits: dict[str, Callable[[object], bool]]
    """Whether a value read from JSON is of a field's type, by the field's name."""


@cache
def shapes() -> dict[str, Shape]:
    """Give the shape of every event, by name."""
    return {kind.__name__: shape_of(kind) for kind in get_args(Event)}


def shape_of(kind: type) -> Shape:
    """Read an event's shape from its class."""
    needed = frozenset(field.name for field in fields(kind) if field.default is MISSING)
    return Shape(kind, needed, {name: fitting(hint) for name, hint in get_type_hints(kind).items()})


def fitting(hint: Any) -> Callable[[object], bool]:
    """Give what says whether a value read from JSON is of a type."""
    if get_origin(hint) is Literal:
        known = get_args(hint)
        return lambda value: type(value) is str and value in known
    if get_origin(hint) is tuple:
        return lambda value: type(value) is list and all(type(part) is str for part in value)
    if hint is float:
        return lambda value: type(value) is float or type(value) is int
    return lambda value: type(value) is hint


def ignore(event: Event) -> None:
    """Take nothing down."""
