"""Overview of a tenant: running desks and jobs, cost, outliers; and a way to stop everything."""

from __future__ import annotations

import time
from contextlib import suppress

from fastapi import APIRouter
from pydantic import Field

from hotdesk.api.native.access.auth import ForAdmin, ForJobs, RequestContext
from hotdesk.api.native.desks.desks import burn
from hotdesk.api.native.desks.desks import load_desks as open_desks
from hotdesk.api.native.jobs.views import JobLine, summarize_job
from hotdesk.api.native.problems import document_errors
from hotdesk.api.native.schema import Model
from hotdesk.api.tenants import Tenant
from hotdesk.desk.seam import DeskId
from hotdesk.errors import HotdeskError
from hotdesk.job.record.decisions import JOBS
from hotdesk.job.record.lock import is_held

router = APIRouter(prefix="/fleet", tags=["fleet"], responses=document_errors())
LIVE = ("running", "waiting", "starting")
DEAR, LONG, MANY = 5.0, 3.0, 200
"""Limits of outliers: multiples of the usual cost and time, and a number of acts."""
_MIN_JOBS = 5
"""Finished jobs that are needed to compute the usual cost and time."""


class Spend(Model):
    """The cost of models."""

    dollars: float
    tokens: int


class Outlier(Model):
    """A job or desk that differs from the others and may need attention."""

    job: str | None
    desk: str | None
    why: str


class TenantShare(Model):
    """The running jobs and open desks of one tenant."""

    tenant: str
    desks: int
    jobs: int = Field(description="Jobs that are running or wait for a person.")
    spend: Spend


class Fleet(Model):
    """All running jobs and open desks."""

    desks: int
    jobs: int = Field(description="Jobs that are running or wait for a person.")
    waiting: int
    spend: Spend
    outliers: list[Outlier]
    tenants: list[TenantShare] = Field(
        description="All tenants for an admin key of the default tenant (the operator's); otherwise only the caller's."
    )


class Stopped(Model):
    """The jobs and desks that were stopped."""

    jobs: list[str]
    desks: list[str]


@router.get("", summary="All running desks and jobs")
async def show(context: ForJobs) -> Fleet:
    """Return all running jobs and open desks, their cost, and outliers."""
    jobs = [summarize_job(context, summary) for summary in (await context.ledger.read_summaries()).values()]
    live, desks = [each for each in jobs if each.state in LIVE], await open_desks(context)
    spend = Spend(dollars=sum(each.cost or 0 for each in jobs), tokens=sum(each.tokens for each in jobs))
    waiting = sum(each.state == "waiting" for each in live)
    shares = [await _count_share(context, tenant) for tenant in context.list_visible_tenants()]
    found = _find_outliers(jobs)
    return Fleet(desks=len(desks), jobs=len(live), waiting=waiting, spend=spend, outliers=found, tenants=shares)


async def _count_share(context: RequestContext, tenant: Tenant) -> TenantShare:
    settings = tenant.settings
    summaries = (await context.native.get_ledger(tenant).read_summaries()).values()
    live = sum(summary.get_state(is_held(settings.lib / JOBS / summary.job), 0)[0] in LIVE for summary in summaries)
    costs = [each.whole_cost for each in summaries]
    spend = Spend(dollars=sum(each.dollars for each in costs), tokens=sum(each.tokens for each in costs))
    desks = sum(
        each["state"] not in ("ready", "opening") for each in await tenant.host.list_desks()
    )  # desks of the pool are not counted
    return TenantShare(tenant=tenant.name, desks=desks, jobs=live, spend=spend)


@router.post("/stop", summary="Stop everything")
async def stop(context: ForAdmin) -> Stopped:
    """Stop every job so that it can be resumed, and burn every desk that belongs to no job."""
    launcher, name = context.native.jobs.launcher, context.tenant.name
    stopped = []
    for job in context.native.jobs.read_requests(name, context.tenant.settings):
        if launcher.is_running(name, job):
            with suppress(HotdeskError):
                await launcher.signal(name, job)
                stopped.append(job)
    burnt = []
    for desk in await open_desks(context):
        if not desk.job:
            with suppress(HotdeskError):
                await burn(context, DeskId(desk.id))
                burnt.append(desk.id)
    return Stopped(jobs=stopped, desks=burnt)


def _find_outliers(jobs: list[JobLine]) -> list[Outlier]:
    """Return jobs that are much more expensive, longer or busier than is usual here."""
    over = [each for each in jobs if each.state == "done" and each.ended and each.begun]
    found: list[Outlier] = []
    if len(over) >= _MIN_JOBS:
        usual_cost = _compute_median([each.cost or 0 for each in over])
        usual_time = _compute_median([(each.ended or 0) - (each.begun or 0) for each in over])
        for each in (one for one in jobs if one.state in LIVE):
            found += _find_job_outliers(each, usual_cost, usual_time)
    words = "acts (tool calls), many more than usual"
    found += [Outlier(job=each.id, desk=None, why=f"the job has {each.acts} {words}") for each in jobs
              if each.state in LIVE and each.acts > MANY]  # fmt: skip
    return found


def _find_job_outliers(job: JobLine, usual_cost: float, usual_time: float) -> list[Outlier]:
    took = time.time() - (job.begun or time.time())
    why = []
    if usual_cost and (job.cost or 0) > DEAR * usual_cost:
        why.append(f"the job has cost ${job.cost:.2f}; jobs usually cost ${usual_cost:.2f}")
    if took > LONG * usual_time and took > 60:
        why.append(f"the job has taken {took / 60:.0f} min; jobs usually take {usual_time / 60:.1f} min")
    return [Outlier(job=job.id, desk=None, why=each) for each in why]


def _compute_median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
