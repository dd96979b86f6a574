"""Thinking before acting: findings go back until a plan is clean, or rounds are out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from hotdesk.brain.models.seam import ModelRequest, OurMessage, Reply, Results
from hotdesk.brain.planning import FINDINGS, PLAN, make_plan
from hotdesk.brain.seam import PlanningTask
from hotdesk.brain.window import request_tokens
from hotdesk.brief import Scope, parse_rule
from hotdesk.brief.brief import Brief, Deliverable
from hotdesk.errors import BriefError
from hotdesk.plan import Plan, Step, to_json
from hotdesk.tool import Call, Observation, Tool

TOOLS = (Tool("shell", "Run a command."),)
GOOD = Plan((Step("fetch", "Fetch.", ("shell",), ("GET erp.test/x",), (), ("in.txt",), ("out.csv",)),), "So.")
BAD = Plan((Step("fetch", "Fetch.", ("shell",), ("GET evil.test/x",), (), ("in.txt",), ("out.csv",)),))
SECRET = "never in a prompt"
TASK = PlanningTask("Fetch it.", ("in.txt",), ("out.csv (csv)",), ("read erp.test",), (), TOOLS, "10 acts")


@dataclass
class Script:
    """A model that says what it was given to say, and remembers what it was asked."""

    replies: list[Reply]
    asked: list[ModelRequest] = field(default_factory=list)

    async def ask(self, request: ModelRequest) -> Reply:
        """Give the next reply."""
        self.asked.append(request)
        return self.replies.pop(0)


@dataclass
class Notes:
    """A log that keeps what it is told."""

    rounds: list[tuple[Plan, int, Sequence[str]]] = field(default_factory=list)
    thoughts: list[Reply] = field(default_factory=list)
    seen: list[tuple[int, str, str]] = field(default_factory=list)
    checks: int = 0

    def note_reply(self, step: str, request: ModelRequest, reply: Reply, ms: int) -> list[int]:
        """Keep a reply: calls that plan are no acts."""
        assert step == ""
        self.thoughts.append(reply)
        return []

    def note_observation(self, step: str, act: int, call: Call, seen: Observation, ms: int) -> str:
        """Keep what came of a call."""
        self.seen.append((act, call.tool, seen.text))
        return ""

    def note_plan(self, plan: Plan, round_number: int, findings: Sequence[str]) -> None:
        """Keep a round."""
        self.rounds.append((plan, round_number, tuple(findings)))

    def check(self) -> None:
        """Count how often the budget was looked at."""
        self.checks += 1


@pytest.fixture
def job(tmp_path: Path) -> Brief:
    (tmp_path / "in.txt").write_text(SECRET)
    rules = (parse_rule("read erp.test"),)
    return Brief("Fetch it.", (Deliverable("out.csv", "csv"),), tmp_path, "", inputs=("in.txt",), scope=Scope(rules))


def gives(plan: Plan | str | dict[str, object]) -> Reply:
    """Reply with a plan."""
    told = to_json(plan) if isinstance(plan, Plan) else plan
    return Reply(calls=(Call("c", PLAN.name, {"plan": told}),), stop="calls")


def finds(*findings: str) -> Reply:
    """Reply with findings."""
    return Reply(calls=(Call("f", FINDINGS.name, {"findings": list(findings)}),), stop="calls")


async def test_a_clean_plan_is_taken_at_once(job: Brief) -> None:
    model, log = Script([gives(GOOD), finds()]), Notes()
    assert await make_plan(model.ask, TASK, job, log) == GOOD
    assert log.rounds == [(GOOD, 1, ())]
    assert log.seen == []
    assert log.checks == 2
    assert {each.cache for each in model.asked} == {job.digest[:16]}


async def test_what_code_finds_goes_back_to_the_model(job: Brief) -> None:
    model, log = Script([gives("{"), gives(BAD), gives(GOOD), finds()]), Notes()
    assert await make_plan(model.ask, TASK, job, log) == GOOD
    assert [number for _, number, _ in log.rounds] == [2, 3]
    last = model.asked[2].history
    assert [type(each) for each in last] == [OurMessage, Reply, Results, Reply, Results]
    assert "not JSON" in str(last[2])
    assert "not covered by one rule of the brief" in str(last[4])


async def test_what_the_model_finds_goes_back_too_and_is_shown_in_the_end(job: Brief) -> None:
    model, log = Script([gives(GOOD), finds("Check it."), gives(GOOD), finds("Check it.")]), Notes()
    assert await make_plan(model.ask, TASK, job, log, rounds=2) == GOOD
    assert [findings for _, _, findings in log.rounds] == [("Check it.",), ("Check it.",)]
    assert "Check it." in str(model.asked[2].history[-1])
    assert len(model.asked[1].history) == 1
    assert model.asked[1].tools == (FINDINGS,)


async def test_out_of_rounds_the_findings_of_code_are_listed(job: Brief) -> None:
    log = Notes()
    with pytest.raises(BriefError, match=r"after 2 rounds.*evil\.test"):
        await make_plan(Script([gives(BAD), gives(BAD)]).ask, TASK, job, log, rounds=2)
    assert len(log.rounds) == 2


@pytest.mark.parametrize(
    "reply",
    [
        gives(json.loads(to_json(GOOD))),
        Reply(calls=(Call("c", "plan", json.loads(to_json(GOOD))),)),
        Reply(text=f"Here it is:\n```json\n{to_json(GOOD)}\n```"),
        Reply(calls=(Call("a", "shell", {}), Call("c", "plan", {"plan": to_json(GOOD)}))),
    ],
)
async def test_models_write_a_plan_in_several_ways(job: Brief, reply: Reply) -> None:
    assert await make_plan(Script([reply, finds()]).ask, TASK, job, Notes()) == GOOD


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(text="I would rather not."), "no plan was given"),
        (Reply(calls=(Call("c", "shell", {}),)), "no plan was given"),
        (Reply(calls=(Call("c", "plan", {}),)), "plan is missing"),
        (Reply(calls=(Call("c", "plan", "x"),)), "no object"),
        (Reply(calls=(Call("c", "plan", {"plan": '{"steps": [{'}),), stop="length"), "write a shorter plan"),
        (Reply(stop="refused"), "would not plan"),
    ],
)
async def test_what_is_no_plan_is_told_so(job: Brief, reply: Reply, said: str) -> None:
    model, log = Script([reply, gives(GOOD), finds()]), Notes()
    assert await make_plan(model.ask, TASK, job, log) == GOOD
    assert said in str(model.asked[1].history[2])


async def test_a_critic_that_cannot_be_understood_has_said_nothing(job: Brief) -> None:
    for critic in (Reply(text="Fine."), Reply(calls=(Call("f", "findings", {"findings": 1}),))):
        assert await make_plan(Script([gives(GOOD), critic]).ask, TASK, job, Notes()) == GOOD


async def test_no_byte_of_an_input_is_in_any_request(job: Brief) -> None:
    model = Script([gives(BAD), gives(GOOD), finds("Check it."), gives(GOOD), finds()])
    await make_plan(model.ask, TASK, job, Notes())
    told = json.dumps([asdict(each) for each in model.asked], default=str)
    assert "in.txt" in told
    assert SECRET not in told


async def test_the_example_in_the_prompt_is_whole(job: Brief) -> None:
    model = Script([gives(GOOD), finds()])
    await make_plan(model.ask, TASK, job, Notes())
    assert model.asked[0].system.endswith('"makes": ["orders.csv"]}]}')


async def test_rounds_of_planning_fit_a_small_window(job: Brief) -> None:
    told = gives("{" + "never ending " * 1500)
    model = Script([told, told, gives(GOOD), finds()])
    assert await make_plan(model.ask, TASK, job, Notes(), window=16_000) == GOOD
    assert [request_tokens(each) < 16_000 for each in model.asked] == [True] * 4
    assert len(model.asked[2].history) == 4
    assert "1 turns" in str(model.asked[2].history[1]) or "plan " in str(model.asked[2].history[1])
