"""Two models in one brain: a planner and an actor; the planner retries steps that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Protocol, runtime_checkable

from hotdesk.brain.asking import make_asker
from hotdesk.brain.fixed_step import run_fixed
from hotdesk.brain.loop import Loop
from hotdesk.brain.models.seam import Item, LanguageModel
from hotdesk.brain.notes import Notes
from hotdesk.brain.planning import make_plan
from hotdesk.brain.seam import Log, PlanningTask, Situation, StepOutcome
from hotdesk.brief.brief import Brief
from hotdesk.dataclass import dataclass
from hotdesk.plan import Plan
from hotdesk.tool import Stage


@runtime_checkable
class Planner(Protocol):
    """A model that already has its plan: a script or an adversary."""

    def provide_plan(self, task: PlanningTask) -> Plan:
        """Return the plan."""
        ...


@dataclass(slots=True)
class ModelBrain:
    """Plans with one list of models and acts with another; the models of a list are tried in order."""

    job: Brief
    planners: Sequence[LanguageModel]
    workers: Sequence[LanguageModel]
    notes: Notes = field(default_factory=Notes)
    conversations: dict[str, tuple[str, tuple[Item, ...]]] = field(default_factory=dict)
    """Model name and conversation of each finished step that made deliverables: one that is sent back is corrected in
    it. It may have megabytes of pictures."""

    @property
    def name(self) -> str:
        names = dict.fromkeys(describe_model(model) for model in (self.planners[0], self.workers[0]))
        return " and ".join(names)

    @property
    def sees(self) -> bool:
        return all(model.sees for model in (*self.planners, *self.workers))

    def recall(self, notes: Notes) -> None:
        self.notes = notes

    async def plan(self, task: PlanningTask, log: Log) -> Plan:
        """Return a plan: from the model itself if it already has one, otherwise by planning."""
        first = self.planners[0]
        if isinstance(first, Planner):
            plan = first.provide_plan(task)
            log.note_plan(plan, 1, ())
            return plan
        window = min(model.window for model in self.planners)
        ask = make_asker(self.planners, partial(log.note_unused, ""))
        return await make_plan(ask, task, self.job, log, window=window)

    async def act(self, situation: Situation, stage: Stage, log: Log) -> StepOutcome:
        """Carry out one step; after a failed attempt the planner does it."""
        if situation.step.kind == "program":
            return await run_fixed(situation, stage, log)
        models = self.list_takers(situation.attempt)
        window = min(model.window for model in models)
        native = all(model.native_screen for model in models)
        ask = make_asker(models, partial(log.note_unused, situation.step.name))
        loop = Loop(situation, stage, log, ask, window, self.notes, self.job.digest[:16], native)
        loop.earlier = self.find_conversation(situation, models[0])
        ended = await loop.take()
        if ended.done:
            self.notes.add_summary(situation.step.name, ended.summary)
            if situation.deliverables:  # no other step is sent back
                self.conversations[situation.step.name] = models[0].name, tuple(loop.conversation.iterate_items())
        return ended

    def find_conversation(self, situation: Situation, model: LanguageModel) -> tuple[Item, ...]:
        """Return the conversation in which a returned delivery is corrected, or an empty one to begin again.

        Only the same model continues its conversation: another model gets a description, and a script begins again.
        """
        name, items = self.conversations.pop(situation.step.name, ("", ()))
        goes_on = situation.findings and not situation.history and not isinstance(model, Planner)
        return items if goes_on and name == model.name else ()

    def list_takers(self, attempt: int) -> list[LanguageModel]:
        order = (*self.workers, *self.planners) if attempt == 1 else (*self.planners, *self.workers)
        return list({id(model): model for model in order}.values())

    async def close(self) -> None:
        for model in (*self.planners, *self.workers):
            await model.close()


def describe_model(model: LanguageModel) -> str:
    """Return a model's name, with its server's address unless that is the vendor's own."""
    address = getattr(model, "address", "")
    return f"{model.name}, asked at {address}" if address else model.name
