"""Carries out the steps of a plan: each at its desk with its own permissions, retried on failure, saved when done."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace

import anyio

from hotdesk.brain.loop import NUDGE
from hotdesk.brain.models.codec import observation_from_json, reply_from_json
from hotdesk.brain.models.seam import Item, OurMessage, Results
from hotdesk.brain.permits import find_makers, is_at_stake, select_grants, select_tools
from hotdesk.brain.seam import Brain, BudgetSpentError, JobHaltedError, Situation, StepOutcome
from hotdesk.brief import CLOSED, Scope
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk, SnapshotId
from hotdesk.errors import BriefError, DeskError, HotdeskError, ModelError, NodeLost
from hotdesk.event import Checkpointed, RolledBack, SentBack, StepBegun, StepEnded, Summed
from hotdesk.job.checkpoint import Checkpoints
from hotdesk.job.desks import Desks, remove_tree
from hotdesk.job.error_text import MAX_NOTE_CHARS, describe_error, shorten_words
from hotdesk.job.extra_rules import read_allowed_rules
from hotdesk.job.machine import Machine
from hotdesk.job.memory import JobMemory
from hotdesk.job.people.cards import make_question_card, repeat_card
from hotdesk.job.people.people import People
from hotdesk.job.plans import JobStoppedError, Plans
from hotdesk.job.record.log import JobLog
from hotdesk.job.record.possible_writes import list_writes
from hotdesk.job.record.resume_state import ResumeState
from hotdesk.job.stage import StepStage
from hotdesk.job.surroundings import describe_network, describe_secrets
from hotdesk.plan import Step
from hotdesk.tool import Arguments, Observation, Vision

ATTEMPTS = 2
"""Maximum attempts at a step."""
ROUNDS = 2
"""Maximum times that a file which fails its checks is sent back to the worker."""
PROFILE = ".config/browser"
"""Folder in which the browser stores logins."""
_GIVEN_BACK = "The desk was restarted: files are as you left them, but no program is running and no page is open."

MOVED = "Because it now has secrets, this step continues at a fresh desk that has only the files the plan lists for it."
_AS_BEFORE = "The home folder is as it was before that attempt."
_BROKEN_OFF = "An attempt was interrupted; the home folder is as it was before the step."


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
    past: ResumeState
    memory: JobMemory
    eyes: Vision | None = None
    exact: bool = False
    """Whether a script acts, which gets the tools for scripts."""
    summaries: dict[str, str] = field(default_factory=dict)
    stage: StepStage | None = None
    before: Checkpointed | None = None
    """The checkpoint that the last finished step left."""

    # -- order of steps -----------------------------------------------------------------------------------------

    def iterate_remaining(self) -> Iterator[Step]:
        for name, paper in self.past.finished.items():
            self.summaries.setdefault(name, self.log.papers.read_text(paper))
        self.before = self.before or self.past.kept_before
        for name in self.list_steps_to_repeat():
            yield self.step(name)
        while (step := self.find_next()) is not None:
            yield step

    def find_next(self) -> Step | None:
        return next((step for step in self.plans.plan.steps if step.name not in self.summaries), None)

    def list_steps_to_repeat(self) -> list[str]:
        """List the finished steps to repeat: the next step depends on state of theirs that no file has."""
        steps = self.plans.plan.steps
        place = next((place for place, step in enumerate(steps) if step.name not in self.summaries), len(steps))
        first = place
        while 0 < first < len(steps) and steps[first].keeps:
            first -= 1
        return [step.name for step in steps[first:place] if step.live]

    def step(self, name: str) -> Step:
        return next(step for step in self.plans.plan.steps if step.name == name)

    def take_back(self, event: SentBack) -> None:
        self.past.take_back(event)
        self.summaries.pop(event.step, None)

    # -- attempts -----------------------------------------------------------------------------------------------

    async def take(self, step: Step) -> None:
        """Carry out one step, with a retry if it fails. Its results are on disk before it counts as done."""
        await self.plans.approve_step(step)
        history, failure = await self.recover_interrupted(step)
        failed = self.list_failures(step)
        numbers = self.list_remaining_attempts(step, failed, bool(history))
        for number in numbers:
            situation = self.describe_attempt(self.step(step.name), number, numbers[-1], failure, history)
            ended = await self.attempt(situation)
            if ended.done:
                await self.finish(self.step(step.name), ended)
                return
            failed.append((number, ended.why))
            failure, history = f"Attempt {number} failed: {ended.summary[:MAX_NOTE_CHARS]}", ()
        raise JobStoppedError(f"step {step.name} failed: {failed[-1][1]}")

    def describe_attempt(
        self, step: Step, number: int, last: int, failure: str, history: tuple[Item, ...]
    ) -> Situation:
        task, texts, paths = self.plans.task, self.log.papers.read_text, self.list_deliverables(step)
        sent_back = self.past.findings.get(step.name, ()) if step.name not in self.summaries else ()
        summary = self.past.last_summaries.get(step.name, "") if sent_back else ""
        sees_memory = self.plans.has_memory(step)
        return Situation(
            task,
            self.plans.plan,
            step,
            tuple(self.summaries.items()),
            before=self.describe_history(step, failure),
            history=history,
            attempt=number,
            attempts=last,
            findings=tuple(map(texts, sent_back)),
            failure=failure,
            last_summary=texts(summary) if summary else "",
            workspace=self.describe_workspace(step, failure, is_first=not (sent_back or failure)),
            deliverables=tuple(task.deliverables[place] for place in paths),
            deliveries=min((ROUNDS - len(self.past.refused.get(path, ())) for path in paths.values()), default=0),
            network=describe_network(step.name, self.plans.scope),
            description=task.description if self.plans.has_description(step) else "",
            memory=self.memory.quote_facts() if sees_memory else (),
            memory_files=self.memory.describe_files() if sees_memory else (),
            secrets=describe_secrets(select_grants(step, self.plans.allowed)),
            balance=self.log.measure_balance,
        )

    def list_deliverables(self, step: Step) -> dict[int, str]:
        items = enumerate(self.plans.job.deliverables)
        return {place: item.path for place, item in items if step in find_makers(self.plans.plan, item.path)}

    def describe_workspace(self, step: Step, failure: str, *, is_first: bool) -> str:
        """Describe what earlier steps and attempts left at the next desk; return `""` if the failure's text says it."""
        if failure.startswith(_BROKEN_OFF):
            return ""
        if self.plans.is_apart(self.index(step)):
            listed = ", ".join(step.files) or "no file"
            before = "earlier steps" if is_first else "your last attempt"
            return f"This is a fresh desk with {listed}. Nothing else of {before} is on it."
        if is_first:
            return ""
        if failure and is_at_stake(step, self.plans.allowed):
            return _AS_BEFORE
        return (
            "Your files of the last attempt are in the home folder. Programs you started have ended; no page is open."
        )

    def list_remaining_attempts(self, step: Step, failed: Sequence[tuple[int, str]], goes_on: bool) -> range:
        """List the numbers of the remaining attempts. An interrupted attempt uses up a number, but is not a failure."""
        last = 0
        if self.past.current == step.name:
            self.past.current, last = "", self.past.attempt - goes_on
        first = max(last, self.past.attempts_sent_back.get(step.name, 0), *(number for number, _ in failed), 0) + 1
        return range(first, first + ATTEMPTS - len(failed))

    def list_failures(self, step: Step) -> list[tuple[int, str]]:
        """List the failed attempts at a step by number and reason. A finished step that is repeated has none."""
        tries = [] if step.name in self.summaries else self.past.tries
        return [(number, why) for name, number, why in tries if name == step.name]

    async def attempt(self, situation: Situation) -> StepOutcome:
        """Attempt a step once. If it is risky, a failure restores the workspace from before it."""
        step, attempt = situation.step, situation.attempt
        risky = is_at_stake(step, self.plans.allowed)
        async with self.desks.undriven():
            stage = self.stage = await self.enter(step)
        desk = stage.desk
        async with self.desks.undriven():
            snapshot = await desk.snapshot() if risky and not situation.history else None
        if not self.exact and (obstacle := await stage.try_check()):
            situation = replace(situation, obstacle=obstacle)
        what = shorten_words(step.intent)
        self.log.note(StepBegun(self.log.job, step.name, what, desk.id, attempt, self.brain.name))
        self.past.numbers[step.name] = attempt
        try:
            ended = await self.log.run_within_limits(self.brain.act(situation, stage, self.log))
        except (JobHaltedError, BudgetSpentError, ModelError):
            await self.checkpoint(step)
            raise
        except BaseException as e:
            if not _pauses_job(e):
                self.log.note(StepEnded(self.log.job, step.name, "failed", describe_error(e), stage.desk.id))
            raise
        if not ended.done:
            paper = self.log.papers.write(ended.summary)
            self.log.note(StepEnded(self.log.job, step.name, "failed", ended.why, stage.desk.id, paper))
            self.past.checkpoint = self.before
        async with self.desks.undriven():
            if not ended.done and risky:
                await self.roll_back(desk, snapshot)
                self.log.note(RolledBack(self.log.job, step.name, attempt, ended.why))
            if snapshot is not None and stage.desk is desk:
                await desk.forget(snapshot)
        return ended

    async def roll_back(self, desk: Desk, snapshot: SnapshotId | None) -> None:
        """Restore the workspace from before the step: by a snapshot, or by reopening from the checkpoint."""
        assert self.stage is not None
        if self.stage.desk is desk and snapshot is not None:
            await desk.rollback(snapshot)
        else:
            await self.desks.close()

    async def finish(self, step: Step, ended: StepOutcome) -> None:
        """Save the workspace and record the end of the step, once no person controls its desks."""
        async with self.desks.undriven():
            await self.conclude(step, ended)

    async def conclude(self, step: Step, ended: StepOutcome) -> None:
        """Save the workspace, and burn the fresh desk unless the next step continues there."""
        assert self.stage is not None
        done = StepEnded(self.log.job, step.name, "done", "", self.stage.desk.id)
        if step.name in self.summaries:  # repeated: its files were saved the first time
            self.log.note(done)
            return
        if not self.is_kept_by_next(step):
            await self.desks.end_side(self.list_returned_files(step))
        else:
            await self.desks.bring(self.list_returned_files(step))
        saved = await self.save(step, amid=False)
        summary = Summed(self.log.job, step.name, self.log.papers.write(ended.summary))
        self.log.note(saved, summary, done)
        self.past.finished[step.name] = summary.paper
        self.past.checkpoint = self.before = saved
        self.checkpoints.forget_others(saved.sha256, saved.side)
        self.summaries[step.name] = ended.summary
        if self.find_next() is None and self.desks.main is not None:  # nothing may run while results are checked
            await self.clear(self.desks.main)

    def list_returned_files(self, step: Step) -> list[str]:
        """List the files to copy back from the fresh desk: results of this step and those it continues."""
        steps, last = self.plans.plan.steps, self.index(step)
        first = last
        while first and steps[first].keeps:
            first -= 1
        return [name for each in steps[first : last + 1] for name in each.makes]

    def is_kept_by_next(self, step: Step) -> bool:
        after = self.plans.plan.steps[self.index(step) + 1 :]
        return bool(after) and after[0].keeps

    # -- desks --------------------------------------------------------------------------------------------------

    async def enter(self, step: Step) -> StepStage:
        """Open or prepare a step's desk without state it must not see, and apply the step's permissions."""
        index = self.index(step)
        stays = step.keeps and self.stage is not None
        if not stays:
            await self.desks.end_side()
        if self.desks.main is None:
            await self.open_for(step)
        elif not stays:
            await self.clear(self.desks.main)
        if self.desks.side is None and self.plans.is_apart(index):
            await self.desks.begin_side(self.plans.get_scope(index), step.files, self.plans.get_wall(index))
        desk = self.desks.side or self.desks.main
        assert desk is not None
        return await self.prepare_stage(step, desk)

    def index(self, step: Step) -> int:
        return [each.name for each in self.plans.plan.steps].index(step.name)

    async def prepare_stage(self, step: Step, desk: Desk) -> StepStage:
        """Apply a step's permissions: its rules and grants at the door, and its tools."""
        if self.plans.scope != CLOSED:
            await self.machine.enter_step(desk.id, step.name)
            await self.allow(desk)
        if self.plans.has_memory(step):
            await self.memory.place(desk)
        toolbox = await self.machine.hands(desk, self.eyes, self.log.use, exact=self.exact)
        toolbox.allowed = select_tools(step, self.plans.job, toolbox.tools)
        toolbox.sight.sees = self.brain.sees
        toolbox.waits, toolbox.wheel.worker_clock = True, self.log.waiting
        return StepStage(step, desk, toolbox, self.ask_person, self.keep_for_later, self.plans.job_tools)

    async def allow(self, desk: Desk) -> None:
        """Allow a desk what people approved at the job's other desks; the operator's denials still apply."""
        journal = self.people.journal
        here = read_allowed_rules(journal, [desk.id])
        desks = {**self.past.summary.course.desks, **dict.fromkeys(self.desks.opened)}
        for rule, by in read_allowed_rules(journal, desks).items():
            if rule not in here:
                with suppress(BriefError):  # the door reports the reason when the desk makes such a request
                    await self.machine.allow(desk.id, [rule], by)

    async def open(self) -> Desk:
        """Open the main desk of the job, with its inputs or from the latest checkpoint."""
        desk = await self.desks.begin(self.plans.get_scope(), self.plans.get_wall())
        if (checkpoint := self.past.checkpoint) is None:
            await self.desks.bring_inputs(desk)
        else:
            await self.checkpoints.restore(desk, checkpoint.sha256)
        return desk

    async def open_for(self, step: Step) -> str:
        """Open the desks of a step from their checkpoints; return the message for a worker that was moved."""
        index, side = self.index(step), self.past.checkpoint.side if self.past.checkpoint else ""
        await self.open()
        if not side and not self.plans.is_apart(index):
            return _GIVEN_BACK
        files = () if side else step.files
        desk = await self.desks.begin_side(self.plans.get_scope(index), files, self.plans.get_wall(index))
        if side:
            await self.checkpoints.restore(desk, side)
        return _GIVEN_BACK if side else MOVED

    async def clear(self, desk: Desk) -> None:
        """End the programs, connections and logins of the step before; other files stay."""
        self.machine.leave(desk.id)
        await desk.pause(memory=False)
        await desk.resume()
        await remove_tree(desk, PROFILE)

    # -- checkpoints --------------------------------------------------------------------------------------------

    async def save(self, step: Step, *, amid: bool) -> Checkpointed:
        began = anyio.current_time()
        assert self.desks.main is not None
        main = await self.checkpoints.save(self.desks.main)
        side = await self.checkpoints.save(self.desks.side) if self.desks.side is not None else None
        spent = int((anyio.current_time() - began) * 1000)
        size = main.size + (side.size if side else 0)
        name = side.sha256 if side else ""
        return Checkpointed(self.log.job, step.name, self.log.spent.acts, main.sha256, size, spent, amid, name)

    async def checkpoint(self, step: Step) -> None:
        """Save the workspace of an unfinished step, and keep the checkpoint from before it."""
        async with self.desks.undriven():
            await self.keep_amid(step)

    async def keep_amid(self, step: Step) -> None:
        """Save the workspace of a step that is resumed later."""
        if self.desks.main is None or step.name in self.summaries:
            return  # it is already saved
        with anyio.CancelScope(shield=True):
            saved, before = await self.save(step, amid=True), self.before
            self.log.note(saved)
            self.past.checkpoint = saved
            self.checkpoints.forget_others(saved.sha256, saved.side, *((before.sha256, before.side) if before else ()))

    async def give_back(self) -> None:
        """Save the workspace and burn the desks, once no person controls them."""
        async with self.desks.undriven():
            if self.stage is not None and self.desks.main is not None:
                await self.keep_amid(self.stage.step)
                await self.desks.close()

    async def give_back_while_waiting(self) -> bool:
        """Give the desks back during a long wait, unless that would lose state that no file has.

        Return `False` to be asked again later, while a person controls a desk.
        """
        if self.desks.is_driven():
            return False
        step = self.stage.step if self.stage is not None else None
        if step is not None and not (step.live or step.keeps or self.is_kept_by_next(step)):
            await self.give_back()
        return True

    async def come_back(self) -> str:
        """Reopen the desks if they were given back; return the message for the worker.

        A step that got secrets meanwhile continues at the kind of desk that a step with secrets needs.
        """
        stage = self.stage
        if stage is None or self.desks.main is not None:
            return ""
        note = await self.open_for(stage.step)
        desk = self.desks.side or self.desks.main
        assert desk is not None
        again = await self.prepare_stage(stage.step, desk)
        stage.desk, stage.toolbox, stage.job_tools = again.desk, again.toolbox, again.job_tools
        return note

    # -- people -------------------------------------------------------------------------------------------------

    async def ask_person(self, tool: str, arguments: Arguments) -> Observation:
        assert self.stage is not None
        step = self.stage.step
        if tool == "amend_plan":
            before, walls = self.plans.scope, self.plans.get_walls(self.index(step))
            observation = await self.plans.amend(step, arguments, frozenset(self.summaries))
            if observation.ok:
                await self.widen(before, walls)
        else:
            card = make_question_card(step, str(arguments.get("question", "")))
            decided = await self.people.decide("question", card, step.name)
            answered = decided.answer == "answered"
            observation = Observation(
                self.log.papers.read_text(decided.paper)
                if answered
                else "No person answered in time. Continue without the answer.",
                ok=answered,
            )
        note = await self.come_back()
        if tool == "amend_plan" and observation.ok and "check" in arguments:
            note = " ".join(filter(None, (note, await self.stage.try_check())))
        return Observation(observation.text, observation.ok, note=note) if note else observation

    async def keep_for_later(self, tool: str, arguments: Arguments) -> Observation:
        assert self.stage is not None
        desks = {**self.past.summary.course.desks, **dict.fromkeys(self.desks.opened)}
        return await self.memory.stage(tool, arguments, self.stage.step.name, self.stage.desk, desks)

    async def widen(self, before: Scope, walls: tuple[str, ...]) -> None:
        """Apply an amendment: tools at once; hosts, grants and walls by reopening the desks.

        `walls` are those of the step's desks before the amendment.
        """
        assert self.stage is not None
        step = self.stage.step = self.step(self.stage.step.name)
        self.stage.job_tools = self.plans.job_tools
        if self.plans.scope == before and self.plans.get_walls(self.index(step)) == walls:
            self.stage.toolbox.allowed = select_tools(step, self.plans.job, self.stage.toolbox.tools)
        else:
            await self.give_back()

    # -- earlier attempts ---------------------------------------------------------------------------------------

    async def recover_interrupted(self, step: Step) -> tuple[tuple[Item, ...], str]:
        """Return the conversation of a step that was interrupted, or a description of its failure.

        If acts may have changed something outside, a person must approve the repetition.
        """
        past = self.past
        if past.current != step.name:
            return (), "".join(f"Attempt {number} failed: {why}" for number, why in self.list_failures(step)[-1:])
        desks, since = past.summary.course.desks, past.kept_at if past.goes_on else 0
        writes = list_writes(self.people.journal, desks, past.current, since) if past.lost else []
        doubtful = [act for act in past.unknown if act in past.lost]
        if writes or (doubtful and self.plans.may_write(step)):
            lost, unknown = ([f"{each.act} {each.tool}" for each in acts] for acts in (past.lost, past.unknown))
            card = repeat_card(step, past.attempt, lost, unknown, writes)
            self.plans.require(await self.people.decide("repeat", card, step.name), f"repeating step {step.name}")
        if past.goes_on:
            back = OurMessage("\n".join(filter(None, (_GIVEN_BACK, describe_lost(past)))))
            return (*self.iterate_conversation(), back), ""
        return (), f"{_BROKEN_OFF} {describe_lost(past)}"

    def describe_history(self, step: Step, *more: str) -> str:
        """Describe earlier attempts: why results were sent back, the latest first, then `more`.

        A step that continues its conversation gets the same text again, so that a script decides the same.
        """
        objections = [self.log.papers.read_text(paper) for paper in reversed(self.past.objections.get(step.name, ()))]
        return "\n".join([*objections, *more]).strip()

    def iterate_conversation(self) -> Iterator[Item]:
        text = self.log.papers.read_text
        for turn in self.past.saved_turns:
            reply = reply_from_json(json.loads(text(turn.thought.paper)))
            if len(reply.calls) != len(turn.acts):
                return  # a budget ended before the calls were carried out
            yield reply
            observations = (
                observation_from_json(json.loads(text(turn.observed[each.act].paper))) for each in turn.acts
            )
            yield Results(tuple(zip(reply.calls, observations, strict=True))) if reply.calls else OurMessage(NUDGE)


def _pauses_job(error: BaseException) -> bool:
    """Return whether an error interrupts an attempt, as when this process is killed, and is no failure of it."""
    return isinstance(error, NodeLost) or (isinstance(error, HotdeskError) and not isinstance(error, DeskError))


def describe_lost(past: ResumeState) -> str:
    lost = ", ".join(f"{each.act} {each.tool}" for each in past.lost)
    unknown = ", ".join(f"{each.act} {each.tool}" for each in past.unknown)
    sentences = [f"These calls were made, but their changes to files are lost: {lost}." if lost else ""]
    sentences += [
        f"The result of {unknown} is unknown: find out what happened before you repeat it." if unknown else ""
    ]
    return " ".join(filter(None, sentences))
