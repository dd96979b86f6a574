"""Writes a job's events before anything else happens, and enforces its budget."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TypeVar

import anyio

from hotdesk.brain.models.codec import call_to_json, observation_to_json, reply_to_json
from hotdesk.brain.models.seam import ModelRequest, Reply
from hotdesk.brain.seam import BudgetBalance, BudgetSpentError, JobHaltedError
from hotdesk.brief.brief import JobBudget
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable
from hotdesk.event import Acted, Event, JobEvent, Note, Observed, Planned, Thought, VisionAsked
from hotdesk.job.machine import Machine
from hotdesk.job.record.papers import Papers
from hotdesk.job.record.resume_state import Spending
from hotdesk.plan import Plan, to_json
from hotdesk.tool import Call, Observation

NAME, LONGEST = 64, 500
"""Maximum characters of a step's name and of a finding in an event: a model can write any text."""


Made = TypeVar("Made")
ASKED = "the job was asked to stop"


@dataclass(slots=True)
class JobLog:
    """The log of one job."""

    job: str
    machine: Machine
    papers: Papers
    listener: Note
    budget: JobBudget
    seconds: float
    spent: Spending = field(default_factory=Spending)
    uses: list[Event] = field(default_factory=list)
    """Tool-use events that wait to be written together with the result of the call."""
    step: str = ""
    """The step of the latest model reply; empty while the job is planned."""
    halted: bool = False
    began: float = field(default_factory=time.monotonic)
    waited: float = 0.0
    """Seconds spent waiting for people, which do not count as the job's time."""
    waits: int = 0
    """Number of waits for people under way: one may be asked something while another controls the desk."""
    waits_since: float = 0.0
    thinking: bool = False
    """Whether a model is being asked; cancelling that loses no work."""
    bound: anyio.CancelScope | None = None
    """The cancel scope that ends when the job's time is up."""

    def note(self, *events: JobEvent) -> None:
        """Write events in one commit, then notify the listener."""
        self.machine.note(*events)
        for event in events:
            self.listener(event)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Exclude the time people take to answer from the job's time."""
        if not self.waits:
            self.waits_since = time.monotonic()
        self.waits += 1
        self.set_deadline()
        try:
            yield
        finally:
            self.waits -= 1
            if not self.waits:
                self.waited += time.monotonic() - self.waits_since
            self.set_deadline()

    def set_deadline(self) -> None:
        """Set the cancel scope's deadline to the end of the job's time, or to infinity while people are waited for."""
        if self.bound is not None:
            remaining = math.inf if self.waits else max(0.0, self.seconds_left)
            self.bound.deadline = anyio.current_time() + remaining

    def use(self, event: Event) -> None:
        """Queue a tool-use event to be written with the call's result."""
        self.uses.append(event)

    @property
    def seconds_left(self) -> float:
        now = self.waits_since if self.waits else time.monotonic()
        return self.seconds - self.spent.ms / 1000 - (now - self.began - self.waited)

    def measure_balance(self) -> tuple[BudgetBalance, ...]:
        budget, spent = self.budget, self.spent
        counted: list[tuple[str, float, float | None]] = [
            ("acts", spent.acts, budget.acts),
            ("tokens", spent.tokens, budget.tokens),
            ("dollars", spent.dollars, budget.dollars),
        ]
        limits = (BudgetBalance(name, total - used, total) for name, used, total in counted if total is not None)
        return (BudgetBalance("seconds", self.seconds_left, self.seconds), *limits)

    def halt(self) -> None:
        """Ask the job to stop: after the current act, or at once if a model is being asked."""
        self.halted = True
        if self.thinking and self.bound is not None:
            self.bound.cancel()

    async def run_within_limits(self, work: Awaitable[Made], *, thinking: bool = False) -> Made:
        """Run `work` until the job's time is up or it must stop. Time spent waiting for people does not count."""
        results: list[Made] = []
        self.thinking = thinking
        try:
            with anyio.CancelScope() as self.bound:
                self.set_deadline()
                results.append(await work)
        finally:
            self.thinking, self.bound = False, None
        if not results:
            raise (
                JobHaltedError(ASKED)
                if self.halted
                else BudgetSpentError(f"the job's time limit of {self.seconds:g} seconds was reached")
            )
        return results[0]

    def check(self) -> None:
        """Raise `BudgetSpentError` or `JobHaltedError` if the job must not continue."""
        if self.halted:
            raise JobHaltedError(ASKED)
        if why := self.find_exceeded_limit(0):
            raise BudgetSpentError(why)
        self.thinking = True  # the caller asks a model next

    def is_halted(self) -> bool:
        return self.halted

    def find_exceeded_limit(self, acts: int) -> str:
        """Describe the limit that `acts` more acts would exceed; return `""` if none."""
        budget, spent = self.budget, self.spent
        if self.seconds_left > 0 and budget.acts is not None and spent.acts + max(acts, 1) > budget.acts:
            return f"the job's budget of {budget.acts} acts is used up"
        return self.find_spent_budget()

    def find_spent_budget(self) -> str:
        """Describe the limit that forbids further model requests; return `""` if none."""
        budget, spent = self.budget, self.spent
        if self.seconds_left <= 0:
            return f"the job's time limit of {self.seconds:g} seconds was reached"
        if budget.tokens is not None and spent.budget_tokens >= budget.tokens:
            return f"the job's budget of {budget.tokens:,} tokens is used up"
        if budget.dollars is not None and spent.dollars >= budget.dollars:
            return f"the job's budget of {budget.dollars:g} dollars is used up"
        return ""

    def note_reply(self, step: str, request: ModelRequest, reply: Reply, ms: int) -> list[int]:
        self.thinking = not step
        self.step = step
        event = self.count_reply(step, reply, ms)
        if not step:  # a planner's calls are not carried out
            self.note(event)
            return [0] * len(reply.calls)
        calls = reply.calls
        if calls and (why := self.find_exceeded_limit(len(calls))):
            self.note(event)
            raise BudgetSpentError(why)
        first = self.spent.acts + 1
        acts = [
            Acted(
                self.job,
                step,
                first + place,
                _sanitize_tool_name(call.tool),
                self.papers.write(json.dumps(call_to_json(call))),
            )
            for place, call in enumerate(calls)
        ]
        self.spent.acts += len(acts)
        self.note(event, *acts)
        return [act.act for act in acts]

    def note_unused(self, step: str, reply: Reply) -> None:
        self.note(replace(self.count_reply(step, reply, 0), is_unused=True))

    def count_reply(self, step: str, reply: Reply, ms: int) -> Thought:
        """Charge the budget for a reply; return its event."""
        used = reply.usage
        paper = self.papers.write(json.dumps(reply_to_json(reply)))
        event = Thought(
            *(self.job, step, self.spent.replies + 1, reply.model, paper),
            *(used.input, used.output, used.cached, used.up, ms),
            -1.0 if used.dollars is None else used.dollars,
            reply.address,
            used.stored,
        )
        self.spent.add(event)
        return event

    def note_look(self, question: str, reply: Reply, ms: int) -> None:
        """Record a vision model's question, answer and cost, on disk when this returns, and charge the budget."""
        used, failed = reply.usage, reply.stop == "refused"
        paper = self.papers.write(json.dumps({"question": question, "answer": reply.text}))
        event = VisionAsked(
            *(self.job, self.step, reply.model, paper, "failed" if failed else "done"),
            *(used.input, used.output, used.cached, used.stored, used.up, ms),
            -1.0 if used.dollars is None else used.dollars,
        )
        self.spent.add(event)
        self.note(event)

    def note_observation(self, step: str, act: int, call: Call, observation: Observation, ms: int) -> str:
        """Write a call's result and the queued events in one commit; return the name of the result's paper."""
        if not step:
            return ""
        uses, self.uses = self.uses, []
        paper = self.papers.write(json.dumps(observation_to_json(observation)))
        result = Observed(self.job, step, act, "done" if observation.ok else "failed", ms, paper)
        self.machine.note(*uses, result)
        for event in (*uses, result):
            self.listener(event)
        return paper

    def note_plan(self, plan: Plan, round_number: int, findings: Sequence[str]) -> None:
        names = tuple(make_printable(step.name[:NAME]) for step in plan.steps)
        texts = tuple(make_printable(each[:LONGEST]) for each in findings)
        paper = self.papers.write(to_json(plan))
        self.note(Planned(self.job, plan.digest, names, paper, round_number, texts))


def _sanitize_tool_name(tool: str) -> str:
    """Return a tool's name, or `?` if it is not a short identifier: a model can write any text."""
    return tool if tool.isascii() and tool.isidentifier() and len(tool) <= 64 else "?"
