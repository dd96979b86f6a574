"""Tests of changing the plan during a step: what a worker is told, what passes the audit, and who decides."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pytest

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.seam import ModelRequest, OurMessage, Reply, Results
from hotdesk.brief.load import parse_job
from hotdesk.config import Config
from hotdesk.door.policy.scope import scope_of
from hotdesk.event import Decided, Event, Pending
from hotdesk.job.local import LocalMachine, local_machine
from hotdesk.job.people.wait import decide, read_card
from hotdesk.job.record import papers
from hotdesk.job.record.receipt import Receipt
from hotdesk.tool import Call
from hotdesk.work import JobContext, work

JOB_ID = "i" + "a1b2" * 5
BRIEF = """
goal = "Count."
approve = "{approve}"
deliverables = [{{path = "a.csv", checks = []}}, {{path = "b.csv", checks = []}}]
tools = ["shell", "file_*"]
"""
CHECK = "python3 -c 'import nosuchmodule'"
STEPS = [
    {"name": "one", "intent": "One.", "tools": ["shell"], "makes": ["a.csv"], "check": CHECK},
    {"name": "two", "intent": "Two.", "tools": ["shell"], "makes": ["b.csv"]},
]


Use: TypeAlias = tuple[str, dict[str, object]]


@dataclass
class Mind:
    """A model that plans as it is told, and uses tools in order."""

    uses: list[Use]
    asked: list[ModelRequest] = field(default_factory=list)
    name, window, native_screen, sees = "mind", 100_000, False, False

    async def ask(self, request: ModelRequest) -> Reply:
        """Return the plan, no finding, or the next use."""
        self.asked.append(request)
        offered = {tool.name for tool in request.tools}
        if "plan" in offered:
            call = Call("1", "plan", {"plan": json.dumps({"steps": STEPS})})
        elif "findings" in offered:
            call = Call("1", "findings", {"findings": []})
        else:
            call = Call("1", *(self.uses.pop(0) if self.uses else ("give_up", {"why": "nothing is left to do"})))
        return Reply(calls=(call,), stop="calls", model=self.name)

    async def close(self) -> None:
        """Release nothing."""

    @property
    def seen(self) -> list[str]:
        last = [each.history[-1] for each in self.asked if each.step and each.history]
        return [pair[1].text + pair[1].note for each in last if isinstance(each, Results) for pair in each.pairs]


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[LocalMachine]:
    async with local_machine(Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path)) as made:
        yield made


async def carry_out(
    machine: LocalMachine, folder: Path, mind: Mind, approve: str = "auto", heard: Callable[[Event], None] | None = None
) -> Receipt:
    job = parse_job(BRIEF.format(approve=approve).encode(), folder, scope_of, "toml")
    context = JobContext(machine, job, id=JOB_ID, listener=heard or (lambda event: None))
    return await work(context, ModelBrain(job, [mind], [mind]))


WRITES: Use = ("shell", {"command": "echo 1 > a.csv; echo 2 > b.csv"})
FINISH: Use = ("finish", {"summary": "done"})


@pytest.mark.slow
async def test_a_check_that_cannot_run_is_reported_before_the_first_turn_and_another_is_agreed_on(
    machine: LocalMachine, tmp_path: Path
) -> None:
    amends: Use = ("amend_plan", {"reason": "There is no such module.", "check": "grep -q 1 a.csv"})
    mind = Mind([WRITES, FINISH, amends, FINISH, FINISH])
    receipt = await carry_out(machine, tmp_path, mind)
    assert receipt.outcome == "done", (receipt.why, mind.seen)
    first = next(each for each in mind.asked if each.step).history[0]
    assert isinstance(first, OurMessage)
    assert "The step's check cannot run here: Python has no module named nosuchmodule" in first.text
    assert "The step is not finished: The step's check cannot run here: ModuleNotFoundError" in mind.seen[1]
    assert "amend_plan(check=…)" in mind.seen[1]
    assert mind.seen[2].startswith("The plan is amended: ~ one: check is")


@pytest.mark.slow
async def test_a_counterfeit_module_finishes_no_step(machine: LocalMachine, tmp_path: Path) -> None:
    fakes: Use = ("shell", {"command": "echo pass > nosuchmodule.py; echo 1 > a.csv"})
    mind = Mind([fakes, FINISH])
    receipt = await carry_out(machine, tmp_path, mind)
    assert receipt.outcome == "failed"
    assert "cannot run here" in mind.seen[1]


@pytest.mark.sample(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"tools": ["look"]}, "this tool does not exist. Allowed tools: file_create, "),
        ({"tools": ["screen_click"]}, "'screen_click' cannot be used"),
        ({"makes": ["c.csv"]}, "No step makes the deliverable 'a.csv'"),
        ({"makes": ["/etc/passwd"]}, "is not a path in the home folder"),
        ({"steps": "[]"}, "No step makes the deliverable 'b.csv'"),
        ({"steps": '[{"name": "one", "intent": "x"}]'}, "the plan already has a step 'one'"),
        ({"steps": '[{"name": "new"}]'}, "steps[0].intent cannot be read"),
        ({}, "the amendment changes nothing; give one or more of hosts, grants, tools, check, makes, steps"),
    ],
)
async def test_an_amendment_is_audited_like_a_plan(
    asked: dict[str, object], why: str, machine: LocalMachine, tmp_path: Path
) -> None:
    mind = Mind([("amend_plan", {"reason": "x", **asked})])
    await carry_out(machine, tmp_path, mind)
    assert mind.seen[0].startswith("The plan was not amended: ")
    assert why in mind.seen[0]


@pytest.mark.slow
async def test_the_steps_that_remain_are_others_then(machine: LocalMachine, tmp_path: Path) -> None:
    steps = json.dumps([{"name": "three", "intent": "Three.", "tools": ["shell"], "makes": ["c.csv"]}, {"name": "two"}])
    amends: Use = ("amend_plan", {"reason": "c.csv is needed.", "check": "", "steps": steps})
    makes: Use = ("shell", {"command": "cp a.csv c.csv"})
    mind = Mind([WRITES, amends, FINISH, makes, FINISH, FINISH])
    receipt = await carry_out(machine, tmp_path, mind)
    assert receipt.outcome == "done", (receipt.why, mind.seen)
    assert list(dict.fromkeys(each.step for each in mind.asked if each.step)) == ["one", "three", "two"]


@pytest.mark.slow
async def test_a_refusal_reaches_the_worker_with_its_reason(machine: LocalMachine, tmp_path: Path) -> None:
    kinds: list[str] = []

    def answer(event: Event) -> None:
        if not isinstance(event, Pending):
            return
        kinds.append(event.kind)
        kept = papers.find(machine.config.lib / "jobs", JOB_ID)
        card = read_card(kept.read_text(event.paper))
        if event.kind == "plan":
            machine.note(Decided(JOB_ID, event.id, event.digest, "approved", "Ada"))
        else:
            assert '~ one: check is "true"' in card.lines
            machine.note(decide(event, card, kept, "refused", "Ada", words="test the sums instead"))

    mind = Mind([("amend_plan", {"reason": "x", "check": "true"})])
    await carry_out(machine, tmp_path, mind, "plan", answer)
    assert kinds == ["plan", "amendment"]
    assert mind.seen[0] == "The plan was not amended: refused by Ada: test the sums instead"
