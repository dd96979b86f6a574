"""Tests of planning: findings go back to the model until a plan passes or the rounds are used up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hotdesk.brain.critic import FINDINGS, read_findings
from hotdesk.brain.models.seam import ModelRequest, OurMessage, Reply, Results
from hotdesk.brain.plan_audit import audit
from hotdesk.brain.plan_reply import PLAN
from hotdesk.brain.planning import describe, make_plan
from hotdesk.brain.seam import PlanningError, PlanningTask
from hotdesk.brain.small_plan import is_small, plan_small
from hotdesk.brain.window import request_tokens
from hotdesk.brief import CLOSED, Scope, parse_grant, parse_rule
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
    """A model with scripted replies that remembers its requests."""

    replies: list[Reply]
    asked: list[ModelRequest] = field(default_factory=list)

    async def ask(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        return self.replies.pop(0)


@dataclass
class Notes:
    """A log that stores what it is given."""

    rounds: list[tuple[Plan, int, Sequence[str]]] = field(default_factory=list)
    thoughts: list[Reply] = field(default_factory=list)
    seen: list[tuple[int, str, str]] = field(default_factory=list)
    checks: int = 0

    def note_reply(self, step: str, request: ModelRequest, reply: Reply, ms: int) -> list[int]:
        """Record a reply; planning calls are not acts."""
        assert step == ""
        self.thoughts.append(reply)
        return []

    def note_unused(self, step: str, reply: Reply) -> None:
        raise AssertionError("every reply is used")

    def note_observation(self, step: str, act: int, call: Call, seen: Observation, ms: int) -> str:
        self.seen.append((act, call.tool, seen.text))
        return ""

    def note_plan(self, plan: Plan, round_number: int, findings: Sequence[str]) -> None:
        self.rounds.append((plan, round_number, tuple(findings)))

    def check(self) -> None:
        self.checks += 1

    def is_halted(self) -> bool:
        return False


@pytest.fixture
def job(tmp_path: Path) -> Brief:
    (tmp_path / "in.txt").write_text(SECRET)
    rules = (parse_rule("read erp.test"),)
    return Brief("Fetch it.", (Deliverable("out.csv", "csv"),), tmp_path, "", inputs=("in.txt",), scope=Scope(rules))


def gives(plan: Plan | str | dict[str, object]) -> Reply:
    told = to_json(plan) if isinstance(plan, Plan) else plan
    return Reply(calls=(Call("c", PLAN.name, {"plan": told}),), stop="calls")


def finds(*findings: str) -> Reply:
    return Reply(calls=(Call("f", FINDINGS.name, {"findings": list(findings)}),), stop="calls")


async def test_a_plan_without_findings_is_accepted_at_once(job: Brief) -> None:
    model, log = Script([gives(GOOD), finds()]), Notes()
    assert await make_plan(model.ask, TASK, job, log) == GOOD
    assert log.rounds == [(GOOD, 1, ())]
    assert log.seen == []
    assert log.checks == 2
    assert {each.cache for each in model.asked} == {job.digest[:16]}


async def test_audit_findings_go_back_to_the_model(job: Brief) -> None:
    model, log = Script([gives("{"), gives(BAD), gives(GOOD), finds()]), Notes()
    assert await make_plan(model.ask, TASK, job, log) == GOOD
    assert [number for _, number, _ in log.rounds] == [2, 3]
    last = model.asked[2].history
    assert [type(each) for each in last] == [OurMessage, Reply, Results, Reply, Results]
    assert "not JSON" in str(last[2])
    assert "not covered by a single rule of the brief" in str(last[4])


async def test_a_critics_findings_go_back_as_advice_at_most_twice(job: Brief) -> None:
    model = Script([gives(GOOD), finds("Check it."), gives(GOOD), finds("Check it twice."), gives(GOOD)])
    log = Notes()
    assert await make_plan(model.ask, TASK, job, log, rounds=1) == GOOD
    assert [findings for _, _, findings in log.rounds] == [("Check it.",), ("Check it twice.",), ()]
    assert model.replies == []
    advice = model.asked[2].history[-1]
    assert isinstance(advice, Results)
    [(_, seen)] = advice.pairs
    assert seen.ok
    assert "A reviewer suggests:\n- Check it." in seen.text
    assert len(model.asked[1].history) == 1
    assert model.asked[1].tools == (FINDINGS,)
    assert "Your findings" not in str(model.asked[1].history[0])
    assert "earlier version of the plan:\n- Check it." in model.asked[3].history[0].text  # type: ignore[union-attr]


async def test_a_plan_that_the_audit_accepted_is_not_lost_by_a_worse_one_after_advice(job: Brief) -> None:
    model, log = Script([gives(GOOD), finds("Check it."), gives(BAD)]), Notes()
    assert await make_plan(model.ask, TASK, job, log, rounds=1) == GOOD
    assert log.rounds[-1][0] == GOOD


async def test_errors_of_form_cost_no_round_and_three_are_corrected_in_addition(job: Brief) -> None:
    prose = Reply(text="I will plan this soon.")
    model = Script([prose, prose, gives("{"), gives(GOOD), finds()])
    assert await make_plan(model.ask, TASK, job, Notes(), rounds=1) == GOOD
    with pytest.raises(BriefError, match="no readable plan after 1 rounds"):
        await make_plan(Script([prose] * 4).ask, TASK, job, Notes(), rounds=1)


async def test_out_of_rounds_the_findings_of_code_are_listed(job: Brief) -> None:
    log = Notes()
    with pytest.raises(BriefError, match=r"after 2 rounds.*evil\.test.*needs that rule") as caught:
        await make_plan(Script([gives(BAD), gives(BAD)]).ask, TASK, job, log, rounds=2)
    assert "widen the brief" not in str(caught.value)
    assert len(log.rounds) == 2


@pytest.mark.parametrize(
    "reply",
    [
        gives(json.loads(to_json(GOOD))),
        Reply(calls=(Call("c", "plan", json.loads(to_json(GOOD))),)),
        Reply(text=f"Here it is:\n```json\n{to_json(GOOD)}\n```"),
        Reply(calls=(Call("a", "shell", {}), Call("c", "plan", {"plan": to_json(GOOD)}))),
        Reply(text=f"Use {{this}}:\n{to_json(GOOD)}\nStep {{fetch}} is first. Good luck!"),
        gives(f"Here is my plan:\n{to_json(GOOD)}\n\nI hope it suits you. }}"),
        gives({"plan": json.loads(to_json(GOOD))}),
        gives(to_json(GOOD).replace('"in.txt"', '"/home/user/in.txt"').replace('"out.csv"', '"~/out.csv"')),
        gives(to_json(GOOD).replace('"check":""', '"check":null,"depends_on":["nothing"],"owner":null')),
        gives(to_json(GOOD).replace('["shell"]', '"shell"')),
    ],
)
async def test_models_write_a_plan_in_several_ways(job: Brief, reply: Reply) -> None:
    assert await make_plan(Script([reply, finds()]).ask, TASK, job, Notes()) == GOOD


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(text="I would rather not."), "no plan was submitted"),
        (Reply(calls=(Call("c", "shell", {}),)), "no plan was submitted"),
        (Reply(calls=(Call("c", "plan", {}),)), "plan is missing"),
        (Reply(calls=(Call("c", "plan", "x"),)), "must be a JSON object"),
        (Reply(calls=(Call("c", "plan", {"plan": '{"steps": [{'}),), stop="length"), "write a shorter plan"),
        (gives(to_json(GOOD).replace('"grants"', '"grant"')), "unknown key "),
    ],
)
async def test_an_invalid_plan_is_reported_to_the_model(job: Brief, reply: Reply, said: str) -> None:
    model, log = Script([reply, gives(GOOD), finds()]), Notes()
    assert await make_plan(model.ask, TASK, job, log) == GOOD
    assert said in str(model.asked[1].history[2])


@pytest.mark.parametrize("first", [False, True])
async def test_a_refusal_to_plan_ends_planning(job: Brief, first: bool) -> None:
    refused = Reply("I would rather not.", stop="refused")
    model = Script([refused] if first else [gives(GOOD), finds("Check it."), refused])
    if first:
        with pytest.raises(PlanningError, match=r"^The model refused to plan the job: I would rather not\."):
            await make_plan(model.ask, TASK, job, Notes())
    else:
        assert await make_plan(model.ask, TASK, job, Notes()) == GOOD


@pytest.mark.parametrize(
    "reply",
    [
        Reply(text="Fine."),
        Reply(text="No findings."),
        Reply(text="I see nothing wrong with this plan."),
        Reply(text="The plan looks good to me."),
        Reply(text='```json\n{"findings": []}\n```'),
        Reply(calls=(Call("f", "findings", {"findings": 1}),)),
        Reply(calls=(Call("f", "findings", {"findings": ["None."]}),)),
        Reply(text="I would rather not.", stop="refused"),
    ],
)
def test_a_critic_who_agrees_in_any_words_has_no_finding(reply: Reply) -> None:
    assert read_findings(reply) == ()


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(text="- Step a has no check.\n2) Step b is late.\n"), ("Step a has no check.", "Step b is late.")),
        (Reply(text="No step makes out.csv."), ("No step makes out.csv.",)),
        (Reply(text="Looks good, but the order is wrong."), ("Looks good, but the order is wrong.",)),
        (Reply(text='{"findings": ["Check it."]}'), ("Check it.",)),
        (Reply(calls=(Call("f", "findings", {"findings": "Check it."}),)), ("Check it.",)),
        (Reply(text="x" * 2000), ("x" * 500,)),
    ],
)  # fmt: skip
def test_a_critic_who_answers_in_prose_is_read(reply: Reply, expected: tuple[str, ...]) -> None:
    assert read_findings(reply) == expected


async def test_no_byte_of_an_input_is_in_any_request(job: Brief) -> None:
    model = Script([gives(BAD), gives(GOOD), finds("Check it."), gives(GOOD), finds()])
    await make_plan(model.ask, TASK, job, Notes())
    told = json.dumps([asdict(each) for each in model.asked], default=str)
    assert "in.txt" in told
    assert SECRET not in told


async def test_the_example_in_the_prompt_is_a_complete_plan(job: Brief) -> None:
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


ERP = (
    "GET https://erp.example.test/login? up=4K step=export",
    "POST https://erp.example.test/login? up=4K step=export",
    "GET https://erp.example.test/orders?page=* down=1M step=export",
)


async def test_rules_written_as_the_example_writes_them_and_a_step_of_another_name_need_no_second_round(
    job: Brief,
) -> None:
    erp = replace(job, scope=Scope(tuple(map(parse_rule, ERP)), (parse_grant("erp@erp.example.test step=export"),)))
    hosts = (
        "GET https://erp.example.test/login",
        "POST https://erp.example.test/login",
        "GET https://erp.example.test/orders",
    )
    fetch = Step("fetch-orders", "Fetch.", ("shell",), hosts, ("erp",), (), ("out.csv",))
    model = Script([gives(Plan((fetch,))), finds()])
    [step] = (await make_plan(model.ask, TASK, erp, Notes())).steps
    assert step.name == "export"
    assert step.hosts == (
        "GET https://erp.example.test/login? up=4K",
        "POST https://erp.example.test/login? up=4K",
        "GET https://erp.example.test/orders?page=* down=1M",
    )


async def test_a_small_brief_is_planned_without_a_model(job: Brief) -> None:
    small, log = replace(job, scope=CLOSED, tools=("shell",)), Notes()
    plan = await make_plan(Script([]).ask, replace(TASK, tools=(*TOOLS, Tool("packages", ""))), small, log)
    [step] = plan.steps
    assert (step.tools, step.hosts, step.grants) == (("shell",), (), ())
    assert (step.files, step.makes) == (("in.txt",), ("out.csv",))
    assert audit(plan, small, TOOLS) == ()
    assert log.rounds == [(plan, 1, ())]


@pytest.mark.parametrize(
    "change",
    [
        {"deliverables": (Deliverable("a", ""), Deliverable("b", ""))},
        {"scope": Scope((parse_rule("read erp.test"),))},
        {"scope": Scope(grants=(parse_grant("erp@erp.test"),))},
        {"scope": Scope(anywhere=True)},
        {"approve": "plan"},
        {"approve": "every"},
    ],
)
def test_a_brief_that_reaches_out_has_two_files_or_shows_its_plan_is_not_small(
    job: Brief, change: dict[str, Any]
) -> None:
    small = replace(job, scope=Scope((parse_rule("deny evil.test"),)))
    assert is_small(small)
    assert not is_small(replace(small, **change))


def test_a_small_plan_has_root_only_where_the_brief_names_it(job: Brief) -> None:
    tools = (*TOOLS, Tool("packages", ""))
    assert plan_small(replace(job, tools=()), tools).steps[0].tools == ("shell",)
    assert plan_small(replace(job, tools=("shell", "packages")), tools).steps[0].tools == ("shell", "packages")


def test_no_description_of_a_tool_is_cut_inside_a_word() -> None:
    long = Tool("long", "word " * 200)
    [line] = [each for each in describe(replace(TASK, tools=(long,))).splitlines() if each.startswith("- long")]
    assert line.endswith("word …")


async def test_the_prompt_explains_rules_and_the_number_of_rounds(job: Brief) -> None:
    model = Script([gives(GOOD), finds()])
    await make_plan(model.ask, TASK, job, Notes())
    for part in ("`?`", "`up=4K`", "`down=50M`", "`step=export`"):
        assert part in model.asked[0].system
    assert "You have 5 rounds" in str(model.asked[0].history[0])
