"""The facts of a report, as plain data."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from hotdesk.checks.seam import Fault
from hotdesk.checks.verdict_json import StoredVerdict
from hotdesk.dataclass import dataclass
from hotdesk.event import Certified, Kept, Verified
from hotdesk.job.event_text import Tone
from hotdesk.job.record.door_activity import DoorActivity
from hotdesk.job.record.summary import JobSummary, State
from hotdesk.job.report.pictures import ReportPicture
from hotdesk.walls import WallProof


@dataclass(slots=True)
class ToolUse:
    """One use of a tool."""

    number: int
    tool: str
    at: int
    call: str = ""
    """What it was used with, short."""
    why: str = ""
    """The worker's words before it."""
    outcome: Literal["", "done", "failed"] = ""
    """Empty: no one wrote it down."""
    ms: int = 0
    words: str = ""
    """Of a failed one: what came of it."""
    output: str = ""
    """The result of a finished one, in a line."""
    paper: str = ""
    """Of what came of it."""
    call_paper: str = ""
    """Of what it was used with."""
    attempt: int = 0
    """The number of the attempt it belongs to."""
    changed: int = 0
    """The last event that changed it, by its place in the journal."""
    has_picture: bool = False
    picture: ReportPicture | None = None


@dataclass(slots=True)
class Attempted:
    """One attempt at a step."""

    at: int
    step: str
    attempt: int
    """Counts the attempts at this step."""
    what: str
    model: str
    ended: int = 0
    outcome: Literal["", "done", "failed"] = ""
    note: str = ""
    leaves: str = ""
    rolled_back: bool = False
    acts: list[ToolUse] = field(default_factory=list)
    number: int = 0
    """The event it began with, by its place in the journal."""
    changed: int = 0


@dataclass(slots=True)
class Moment:
    """Something else that happened."""

    at: int
    title: str
    text: str = ""
    tone: Tone = "plain"
    faults: tuple[Fault, ...] = ()
    findings: tuple[str, ...] = ()
    """The faults of a file, in the lines its worker gets."""
    number: int = 0
    """The event it is, by its place in the journal."""
    changed: int = 0


@dataclass(frozen=True, slots=True)
class ReportedDecision:
    """A decision of a person or a policy."""

    at: int
    what: str
    answer: str
    by: str
    digest: str


@dataclass(slots=True)
class Looked:
    """The evidence of one check, from its last look at a deliverable."""

    event: Verified
    verdict: StoredVerdict | None = None
    """None: its paper is gone."""
    pages: list[ReportPicture] = field(default_factory=list)


@dataclass(slots=True)
class Delivered:
    """One deliverable."""

    path: str
    looks: dict[str, Looked] = field(default_factory=dict)
    """By the check's name."""
    stored: Kept | None = None
    certified: Certified | None = None


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step as it was planned."""

    name: str
    intent: str
    makes: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    risk: str = ""


@dataclass(slots=True)
class JobReport:
    """One job, for readers who did not follow it."""

    tale: JobSummary
    state: tuple[State, str]
    created: int
    """When the report was made, in milliseconds since 1970."""
    plan: list[PlannedStep] = field(default_factory=list)
    decisions: list[ReportedDecision] = field(default_factory=list)
    timeline: list[Attempted | Moment] = field(default_factory=list)
    delivered: dict[str, Delivered] = field(default_factory=dict)
    door: DoorActivity = field(default_factory=DoorActivity)
    walls: dict[str, WallProof] = field(default_factory=dict)
    """What keepers proved of its desks' walls, by desk."""
    missing: int = 0
    """Papers that are gone."""
    left_out: int = 0
    unread: int = 0
    beside: bool = False
    """Whether it is written beside the files it tells of."""

    @property
    def attempts(self) -> list[Attempted]:
        return [each for each in self.timeline if isinstance(each, Attempted)]
