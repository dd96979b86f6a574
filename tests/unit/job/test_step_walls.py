"""Tests of the walls of a job's desks: the plan's requirement applies, also after amendments and a pause."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.job.test_amending import FINISH, JOB_ID, STEPS, WRITES, Mind, Use

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.seam import ModelRequest, Reply
from hotdesk.brief import CLOSED, Scope
from hotdesk.brief.load import parse_job
from hotdesk.config import Config
from hotdesk.desk.seam import Desk, Spec
from hotdesk.door.policy.scope import scope_of
from hotdesk.errors import BriefError, ModelError
from hotdesk.job.local import LocalMachine, local_machine
from hotdesk.job.record.receipt import Receipt
from hotdesk.tool import Call
from hotdesk.walls import NOMINAL_CATALOG, TRAITS, WallCatalog, WallStatus
from hotdesk.work import JobContext, work

BRIEF = """
goal = "Count."
deliverables = [{path = "a.csv", checks = []}, {path = "b.csv", checks = []}]
tools = ["shell", "file_*"]
"""
PLAIN = WallCatalog({"container": WallStatus("container", TRAITS["container"])})


@dataclass
class WalledMachine:
    """A machine without walls that notes which wall each desk was to have."""

    local: LocalMachine
    walls: WallCatalog = NOMINAL_CATALOG
    opened: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.local, name)

    async def open(self, spec: Spec | None = None, scope: Scope = CLOSED) -> Desk:
        self.opened.append((spec or Spec()).wall)
        return await self.local.open(spec, scope)


@dataclass
class Planner(Mind):
    """A mind with a plan of its own, whose provider is gone once it has nothing left to do."""

    steps: list[dict[str, object]] = field(default_factory=lambda: [dict(each) for each in STEPS])

    async def ask(self, request: ModelRequest) -> Reply:
        """Return the plan; fail where nothing is left to do."""
        offered = {tool.name for tool in request.tools}
        if "plan" in offered:
            call = Call("1", "plan", {"plan": json.dumps({"steps": self.steps})})
            return Reply(calls=(call,), stop="calls", model=self.name)
        if not self.uses and "findings" not in offered:
            raise ModelError("nobody answers")
        return await Mind.ask(self, request)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[WalledMachine]:
    async with local_machine(Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path)) as local:
        yield WalledMachine(local)


async def carry_out(
    machine: WalledMachine, folder: Path, mind: Mind, more: str = "", *, again: bool = False
) -> Receipt:
    job = parse_job(f"{more}\n{BRIEF}".encode(), folder, scope_of, "toml")
    context = JobContext(machine, job, id=JOB_ID, goes_on=again)  # type: ignore[arg-type]
    return await work(context, ModelBrain(job, [mind], [mind]))


def plan(*walls: str) -> list[dict[str, object]]:
    return [{**each, "check": "", "wall": wall} for each, wall in zip(STEPS, walls, strict=True)]


@pytest.mark.slow
async def test_the_desk_of_a_job_has_the_strongest_wall_of_its_steps(machine: WalledMachine, tmp_path: Path) -> None:
    mind = Planner([WRITES, FINISH, FINISH], steps=plan("", "gvisor"))
    receipt = await carry_out(machine, tmp_path, mind)
    assert receipt.outcome == "done", receipt.why
    assert machine.opened[0] == "gvisor"


async def test_a_brief_raises_every_desk_and_no_step_lowers_one(machine: WalledMachine, tmp_path: Path) -> None:
    mind = Planner([WRITES, FINISH, FINISH], steps=plan("container", "gvisor"))
    await carry_out(machine, tmp_path, mind, 'wall = "microvm"')
    assert {*machine.opened} == {"microvm"}


@pytest.mark.slow
async def test_an_amendment_that_needs_a_stronger_wall_moves_the_job_behind_it(
    machine: WalledMachine, tmp_path: Path
) -> None:
    later = json.dumps([{"name": "two", "intent": "Two.", "tools": ["shell"], "makes": ["b.csv"], "wall": "gvisor"}])
    amends: Use = ("amend_plan", {"reason": "It is sensitive.", "steps": later})
    mind = Planner([WRITES, amends, FINISH, FINISH], steps=plan("", ""))
    receipt = await carry_out(machine, tmp_path, mind)
    assert receipt.outcome == "done", (receipt.why, mind.seen)
    assert machine.opened[:2] == ["container", "gvisor"]
    assert '~ two: wall is "gvisor"' in mind.seen[1]


async def test_a_plan_with_a_wall_that_is_not_there_is_not_accepted(machine: WalledMachine, tmp_path: Path) -> None:
    machine.walls = PLAIN
    receipt = await carry_out(machine, tmp_path, Planner([], steps=plan("", "gvisor")))
    assert (receipt.outcome, machine.opened) == ("failed", [])
    assert "the wall gvisor is not available here" in receipt.why
    assert "`hotdesk setup --wall gvisor` sets it up" in receipt.why


@pytest.mark.slow
async def test_a_job_does_not_continue_behind_a_weaker_wall_than_it_began(
    machine: WalledMachine, tmp_path: Path
) -> None:
    paused = await carry_out(machine, tmp_path, Planner([WRITES, FINISH], steps=plan("", "gvisor")))
    assert paused.outcome == "paused", paused.why
    machine.walls, opened = PLAIN, len(machine.opened)
    with pytest.raises(BriefError, match="step two: the wall gvisor is not available here"):
        await carry_out(machine, tmp_path, Planner([FINISH]), again=True)
    assert len(machine.opened) == opened
    machine.walls = NOMINAL_CATALOG
    receipt = await carry_out(machine, tmp_path, Planner([FINISH]), again=True)
    assert receipt.outcome == "done", receipt.why
    assert machine.opened[opened] == "gvisor"
