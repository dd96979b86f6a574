"""Tests of the operator's ceiling: a table of requests, limits, and the resulting messages."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from hotdesk.brief.brief import Brief, JobBudget
from hotdesk.brief.ceiling import admit_brief, admits, apply_ceiling, find_excess
from hotdesk.brief.load import parse_job
from hotdesk.config import APPROVALS, Ceiling
from hotdesk.door.policy.scope import scope_of
from hotdesk.errors import BriefError

LEAST = 'goal = "x"\n[[deliverables]]\npath = "a.xlsx"\n'
OPEN = 'egress = ["erp.test"]\ngrants = ["erp-token@erp.test"]'


def job_of(told: str) -> Brief:
    return parse_job(f"{told}\n{LEAST}".encode(), Path("/nowhere"), scope_of)


@pytest.mark.parametrize(
    ("told", "ceiling", "why"),
    [
        ("", Ceiling(), None),
        ('wall = "local"', Ceiling(), None),
        ('wall = "local"', Ceiling("container"), 'the wall local is weaker than container, which the operator'),
        ("", Ceiling("container"), None),
        ("", Ceiling("gvisor"), None),
        ('wall = "container"', Ceiling("gvisor"), 'the wall container is weaker than gvisor, which the operator'),
        ('wall = "microvm"', Ceiling("gvisor"), None),
        (OPEN, Ceiling(grants=("erp-*",)), None),
        (OPEN, Ceiling(grants=("erp-token",)), None),
        (OPEN, Ceiling(grants=("erp",)), "the operator does not allow the secret erp-token (allowed: erp); remove"),
        (OPEN, Ceiling(grants=()), "the operator does not allow the secret erp-token (allowed: none); remove"),
        ("", Ceiling(grants=()), None),
        ('models.plan = "anthropic:a"', Ceiling(models=("anthropic:*",)), None),
        ('models.plan = "openai:a"', Ceiling(models=("anthropic:*",)),
         "the operator does not allow the model openai:a (allowed: anthropic:*); name another model"),
        ('models = {plan = "anthropic:a", act = ["anthropic:a", "openai:b"]}', Ceiling(models=("anthropic:*",)),
         "the operator does not allow the model openai:b"),
        ('look = "openai:b"', Ceiling(models=("anthropic:*",)), "the operator does not allow the model openai:b"),
        ('look = "openai:b"', Ceiling(models=()), "the operator does not allow the model openai:b (allowed: none)"),
        ("budget.tokens = 10", Ceiling(tokens=10), None),
        ("budget.tokens = 11", Ceiling(tokens=10), "budget.tokens = 11 exceeds the operator's limit of 10"),
        ("budget.dollars = 0.6", Ceiling(dollars=0.5), "budget.dollars = 0.6 exceeds the operator's limit of 0.5"),
        ("budget.acts = 11", Ceiling(acts=10), "budget.acts = 11 exceeds the operator's limit of 10; write budget"),
        ("seconds = 901", Ceiling(seconds=900), "seconds = 901 exceeds the operator's limit of 900; write seconds"),
        ("seconds = 900", Ceiling(seconds=600), "seconds = 900 exceeds the operator's limit of 600"),
        ("", Ceiling(tokens=1, dollars=1, acts=1, seconds=1, approve="every"), None),
        ('approve = "auto"', Ceiling(approve="plan"), 'approve = "auto" is less strict than "plan", which'),
        ('approve = "risky"', Ceiling(approve="plan"), 'approve = "risky" is less strict than "plan"'),
        ('approve = "every"', Ceiling(approve="plan"), None),
        ('names = {"erp.test" = "127.0.0.1:1"}', Ceiling(acts=5), "only the operator may map host names"),
        ('names = {"erp.test" = "127.0.0.1:1"}', Ceiling(), None),
    ],
)  # fmt: skip
def test_a_brief_beyond_the_ceiling_is_refused_with_a_remedy(told: str, ceiling: Ceiling, why: str | None) -> None:
    found = find_excess(job_of(told), ceiling)
    assert len(found) == (why is not None)
    assert why is None or (found[0].startswith(why) and "; " in found[0])


def test_every_excess_is_reported_at_once() -> None:
    job = job_of(
        f'{OPEN}\nwall = "container"\napprove = "auto"\n'
        f'seconds = 60\nlook = "openai:a"\nbudget = {{tokens = 2, dollars = 2, acts = 2}}'
    )
    ceiling = Ceiling("gvisor", (), (), 1, 1.0, 1, 1.0, "plan")
    assert all(getattr(ceiling, field.name) != field.default for field in fields(Ceiling))
    assert len(find_excess(job, ceiling)) == len(fields(Ceiling))
    with pytest.raises(BriefError, match=r"more than this machine's operator allows: the wall .*; write seconds = 1"):
        admit_brief(job, ceiling)


def test_a_limit_the_brief_does_not_set_is_the_ceilings() -> None:
    job = admit_brief(job_of(""), Ceiling(tokens=10, dollars=1.5, acts=5, seconds=60, approve="plan"))
    assert (job.budget, job.seconds, job.approve) == (JobBudget(10, 1.5, 5), 60.0, "plan")


def test_the_ceiling_never_grants_more_than_requested_or_default() -> None:
    ceiling = Ceiling(tokens=10, seconds=86400, approve="risky")
    job = admit_brief(job_of('budget.tokens = 5\napprove = "plan"'), ceiling)
    assert (job.budget, job.seconds, job.approve) == (JobBudget(5), 900.0, "plan")
    assert apply_ceiling(job_of(""), Ceiling()) == job_of("")


def test_a_job_made_without_a_brief_is_bounded_the_same() -> None:
    job = Brief("x", (), Path("/"), "", seconds=5000, approve="auto")
    assert apply_ceiling(job, Ceiling(seconds=60, approve="every")).seconds == 60
    assert apply_ceiling(job, Ceiling(seconds=60, approve="every")).approve == "every"
    assert find_excess(Brief("x", (), Path("/"), "", budget=JobBudget(tokens=5)), Ceiling(tokens=1))


def test_approval_policies_are_ordered_from_the_laxest() -> None:
    for number, least in enumerate(APPROVALS):
        refused = [told for told in APPROVALS if find_excess(job_of(f'approve = "{told}"'), Ceiling(approve=least))]
        assert tuple(refused) == APPROVALS[:number]


@pytest.mark.parametrize(
    ("name", "pattern", "yes"),
    [
        ("anthropic:a", "anthropic:*", True),
        ("anthropic:", "anthropic:*", True),
        ("openai:anthropic:a", "anthropic:*", False),
        ("erp-token", "*", True),
        ("erp-token", "*-token", True),
        ("erp-token", "erp-*-token", False),
        ("erp-a-token", "erp-*-token", True),
        ("abcbc", "a*bc", True),
        ("abab", "*ab*ab", True),
        ("ab", "*ab*ab", False),
        ("aXbXc", "a*b*c", True),
        ("acb", "a*b*c", False),
        ("a", "a.", False),
        ("erp", "erp-token", False),
    ],
)
def test_a_star_matches_anything(name: str, pattern: str, yes: bool) -> None:
    assert admits(name, [pattern]) is yes
    assert admits(name, ["no-such", pattern]) is yes
    assert admits(name, None)
    assert not admits(name, [])
