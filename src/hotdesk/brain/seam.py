"""The seam of brains: plan, and carry out each step at a stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from hotdesk.brain.models.seam import Item, ModelRequest, Reply
from hotdesk.brain.notes import Notes
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError
from hotdesk.plan import Plan, Step
from hotdesk.tool import Call, Observation, Stage, Tool


@dataclass(frozen=True, slots=True)
class PlanningTask:
    """The input of a planner: names of files, made printable; the only content is the description of the work."""

    goal: str
    inputs: tuple[str, ...]
    """Names below the home folder; for a folder, some names of its files, and their number."""
    deliverables: tuple[str, ...]
    """One text each: its path with the names of its checks, `PATH (CHECK, …)`, then its requirements, one on each line.
    Written by `checks.required.describe_deliverable`."""
    rules: tuple[str, ...]
    """Egress rules of the brief, as text."""
    grants: tuple[str, ...]
    """Grants of the brief as text: name, host and place."""
    tools: tuple[Tool, ...]
    """All tools the brief allows at this desk."""
    limits: str
    """The budget, in a line."""
    memory: tuple[str, ...] = ()
    """Files that earlier jobs stored, a line each in hotdesk's words: name, size and age, never the content."""
    keeps_memory: bool = False
    """Whether workers may store something for later jobs."""
    desk: str = ""
    """The computer: its system, programs, libraries and size, in a few sentences."""
    walls: tuple[str, ...] = ()
    """Walls that a step may ask for in `wall`, a line each, the weakest first; empty if there is no choice."""
    description: str = ""
    """The text of `TASK.md` if the goal names it and it is small. It is untrusted, so it is quoted."""


@dataclass(frozen=True, slots=True)
class BudgetBalance:
    """The remaining part of one limit of the budget."""

    name: str
    """The unit: `seconds`, `acts`, `tokens`, `dollars`."""
    amount: float
    total: float


@dataclass(frozen=True, slots=True)
class Situation:
    """The information a worker has when it carries out a step."""

    task: PlanningTask
    plan: Plan
    step: Step
    summaries: tuple[tuple[str, str], ...] = ()
    """Name of each finished step, with its worker's summary."""
    before: str = ""
    """What happened to earlier attempts at this step, in words of hotdesk and the desk; for scripts."""
    history: tuple[Item, ...] = ()
    """The conversation so far, if a step is resumed in the middle."""
    attempt: int = 1
    attempts: int = 1
    """The number of the last attempt that is made if all fail."""
    findings: tuple[str, ...] = ()
    """Findings of the last delivery's checks: instructions for fixing it."""
    failure: str = ""
    """How the last unfinished or interrupted attempt ended."""
    last_summary: str = ""
    """The worker's summary of the last finished attempt at this step."""
    workspace: str = ""
    """What an earlier attempt left at this desk, in a sentence."""
    obstacle: str = ""
    """Why the step's own check cannot run at this desk, and what to do about it."""
    deliverables: tuple[str, ...] = ()
    """The task's deliverables that this step makes."""
    deliveries: int = 0
    """How often a deliverable that fails its checks may still be sent back; at 0 the next delivery is the last."""
    network: str = ""
    """What this step can reach, in a few sentences."""
    memory: tuple[tuple[str, str], ...] = ()
    """Facts that earlier jobs stored: the origin of each in hotdesk's words, and the text of a worker."""
    memory_files: tuple[str, ...] = ()
    """Files that earlier jobs stored, a line each in hotdesk's words."""
    description: str = ""
    """The task's description, if the file is at this step's desk."""
    secrets: tuple[str, ...] = ()
    """The secrets of this step: each with the variable of its placeholder, or how it is attached. Never a value."""
    balance: Callable[[], tuple[BudgetBalance, ...]] = tuple
    """Returns what is left of the budget at that moment."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """How a worker ended a step."""

    done: bool
    summary: str
    """What the next steps should know, or why the step could not be done; in the words of a worker or a desk."""
    why: str = "the step failed"
    """Why the step could not be done, in hotdesk's words, which are recorded permanently."""


class Log(Protocol):
    """Records what a brain does, and enforces its budget."""

    def note_reply(self, step: str, request: ModelRequest, reply: Reply, ms: int) -> list[int]:
        """Record a reply before its calls are used; return each call's number. It is on disk when this returns.

        Without a step the reply is planning: its calls are not acts and have no numbers. Raises `BudgetSpentError`
        before a call that the budget does not cover.
        """
        ...

    def note_unused(self, step: str, reply: Reply) -> None:
        """Record the cost of a reply that is not used: its model refused, or the conversation did not fit."""
        ...

    def note_observation(self, step: str, act: int, call: Call, observation: Observation, ms: int) -> str:
        """Record the result of a call; return the name of the paper that stores it."""
        ...

    def note_plan(self, plan: Plan, round_number: int, findings: Sequence[str]) -> None:
        """Record a plan and the findings against it."""
        ...

    def check(self) -> None:
        """Raise `BudgetSpentError` if the budget is used up, `JobHaltedError` if the job must stop here."""
        ...

    def is_halted(self) -> bool:
        """Return whether the job was asked to stop, so that no further call may be carried out."""
        ...


class BudgetSpentError(Exception):
    """A budget is used up; the text says which."""


class JobHaltedError(Exception):
    """The job must stop between two acts, and can be resumed."""


class PlanningError(BriefError):
    """The planner gave no plan within the brief: a failure of its work, not of hotdesk."""


class Brain(Protocol):
    """Plans and acts."""

    @property
    def name(self) -> str:
        """Return its name for people."""
        ...

    @property
    def sees(self) -> bool:
        """Return whether every model that may carry out a step accepts pictures."""
        ...

    def recall(self, notes: Notes) -> None:
        """Use these notes from now on."""
        ...

    async def plan(self, task: PlanningTask, log: Log) -> Plan:
        """Return a plan that passes the audit; raises `PlanningError` if there is none."""
        ...

    async def act(self, situation: Situation, stage: Stage, log: Log) -> StepOutcome:
        """Carry out one step. A failed step is a result; raises `ModelError` if no model replies."""
        ...

    async def close(self) -> None:
        """Close connections. A second call does nothing."""
        ...
