"""The course of one job, folded from its events: steps, cost, running acts."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, field
from typing import Literal, TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.event import (
    Acted,
    Amended,
    Decided,
    Event,
    JobBegun,
    JobEnded,
    JobEvent,
    JobPaused,
    Observed,
    Planned,
    Resumed,
    RolledBack,
    StepBegun,
    StepEnded,
    SwarmEvent,
    Thought,
    VisionAsked,
)
from hotdesk.plan import OURS

_CACHED_SHARE = 10
"""A budget counts so many tokens that the provider still had as one: they cost about a tenth."""
Part: TypeAlias = Literal["plan", "act", "look"]
Stand: TypeAlias = Literal["to come", "current", "done", "failed", "rolled back"]


@dataclass(slots=True)
class Cost:
    """The cost of replies."""

    dollars: float = 0.0
    """Of the replies whose price is known, about."""
    unpriced: int = 0
    """Replies whose price is not known."""
    replies: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    """Tokens the provider still had."""
    up: int = 0
    """Bytes providers were told."""
    stored: int = 0
    """Tokens the provider kept."""

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cached + self.stored

    @property
    def budget_tokens(self) -> int:
        """Count tokens as a budget does: a cached beginning of a conversation is not paid again each turn."""
        return self.input + self.output + self.stored + self.cached // _CACHED_SHARE

    def add(self, thought: Thought | VisionAsked) -> None:
        self.dollars += max(thought.dollars, 0.0)
        self.unpriced += thought.dollars < 0
        self.replies += 1
        self.input += thought.input
        self.output += thought.output
        self.cached += thought.cached
        self.up += thought.up
        self.stored += thought.stored

    def __str__(self) -> str:
        """Format it for people; unknown costs are stated."""
        if not self.replies:
            return "-"
        if self.unpriced == self.replies:
            return "unknown"
        return f"${self.dollars:.4f}" + (" and more, unknown" if self.unpriced else "")


@dataclass(slots=True)
class ModelCost(Cost):
    """The cost of one model in one role; one model may plan, act and look at pictures."""

    part: Part = "plan"
    model: str = ""


@dataclass(slots=True)
class Attempt:
    """One try at a step."""

    begun: float
    """Seconds since 1970."""
    desk: str
    model: str
    ended: float = 0.0
    """When it was over or broken off."""
    outcome: Literal["", "done", "failed"] = ""
    note: str = ""
    """May be a desk's word."""
    paper: str = ""
    """Why it failed, in the worker's words."""
    rolled_back: bool = False


@dataclass(slots=True)
class StepProgress:
    """The state and cost of a step."""

    name: str
    what: str = ""
    stand: Stand = "to come"
    attempts: int = 0
    tries: list[Attempt] = field(default_factory=list)
    tools: Counter[str] = field(default_factory=Counter)
    """How often each was used."""
    failed: int = 0
    """Acts that failed."""
    unknown: set[int] = field(default_factory=set)
    """Acts of which no one knows the outcome, or not yet."""
    cost: Cost = field(default_factory=Cost)

    @property
    def acts(self) -> int:
        return self.tools.total()

    @property
    def rolled_back(self) -> int:
        return sum(each.rolled_back for each in self.tries)

    @property
    def seconds(self) -> float:
        """Return how long it took: all attempts that are over."""
        return sum(max(each.ended - each.begun, 0.0) for each in self.tries if each.ended)

    @property
    def outcome(self) -> Literal["", "done", "failed", "begun"]:
        """Return its outcome; empty if it did not begin."""
        return (self.tries[-1].outcome or "begun") if self.tries else ""


@dataclass(slots=True)
class Progress:
    """Takes a job's events in, in their order."""

    steps: dict[str, StepProgress] = field(default_factory=dict)
    """In the plan's order; after them those that were begun beside it."""
    cost: Cost = field(default_factory=Cost)
    shares: dict[tuple[str, str], ModelCost] = field(default_factory=dict)
    """The same by part and model."""
    running: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Acts under way: the tool, and since when."""
    unknown: list[str] = field(default_factory=list)
    """Acts of which no one knows what came: `17 shell`."""
    acts: int = 0
    desks: dict[str, bool] = field(default_factory=dict)
    """Every desk that was opened, and whether it is known to be gone."""
    checking: float = 0.0
    """Seconds that checks took."""
    checking_since: float = 0.0
    """When the check began that is under way."""
    current: str = ""
    """The step that is being taken."""
    over: bool = False
    worked: float = 0.0
    """Seconds of the times that are over: a job that was resumed has several."""
    since: float = 0.0
    """When the time began that it is in."""
    last: float = 0.0
    """When it was last worked at: a person may decide something while no one does."""

    def take(self, event: Event, at: float = 0.0) -> None:
        """Take an event in; `at` is seconds since 1970."""
        if not isinstance(event, JobEvent | SwarmEvent):
            return
        stood = self.over
        match event:
            case JobBegun():
                self.since = at
            case Planned(findings=()) | Amended():
                begun = {name: step for name, step in self.steps.items() if step.tries}
                self.steps = {name: begun.get(name) or StepProgress(name) for name in event.steps} | begun
            case StepBegun() | StepEnded() | RolledBack():
                self.take_step(event, at)
            case Thought() | VisionAsked() | Acted() | Observed():
                self.take_turn(event, at)
            case Resumed():
                self.worked += max(self.last - self.since, 0.0)
                self.break_off(self.last)
                self.since, self.over = at, False
            case JobPaused() | JobEnded():
                self.break_off(at)
                self.over = True
        if not (stood and self.over) and not isinstance(event, Decided):
            self.last = at

    def take_step(self, event: StepBegun | StepEnded | RolledBack, at: float) -> None:
        if event.step in OURS:
            self.take_own_step(event, at)
            return
        step = self.steps.setdefault(event.step, StepProgress(event.step))
        match event:
            case StepBegun():
                step.what, step.stand = event.what, "current"
                step.attempts = max(step.attempts + 1, event.attempt)
                step.tries.append(Attempt(at, event.desk, event.model))
                self.current = event.step
            case StepEnded():
                step.stand = event.outcome
                for last in step.tries[-1:]:
                    last.outcome, last.note, last.paper = event.outcome, event.note, event.paper
                self.leave(step, at)
            case RolledBack():
                step.stand = "rolled back"
                for last in step.tries[-1:]:
                    last.rolled_back = True
                self.leave(step, at)

    def take_own_step(self, event: StepBegun | StepEnded | RolledBack, at: float) -> None:
        match event:
            case StepBegun(step="desk"):
                self.desks[event.desk] = False
            case StepEnded(step="desk"):
                self.desks[event.desk] = event.outcome == "done"
            case StepBegun(step="verify"):
                self.checking_since = at
            case StepEnded(step="verify") if self.checking_since:
                self.checking += round(at - self.checking_since, 3)
                self.checking_since = 0.0

    def take_turn(self, event: Thought | VisionAsked | Acted | Observed, at: float) -> None:
        step = self.steps.get(event.step) or StepProgress("")  # planning is no step
        match event:
            case Thought() | VisionAsked():
                part: Part = "look" if isinstance(event, VisionAsked) else "act" if event.step else "plan"
                share = self.shares.setdefault((part, event.model), ModelCost(part=part, model=event.model))
                for cost in (self.cost, step.cost, share):
                    cost.add(event)
            case Acted():
                self.acts = max(self.acts, event.act)
                self.running[event.act] = (event.tool, at)
                step.tools[event.tool] += 1
                step.unknown.add(event.act)
            case Observed():
                self.running.pop(event.act, None)
                step.unknown.discard(event.act)
                step.failed += event.outcome == "failed"

    def leave(self, step: StepProgress, at: float) -> None:
        if step.tries and self.current == step.name:
            step.tries[-1].ended = at
            self.current = ""

    def break_off(self, at: float) -> None:
        """End what was running: its outcome was not recorded."""
        self.unknown += [f"{act} {tool}" for act, (tool, _) in sorted(self.running.items())]
        self.running.clear()
        if self.current:
            step = self.steps[self.current]
            step.stand = "to come"
            self.leave(step, at)

    def compute_elapsed(self, now: float) -> float:
        return self.worked + max((self.last if self.over else now) - self.since, 0.0)


def step_dict(step: StepProgress) -> dict[str, object]:
    """Return a step as plain data, times in milliseconds since 1970."""
    times = [{"begun": round(each.begun * 1000), "ended": round(each.ended * 1000)} for each in step.tries]
    return {
        "name": step.name,
        "intent": step.what,
        "attempts": [asdict(each) | time for each, time in zip(step.tries, times, strict=True)],
        "acts": dict(step.tools),
        "failed": step.failed,
        "unknown": sorted(step.unknown),
        "cost": asdict(step.cost),
        "outcome": step.outcome,
    }
