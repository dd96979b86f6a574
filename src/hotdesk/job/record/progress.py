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
"""Number of cached tokens that a budget counts as one: providers charge about a tenth for them."""
Part: TypeAlias = Literal["plan", "act", "look"]
Stand: TypeAlias = Literal["to come", "current", "done", "failed", "rolled back"]


@dataclass(slots=True)
class Cost:
    """The cost of replies."""

    dollars: float = 0.0
    """Approximate cost of the replies whose price is known."""
    unpriced: int = 0
    """Number of replies whose price is unknown."""
    replies: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    """Tokens read from the provider's cache."""
    up: int = 0
    """Bytes sent to providers."""
    stored: int = 0
    """Tokens written to the provider's cache."""

    @property
    def read(self) -> int:
        """Tokens read, without those from the provider's cache; a provider may count those it stores there apart."""
        return self.input + self.stored

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cached + self.stored

    @property
    def budget_tokens(self) -> int:
        """Tokens as a budget counts them: cached tokens, resent with every turn, count a tenth."""
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
        """Format the cost for people, and state if some of it is unknown."""
        if not self.replies:
            return "-"
        if self.unpriced == self.replies:
            return "unknown"
        return f"${self.dollars:.4f}" + (" and more, unknown" if self.unpriced else "")


@dataclass(slots=True)
class ModelCost(Cost):
    """The cost of one model in one role; the same model may plan, act and look at pictures."""

    part: Part = "plan"
    model: str = ""


@dataclass(slots=True)
class Attempt:
    """One try at a step."""

    begun: float
    """Start time in seconds since 1970."""
    desk: str
    model: str
    ended: float = 0.0
    """Time it ended or was interrupted, in seconds since 1970; 0 while it runs."""
    outcome: Literal["", "done", "failed"] = ""
    note: str = ""
    """Note about the outcome; it may be a desk's words."""
    paper: str = ""
    """Paper with the reason of a failure in the worker's words."""
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
    """Number of uses by tool."""
    failed: int = 0
    """Number of failed acts."""
    unknown: set[int] = field(default_factory=set)
    """Numbers of the acts whose outcome is not recorded."""
    cost: Cost = field(default_factory=Cost)

    @property
    def acts(self) -> int:
        return self.tools.total()

    @property
    def rolled_back(self) -> int:
        return sum(each.rolled_back for each in self.tries)

    @property
    def seconds(self) -> float:
        """Duration of all attempts that have ended."""
        return sum(max(each.ended - each.begun, 0.0) for each in self.tries if each.ended)

    @property
    def outcome(self) -> Literal["", "done", "failed", "begun"]:
        """Outcome of the latest attempt, `begun` while it has none, or `""` if the step was not started."""
        return (self.tries[-1].outcome or "begun") if self.tries else ""


@dataclass(slots=True)
class Progress:
    """Folds a job's events, which must come in order."""

    steps: dict[str, StepProgress] = field(default_factory=dict)
    """In the plan's order, followed by started steps that are not in the plan."""
    cost: Cost = field(default_factory=Cost)
    shares: dict[tuple[str, str], ModelCost] = field(default_factory=dict)
    """The same cost by part and model."""
    running: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Tool and start time of each act under way."""
    unknown: list[str] = field(default_factory=list)
    """Acts with an unknown outcome, such as `17 shell`."""
    acts: int = 0
    desks: dict[str, bool] = field(default_factory=dict)
    """Every opened desk, and whether it is known to be burnt."""
    checking: float = 0.0
    """Seconds spent in checks."""
    checking_since: float = 0.0
    """Start time of the check under way; 0 if there is none."""
    current: str = ""
    """The step under way."""
    over: bool = False
    worked: float = 0.0
    """Seconds of the periods of work that have ended: a resumed job has several."""
    since: float = 0.0
    """Start time of the current period of work."""
    last: float = 0.0
    """Time of the last event of work. A decision by a person while the job does not run is not counted."""

    def take(self, event: Event, at: float = 0.0) -> None:
        """Apply an event; `at` is in seconds since 1970."""
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
        step = self.steps.get(event.step) or StepProgress("")  # planning is not a step
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
        """Mark the acts under way as unknown, and the current step as not done."""
        self.unknown += [f"{act} {tool}" for act, (tool, _) in sorted(self.running.items())]
        self.running.clear()
        if self.current:
            step = self.steps[self.current]
            step.stand = "to come"
            self.leave(step, at)

    def compute_elapsed(self, now: float) -> float:
        return self.worked + max((self.last if self.over else now) - self.since, 0.0)


def step_dict(step: StepProgress) -> dict[str, object]:
    """Return a step as plain data with times in milliseconds since 1970."""
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
