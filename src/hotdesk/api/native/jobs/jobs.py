"""Routes for jobs: create, list, show, stop, resume, forget."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path as Place
from typing import Annotated, Literal

import anyio
from fastapi import APIRouter, Body, Path, Response
from pydantic import AfterValidator, Field, SecretStr, model_validator

from hotdesk.api.launch.job_command import COUNTS, get_folder
from hotdesk.api.models import EXAMPLES, PROVIDERS, explain_refusal
from hotdesk.api.native.access.auth import ForJobs, RequestContext
from hotdesk.api.native.desks.desks import load_desks as open_desks
from hotdesk.api.native.jobs import templates
from hotdesk.api.native.jobs.briefs import SentFile, lay_out
from hotdesk.api.native.jobs.frames import frame
from hotdesk.api.native.jobs.requests import RequestedJob, compute_demand, compute_swarm_demand, make_folder
from hotdesk.api.native.jobs.retention import delete_stored_data
from hotdesk.api.native.jobs.templates import Filled, Template
from hotdesk.api.native.jobs.views import (
    JobLine,
    JobShown,
    build_unborn_fields,
    describe_job,
    describe_unborn,
    summarize_job,
)
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import After, IdempotencyKey, JobName, Limit, Model, Page, paginate
from hotdesk.api.native.uploads import UploadId
from hotdesk.brief.brief import Brief, Models
from hotdesk.brief.ceiling import admit_brief
from hotdesk.brief.value import Form
from hotdesk.desk.seam import new_id
from hotdesk.job.record.decisions import JOBS, get_journal_path
from hotdesk.job.record.lock import is_held
from hotdesk.job.record.summary import JobSummary, summarize

router = APIRouter(prefix="/jobs", tags=["jobs"], responses=document_errors(409))
_TOGETHER = (64, 32, 16, 8, 4, 2, 1)
"""Numbers of items to process at once, the first that fits the quota is used; the machine's load lowers it further."""
KEY_SHAPE = re.compile(r"[!-~]+")
_ModelName = Annotated[str, Field(min_length=1, max_length=300, examples=["anthropic:claude-sonnet-5"])]
"""`hotdesk.api.models` checks whether it may be used, with an error message that tells what to write instead."""


class FileSent(Model):
    """An uploaded file, and its name next to the brief."""

    upload: UploadId
    name: Annotated[str, Field(min_length=1, max_length=255)]


class Limits(Model):
    """Limits that replace those of the brief. The operator's ceiling still applies."""

    seconds: Annotated[float, Field(gt=0, le=7 * 86400)] | None = None
    tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    dollars: Annotated[float, Field(gt=0, le=10**6)] | None = None
    acts: Annotated[int, Field(ge=1, le=10**6)] | None = None


class SwarmOptions(Model):
    """Options for a brief with many items."""

    pilot: Annotated[int, Field(ge=1, le=COUNTS["pilot"])] | None = None
    """Items that are finished first; the rest begins when a person approves."""
    review: Annotated[int, Field(ge=1, le=COUNTS["review"])] | None = None
    """Results, chosen at random, that a person compares with their sources."""
    most: Annotated[int, Field(ge=1, le=COUNTS["most"])] | None = None
    """Items that are processed at once; null: as many as the quota allows."""


class JobOrder(Model):
    """The job to start: a brief, or a template with its values. Neither can name scripts or paths of the host."""

    brief: Annotated[str, Field(max_length=1 << 20, description="A brief, as TOML.")] | None = None
    template: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9-]{0,63}$")] | None = None
    values: Annotated[dict[str, Filled], Field(max_length=100, default_factory=dict)]
    files: Annotated[list[FileSent], Field(max_length=1000, default_factory=list)]
    models: Annotated[list[_ModelName], Field(max_length=8, default_factory=list)]
    approve: Literal["auto", "risky", "plan", "every"] | None = None
    limits: Limits = Limits()
    swarm: Annotated[SwarmOptions, Field(description="Options of a swarm: only for a brief with [each].")] = (
        SwarmOptions()
    )

    @model_validator(mode="after")
    def one_of_both(self) -> JobOrder:
        if (self.brief is None) == (self.template is None):
            raise ValueError("a job needs either a brief or a template with its values")
        return self


def _require_key(key: SecretStr | None) -> SecretStr | None:
    """Refuse a key that does not fit into an HTTP header."""
    if key is not None and not KEY_SHAPE.fullmatch(key.get_secret_value()):
        raise ValueError("a provider's key must have printable ASCII characters only, without spaces")
    return key


class ResumeOrder(Model):
    """Settings that replace the earlier ones when a job is resumed."""

    limits: Limits = Limits()
    approve: Literal["auto", "risky", "plan", "every"] | None = None
    quarantine: Literal["retry", "accept"] | None = None
    """For a swarm: what happens to items in quarantine; null: they stay there."""
    models: Annotated[
        list[_ModelName], Field(max_length=8, description="The models to use from now on.", default_factory=list)
    ]
    key: Annotated[
        SecretStr | None,
        Field(
            max_length=500,
            description="The provider's key for the first model; used until the job stops, never stored.",
        ),
        AfterValidator(_require_key),
    ] = None


class ModelsShown(Model):
    """Models that jobs may use."""

    items: list[str] = Field(description="The models that the operator lists; empty: all models of `providers`.")
    default: str | None = Field(description="The default model; null: a job must name one.")
    providers: list[str] = Field(description="The providers whose models may be used if the operator lists none.")


@router.get("/models", summary="Models for jobs")
async def list_models(context: ForJobs) -> ModelsShown:
    """List the models that a job may name on this server."""
    listed = context.native.serving.models
    return ModelsShown(items=list(listed), default=listed[0] if listed else None, providers=list(PROVIDERS))


@router.post("", status_code=201, summary="Start a job")
async def start(context: ForJobs, order: JobOrder, again: IdempotencyKey = None) -> JobShown:
    """Start a job, in a process of its own."""
    return await context.run_once("jobs", again, order, lambda: start_job(context, order))


async def start_job(context: RequestContext, order: JobOrder) -> JobShown:
    job = new_id()
    folder = make_folder(context.tenant.settings, job)
    jobs = context.native.jobs
    try:
        request, scripted, models, swarm = await anyio.to_thread.run_sync(_prepare_job, context, order, job, folder)
        await jobs.remember(context.tenant.name, context.tenant.settings, request)
        options = {**order.limits.model_dump(exclude_none=True), "models": list(models), "approve": order.approve}
        options |= {"template": order.template} if scripted else {}
        options["wall"] = context.native.tenants.walls.of(context.tenant.name)
        take = partial(context.tenant.host.take, **request.takes)
        start_process = jobs.launcher.work if swarm is None else jobs.launcher.start_swarm
        options |= swarm.model_dump(exclude_none=True) if swarm is not None else {}
        await start_process(context.tenant.name, job, take, requester=context.caller.name, **options)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(jobs.forget, context.tenant.name, context.tenant.settings, job)
        raise
    return describe_unborn(context, request)


def _prepare_job(
    context: RequestContext, order: JobOrder, job: str, folder: Place
) -> tuple[RequestedJob, bool, tuple[str, ...], SwarmOptions | None]:
    """Prepare a job's folder from an order.

    Return the request to store, whether a template's script acts, the models beside the brief's own, and the options of
    a swarm (`None` for a single job).
    """
    form: Form = "json" if order.template is not None else "toml"
    template = templates.find(context.native.templates, order.template) if order.template is not None else None
    text = templates.fill_template(template, order.values) if template is not None else order.brief or ""
    files = [SentFile(each.upload, each.name) for each in order.files]
    read = lay_out(context, folder, text, form, files, template)
    scripted = template is not None and template.shown.scripted and not order.models
    models = () if scripted else _choose_models(context, order, read, template)
    if read.each is None and order.swarm != SwarmOptions():
        raise ProblemError(
            400, "brief.swarm", "`swarm` needs a brief with [each], and this brief has none; leave `swarm` out"
        )
    swarm = _fit_swarm(context, order, read) if read.each is not None else None
    amounts = (
        compute_demand(read.size, read.deliverables) if swarm is None else compute_swarm_demand(read, swarm.most or 1)
    )
    request = RequestedJob(job, read.goal, context.caller.name, time.time(), order.template or "", amounts)
    return request, scripted, models, swarm


def _fit_swarm(context: RequestContext, order: JobOrder, read: Brief) -> SwarmOptions:
    """Return how many items of a swarm run together: by default as many as the quota allows."""
    if (order.approve or read.approve) == "every":
        raise ProblemError(
            400, "brief.approve", 'the steps of a swarm cannot be approved one by one; set `approve` to "plan"'
        )
    if order.swarm.most is not None:
        return order.swarm
    quotas, tenant = context.native.tenants.quotas, context.tenant.name
    most = next((count for count in _TOGETHER if quotas.fits(tenant, **compute_swarm_demand(read, count))), 1)
    return order.swarm.model_copy(update={"most": most})


def _choose_models(context: RequestContext, order: JobOrder, read: Brief, template: Template | None) -> tuple[str, ...]:
    """Return the models a job gets beside its brief's own; refuse those that may not be used here."""
    listed = context.native.serving.models
    own = () if template is not None else (*read.models.plan, *read.models.act, *filter(None, [read.look]))
    _require_models((*order.models, *own), listed)
    if not order.models and not read.models.plan and not listed:
        raise ProblemError(
            400,
            "brief.models",
            f"no model is chosen, and this server has no default; name one, such as {EXAMPLES}, or ask its "
            "operator to set `[serve] models`",
        )
    models = tuple(order.models) or (() if read.models.plan else listed[:1])
    if models:
        admit_brief(replace(read, models=Models(models, models)), context.tenant.settings.limits)
    return models


def _require_models(names: Iterable[str], listed: Sequence[str]) -> None:
    for name in names:
        if why := explain_refusal(name, listed):
            raise ProblemError(400, "brief.models", why)


@router.get("", summary="Jobs")
async def list_jobs(context: ForJobs, limit: Limit = 100, after: After = "") -> Page[JobLine]:
    """List the tenant's jobs, the newest first."""
    summaries = await context.ledger.read_summaries()
    requests = context.native.jobs.read_requests(context.tenant.name, context.tenant.settings)
    lines = [summarize_job(context, summary) for summary in summaries.values()]
    lines += [
        JobLine.model_validate(build_unborn_fields(context, each))
        for each in requests.values()
        if each.job not in summaries
    ]
    lines.sort(key=lambda each: (each.begun or 0, each.id), reverse=True)
    some, more = paginate(lines, lambda each: each.id, limit, after)
    return Page(items=some, next=more)


@router.get("/{job}", summary="One job")
async def get_job(context: ForJobs, job: JobName) -> JobShown:
    """Return a job: its plan, steps, pending approvals, deliverables and cost."""
    summary = await find(context, job)
    if isinstance(summary, RequestedJob):
        return describe_unborn(context, summary)
    desks = [each.id for each in await open_desks(context)]
    return await anyio.to_thread.run_sync(describe_job, context, summary, desks)


@router.post("/{job}/stop", status_code=202, summary="Stop a job")
async def stop(context: ForJobs, job: JobName) -> JobShown:
    """Let a job finish its current act and stop, so that it can be resumed. A second call burns its desks at once."""
    summary = await find(context, job)
    is_over = isinstance(summary, JobSummary) and summary.ended is not None
    if is_over or not context.native.jobs.launcher.is_running(context.tenant.name, job):
        elsewhere = "is not running on this server; if it was started on the command line, stop it there with Ctrl+C"
        why = "has ended already" if is_over else elsewhere
        raise ProblemError(409, "job.still", f"job {job} {why}")
    await context.native.jobs.launcher.signal(context.tenant.name, job)
    return await get_job(context, job)


@router.post("/{job}/resume", status_code=202, summary="Resume a job")
async def resume(
    context: ForJobs, job: JobName, order: Annotated[ResumeOrder | None, Body(title="Changes")] = None
) -> JobShown:
    """Resume a job that stopped, was killed, or reached a limit."""
    summary = await find(context, job)
    order = order or ResumeOrder(models=[])
    retries = isinstance(summary, JobSummary) and summary.items is not None and order.quarantine == "retry"
    if isinstance(summary, RequestedJob):
        raise ProblemError(
            409, "job.over", f"job {job} has not started, so there is nothing to resume; start a new job"
        )
    if summary.ended is not None and not (retries and summary.ended.outcome == "done"):
        raise ProblemError(409, "job.over", f"job {job} has ended and cannot be resumed; start a new job")
    if order.quarantine is not None and summary.items is None:
        raise ProblemError(409, "job.one", f"job {job} is not a swarm; leave `quarantine` out")
    await go_on(context, job, order, {"quarantine": order.quarantine} if order.quarantine is not None else {})
    return await get_job(context, job)


async def go_on(context: RequestContext, job: str, order: ResumeOrder, more: dict[str, object]) -> None:
    """Start a job's process again, if possible; `more` has options for swarms."""
    summary = (await context.ledger.read_summaries())[job]
    folder = context.tenant.settings.lib / JOBS / job
    if summary.forgotten is not None or not folder.is_dir():
        raise ProblemError(
            409, "job.forgotten", f"job {job} cannot be resumed: its stored state was deleted; start a new job"
        )
    if context.native.jobs.launcher.is_running(context.tenant.name, job) or is_held(folder):
        raise ProblemError(409, "job.running", f"job {job} is running already")
    if not get_folder(context.tenant.settings, job).is_dir():
        raise ProblemError(
            409, "job.elsewhere", f"job {job} was started on the command line; resume it with `hotdesk resume {job}`"
        )
    _require_models(order.models, context.native.serving.models)
    options = {**order.limits.model_dump(exclude_none=True), "approve": order.approve, "models": list(order.models)}
    options |= more
    options |= {"requester": context.caller.name, "wall": context.native.tenants.walls.of(context.tenant.name)}
    request = context.native.jobs.read_requests(context.tenant.name, context.tenant.settings).get(job)
    take = partial(context.tenant.host.take, **(request.takes if request is not None else compute_demand()))
    launcher, key = context.native.jobs.launcher, order.key.get_secret_value().encode() if order.key else b""
    if key:
        await launcher.resume_with_key(context.tenant.name, job, take, key, **options)
    else:
        await launcher.resume(context.tenant.name, job, take, **options)


@router.delete("/{job}", status_code=204, summary="Forget a job")
async def forget_job(context: ForJobs, job: JobName) -> None:
    """Delete a job's stored data. Its deliverables stay in the drive, and its events in the journal."""
    summary = await find(context, job)
    folder = context.tenant.settings.lib / JOBS / job
    if context.native.jobs.launcher.is_running(context.tenant.name, job) or is_held(folder):
        raise ProblemError(409, "job.running", f"job {job} is running; stop it first, with POST /jobs/{job}/stop")
    recorded = summary if isinstance(summary, JobSummary) else None
    await delete_stored_data(context.native, context.tenant, job, recorded, context.by)


@router.get(
    "/{job}/frames/{act}",
    summary="A screenshot",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def get_frame(context: ForJobs, job: JobName, act: Annotated[int, Path(ge=1, le=10**6)]) -> Response:
    """Return the screenshot of an act, encoded again by the server."""
    await find(context, job)
    data = await anyio.to_thread.run_sync(frame, context.tenant.settings, job, act)
    return Response(data, 200, {"X-Content-Type-Options": "nosniff", "Cache-Control": "private"}, "image/jpeg")


async def find(context: RequestContext, job: str) -> JobSummary | RequestedJob:
    """Return one of the tenant's jobs in full; 404 for another tenant's, as for an unknown one."""
    if (summary := (await context.ledger.read_summaries()).get(job)) is not None:
        return await anyio.to_thread.run_sync(summarize, get_journal_path(context.tenant.settings), job, summary.items)
    request = context.native.jobs.read_requests(context.tenant.name, context.tenant.settings).get(job)
    if request is None:
        raise ProblemError(404, "job.missing", f"job {job} not found; GET /jobs lists the jobs")
    return request
