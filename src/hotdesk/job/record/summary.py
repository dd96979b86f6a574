"""A summary of a job, folded from its events; the same fold serves a line and a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from hotdesk.checks.active import NAME as ACTIVE_CONTENT
from hotdesk.dataclass import dataclass
from hotdesk.drive.chain import Row
from hotdesk.drive.journal import read
from hotdesk.errors import BriefError
from hotdesk.event import (
    Amended,
    Certified,
    Checkpointed,
    Decided,
    Event,
    Forgotten,
    ItemEnded,
    ItemsAdded,
    ItemsBegun,
    ItemsUsed,
    JobBegun,
    JobBurnt,
    JobEnded,
    JobPaused,
    Kept,
    Pending,
    Planned,
    Preflight,
    Resumed,
    StepBegun,
    StepEnded,
    SwarmBegun,
    Thought,
    Verified,
    VisionAsked,
    list_kinds,
)
from hotdesk.job.people.wait import OpenQuestions
from hotdesk.job.record.item_counts import ItemCounts
from hotdesk.job.record.progress import Cost, Progress, StepProgress
from hotdesk.plan import OURS

State: TypeAlias = Literal["running", "waiting", "paused", "killed", "done", "failed", "broken", "interrupted"]
"""State of a job. `killed`: it has started and not ended, but no process runs it."""
Outcome: TypeAlias = Literal["done", "failed", "broken", "interrupted", "paused", "unknown"]
LINE = (
    JobBegun, Planned, Amended, Pending, Decided, StepBegun, StepEnded, Thought, VisionAsked, JobPaused, Resumed,
    JobEnded, Forgotten, SwarmBegun, ItemsAdded, ItemEnded,
)  # fmt: skip
"""The only events that a line about a job needs."""
CHECKING = "clean, for the deliverable alone"
"""Purpose of a desk, as its event states it, in which a deliverable is checked."""
MIN_ID_CHARS = 4
"""Minimum characters of an abbreviated id."""


def select_latest(checks: Sequence[Verified]) -> list[Verified]:
    """Return the checks of a file's last delivery, of which the first inspects its active content.

    Two checks of a delivery may be of one kind. If none inspected active content, the last of each kind is returned.
    """
    starts = [place for place, each in enumerate(checks) if each.check == ACTIVE_CONTENT]
    return list(checks[starts[-1] :]) if starts else list({each.check: each for each in checks}.values())


@dataclass(slots=True)
class DeliverableRecord:
    """The recorded facts of one deliverable."""

    path: str
    checks: list[Verified] = field(default_factory=list)
    """Every verdict, in order."""
    stored: Kept | None = None
    certified: Certified | None = None


@dataclass(slots=True)
class JobSummary:
    """The summary of one job."""

    job: str
    begun: int = 0
    last: int = 0
    """Time of the latest event in milliseconds since 1970."""
    goal: str = ""
    brain: str = ""
    by: str = ""
    brief: str = ""
    plan: str = ""
    """Digest of the current plan."""
    plan_paper: str = ""
    planned: tuple[str, ...] = ()
    course: Progress = field(default_factory=Progress)
    step: str = ""
    """The step that was started last."""
    waiting: OpenQuestions = field(default_factory=OpenQuestions)
    preflight: Preflight | None = None
    paused: str | None = None
    lacks_model: bool = False
    """Whether it is paused because its model gave no usable reply."""
    resumed: int = 0
    ended: JobEnded | None = None
    over: int = 0
    checks: list[Verified] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    certified: list[Certified] = field(default_factory=list)
    receipt: JobBurnt | None = None
    forgotten: Forgotten | None = None
    checkpoints: int = 0
    desks: dict[str, None] = field(default_factory=dict)
    checking: set[str] = field(default_factory=set)
    """Desks in which results are checked; no worker uses them."""
    items: ItemCounts | None = None
    """Counts of a swarm's items, or `None` if the job is not a swarm."""
    strange: int = 0
    """Number of skipped events of a later version."""

    def take_row(self, row: Row) -> None:
        """Apply a stored event; count one of a later version instead."""
        try:
            self.take(row.read_event(), row.at)
        except (ValueError, RecursionError):
            self.strange += 1

    def take(self, event: Event, at: int) -> None:
        self.last = max(self.last, at)
        self.waiting.take(event, at)
        self.course.take(event, at / 1000)
        match event:
            case JobBegun():
                self.begun, self.goal, self.brain, self.by, self.brief = (
                    at, event.goal, event.brain, event.by, event.brief,
                )  # fmt: skip
            case Planned() | Amended():
                self.plan, self.plan_paper, self.planned = event.digest, event.paper, event.steps
            case Preflight():
                self.preflight = event
            case JobPaused():
                self.paused, self.lacks_model = event.why, event.cause == "model"
            case Resumed():
                self.paused, self.lacks_model, self.ended, self.resumed = None, False, None, self.resumed + 1
            case JobEnded():
                self.ended, self.over = event, at
            case JobBurnt():
                self.receipt = event
            case Forgotten():
                self.forgotten = event
            case Certified():
                self.certified.append(event)
            case Kept():
                self.kept.append(event)
            case Verified():
                self.checks.append(event)
                self.desks[event.desk] = None
            case Checkpointed():
                self.checkpoints += 1
            case SwarmBegun() | ItemsAdded():
                self.items = self.items or ItemCounts()
                self.items.grow(event.items)
            case ItemEnded() if self.items is not None:
                self.items.take(event)
            case StepBegun():
                self.step = event.step if event.step not in OURS else self.step
                if event.desk:
                    self.desks[event.desk] = None
                    self.checking |= {event.desk} if (event.step, event.what) == ("desk", CHECKING) else set()

    @property
    def cost(self) -> Cost:
        """Cost of models, without a swarm's items."""
        return self.course.cost

    @property
    def whole_cost(self) -> Cost:
        """Cost of models, including a swarm's items."""
        if self.items is None:
            return self.cost
        cost, ends = self.cost, self.items.ends.total() if self.items.tokens else 0
        return replace(
            cost,
            dollars=cost.dollars + self.items.dollars,
            input=cost.input + self.items.tokens,
            replies=cost.replies + ends,
        )

    @property
    def whole_acts(self) -> int:
        """Number of tool uses, including a swarm's items."""
        return self.course.acts + (self.items.acts if self.items is not None else 0)

    def list_steps(self) -> list[StepProgress]:
        """Return the steps of the plan in order, followed by started steps that are not in the plan."""
        steps = self.course.steps
        beside = [step for name, step in steps.items() if name not in self.planned and step.tries]
        return [steps.get(name) or StepProgress(name) for name in self.planned] + beside

    def group_deliverables(self) -> dict[str, DeliverableRecord]:
        found: dict[str, DeliverableRecord] = {}
        for check in self.checks:
            found.setdefault(check.path, DeliverableRecord(check.path)).checks.append(check)
        for stored in self.kept:
            found.setdefault(stored.path, DeliverableRecord(stored.path)).stored = stored
        for certified in self.certified:
            if certified.path in found:
                found[certified.path].certified = certified
        return found

    @property
    def outcome(self) -> tuple[Outcome, str]:
        """The last end or stop with its reason; `unknown` if none was recorded."""
        if self.ended is not None:
            return self.ended.outcome, self.ended.why
        return ("unknown", "") if self.paused is None else ("paused", self.paused)

    @property
    def place(self) -> tuple[int, int]:
        """Return the number of the current step and of all steps; a job that is done is at its last."""
        if self.ended is not None and self.ended.outcome == "done" and self.planned:
            return len(self.planned), len(self.planned)
        if self.step in self.planned:
            return self.planned.index(self.step) + 1, len(self.planned)
        steps = self.list_steps()[: len(self.planned)]
        return sum(step.outcome == "done" for step in steps), len(steps)

    def get_state(self, live: bool, now: int) -> tuple[State, str]:
        """Return the state, and the id of the open question or the reason of the end or pause.

        A paused job counts as paused whatever it asked before: an answer takes effect once it is resumed.
        """
        if self.ended is not None:
            return self.ended.outcome, self.ended.why
        if self.paused is not None and not live:
            return "paused", self.paused
        open_now = [each for each in self.waiting.open if live or each.until > now]
        if open_now:
            return "waiting", open_now[0].id
        return ("running", "") if live else ("killed", "")


def read_summaries(journal: Path) -> list[JobSummary]:
    """Summarize every job of a journal for a line, in one pass, oldest first."""
    found: dict[str, JobSummary] = {}
    for row in read_rows(journal):
        if row.name == JobBegun.__name__ or row.chain in found:
            found.setdefault(row.chain, JobSummary(row.chain)).take_row(row)
    return list(found.values())


def read_rows(journal: Path) -> Iterator[Row]:
    """Yield the events that lines about jobs need; a missing journal has none."""
    if not journal.exists():
        return iter(())
    return read(journal, names=[kind.__name__ for kind in LINE])


def summarize(journal: Path, job: str, items: ItemCounts | None = None) -> JobSummary:
    """Summarize one job. `items`: a swarm's counts from an earlier call, so that its item events are not read again."""
    summary = JobSummary(job)
    for row in read(journal, job, names=_list_names_but_items() if items is not None else ()):
        summary.take_row(row)
    summary.items = items or summary.items
    return summary


@cache
def _list_names_but_items() -> tuple[str, ...]:
    return tuple(kind.__name__ for kind in list_kinds() if kind not in (ItemEnded, ItemsBegun, ItemsUsed))


def find_job(journal: Path, text: str) -> str:
    """Return the id of the one job that starts with `text`; raise `BriefError` if there is none or several."""
    jobs = list(dict.fromkeys(row.chain for row in _read_job_starts(journal)))
    if text in jobs:
        return text
    found = [job for job in jobs if len(text) >= MIN_ID_CHARS and job.startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise BriefError(f"several jobs start with {text[:40]!r}: {', '.join(found)}; pass more characters of the id")
    raise BriefError(f"job {text[:40]!r} not found; `hotdesk jobs` lists the jobs")


def _read_job_starts(journal: Path) -> Iterator[Row]:
    return read(journal, names=[JobBegun.__name__]) if journal.exists() else iter(())
