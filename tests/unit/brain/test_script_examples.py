"""Tests of the examples' scripts: each has a plan its own brief admits."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.brain.adversaries.names import find_adversary
from hotdesk.brain.models.scripted import ScriptedModel
from hotdesk.brain.plan_audit import audit
from hotdesk.brain.seam import PlanningTask
from hotdesk.brief import grant_text, rule_text
from hotdesk.brief.load import parse_job
from hotdesk.door.policy.scope import scope_of
from hotdesk.hands.tools import list_tools
from hotdesk.swarm.items import Item
from hotdesk.swarm.listing import make_kind

EXAMPLES = Path(__file__).parents[3] / "examples"
SCRIPTED = sorted(path.parent.name for path in EXAMPLES.glob("*/brain.py"))


@pytest.mark.parametrize("name", SCRIPTED)
def test_a_brief_admits_its_scripts_plan_and_the_widest(name: str) -> None:
    folder = EXAMPLES / name
    job = parse_job((folder / "brief.toml").read_bytes(), folder, scope_of, "toml")
    if job.each is not None:
        job = make_kind(job, [Item(0, "c-1", "", f"item{Path(job.each.over).suffix}")])
    tools = list_tools(screen=job.image == "desktop", vision=False, exact=True)
    rules, grants = tuple(map(rule_text, job.scope.rules)), tuple(map(grant_text, job.scope.grants))
    task = PlanningTask(job.goal, (), tuple(f"{item.path} (it)" for item in job.deliverables), rules, grants, tools, "")
    assert not audit(ScriptedModel.read(folder / "brain.py").provide_plan(task), job, tools)
    assert not audit(find_adversary("hijacked").provide_plan(task), job, tools)


def test_every_example_with_a_script_is_here() -> None:
    found = "audit button contract contracts filing invoices-small legacy order patch research transfer twenty"
    assert found.split() == SCRIPTED
