"""Tests of swarm briefs: items, limits for each item, and the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.brief.brief import Brief, Each, JobBudget
from hotdesk.brief.load import parse_job
from hotdesk.door.policy.scope import scope_of

WHOLE = """
goal = "Read {item}."
deliverables = [{path = "{item}.json"}]

[each]
over = "rows.csv"
key = "number"
batch = 5
seconds = 60
attempts = 3
quarantine = 0.2
tokens = 1000
dollars = 0.05
acts = 20

[reduce]
goal = "Build the register."
image = "office"
seconds = 300
deliverables = [{path = "register.xlsx"}]
"""


def parse(text: str) -> Brief:
    return parse_job(text.encode(), Path(), scope_of)


def test_every_field_of_a_swarm_is_read() -> None:
    brief = parse(WHOLE)
    assert brief.each == Each("rows.csv", "number", 5, 60.0, 3, JobBudget(1000, 0.05, 20), 0.2)
    assert brief.reduce is not None
    assert (brief.reduce.goal, brief.reduce.image, brief.reduce.seconds) == ("Build the register.", "office", 300.0)
    assert [item.path for item in brief.reduce.deliverables] == ["register.xlsx"]


def test_a_minimal_swarm_brief_is_valid() -> None:
    brief = parse('goal = "x"\ndeliverables = [{path = "{item}.json"}]\n[each]\nover = "in/*.pdf"\n')
    assert brief.each == Each("in/*.pdf")
    assert brief.reduce is None


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('over = "rows.csv"\n', "", "line 5: \\[each\\] has no `over`"),
        ('"rows.csv"', '"../rows.csv"', "line 6: each.over .* must be a path relative to the brief's folder"),
        ('"rows.csv"', '"in/**/*.pdf"', "line 6: each.over may use"),
        ("batch = 5", "batch = 0", "line 8: each.batch must be a number"),
        ("attempts = 3", "attempts = 9", "line 10: each.attempts must be a number"),
        ("quarantine = 0.2", "quarantine = 2", "line 11: each.quarantine must be a number"),
        ("acts = 20", "sets = 20", "line 14: each has no field 'sets'"),
        ('key = "number"', "key = 1", "line 7: each.key must be a column name of at most"),
        ('path = "{item}.json"', 'path = "all.json"', "line 3: every item delivers its own file"),
        ('goal = "Build the register."\n', "", "line 16: \\[reduce\\] has no goal"),
    ],
)
def test_an_invalid_value_is_refused_with_its_line(old: str, new: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(WHOLE.replace(old, new, 1))


def test_an_items_name_needs_items() -> None:
    with pytest.raises(ValueError, match=r"line 2: .*stands for the name of an item, but the brief has no items"):
        parse('goal = "x"\ndeliverables = [{path = "{item}.json"}]\n')


def test_a_report_needs_items() -> None:
    text = 'goal = "x"\ndeliverables = [{path = "a.json"}]\n[reduce]\ngoal = "x"\ndeliverables = [{path = "b.json"}]\n'
    with pytest.raises(ValueError, match="line 3: \\[reduce\\] combines"):
        parse(text)


def test_only_the_operator_names_files_of_this_machine() -> None:
    with pytest.raises(ValueError, match="this brief must not set each"):
        parse_job(WHOLE.encode(), Path(), scope_of, operator=False)
