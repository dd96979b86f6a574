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
    number: int
    tool: str
    at: int
    call: str = ""
    """The main argument, shortened."""
    why: str = ""
    """The worker's words before the call."""
    outcome: Literal["", "done", "failed"] = ""
    """The outcome, or `""` if none was recorded."""
    ms: int = 0
    words: str = ""
    """Output of a failed call."""
    output: str = ""
    """Output of a successful call, as one line."""
    paper: str = ""
    """Paper of the result."""
    call_paper: str = ""
    """Paper of the call."""
    attempt: int = 0
    """Event number of the start of its attempt."""
    changed: int = 0
    """Number of the last event that changed it."""
    has_picture: bool = False
    picture: ReportPicture | None = None


@dataclass(slots=True)
class Attempted:
    at: int
    step: str
    attempt: int
    """Number of the attempt at this step, from 1."""
    what: str
    model: str
    ended: int = 0
    outcome: Literal["", "done", "failed"] = ""
    note: str = ""
    leaves: str = ""
    rolled_back: bool = False
    acts: list[ToolUse] = field(default_factory=list)
    number: int = 0
    """Number of the event that started it."""
    changed: int = 0


@dataclass(slots=True)
class Moment:
    """Another event of the timeline."""

    at: int
    title: str
    text: str = ""
    tone: Tone = "plain"
    faults: tuple[Fault, ...] = ()
    findings: tuple[str, ...] = ()
    """The faults of a file, in the lines that its worker gets."""
    number: int = 0
    """Number of its event."""
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
    """The evidence of one check, from its last run on a deliverable."""

    event: Verified
    verdict: StoredVerdict | None = None
    """The verdict, or `None` if its paper is missing."""
    pages: list[ReportPicture] = field(default_factory=list)


@dataclass(slots=True)
class Delivered:
    path: str
    looks: list[Looked] = field(default_factory=list)
    """The checks of the delivery that counts; two may be of one kind."""
    stored: Kept | None = None
    certified: Certified | None = None


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of the plan."""

    name: str
    intent: str
    makes: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    risk: str = ""


@dataclass(slots=True)
class JobReport:
    """The facts of one job for its report."""

    summary: JobSummary
    state: tuple[State, str]
    created: int
    """Time the report was made, in milliseconds since 1970."""
    plan: list[PlannedStep] = field(default_factory=list)
    decisions: list[ReportedDecision] = field(default_factory=list)
    timeline: list[Attempted | Moment] = field(default_factory=list)
    delivered: dict[str, Delivered] = field(default_factory=dict)
    door: DoorActivity = field(default_factory=DoorActivity)
    walls: dict[str, WallProof] = field(default_factory=dict)
    """What keepers proved about the walls of its desks, by desk."""
    missing: int = 0
    """Number of missing papers."""
    left_out: int = 0
    unread: int = 0
    beside: bool = False
    """Whether the report is written next to the result files."""

    @property
    def attempts(self) -> list[Attempted]:
        return [each for each in self.timeline if isinstance(each, Attempted)]
