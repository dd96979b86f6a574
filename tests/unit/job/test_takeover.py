"""Tests of takeovers at every moment of a job: the step waits, nothing is undone or burnt, and the worker continues."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import pytest
from PIL import Image
from tests.providers.behind import Asked, behind

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.anthropic import AnthropicModel
from hotdesk.brain.models.scripted import Hands, ScriptedModel, step
from hotdesk.brain.models.seam import LanguageModel, Reply
from hotdesk.brief.load import parse_job
from hotdesk.config import Config
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.seam import Desk, DeskId
from hotdesk.door.policy.scope import scope_of
from hotdesk.event import (
    Acted,
    Checkpointed,
    Event,
    HandedBack,
    JobEnded,
    Observed,
    RolledBack,
    StepBegun,
    StepEnded,
    Summed,
    TookOver,
    Verified,
)
from hotdesk.hands.reader import VerbResult
from hotdesk.hands.screen.takeover import Wheel
from hotdesk.ipc.tasks import Background, background
from hotdesk.job.local import LocalMachine, local_machine
from hotdesk.job.record.receipt import Receipt
from hotdesk.plan import OURS, Plan, Step, to_json
from hotdesk.tool import Call
from hotdesk.work import JobContext, work

pytestmark = pytest.mark.slow

ME = "uid 0 pid 1"
HOLD = 0.3
"""Seconds a person drives: long enough for a step that does not wait to go on."""
BRIEF = """
goal = "List what there is"
wall = "local"
deliverables = [{path = "list.csv", expect = {columns = ["What", "Count"], rows = 1}}]
"""
RUNNING, IN_SHELL = "touch running; sleep 0.3", "touch in_shell; sleep 0.3; echo nails,3 >> list.csv"
SLOW = "for n in 1 2 3 4; do sleep 0.25; done"
STILL = (RolledBack, Checkpointed, Summed, StepBegun, StepEnded, Observed, JobEnded)
"""What does not happen while a person drives."""


def picture() -> bytes:
    out = BytesIO()
    Image.new("RGB", (8, 8)).save(out, "PNG")
    return out.getvalue()


@dataclass
class Screen:
    """A reader of a screen on which everything is as it was, and whose viewers never leave."""

    desk: Desk

    async def ask(self, verb: str, /, **arguments: object) -> VerbResult:
        values: dict[str, Any] = {"view.acted": {"clicks": 2, "keys": 5}, "screen.difference": {"changed": 0.25}}
        return VerbResult(values.get(verb), picture() if verb == "screen.shot" else b"")

    def close(self) -> None:
        """Let go of nothing."""


async def stop(desk: LinkedDesk, stopped: bool) -> None:
    await desk.outside.pause(stopped)
    desk.link.suspend(stopped)


@dataclass
class Trial:
    """One job, and a person who takes over at a moment of it."""

    folder: Path
    moment: Callable[[Event], bool]
    began: str = ""
    """A file that appears when the moment has come, after its event."""
    timeline: list[Event | str] = field(default_factory=list)
    machine: LocalMachine | None = None
    tasks: Background | None = None
    seen: anyio.Event = field(default_factory=anyio.Event)

    def wheel_of(self, desk: Desk) -> Wheel:
        assert self.tasks is not None
        assert isinstance(desk, LinkedDesk)

        async def suspend(stopped: bool) -> None:
            await stop(desk, stopped)

        return Wheel(Screen(desk), suspend, self.timeline.append, self.tasks)

    def hear(self, event: Event) -> None:
        """Hear of an event; at the moment have the person take over."""
        self.timeline.append(event)
        if not self.seen.is_set() and self.moment(event):
            self.seen.set()
            assert self.tasks is not None
            self.tasks.start(self.drive)

    async def drive(self) -> None:
        assert self.machine is not None
        desk, wheel = next(iter(self.machine.wheels.items()))
        home = Path((await self.machine.runtime.find(desk)).home)
        with anyio.fail_after(20):
            while self.began and not (home / self.began).exists():
                await anyio.sleep(0.005)
        assert isinstance(wheel, Wheel)
        await wheel.take(1, ME)
        self.timeline.append("drives")
        await anyio.sleep(HOLD)
        assert desk in self.machine.runtime.open_desks
        self.timeline.append("hands back")
        await wheel.hand_back(1, ME)

    async def carry_out(self, planner: LanguageModel, worker: LanguageModel, *, exact: bool = True) -> Receipt:
        settings = Config(run=self.folder / "run", lib=self.folder / "lib", images=self.folder / "images")
        job = parse_job(BRIEF.encode(), self.folder, scope_of)
        async with AsyncExitStack() as stack:
            self.tasks = await stack.enter_async_context(background())
            self.machine = await stack.enter_async_context(local_machine(settings, self.wheel_of))
            order = JobContext(self.machine, job, exact=exact, listener=self.hear)
            receipt = await work(order, ModelBrain(job, [planner], [worker]))
            assert self.seen.is_set(), "the moment never came"
        return receipt

    @property
    def meanwhile(self) -> list[Event]:
        events = self.timeline[self.timeline.index("drives") : self.timeline.index("hands back")]
        return [each for each in events if not isinstance(each, str)]

    @property
    def steps(self) -> list[tuple[str, int]]:
        begun = [each for each in self.timeline if isinstance(each, StepBegun)]
        return [(each.step, each.attempt) for each in begun if each.step not in OURS]


async def gather(hands: Hands) -> None:
    if hands.attempt == 1 and FAILS:
        raise ValueError("the first attempt fails")
    assert (await hands.run(["sh", "-c", RUNNING])).ok
    await hands.write("list.csv", b"What,Count\n")
    assert (await hands.use("shell", command=IN_SHELL)).ok


FAILS: list[bool] = []
"""Whether the first attempt fails."""


def acts(tool: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, Acted) and event.tool == tool


def is_after(number: int) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, Observed) and event.act == number


def begins(name: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, StepBegun) and event.step == name


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("moment", "began"),
    [
        pytest.param(begins("gather"), "", id="before a call"),
        pytest.param(acts("exact_run"), "running", id="during a program"),
        pytest.param(is_after(1), "", id="between two calls"),
        pytest.param(acts("exact_write"), "", id="during a write"),
        pytest.param(acts("shell"), "in_shell", id="during a shell command"),
        pytest.param(acts("finish"), "", id="at the step's end"),
        pytest.param(is_after(4), "", id="when a checkpoint is due"),
        pytest.param(lambda event: isinstance(event, Summed), "", id="when the results are to be fetched"),
    ],
)
async def test_a_script_waits_while_a_person_drives_and_continues(
    tmp_path: Path, moment: Callable[[Event], bool], began: str
) -> None:
    trial, script = Trial(tmp_path, moment, began), ScriptedModel.of(step(gather, makes=["list.csv"], risk="high"))
    receipt = await trial.carry_out(script, script)
    assert (receipt.outcome, receipt.why) == ("done", "")
    assert trial.steps == [("gather", 1)]
    assert [each for each in trial.meanwhile if isinstance(each, STILL)] == []
    [back] = [each for each in trial.timeline if isinstance(each, HandedBack)]
    assert (back.by, back.note, back.clicks) == (ME, "", 2)
    assert back.seconds >= HOLD
    if began:
        before = trial.timeline[: trial.timeline.index("drives")]
        assert moment([each for each in before if isinstance(each, Acted)][-1]), "the call under way was not suspended"


async def test_a_step_that_failed_is_not_rolled_back_while_a_person_drives(tmp_path: Path) -> None:
    trial, script = Trial(tmp_path, acts("give_up")), ScriptedModel.of(step(gather, makes=["list.csv"], risk="high"))
    FAILS.append(True)
    try:
        receipt = await trial.carry_out(script, script)
    finally:
        FAILS.clear()
    assert (receipt.outcome, trial.steps) == ("done", [("gather", 1), ("gather", 2)])
    still = [each for each in trial.meanwhile if isinstance(each, STILL) and not isinstance(each, StepEnded | Observed)]
    assert still == []
    assert any(isinstance(each, RolledBack) for each in trial.timeline)


async def test_a_desk_is_not_burnt_under_a_person_who_drives_during_the_verdict(tmp_path: Path) -> None:
    trial, script = Trial(tmp_path, begins("verify")), ScriptedModel.of(step(gather, makes=["list.csv"], risk="high"))
    receipt = await trial.carry_out(script, script)
    assert (receipt.outcome, receipt.why) == ("done", "")
    [took] = [each for each in trial.timeline if isinstance(each, TookOver)]
    gone = [place for place, each in enumerate(trial.timeline) if is_burnt(each, took.desk)]
    assert min(gone) > trial.timeline.index("hands back")
    assert any(isinstance(each, Verified) for each in trial.timeline)


def is_burnt(event: Event | str, desk: DeskId | str) -> bool:
    return isinstance(event, StepEnded) and (event.step, event.desk) == ("desk", desk)


async def test_a_model_continues_with_a_note_of_what_a_person_did_and_a_fresh_picture(tmp_path: Path) -> None:
    told: list[Asked] = []

    def think(asked: Asked) -> Reply:
        if "plan" in asked.tools:
            plan = Plan((Step("gather", "Write a list.", tools=("shell",), makes=("list.csv",)),))
            return Reply(calls=(Call("", "plan", {"plan": to_json(plan)}),))
        if "findings" in asked.tools:
            return Reply(calls=(Call("", "findings", {"findings": []}),))
        told.append(asked)
        command = "touch in_shell; sleep 0.3; printf 'What,Count\\nnails,3\\n' > list.csv"
        calls = [Call("", "shell", {"command": command}), Call("", "finish", {"summary": "It is listed."})]
        return Reply(calls=(calls[min(asked.turns, 1)],))

    trial = Trial(tmp_path, acts("shell"), "in_shell")
    with behind("anthropic", think) as provider:
        model = AnthropicModel("claude-x", base_url=provider.base_url, key="k")
        try:
            receipt = await trial.carry_out(model, model, exact=False)
        finally:
            await model.close()
    assert (receipt.outcome, receipt.why) == ("done", "")
    assert [each for each in trial.meanwhile if isinstance(each, STILL)] == []
    [seen] = told[1].results
    assert "[exit code 0" in seen
    assert "A person controlled this desk for" in seen
    assert "(2 clicks, 5 keys)" in seen
    assert told[1].pictures == 1


@pytest.mark.long
async def test_no_programs_time_is_up_because_a_person_drives(tmp_path: Path) -> None:
    settings = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")
    async with local_machine(settings) as machine:
        desk = await machine.open()
        assert isinstance(desk, LinkedDesk)
        toolbox = await machine.hands(desk)
        ended: list[bool] = []

        async def use(tool: str, given: dict[str, object]) -> None:
            ended.append((await toolbox.use(tool, given)).ok)

        def has_begun(*names: str) -> bool:
            return all((Path(desk.home) / name).exists() for name in names)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use, "run", {"command": f"touch a; {SLOW}", "timeout": 3})
            tasks.start_soon(use, "shell", {"command": f"touch b; {SLOW}", "timeout": 3})
            await until(lambda: has_begun("a", "b"))
            await stop(desk, True)
            await anyio.sleep(3.5)
            await stop(desk, False)
        assert ended == [True, True]


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not true():
            await anyio.sleep(0.005)
