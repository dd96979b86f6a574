"""Computes figures from a job's events. Pure, so that they can be computed again from a recorded job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from hotdesk.brain.models.record import RecordedLine
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable
from hotdesk.evaluation.grade import Grade
from hotdesk.event import (
    Acted,
    Event,
    JobBegun,
    JobEnded,
    JobPaused,
    RolledBack,
    SentBack,
    StepEnded,
    Thought,
    Verified,
)

Outcome: TypeAlias = Literal["passed", "failed", "broken"]
"""`broken`: the task could not be run, through a fault of the task or of hotdesk, not of the worker."""
_MAX_FAILURE_CHARS = 300


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens, cost and time of models."""

    input: int = 0
    """Input tokens that were not cached."""
    output: int = 0
    cached: int = 0
    """Input tokens read from or written to the provider's cache."""
    dollars: float | None = 0.0
    """`None`: the price of at least one reply is unknown."""
    ms: int = 0
    """Milliseconds until replies arrived."""

    def add(self, other: ModelUsage) -> ModelUsage:
        unknown = self.dollars is None or other.dollars is None
        return ModelUsage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            None if unknown else (self.dollars or 0.0) + (other.dollars or 0.0),
            self.ms + other.ms,
        )


@dataclass(frozen=True, slots=True)
class JobFigures:
    """Figures from the events of one job."""

    outcome: str = "unknown"
    """`done`, `failed`, `broken`, `interrupted` or `paused`; `unknown` if the events do not show it."""
    model: str = ""
    """The name of the brain that planned and acted."""
    passed_checks_first: bool = False
    """Whether every deliverable passed its checks at the first delivery."""
    turns: int = 0
    tool_calls: int = 0
    usage: ModelUsage = ModelUsage()
    waiting_ms: int = 0
    """Milliseconds that this job itself waited for replies; in a replay, not those of the recording."""
    turns_by_step: Mapping[str, int] = field(default_factory=dict)
    """Number of replies for each step; planning is the step with an empty name."""
    failure: str = ""
    """The first delivery that failed its checks, otherwise the reason why the job did not succeed; empty: neither."""
    step_failure: str = ""
    """The first failed attempt at a step; empty: none."""
    is_stalled: bool = False
    """Whether the job was paused by its models' provider or by the machine."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one run of a task."""

    task: str
    seed: int
    outcome: Outcome
    first_delivery: bool = False
    """Whether the first delivery passed its checks and the hidden grader passed it."""
    figures: JobFigures = JobFigures()
    seconds: float = 0.0
    """Seconds the job took, models included."""
    faults: tuple[str, ...] = ()
    """The grader's findings."""
    failure: str = ""
    """The first failure in one line; empty: none."""

    @property
    def own_seconds(self) -> float:
        """Return the job's seconds without the time it waited for models."""
        return max(0.0, self.seconds - self.figures.waiting_ms / 1000)


def score_job(events: Iterable[Event]) -> JobFigures:
    every = list(events)
    thoughts = [event for event in every if isinstance(event, Thought)]
    usage = ModelUsage()
    for thought in thoughts:
        usage = usage.add(_get_usage(thought))
    outcome = _find_outcome(every)
    return JobFigures(
        outcome=outcome,
        model=next((event.brain for event in every if isinstance(event, JobBegun)), ""),
        passed_checks_first=outcome == "done" and not any(map(_is_failed_delivery, every)),
        turns=len(thoughts),
        tool_calls=sum(isinstance(event, Acted) for event in every),
        usage=usage,
        waiting_ms=usage.ms,
        turns_by_step=Counter(thought.step for thought in thoughts),
        failure=next((text for text in map(_describe_failure, every) if text), ""),
        step_failure=next((text for text in map(_describe_step_failure, every) if text), ""),
        is_stalled=_is_stalled(every),
    )


def judge(task: str, seed: int, figures: JobFigures, grade: Grade | None, seconds: float) -> TaskResult:
    """Return the result of a run. `grade` is `None` if the job delivered nothing."""
    passed = figures.outcome == "done" and grade is not None and grade.passed
    faults = grade.faults if grade is not None else ()
    outcome: Outcome = "passed" if passed else "failed"
    if not passed and (figures.outcome == "broken" or figures.is_stalled or not figures.turns):
        outcome = "broken"
    ended = "" if figures.outcome == "done" else _describe_end(figures.outcome)
    failure = figures.failure or shorten(faults[0] if faults else "") or ended or figures.step_failure
    first = passed and figures.passed_checks_first
    return TaskResult(task, seed, outcome, first, figures, seconds, faults, failure)


def add_recorded_usage(figures: JobFigures, lines: Sequence[RecordedLine]) -> JobFigures:
    """Return a replayed job's figures with the usage of the recorded replies: a replay itself costs nothing."""
    by_step: defaultdict[str, list[ModelUsage]] = defaultdict(list)
    for line in lines:
        if line.reply is not None:
            tokens = line.reply.usage
            cached = tokens.cached + tokens.stored
            one = ModelUsage(tokens.input, tokens.output, cached, tokens.dollars, line.ms)
            by_step[line.request.step].append(_without_unknown(one))
    usage = ModelUsage()
    for step, turns in figures.turns_by_step.items():
        for one in by_step[step][:turns]:
            usage = usage.add(one)
    return replace(figures, usage=usage)


def shorten(text: str) -> str:
    line = make_printable(" ".join(text.split()))
    return line if len(line) <= _MAX_FAILURE_CHARS else f"{line[: _MAX_FAILURE_CHARS - 1]}…"


def _get_usage(thought: Thought) -> ModelUsage:
    dollars = thought.dollars if thought.dollars >= 0 else None
    return _without_unknown(ModelUsage(thought.input, thought.output, thought.cached, dollars, thought.ms))


def _without_unknown(usage: ModelUsage) -> ModelUsage:
    """Return the usage with zero cost if no token was used and the price is unknown, as for a script."""
    return usage if usage.input or usage.output or usage.cached else replace(usage, dollars=usage.dollars or 0.0)


def _find_outcome(events: Sequence[Event]) -> str:
    for event in reversed(events):
        if isinstance(event, JobEnded):
            return event.outcome
        if isinstance(event, JobPaused):
            return "paused"
    return "unknown"


def _is_stalled(events: Sequence[Event]) -> bool:
    ends = [event for event in events if isinstance(event, JobPaused | JobEnded)]
    return bool(ends) and isinstance(last := ends[-1], JobPaused) and last.cause in ("model", "machine")


def _describe_end(outcome: str) -> str:
    if outcome == "unknown":
        return "the job's events record no end; see `hotdesk show JOB`"
    return f"the job ended as {outcome}"


def _is_failed_delivery(event: Event) -> bool:
    return isinstance(event, SentBack) or (isinstance(event, Verified) and event.outcome == "failed")


def _describe_failure(event: Event) -> str:
    match event:
        case Verified(outcome="failed"):
            return shorten(f"{event.path} failed the check {event.check}: {next(iter(event.findings), '')}")
        case SentBack():
            return shorten(f"{event.path} was sent back to the step {event.step}")
        case JobPaused():
            return shorten(f"the job stopped: {event.why}")
        case JobEnded() if event.outcome != "done":
            return shorten(f"the job ended as {event.outcome}: {event.why}")
    return ""


def _describe_step_failure(event: Event) -> str:
    match event:
        case StepEnded(outcome="failed"):
            return shorten(f"step {event.step}: {event.note}")
        case RolledBack():
            return shorten(f"step {event.step}: {event.why}")
    return ""
