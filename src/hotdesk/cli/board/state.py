"""The state of a running job for the live view, folded from its events and those of its desks."""

from __future__ import annotations

import json
from dataclasses import field

from hotdesk.brief.brief import JobBudget
from hotdesk.dataclass import dataclass
from hotdesk.errors import HostError
from hotdesk.event import (
    Acted,
    Alarm,
    Amended,
    Answered,
    Asked,
    Burnt,
    Checkpointed,
    Event,
    Exchange,
    JobBegun,
    JobEnded,
    Observed,
    Planned,
    StepBegun,
    Thought,
    Used,
)
from hotdesk.job.people.wait import OpenQuestions
from hotdesk.job.record.papers import Papers
from hotdesk.job.record.progress import Progress

_MAX_THOUGHT_CHARS = 2000
"""Maximum characters of a thought that are read."""


@dataclass(frozen=True, slots=True)
class ShownLimits:
    """The limits of the job that are shown."""

    seconds: float | None = None
    budget: JobBudget = field(default_factory=JobBudget)


@dataclass(slots=True)
class State:
    """The displayed state of one job."""

    papers: Papers | None = None
    limits: ShownLimits = ShownLimits()
    course: Progress = field(default_factory=Progress)
    waiting: OpenQuestions = field(default_factory=OpenQuestions)
    questions: dict[str, Asked] = field(default_factory=dict)
    """Open access requests of its desks, by id."""
    job: str = ""
    goal: str = ""
    brain: str = ""
    model: str = ""
    """The model that carries out the step."""
    thought: str = ""
    """The model's latest words."""
    tool: str = ""
    """The latest tool; the next fields have its outcome, duration and fallback."""
    outcome: str = ""
    ms: int = 0
    fallback: str = ""
    admitted: int = 0
    refused: int = 0
    refused_host: str = ""
    """Host of the last refused request, as the desk gave it."""
    alarms: int = 0
    checkpoints: int = 0
    checkpoint: int = 0
    """Bytes of the latest checkpoint."""

    @property
    def desks(self) -> list[str]:
        return [desk for desk, gone in self.course.desks.items() if not gone]

    def take(self, event: Event, at: float) -> None:
        """Apply an event; `at` is in seconds since 1970."""
        tools = dict(self.course.running)
        self.course.take(event, at)
        self.waiting.take(event)
        match event:
            case JobBegun():
                self.job, self.goal, self.brain = event.job, " ".join(event.goal.split()), event.brain
            case Planned(findings=()) | Amended():
                self.read_plan(event.paper)
            case StepBegun() if event.model and event.step != "desk":
                self.model = event.model
            case Thought() if not event.is_unused:
                self.thought = extract_words(self.read_paper(event.paper)) or self.thought
            case Acted():
                self.tool, self.outcome, self.fallback = event.tool, "", ""
            case Observed():
                self.tool = tools.get(event.act, (self.tool, 0.0))[0]
                self.outcome, self.ms = event.outcome, event.ms
            case Checkpointed():
                self.checkpoints, self.checkpoint = self.checkpoints + 1, event.size
            case JobEnded():
                self.questions.clear()
            case _:
                self.take_desk(event)

    def take_desk(self, event: Event) -> None:
        match event:
            case Exchange() if event.step:  # before its first step a desk only runs the door's self-test
                self.admitted += not event.refused
                if event.refused:
                    self.refused, self.refused_host = self.refused + 1, event.host
            case Used():
                self.fallback = event.fallback
                if not self.course.acts:
                    self.tool, self.outcome, self.ms = event.tool, event.outcome, event.ms
            case Alarm():
                self.alarms += 1
            case Asked():
                self.questions[event.id] = event
            case Answered():
                self.questions.pop(event.id, None)
            case Burnt():
                self.questions = {name: each for name, each in self.questions.items() if each.desk != event.desk}

    def read_paper(self, name: str) -> str:
        """Return a paper's text, or `""` if it cannot be read."""
        if self.papers is None:
            return ""
        try:
            return self.papers.read_text(name)
        except (HostError, ValueError):
            return ""

    def read_plan(self, paper: str) -> None:
        for name, intent in plan_intents(self.read_paper(paper)).items():
            if name in self.course.steps:
                self.course.steps[name].what = intent


def plan_intents(paper: str) -> dict[str, str]:
    """Return the steps' intents from a plan's paper; none if it cannot be parsed."""
    try:
        return {str(step["name"]): str(step["intent"]) for step in json.loads(paper)["steps"]}
    except (ValueError, KeyError, TypeError):
        return {}


def extract_words(paper: str) -> str:
    """Return a reply's thought, or else its text, as one line."""
    try:
        data = json.loads(paper)
    except ValueError:
        data = {"text": paper}
    if isinstance(data, dict):
        data = data.get("reply", data)
    if not isinstance(data, dict):
        return ""
    text = next((data[key] for key in ("thought", "text") if isinstance(data.get(key), str) and data[key].strip()), "")
    return " ".join(text[:_MAX_THOUGHT_CHARS].split())
