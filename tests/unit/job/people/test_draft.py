"""Tests of a plan edited by a person: the result is a valid plan, or nothing is decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hotdesk.errors import BriefError
from hotdesk.job.people.draft import as_draft, from_draft, list_differing_lines
from hotdesk.plan import Plan, Step, from_json, to_json

PLAN = Plan((Step("a", "do it", hosts=("GET h.test/*",), risk="high"), Step("b", "no \x1b[2J tools", tools=())), "so")


def test_a_draft_that_nobody_changed_is_the_same_plan() -> None:
    assert from_draft(as_draft(to_json(PLAN))) == to_json(PLAN)
    assert all(line.isprintable() for line in as_draft(to_json(PLAN)).splitlines())


def test_what_is_approved_is_the_digest_of_the_edited_plan() -> None:
    before = as_draft(to_json(PLAN))
    after = before.replace("do it", "do it well")
    edited = replace(PLAN, steps=(replace(PLAN.steps[0], intent="do it well"), *PLAN.steps[1:]))
    assert from_json(from_draft(after)) == edited
    assert from_json(from_draft(after)).digest == edited.digest != PLAN.digest
    changed = [line for line in list_differing_lines(before, after) if line.startswith(("+i", "-i"))]
    assert changed == ['-intent = "do it"', '+intent = "do it well"']


@pytest.mark.parametrize("text", ["", "no TOML", "steps = []", '[[steps]]\nname = "a"', "[[steps]]\nevil = 1"])
def test_an_invalid_plan_is_refused(text: str) -> None:
    with pytest.raises(BriefError):
        from_draft(text)
