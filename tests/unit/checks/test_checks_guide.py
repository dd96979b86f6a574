"""Tests of the guide to checks: a section for each check, valid examples, and every key and rule documented."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from hotdesk.brief.brief import Deliverable, RequiredCheck
from hotdesk.brief.load import parse_job
from hotdesk.checks import CHECKS, find
from hotdesk.checks.seam import Evidence
from hotdesk.door.policy.scope import scope_of
from hotdesk.errors import BriefError

GUIDE = (Path(__file__).parents[3] / "docs/guide/checks.md").read_text()
SECTIONS = dict(re.findall(r"^## `([\w-]+)`\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL))
AS_PDF = ("docx", "pptx")
"""Checks that accept another check's expectations: their keys are in its section."""
ALWAYS = "active-content"
"""The check that always runs."""


def deliverables(section: str) -> list[Deliverable]:
    blocks = re.findall(r"^```toml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    jobs = [parse_job(f'goal = "x"\n{text}'.encode(), Path("/nowhere"), scope_of, "toml") for text in blocks]
    return [item for job in jobs for item in job.deliverables]


def keys(section: str) -> list[str]:
    return re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)


def test_there_is_a_section_for_every_check() -> None:
    assert sorted(SECTIONS) == sorted(CHECKS)


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_every_example_is_valid_and_every_rule_is_documented(name: str) -> None:
    shown = [wanted for item in deliverables(SECTIONS[name]) for wanted in item.checks if wanted.check == name]
    for wanted in shown or [RequiredCheck(name)]:
        rules = find(name, wanted.expect).judge(Evidence(b"")).looked_for
        assert not [rule for rule in rules if f"`{rule}`" not in SECTIONS[name]]


@pytest.mark.parametrize("name", sorted(set(SECTIONS) - {*AS_PDF, ALWAYS}))
def test_every_key_is_documented_with_an_example(name: str) -> None:
    shown = {key for item in deliverables(SECTIONS[name]) for each in item.checks for key in each.expect}
    assert sorted(shown) == sorted(keys(SECTIONS[name]))


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_a_check_that_lists_its_keys_lists_those_of_the_guide(name: str) -> None:
    with pytest.raises(BriefError) as refused:
        find(name, {"no such key": 1})
    listed = re.search(r"its options are ([\w, -]+)", str(refused.value))
    known = getattr(import_module(CHECKS[name].partition(":")[0]), "KEYS", listed and listed[1].split(", "))
    if known:
        assert sorted(known) == sorted(keys(SECTIONS["pdf" if name in AS_PDF else name]))


def test_the_first_example_is_valid() -> None:
    (item,) = deliverables(GUIDE.partition("\n## ")[0])
    assert [find(wanted.check, wanted.expect) for wanted in item.checks]
