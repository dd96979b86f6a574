"""Tests of the walls of a plan's desks: which steps are sensitive, what each desk needs, and who may change it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brain.amendments import Amendment, decide_amendment
from hotdesk.brain.permits import choose_wall, find_steps, is_sensitive
from hotdesk.brain.plan_audit import audit
from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.brief.brief import Brief, Deliverable
from hotdesk.plan import Plan, Step
from hotdesk.walls import NOMINAL_CATALOG, TRAITS, WallCatalog, WallStatus

SCOPE = Scope((parse_rule("read erp.test"),), (parse_grant("erp@erp.test bearer"),))
JOB = Brief("goal", (Deliverable("a.csv", "csv"),), Path(), "", scope=SCOPE, walls=NOMINAL_CATALOG)
PLAIN = WallCatalog({"container": WallStatus("container", TRAITS["container"])})
QUIET = Step("quiet", "Count.", hosts=(), grants=(), makes=("a.csv",))
READS = replace(QUIET, name="reads", hosts=("GET erp.test/a",))
PAYS = replace(QUIET, name="pays", hosts=("GET erp.test/b",), grants=("erp",))


@pytest.mark.parametrize(
    ("steps", "job", "sensitive"),
    [
        ((QUIET,), JOB, [False]),
        ((READS,), JOB, [True]),
        ((PAYS,), JOB, [True]),
        ((QUIET,), replace(JOB, inputs=("invoices",)), [True]),
        ((QUIET,), replace(JOB, memory="orders"), [True]),
        ((READS, QUIET), JOB, [True, True]),
        ((QUIET, READS), JOB, [False, True]),
        ((READS, replace(QUIET, desk="fresh")), JOB, [True, False]),
        ((READS, replace(QUIET, desk="fresh", files=("a.csv",))), JOB, [True, True]),
        ((Step("all", "Whatever."),), JOB, [True]),
    ],
    ids=[
        "reads nothing", "reads a host", "has a secret", "inputs", "memory", "after one that read",
        "before one that reads", "at a fresh desk", "at a fresh desk with a file", "says nothing, so it has everything",
    ],
)  # fmt: skip
def test_a_step_with_secrets_or_foreign_content_is_sensitive(
    steps: tuple[Step, ...], job: Brief, sensitive: list[bool]
) -> None:
    assert [is_sensitive(Plan(steps), index, job) for index in range(len(steps))] == sensitive


def walls(plan: Plan, job: Brief) -> list[str]:
    return [choose_wall(plan, find_steps(plan, index, job), job) for index in range(len(plan.steps))]


def test_one_setting_sends_sensitive_steps_behind_a_stronger_wall() -> None:
    plan = Plan((QUIET, replace(PAYS, desk="fresh"), replace(QUIET, name="more")))
    assert walls(plan, JOB) == ["container"] * 3
    assert walls(plan, replace(JOB, sensitive_wall="gvisor")) == ["gvisor"] * 3  # the files it makes are fetched
    plan = Plan((QUIET, replace(PAYS, desk="fresh", makes=())))
    assert walls(plan, replace(JOB, sensitive_wall="gvisor")) == ["container", "gvisor"]


def test_a_desk_has_the_strongest_wall_that_a_step_there_asks_for() -> None:
    strong = replace(QUIET, name="strong", wall="gvisor")
    assert walls(Plan((QUIET, strong)), JOB) == ["gvisor", "gvisor"]
    assert walls(Plan((QUIET, replace(strong, desk="fresh"))), JOB) == ["container", "gvisor"]
    goes_on = replace(QUIET, name="on", keeps=True, wall="microvm")
    assert walls(Plan((QUIET, replace(strong, desk="fresh"), goes_on)), JOB) == ["container", "microvm", "microvm"]


def test_no_step_lowers_the_wall_of_its_brief() -> None:
    plan = Plan((replace(QUIET, wall="container"),))
    job = replace(JOB, wall="gvisor")
    assert walls(plan, job) == ["gvisor"]
    assert audit(plan, job, ()) == ()


def test_a_step_cannot_require_an_unavailable_wall() -> None:
    (found,) = audit(Plan((replace(QUIET, wall="gvisor"),)), replace(JOB, walls=PLAIN), ())
    assert "Step 'quiet': the wall gvisor is not available here" in found
    assert (
        "`hotdesk setup --wall gvisor` sets it up; hotdesk does not fall back to a weaker wall. "
        "Available walls: container." in found
    )
    (found,) = audit(Plan((replace(QUIET, wall="paper"),)), JOB, ())
    assert "unknown wall 'paper'. Available walls: container, gvisor, microvm." in found
    (found,) = audit(Plan((replace(QUIET, wall="local"),)), JOB, ())
    assert "unknown wall 'local'" in found


def test_without_walls_every_desk_has_none() -> None:
    job = replace(JOB, wall="local", sensitive_wall="gvisor")
    assert walls(Plan((PAYS,)), job) == ["local"]


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (replace(QUIET, name="later", wall="gvisor", intent="Otherwise."), "approved"),
        (replace(QUIET, name="later", wall="microvm"), "approved"),
        (replace(QUIET, name="later", wall=""), "ask"),
        (replace(QUIET, name="later", wall="container"), "ask"),
        (replace(QUIET, name="later", wall="paper"), "ask"),
        (replace(QUIET, name="another"), "ask"),
    ],
    ids=["the same", "a stronger one", "none", "a weaker one", "what is none", "another step in its place"],
)
def test_a_worker_lowers_no_wall_of_later_steps_by_itself(after: Step, verdict: str) -> None:
    job = replace(JOB, scope=Scope(), tools=("shell",))
    quiet = replace(QUIET, tools=("shell",))
    plan = Plan((quiet, replace(quiet, name="later", wall="gvisor")))
    amendment = Amendment("quiet", steps=(replace(after, tools=("shell",)),))
    assert decide_amendment(amendment, plan, job, "auto") == verdict
