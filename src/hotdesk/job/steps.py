"""Takes the steps of one plan: each at its desk and behind its border, again where it failed, kept when it is done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import anyio

from hotdesk.brain.models.seam import Item, Results, Told
from hotdesk.brain.models.written import observation_from_json, reply_from_json
from hotdesk.brain.permits import allowed_tools, is_risky
from hotdesk.brain.seam import Brain, Ended, Halted, Situation, Spent
from hotdesk.brief import CLOSED, READ, Scope
from hotdesk.desk.seam import Desk, SnapshotId
from hotdesk.drive.journal import read
from hotdesk.errors import FileError, ModelError
from hotdesk.event import Checkpointed, Exchange, RolledBack, StepBegun, StepEnded, Summed
from hotdesk.job.cards import question_card, repeat_card
from hotdesk.job.checkpoint import Checkpoints
from hotdesk.job.desks import Desks
from hotdesk.job.log import JobLog
from hotdesk.job.machine import Machine
from hotdesk.job.past import Past
from hotdesk.job.people import People
from hotdesk.job.plans import Plans, Stopped
from hotdesk.job.said import LONGEST, brief_words, said
from hotdesk.job.stage import StepStage
from hotdesk.plan import Step
from hotdesk.tool import Arguments, Observation, Vision

ATTEMPTS = 2
"""How often a step is taken that fails."""
PROFILE = ".config/browser"
"""Where the browser keeps who is logged in."""
GIVEN_BACK = "Meanwhile the desk was given back: files are as they were, but no program runs and no page is open."

MOVED = "With secrets this step goes on at a fresh desk: of the files, those the plan lists for it are there."


@dataclass(slots=True)
class Steps:
    """The steps of one job."""

    machine: Machine
    brain: Brain
    log: JobLog
    people: People
    plans: Plans
    desks: Desks
    checkpoints: Checkpoints
    past: Past
    eyes: Vision | None = None
    exact: bool = False
    """Whether whoever acts is a script, and gets the tools that are for scripts."""
    summaries: dict[str, str] = field(default_factory=dict)
    stage: StepStage | None = None
    brought: list[str] = field(default_factory=list)
    """What is to be brought back from the desk beside."""
    before: Checkpointed | None = None
    """The workspace as the last finished step left it."""

    # -- which --------------------------------------------------------------------------------------------------

    def left(self) -> Iterator[Step]:
        """Give the steps that are to be taken, as the plan has them at that moment."""
        self.summaries = {name: self.log.papers.text(paper) for name, paper in self.past.finished.items()}
        self.before = self.past.kept_before
        for name in self.again():
            yield self.step(name)
        while (step := self.next()) is not None:
            yield step

    def next(self) -> Step | None:
        """Give the first step that is not finished."""
        return next((step for step in self.plans.plan.steps if step.name not in self.summaries), None)

    def again(self) -> list[str]:
        """Name the finished steps that made something the next one goes on with, and that no file holds."""
        steps = self.plans.plan.steps
        place = next((place for place, step in enumerate(steps) if step.name not in self.summaries), len(steps))
        first = place
        while 0 < first < len(steps) and steps[first].keeps:
            first -= 1
        return [step.name for step in steps[first:place] if step.live]

    def step(self, name: str) -> Step:
        """Give a step of the plan as it is now."""
        return next(step for step in self.plans.plan.steps if step.name == name)

    # -- taking -------------------------------------------------------------------------------------------------

    async def take(self, step: Step) -> None:
        """Take one step, again if it fails; what it leaves is on disk before it counts as done."""
        await self.plans.approve_step(step)
        history, before = await self.interrupted(step)
        attempt = self.past.attempt + (not history) if self.past.current == step.name else 1
        self.past.current = ""
        for number in range(attempt, attempt + ATTEMPTS):
            ended = await self.attempt(self.step(step.name), number, before, history)
            if ended.done:
                await self.finish(self.step(step.name), ended)
                return
            before, history = f"Attempt {number} failed: {ended.summary[:LONGEST]}", ()
        raise Stopped(f"step {step.name} failed: {ended.why}")

    async def attempt(self, step: Step, attempt: int, before: str, history: tuple[Item, ...]) -> Ended:
        """Take a step once; where something is at stake, a failure leaves the workspace as it was."""
        stage = self.stage = await self.enter(step)
        desk = stage.desk
        risky = step.risk == "high" or bool(is_risky(step, self.plans.allowed))
        snapshot = await stage.desk.snapshot() if risky else None
        what = brief_words(step.intent)
        self.log.note(StepBegun(self.log.job, step.name, what, desk.id, attempt, self.brain.name))
        situation = Situation(
            self.plans.task, self.plans.plan, step, tuple(self.summaries.items()), before, history, attempt
        )
        try:
            ended = await self.timed(situation, stage)
        except (Halted, Spent, ModelError):
            await self.checkpoint(step, amid=True)
            raise
        except BaseException as e:
            self.log.note(StepEnded(self.log.job, step.name, "failed", said(e), stage.desk.id))
            raise
        if not ended.done:
            paper = self.log.papers.write(ended.summary)
            self.log.note(StepEnded(self.log.job, step.name, "failed", ended.why, stage.desk.id, paper))
            if snapshot is not None:
                await self.roll_back(desk, snapshot)
                self.log.note(RolledBack(self.log.job, step.name, attempt, ended.why))
        if snapshot is not None and stage.desk is desk:
            await desk.forget(snapshot)
        return ended

    async def roll_back(self, desk: Desk, snapshot: SnapshotId) -> None:
        """Have the workspace as before the step; where the desk was given back amid it, as it was kept then."""
        assert self.stage is not None
        if self.stage.desk is desk:
            await desk.rollback(snapshot)
        else:
            await self.desks.close()
            self.past.checkpoint = self.before

    async def timed(self, situation: Situation, stage: StepStage) -> Ended:
        """Have the brain act, until the job's time is up; what it waits for people is not its time."""
        ended: Ended | None = None
        with anyio.CancelScope() as scope:
            self.log.bound = scope
            scope.deadline = anyio.current_time() + max(0.0, self.log.seconds_left)
            ended = await self.brain.act(situation, stage, self.log)
        if ended is None:
            raise Spent(f"its {self.log.seconds:g} seconds were up")
        return ended

    async def finish(self, step: Step, ended: Ended) -> None:
        """Keep the workspace, and with it that the step is done."""
        assert self.stage is not None
        desk = self.stage.desk.id
        if not self.is_kept_by_next(step):
            await self.desks.end_side([*self.brought, *step.makes])
            self.brought = []
        else:
            self.brought += step.makes
            await self.desks.bring(self.brought)
        saved = await self.save(step, amid=False)
        summary = Summed(self.log.job, step.name, self.log.papers.write(ended.summary))
        self.log.note(saved, summary, StepEnded(self.log.job, step.name, "done", "", desk))
        self.past.checkpoint = self.before = saved
        self.checkpoints.forget_others(saved.sha256)
        self.summaries[step.name] = ended.summary
        if self.next() is None and self.desks.main is not None:  # nothing runs on while results are looked at
            await self.clear(self.desks.main)

    def is_kept_by_next(self, step: Step) -> bool:
        """Say whether the next step goes on where this one ends."""
        after = self.plans.plan.steps[self.index(step) + 1 :]
        return bool(after) and after[0].keeps

    # -- desks --------------------------------------------------------------------------------------------------

    async def enter(self, step: Step) -> StepStage:
        """Give a step its desk, with nothing there that it shall not meet, and its permissions."""
        index = self.index(step)
        stays = step.keeps and self.stage is not None
        if not stays:
            await self.desks.end_side()
        if self.desks.main is None:
            await self.open()
        elif not stays:
            await self.clear(self.desks.main)
        if self.desks.side is None and self.plans.is_apart(index):
            await self.desks.begin_side(self.plans.scope_for(index), step.files)
        desk = self.desks.side or self.desks.main
        assert desk is not None
        return await self.staged(step, desk)

    def index(self, step: Step) -> int:
        """Give a step's place in the plan."""
        return [each.name for each in self.plans.plan.steps].index(step.name)

    async def staged(self, step: Step, desk: Desk) -> StepStage:
        """Give a step its permissions: what the door holds for it, and its tools."""
        if self.plans.scope != CLOSED:
            await self.machine.enter_step(desk.id, step.name)
        toolbox = await self.machine.hands(desk, self.eyes, self.log.use, exact=self.exact)
        toolbox.allowed = allowed_tools(step, self.plans.job, toolbox.tools)
        return StepStage(step, desk, toolbox, self.asks, self.log.waiting)

    async def open(self) -> Desk:
        """Open the desk the job works at: with its inputs, or as it was kept."""
        desk = await self.desks.begin(self.plans.scope_for())
        if (kept := self.past.checkpoint) is None:
            await self.desks.bring_inputs(desk)
        else:
            await self.checkpoints.restore(desk, kept.sha256)
        return desk

    async def clear(self, desk: Desk) -> None:
        """Have no program, connection or log-in of the step before: what is in files stays."""
        self.machine.leave(desk.id)
        await desk.pause(memory=False)
        await desk.resume()
        try:
            await desk.remove(PROFILE)
        except FileError:  # what is there was made hard to remove
            await desk.run(["/bin/chmod", "-R", "u+rwX", "--", PROFILE, str(PurePosixPath(PROFILE).parent)])
            await desk.remove(PROFILE)

    # -- keeping ------------------------------------------------------------------------------------------------

    async def save(self, step: Step, *, amid: bool) -> Checkpointed:
        """Keep the workspace on disk, and give the event that says so."""
        began = anyio.current_time()
        assert self.desks.main is not None
        main = await self.checkpoints.save(self.desks.main)
        side = await self.checkpoints.save(self.desks.side) if amid and self.desks.side is not None else None
        spent = int((anyio.current_time() - began) * 1000)
        size = main.size + (side.size if side else 0)
        name = side.sha256 if side else ""
        return Checkpointed(self.log.job, step.name, self.log.spent.acts, main.sha256, size, spent, amid, name)

    async def checkpoint(self, step: Step, *, amid: bool) -> None:
        """Keep the workspace on disk."""
        with anyio.CancelScope(shield=True):
            saved = await self.save(step, amid=amid)
            self.log.note(saved)
            self.past.checkpoint = saved
            self.checkpoints.forget_others(saved.sha256, saved.side, self.before.sha256 if self.before else "")

    async def give_back(self) -> None:
        """Keep the workspace and burn the desks: a person takes their time."""
        if self.stage is not None and self.desks.main is not None:
            await self.checkpoint(self.stage.step, amid=True)
            await self.desks.close()

    async def come_back(self) -> str:
        """Have the desks again, if they were given back; give what the worker is told of it.

        A step that was given secrets meanwhile goes on where it would have been taken with them.
        """
        stage = self.stage
        if stage is None or self.desks.main is not None:
            return ""
        index, side = self.index(stage.step), self.past.checkpoint.side if self.past.checkpoint else ""
        desk, told = await self.open(), GIVEN_BACK
        if side or self.plans.is_apart(index):
            desk = await self.desks.begin_side(self.plans.scope_for(index), () if side else stage.step.files)
            told = GIVEN_BACK if side else MOVED
        if side:
            await self.checkpoints.restore(desk, side)
        again = await self.staged(stage.step, desk)
        stage.desk, stage.toolbox = again.desk, again.toolbox
        return told

    # -- people -------------------------------------------------------------------------------------------------

    async def asks(self, tool: str, given: Arguments) -> Observation:
        """Ask a person something, or for more than the plan has."""
        assert self.stage is not None
        step = self.stage.step
        if tool == "amend_plan":
            before = self.plans.scope
            seen = await self.plans.amend(step, given)
            if seen.ok:
                await self.widen(before)
        else:
            card = question_card(step, str(given.get("question", "")))
            decided = await self.people.decide("question", card, step.name)
            answered = decided.answer == "answered"
            seen = Observation(self.log.papers.text(decided.paper) if answered else "Nobody answered.", ok=answered)
        if told := await self.come_back():
            return Observation(seen.text, seen.ok, note=told)
        return seen

    async def widen(self, before: Scope) -> None:
        """Have what an amendment added: tools at once, hosts and grants at a desk that has them from its beginning."""
        assert self.stage is not None
        step = self.stage.step = self.step(self.stage.step.name)
        if self.plans.scope == before:
            self.stage.toolbox.allowed = allowed_tools(step, self.plans.job, self.stage.toolbox.tools)
        else:
            await self.give_back()

    # -- what was before ----------------------------------------------------------------------------------------

    async def interrupted(self, step: Step) -> tuple[tuple[Item, ...], str]:
        """Say what is known of a step that was being taken when the job ended: its conversation, or what it did.

        What may have changed something outside is not done again unless a person says so.
        """
        past = self.past
        if past.current != step.name or step.name in self.summaries:
            return (), ""
        writes = written(self.people.journal, past)
        if writes or (past.unknown and self.plans.may_write(step)):
            lost, unknown = ([f"{each.act} {each.tool}" for each in acts] for acts in (past.lost, past.unknown))
            card = repeat_card(step, past.attempt, lost, unknown, writes)
            self.plans.require(await self.people.decide("repeat", card, step.name), f"taking step {step.name} again")
        if past.goes_on:
            return (*self.conversation(), Told("\n".join(filter(None, (GIVEN_BACK, told_lost(past)))))), ""
        return (), f"An attempt was broken off; the workspace is as before the step. {told_lost(past)}".strip()

    def conversation(self) -> Iterator[Item]:
        """Give what was said and seen in the current attempt, as far as the workspace has it."""
        text = self.log.papers.text
        for turn in self.past.held:
            reply = reply_from_json(json.loads(text(turn.thought.paper)))
            if len(reply.calls) != len(turn.acts):
                return  # a budget ended before they were used
            yield reply
            if reply.calls:
                seen = (observation_from_json(json.loads(text(turn.seen[each.act].paper))) for each in turn.acts)
                yield Results(tuple(zip(reply.calls, seen, strict=True)))


def told_lost(past: Past) -> str:
    """Say what was done that the workspace does not have, and what nobody knows."""
    lost = ", ".join(f"{each.act} {each.tool}" for each in past.lost)
    unknown = ", ".join(f"{each.act} {each.tool}" for each in past.unknown)
    told = [f"These acts were made, and what they did to files is gone: {lost}." if lost else ""]
    told += [f"Nobody knows what came of {unknown}: find out before you do it again." if unknown else ""]
    return " ".join(filter(None, told))


def written(journal: Path, past: Past) -> list[str]:
    """List what a step that was being taken has sent outside, as far as its work is not in the workspace."""
    if not past.lost:
        return []
    events = (row.event() for desk in past.desks for row in read(journal, desk))
    return [
        f"{event.method} {event.scheme}://{event.host}{event.path}"
        for event in events
        if isinstance(event, Exchange) and event.step == past.current and event.up and event.method not in READ
    ]
