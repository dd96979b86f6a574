"""Tests of plans as text: parsed strictly, written back exactly."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.errors import BriefError, make_printable
from hotdesk.plan import EXAMPLE, MOST_STEPS, Action, Plan, Step, as_text, from_json, parse_text, to_json

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
NAMED = TEXT.filter(bool)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 60), 1 << 60) | TEXT | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
ACTIONS = st.builds(Action, TEXT, TEXT, st.dictionaries(TEXT, VALUES, max_size=3))
STEPS = st.builds(
    Step,
    name=NAMED,
    intent=NAMED,
    tools=st.none() | TEXTS,
    hosts=st.none() | TEXTS,
    grants=st.none() | TEXTS,
    files=TEXTS,
    makes=TEXTS,
    expect=TEXT,
    check=TEXT,
    risk=st.sampled_from(("low", "high")),
    live=st.booleans(),
    keeps=st.booleans(),
    desk=st.sampled_from(("", "fresh", "same")),
    kind=st.sampled_from(("work", "program", "choose")),
    program=TEXT,
    actions=st.lists(ACTIONS, max_size=2).map(tuple),
    wall=st.sampled_from(("", "container", "gvisor")),
)
PLANS = st.builds(Plan, st.lists(STEPS, min_size=1, max_size=3).map(tuple), TEXT)


@pytest.mark.slow
@given(PLANS)
def test_a_plan_comes_back_from_json_and_from_what_a_person_edits(plan: Plan) -> None:
    assert from_json(to_json(plan)) == plan
    again = parse_text(as_text(plan))
    assert again == plan
    assert again.digest == plan.digest


@pytest.mark.slow
@given(PLANS)
def test_the_text_a_person_edits_is_escaped(plan: Plan) -> None:
    text = as_text(plan)
    assert make_printable(text.replace("\n", "")) == text.replace("\n", "")


def test_an_empty_list_differs_from_an_omitted_one() -> None:
    some = Plan((Step("a", "b", hosts=(), grants=None),))
    assert parse_text(as_text(some)).steps[0].hosts == ()
    assert parse_text(as_text(some)).steps[0].grants is None


def test_the_example_is_a_plan() -> None:
    assert from_json(EXAMPLE).steps[0].name == "fetch-orders"


def step(**changes: object) -> str:
    return json.dumps({"steps": [{"name": "a", "intent": "b", **changes}]})


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "the plan cannot be read: it is not JSON"),
        ("[" * 100_000, "the plan cannot be read: it is not JSON"),
        ('{"steps": [], "steps": []}', "duplicate key"),
        ("[]", "the plan cannot be read: it is []"),
        ("{}", "steps cannot be read"),
        ('{"steps": []}', "steps cannot be read"),
        (json.dumps({"steps": [{"name": "a", "intent": "b"}] * (MOST_STEPS + 1)}), "steps cannot be read"),
        (" " * (1 << 21), "longer than"),
        (step(colour="red"), "steps[0] cannot be read: unknown key 'colour'"),
        (step(name=1), "steps[0].name cannot be read: it is 1"),
        (step(name=""), "steps[0].name cannot be read: it is missing or empty"),
        ('{"steps": [{"name": "a"}]}', "steps[0].intent cannot be read"),
        (step(hosts="a.test"), "steps[0].hosts cannot be read"),
        (step(files=None), "steps[0].files cannot be read"),
        (step(tools=[1]), "steps[0].tools[0] cannot be read"),
        (step(tools=["x"] * 1000), "steps[0].tools cannot be read"),
        (step(live=1), "write true or false"),
        (step(kind="dance"), "write one of 'work', 'program', 'choose'"),
        (step(kind=["work"]), "write one of"),
        (step(expect="x" * 30_000), "steps[0].expect cannot be read: it has 30,000 characters"),
        (step(expect="\ud800"), "a lone surrogate"),
        (step(actions={}), "steps[0].actions cannot be read"),
        (step(actions=[{"name": "a"}]), "steps[0].actions[0].tool cannot be read"),
        (step(actions=[{"name": "a", "tool": "b", "arguments": 1}]), "steps[0].actions[0].arguments cannot be read"),
        (step(actions=[{"name": "a", "tool": "b", "arguments": "{"}]), "it is not JSON"),
        (step(actions=[{"name": "a", "tool": "b", "arguments": {"x": "\ud800"}}]), "must be a JSON object in which"),
        (
            step(actions=[{"name": "a", "tool": "b", "arguments": {"x": 0}}]).replace("0}", "1e999}"),
            "no value is a number of 2",
        ),
        (step(actions=[{"name": "a", "tool": "b", "arguments": {"x": 0}}]).replace("0}", "NaN}"), "not a JSON number"),
        (
            step(actions=[{"name": "a", "tool": "b", "arguments": json.loads('{"x":' * 50 + "1" + "}" * 50)}]),
            "nested more than 20 levels deep",
        ),
    ],
)
def test_an_invalid_plan_is_refused_with_place_and_reason(text: str, where: str) -> None:
    with pytest.raises(BriefError) as failure:
        from_json(text)
    assert where in str(failure.value)


@pytest.mark.parametrize("text", ["steps = 1", "[[steps]]", "x = [", "steps = [1]", "[[steps]]\nname = 2020-01-01"])
def test_an_edit_that_is_not_a_plan_is_refused(text: str) -> None:
    with pytest.raises(BriefError):
        parse_text(text)


def test_the_digest_of_a_plan_that_names_no_wall_is_as_it_was_before_plans_could() -> None:
    plan = Plan((Step("one", "Do it."),))
    assert "wall" not in json.loads(to_json(plan))["steps"][0]
    assert plan.digest == "9f369c1a030eba661a53a2a6fcb0a1c5b2fe1084a8938c7b83b580427ff625a7"
    assert json.loads(to_json(Plan((Step("one", "Do it.", wall="gvisor"),))))["steps"][0]["wall"] == "gvisor"
