"""Allow a refused request from a job's door log, for this job and as long as it runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from hotdesk.api.native.access.auth import ForApproval, RequestContext
from hotdesk.api.native.desks.desks import connect_to_owner
from hotdesk.api.native.desks.desks import load_desks as open_desks
from hotdesk.api.native.desks.egress_limits import require_public
from hotdesk.api.native.jobs.approvals import require_other
from hotdesk.api.native.jobs.jobs import find
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import JobName, Model
from hotdesk.brief.rules import parse_rule, rule_text
from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError
from hotdesk.job.record.summary import JobSummary

router = APIRouter(prefix="/jobs/{job}", tags=["jobs"], responses=document_errors(409))


class Allowance(Model):
    """The egress rule to add."""

    rule: Annotated[str, Field(min_length=1, max_length=4096, examples=["GET https://erp.example.test/orders"])]


class Allowed(Model):
    """The rule that was added, and the desks it applies to."""

    rule: str
    desks: list[str]


@router.post("/allow", summary="Allow a job's desks one more egress rule")
async def allow(context: ForApproval, job: JobName, allowance: Allowance) -> Allowed:
    """Add a rule for this job's desks, now and later. Its brief's deny rules and the operator's ceiling still apply."""
    summary = await find(context, job)
    rule = parse_rule(allowance.rule)
    require_public([rule])
    desks = [each.id for each in await open_desks(context) if each.job == job]
    if not isinstance(summary, JobSummary) or not desks:
        why = "has no open desk to apply the rule to; try again while a step of the job runs"
        raise ProblemError(409, "job.still", f"job {job} {why}")
    require_other(context, summary)
    return Allowed(rule=rule_text(rule), desks=await _allow_at_desks(context, desks, rule_text(rule)))


async def _allow_at_desks(context: RequestContext, desks: list[str], rule: str) -> list[str]:
    """Send a rule to the owners of a job's desks; return the desks that took it. A clean desk for checks refuses it."""
    done: list[str] = []
    why: BriefError | None = None
    for desk in desks:
        try:
            async with connect_to_owner(context, DeskId(desk)) as owner:
                await owner.allow(DeskId(desk), rule, context.by)
            done.append(desk)
        except BriefError as e:
            why = e
    if why is not None and not done:
        raise why
    return done
