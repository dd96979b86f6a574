"""Work on one item: open its desk, carry out the plan's steps, fetch the results, burn the desk."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field, replace

import anyio

from hotdesk.brain.permits import select_grants, select_tools
from hotdesk.brain.seam import Brain, PlanningTask, Situation
from hotdesk.brief import CLOSED, Scope
from hotdesk.brief.brief import ITEM, Brief, Deliverable, Each, locate_input
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import FileError, make_printable
from hotdesk.event import Event
from hotdesk.job.desks import Desks, remove_tree
from hotdesk.job.machine import Machine
from hotdesk.job.plans import Plans
from hotdesk.job.stage import StepStage
from hotdesk.job.steps import PROFILE
from hotdesk.job.surroundings import describe_network, describe_secrets
from hotdesk.job.verify import Candidate
from hotdesk.plan import Plan, Step
from hotdesk.swarm.fill import fill_brief, fill_plan, fill_scope, fill_text
from hotdesk.swarm.item_log import ItemBudgetError, ItemLog
from hotdesk.swarm.items import Item
from hotdesk.swarm.ledger import SwarmLedger
from hotdesk.tool import Arguments, Observation, Vision

MAX_RESULT_BYTES = 16 << 20
"""Maximum bytes of one deliverable of one item."""
FROZEN = (
    "The plan of a swarm is fixed before its items are read, and no person can be asked about one item. Do what the "
    "plan allows, or call give_up and say what is missing."
)


class ItemFailedError(Exception):
    """A failed attempt at an item: the reason, in hotdesk's own words, and the kind of failure."""

    def __init__(self, why: str, cause: str, detail: str = "") -> None:
        super().__init__(why)
        self.why, self.cause, self.detail = why, cause, detail


@dataclass(slots=True)
class ItemAttempt:
    """One attempt at an item: its desk, log and results."""

    number: int
    desk: str = ""
    log: ItemLog | None = None
    candidates: list[Candidate] = field(default_factory=list)
    failure: str = ""

    def as_json(self) -> dict[str, object]:
        entries = self.log.entries if self.log is not None else []
        return {"attempt": self.number, "desk": self.desk, "entries": entries, "failure": self.failure}


async def _refuse_asking(tool: str, arguments: Arguments) -> Observation:
    return Observation(FROZEN, ok=False)


def ignore_events(*events: Event) -> None:
    """Write nothing: an item has one event, when it ends."""


@dataclass(slots=True)
class ItemWorker:
    """Works on the items of one swarm. The plan has fixed everything that an item's worker may do."""

    machine: Machine
    job: str
    brief: Brief
    """The brief made by `make_kind`: paths contain `{item}`."""
    each: Each
    plans: Plans
    ledger: SwarmLedger
    make_brain: Callable[[Brief, str], Brain]
    """Makes an item's own brain; no brain sees the data of another item."""
    exact: bool = False
    eyes: Vision | None = None
    sharing: Callable[[], int] = lambda: 1
    """Returns how many desks may be open at once."""
    desks: dict[str, str] = field(default_factory=dict)
    """The item of every desk that was opened."""
    scopes: dict[int | None, Scope] = field(default_factory=dict)
    """The scope of each step's desk by index (`None`: the main desk), before the item's name is filled in."""
    _task: PlanningTask | None = None

    async def take(self, item: Item, attempt: ItemAttempt, objections: str) -> None:
        """Make one attempt; `attempt` records tool calls and results, also when this raises `ItemFailedError`.

        `objections` are the faults of the attempt before.
        """
        log = attempt.log = ItemLog(item.key, self.ledger, self.ledger.begin(item.key))
        brief = fill_brief(self.brief, item.key)
        desks = Desks(self.machine, brief, self.job, ignore_events, self.each.seconds)
        brain = self.make_brain(brief, item.key)
        with anyio.move_on_after(self.each.seconds) as scope:
            try:
                async with desks.closing():
                    await self.work(item, attempt, objections, brief, desks, brain, log)
            except ItemBudgetError as e:
                raise ItemFailedError(str(e), "budget") from e
            finally:
                self.desks.update(dict.fromkeys(desks.opened, item.key))
                await brain.close()
        if scope.cancelled_caught:
            raise ItemFailedError(f"the item's time limit of {self.each.seconds:g} seconds was reached", "time")

    async def work(
        self, item: Item, attempt: ItemAttempt, objections: str, brief: Brief, desks: Desks, brain: Brain, log: ItemLog
    ) -> None:
        data = item.read()
        main = await desks.begin(self.get_scope(item), self.plans.get_wall())
        attempt.desk = main.id
        self.desks[main.id] = item.key
        await main.write(item.name, data)
        for name in brief.inputs:
            if not name.startswith(ITEM):
                await desks.bring_input(main, name, locate_input(name))
        plan = fill_plan(self.plans.plan, item.key)
        summaries: list[tuple[str, str]] = []
        for index, step in enumerate(plan.steps):
            desk = await self.enter(index, step, item, desks)
            stage = await self.prepare_stage(step, desk, brain, log)
            situation = self.describe(plan, step, item, attempt.number, tuple(summaries), objections, log)
            ended = await brain.act(situation, stage, log)
            if not ended.done:
                raise ItemFailedError(f"step {step.name} failed: {ended.why}", "step", ended.summary)
            summaries.append((step.name, ended.summary))
            if index + 1 == len(plan.steps) or not plan.steps[index + 1].keeps:
                await desks.end_side(self._list_returned_files(plan, index))
        attempt.candidates += [await fetch(main, each) for each in brief.deliverables]

    async def enter(self, index: int, step: Step, item: Item, desks: Desks) -> Desk:
        assert desks.main is not None
        if index and not step.keeps:
            await self.clear(desks.main)
        if desks.side is None and self.plans.is_apart(index):
            side = await desks.begin_side(self.get_scope(item, index), step.files, self.plans.get_wall(index))
            self.desks[side.id] = item.key
        return desks.side or desks.main

    def get_scope(self, item: Item, index: int | None = None) -> Scope:
        """Return the scope of an item's desk: the plan's rules with the item's name filled in."""
        if index not in self.scopes:
            self.scopes[index] = self.plans.get_scope(index)
        return fill_scope(self.scopes[index], item.key, self.sharing())

    async def clear(self, desk: Desk) -> None:
        """End every program, connection and session of the previous step."""
        self.machine.leave(desk.id)
        await desk.pause(memory=False)
        await desk.resume()
        await remove_tree(desk, PROFILE)

    async def prepare_stage(self, step: Step, desk: Desk, brain: Brain, log: ItemLog) -> StepStage:
        """Grant a step its permissions: its grants at the door, and its tools."""
        if self.plans.scope != CLOSED:
            await self.machine.enter_step(desk.id, step.name)
        toolbox = await self.machine.hands(desk, self.eyes, log.use, exact=self.exact)
        toolbox.allowed = select_tools(step, self.plans.job, toolbox.tools)
        toolbox.sight.sees = brain.sees
        toolbox.note_in_thread = False  # events of tools are not written: the item's paper has them
        return StepStage(step, desk, toolbox, _refuse_asking, job_tools=self.plans.job_tools)

    def describe(
        self,
        plan: Plan,
        step: Step,
        item: Item,
        number: int,
        summaries: tuple[tuple[str, str], ...],
        objections: str,
        log: ItemLog,
    ) -> Situation:
        if self._task is None:
            self._task = self.plans.task
        task = replace(
            self._task,
            goal=fill_text(self._task.goal, item.key),
            deliverables=tuple(fill_text(each, item.key) for each in self._task.deliverables),
        )
        return Situation(
            task,
            plan,
            step,
            summaries,
            before=objections,
            attempt=number,
            attempts=self.each.attempts,
            findings=(objections,) if objections else (),
            deliverables=task.deliverables if step is plan.steps[-1] else (),
            deliveries=self.each.attempts - number,
            network=describe_network(step.name, fill_scope(self.plans.scope, item.key)),
            description=task.description if self.plans.has_description(step) else "",
            secrets=describe_secrets(select_grants(step, self.plans.allowed)),
            balance=log.measure_balance,
        )

    def _list_returned_files(self, plan: Plan, last: int) -> list[str]:
        """List the files that the side desk returns: those made by this step and by the steps that it continues."""
        first = last
        while first and plan.steps[first].keeps:
            first -= 1
        return [name for each in plan.steps[first : last + 1] for name in each.makes]


async def fetch(desk: Desk, item: Deliverable) -> Candidate:
    try:
        return Candidate(item, await desk.read(item.path, limit=MAX_RESULT_BYTES))
    except FileError as e:
        return Candidate(item, lacks=make_printable(e.reason))


def write_paper(attempts: list[ItemAttempt], verdicts: list[dict[str, object]]) -> str:
    return json.dumps({"attempts": [each.as_json() for each in attempts], "verdicts": verdicts})
