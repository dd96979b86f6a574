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
    """The input of a planner: names of files, made safe to read, and of contents only the description of the work."""

    goal: str
    inputs: tuple[str, ...]
    """Names below the home folder; of a folder a few of its files' names, and how many there are."""
    deliverables: tuple[str, ...]
    """Each in some lines: its path with the names of its checks, `PATH (CHECK, …)`; then what it must be to pass, a
    sentence a line. `checks.required.describe_deliverable` writes them."""
    rules: tuple[str, ...]
    """Where the brief lets a desk go, as text."""
    grants: tuple[str, ...]
    """Secrets the brief grants: name, host and place, as text."""
    tools: tuple[Tool, ...]
    """All the brief allows at this desk."""
    limits: str
    """The budget, in a line."""
    memory: tuple[str, ...] = ()
    """What earlier jobs left, a line each in our words: name, size and age. Never what it says."""
    keeps_memory: bool = False
    """Whether workers may leave something for later jobs."""
    desk: str = ""
    """The computer: its system, programs, libraries and size, in a few sentences."""
    walls: tuple[str, ...] = ()
    """What a step may ask for in `wall`, a line each, from the weakest; nothing where there is no choice."""
    description: str = ""
    """The text of `TASK.md`, where the goal names it and it is small; its author may be anybody, so it is quoted."""


@dataclass(frozen=True, slots=True)
class BudgetBalance:
    """The rest of one limit of the budget."""

    name: str
    """The unit: `seconds`, `acts`, `tokens`, `dollars`."""
    amount: float
    total: float


@dataclass(frozen=True, slots=True)
class Situation:
    """The information a worker has when it takes a step."""

    task: PlanningTask
    plan: Plan
    step: Step
    summaries: tuple[tuple[str, str], ...] = ()
    """Of each finished step: its name, and what its worker left to know."""
    before: str = ""
    """What happened to earlier attempts at this step, if there were any; our words and the desk's. For scripts."""
    history: tuple[Item, ...] = ()
    """The conversation so far, where a step goes on amid itself."""
    attempt: int = 1
    attempts: int = 1
    """The number of the last attempt, if this one and those after it fail."""
    findings: tuple[str, ...] = ()
    """What the checks of the last delivery found: instructions for fixing it."""
    failure: str = ""
    """How the last attempt ended that was not finished, or was broken off."""
    last_summary: str = ""
    """What the worker of the last finished attempt at this step wrote about it."""
    workspace: str = ""
    """What an earlier attempt left at the desk of this one, in a sentence."""
    obstacle: str = ""
    """Why the step's own check cannot run at this desk, and what to do about it."""
    deliverables: tuple[str, ...] = ()
    """Those of the task's deliverables that this step makes."""
    deliveries: int = 0
    """How often a deliverable that fails its checks may still be sent back; 0: the next delivery is the last."""
    network: str = ""
    """What this step can reach, in a few sentences."""
    memory: tuple[tuple[str, str], ...] = ()
    """Facts that earlier jobs left: where each comes from, in our words, and the words of some worker."""
    memory_files: tuple[str, ...] = ()
    """Files that earlier jobs left, a line each in our words."""
    description: str = ""
    """The task's description, where the file is at this step's desk."""
    secrets: tuple[str, ...] = ()
    """Each secret of this step: the variable of its placeholder, or how it is attached. Never a value."""
    balance: Callable[[], tuple[BudgetBalance, ...]] = tuple
    """Gives what is left of the budget at that moment."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """How a worker ended a step."""

    done: bool
    summary: str
    """What the next steps should know; or why it could not be done. A worker's or a desk's words."""
    why: str = "the step failed"
    """Why it could not be done, in our words: these are written down for ever."""


class Log(Protocol):
    """Takes down what a brain does before and after it is done, and keeps its budget."""

    def note_reply(self, step: str, request: ModelRequest, reply: Reply, ms: int) -> list[int]:
        """Record a reply before its calls are used; return each call's number. On disk when it returns.

        Without a step the reply is planning: its calls are not acts and have no numbers. Raises
        `BudgetSpentError` before a call that the budget does not cover.
        """
        ...

    def note_observation(self, step: str, act: int, call: Call, observation: Observation, ms: int) -> str:
        """Record the result of a call; return the paper that holds it."""
        ...

    def note_plan(self, plan: Plan, round_number: int, findings: Sequence[str]) -> None:
        """Record a plan and the findings against it."""
        ...

    def check(self) -> None:
        """Raise `BudgetSpentError` when the budget is used up, `JobHaltedError` when the job must stop here."""
        ...


class BudgetSpentError(Exception):
    """A budget is used up: says which."""


class JobHaltedError(Exception):
    """The job must stop between two acts, and be resumable."""


class PlanningError(BriefError):
    """The planner gave no plan within the brief: a failure of its work, not of hotdesk."""


class Brain(Protocol):
    """Plans and acts."""

    @property
    def name(self) -> str:
        """Return its name as people read it."""
        ...

    @property
    def sees(self) -> bool:
        """Return whether every model that may take a step accepts pictures."""
        ...

    def recall(self, notes: Notes) -> None:
        """Set the notes to remember from now on."""
        ...

    async def plan(self, task: PlanningTask, log: Log) -> Plan:
        """Return a plan that passes the audit; raises `PlanningError` if there is none."""
        ...

    async def act(self, situation: Situation, stage: Stage, log: Log) -> StepOutcome:
        """Take one step. A failed step is a result; raises `ModelError` when no model answers."""
        ...

    async def close(self) -> None:
        """Close connections. A second call does nothing."""
        ...
