"""The course of one job, folded from its events as they come: its steps, what it cost, which acts are under way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

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
    Thought,
)
from hotdesk.plan import OURS

Stand: TypeAlias = Literal["to come", "current", "done", "failed", "rolled back"]


@dataclass(slots=True)
class Cost:
    """What one model cost, in one part: who plans and who acts may be the same."""

    part: Literal["plan", "act"]
    model: str
    replies: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    up: int = 0
    """Bytes its provider was told."""
    ms: int = 0
    dollars: float = 0.0
    """Of the replies whose price is known, about."""
    unpriced: int = 0
    """Replies whose price is not known."""

    def add(self, thought: Thought) -> None:
        """Count one reply."""
        self.replies += 1
        self.input += thought.input
        self.output += thought.output
        self.cached += thought.cached
        self.up += thought.up
        self.ms += thought.ms
        self.dollars += max(thought.dollars, 0.0)
        self.unpriced += thought.dollars < 0


@dataclass(slots=True)
class Taken:
    """How far a step is."""

    name: str
    what: str = ""
    stand: Stand = "to come"
    attempts: int = 0
    acts: int = 0
    rolled_back: int = 0
    seconds: float = 0.0
    """Of all attempts that are over."""
    note: str = ""
    """Why it failed; maybe a desk's word."""


@dataclass(slots=True)
class Course:
    """Takes a job's events in, in their order."""

    steps: dict[str, Taken] = field(default_factory=dict)
    """In the plan's order; after them those that were begun beside it."""
    costs: dict[tuple[str, str], Cost] = field(default_factory=dict)
    running: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Acts under way: the tool, and since when."""
    unknown: list[str] = field(default_factory=list)
    """Acts of which nobody knows what came: `17 shell`."""
    acts: int = 0
    current: str = ""
    """The step that is being taken."""
    over: bool = False
    worked: float = 0.0
    """Seconds of the times that are over: a job that was resumed has several."""
    since: float = 0.0
    """When the time began that it is in."""
    step_since: float = 0.0
    """When the current step began."""
    last: float = 0.0
    """When it was last worked at: a person may decide something while nobody does."""

    def take(self, event: Event, at: float = 0.0) -> None:
        """Take an event in; `at` is seconds since 1970."""
        if not isinstance(event, JobEvent):
            return
        stood = self.over
        match event:
            case JobBegun():
                self.since = at
            case Planned(findings=()) | Amended():
                begun = {name: step for name, step in self.steps.items() if step.attempts}
                self.steps = {name: begun.get(name) or Taken(name) for name in event.steps} | begun
            case StepBegun() | StepEnded() | RolledBack():
                self.take_step(event, at)
            case Thought():
                part: Literal["plan", "act"] = "act" if event.step else "plan"
                self.costs.setdefault((part, event.model), Cost(part, event.model)).add(event)
            case Acted():
                self.take_act(event, at)
            case Observed():
                self.running.pop(event.act, None)
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
        """Take in how far a worker's step is."""
        if event.step in OURS:
            return
        step = self.steps.setdefault(event.step, Taken(event.step))
        match event:
            case StepBegun():
                step.what, step.stand = event.what, "current"
                step.attempts = max(step.attempts + 1, event.attempt)
                self.current, self.step_since = event.step, at
            case StepEnded():
                step.stand, step.note = event.outcome, event.note
                self.leave(step, at)
            case RolledBack():
                step.stand, step.note = "rolled back", event.why
                step.rolled_back += 1
                self.leave(step, at)

    def take_act(self, event: Acted, at: float) -> None:
        """Take in that a tool is about to be used."""
        self.acts = max(self.acts, event.act)
        self.running[event.act] = (event.tool, at)
        if event.step in self.steps:
            self.steps[event.step].acts += 1

    def leave(self, step: Taken, at: float) -> None:
        """Count a step's time, once."""
        if self.current == step.name:
            step.seconds += max(at - self.step_since, 0.0)
            self.current = ""

    def break_off(self, at: float) -> None:
        """End what was under way: what came of it nobody wrote down."""
        self.unknown += [f"{act} {tool}" for act, (tool, _) in sorted(self.running.items())]
        self.running.clear()
        if self.current:
            step = self.steps[self.current]
            step.stand = "to come"
            self.leave(step, at)

    def elapsed(self, now: float) -> float:
        """Give how long the job was worked at, in seconds."""
        return self.worked + max((self.last if self.over else now) - self.since, 0.0)
