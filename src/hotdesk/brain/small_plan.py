"""The plan of a small brief, built by code without a model."""

from __future__ import annotations

from collections.abc import Sequence

from hotdesk.brain.permits import AS_ROOT, matches
from hotdesk.brief.brief import Brief, locate_input
from hotdesk.plan import Plan, Step
from hotdesk.tool import Tool

NAME = "work"


def is_small(job: Brief) -> bool:
    """Return whether a brief needs no planner: one deliverable, no network access, no secret, and no approval."""
    if job.approve not in ("auto", "risky"):
        return False
    reaches = job.scope.anywhere or any(rule.verdict != "deny" for rule in job.scope.rules)
    return len(job.deliverables) == 1 and not reaches and not job.scope.grants


def plan_small(job: Brief, tools: Sequence[Tool]) -> Plan:
    """Return a plan of one step with all the brief allows; a tool that acts as root only if the brief names it."""
    path = job.deliverables[0].path
    names = tuple(each.name for each in tools if matches(each.name, job.tools or ("*",)))
    step = Step(
        NAME,
        f"Do the whole job and leave {path}.",
        tools=tuple(each for each in names if each != AS_ROOT or job.tools),
        hosts=(),
        grants=(),
        files=tuple(locate_input(name) for name in job.inputs),
        makes=(path,),
    )
    return Plan((step,), "One deliverable, no network and no secrets: one step does all of it.")
