"""A plan that a person changes: what comes back is a whole plan, or nothing is decided."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hotdesk.errors import BriefError
from hotdesk.job.draft import as_draft, difference, from_draft, plan_of
from hotdesk.plan import Action, Plan, Step, to_json

PLAN = Plan(
    (
        Step("a", "do it", ("shell",), ("GET h.test/*",), ("t",), ("in",), ("out",), "so", "true", "high", True, True),
        Step("b", "choose", kind="choose", desk="fresh", actions=(Action("one", "shell", {"n": [1, {"x": None}]}),)),
        Step("c", "none at all", tools=(), hosts=(), grants=()),
    ),
    "because \u202e",
)


def test_a_draft_that_nobody_changed_is_the_same_plan() -> None:
    assert from_draft(as_draft(to_json(PLAN))) == to_json(PLAN)
    assert plan_of(to_json(PLAN)) == PLAN


def test_what_is_approved_is_the_digest_of_the_edited_plan() -> None:
    draft = as_draft(to_json(PLAN)).replace("do it", "do it well")
    edited = replace(PLAN, steps=(replace(PLAN.steps[0], intent="do it well"), *PLAN.steps[1:]))
    assert from_draft(draft) == to_json(edited)
    assert plan_of(from_draft(draft)).digest == edited.digest
    assert [line for line in difference(as_draft(to_json(PLAN)), draft) if line[0] in "+-" and line[1:2] == " "] == [
        '-      "intent": "do it",',
        '+      "intent": "do it well",',
    ]


STEP = {"name": "a", "intent": "b"}
WRONG: list[object] = [
    None,
    [],
    {},
    {"steps": []},
    {"steps": [STEP, STEP]},
    {"steps": [STEP], "more": 1},
    {"steps": [{"name": "a"}]},
    {"steps": [{**STEP, "hosts": "evil.test"}]},
    {"steps": [{**STEP, "hosts": [1]}]},
    {"steps": [{**STEP, "risk": "none"}]},
    {"steps": [{**STEP, "live": 1}]},
    {"steps": [{**STEP, "intent": None}]},
    {"steps": [{**STEP, "actions": [{"name": "x"}]}]},
    {"steps": [{**STEP, "actions": [{"name": "x", "tool": "y", "arguments": []}]}]},
    {"steps": [STEP], "thoughts": {}},
]


@pytest.mark.parametrize("told", WRONG)
def test_what_is_no_plan_decides_nothing(told: object) -> None:
    with pytest.raises(BriefError, match="nothing is decided"):
        from_draft(json.dumps(told))


def test_what_is_no_json_decides_nothing() -> None:
    with pytest.raises(BriefError, match="no JSON"):
        from_draft("steps: none")
