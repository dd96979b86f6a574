"""Response bodies that describe a job, computed from its events; their words are stable."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pydantic import Field

from hotdesk.api.native.access.auth import RequestContext
from hotdesk.api.native.jobs.requests import RequestedJob, read_last_line
from hotdesk.api.native.schema import Model, clean
from hotdesk.errors import HotdeskError
from hotdesk.event import JobBurnt
from hotdesk.job.people.draft import as_draft
from hotdesk.job.record import papers
from hotdesk.job.record.decisions import JOBS, get_journal_path
from hotdesk.job.record.desk_walls import read_walls
from hotdesk.job.record.lock import is_held
from hotdesk.job.record.progress import StepProgress
from hotdesk.job.record.summary import JobSummary, select_latest, summarize


class ItemsEnded(Model):
    """The progress of a swarm's items."""

    total: int
    done: int
    quarantined: int


class JobLine(Model):
    """A job in a list."""

    id: str
    task: str
    state: str = Field(description="starting, running, waiting, paused, killed, done, failed, broken, interrupted")
    live: bool = Field(
        description="Whether a process is running the job. A job that has not ended and is not live can be resumed."
    )
    why: str
    needs_model: bool = Field(
        description="Whether the job is paused because its model could not be reached; resume it with another model, "
        "or a key."
    )
    by: str
    begun: float | None = Field(description="Seconds since 1970.")
    ended: float | None
    step: int
    of: int
    pending: list[str] = Field(description="Ids of pending approvals.")
    brain: str
    cost: float | None = Field(description="The cost in US dollars; null: the price is unknown.")
    tokens: int
    acts: int
    forgotten: bool
    items: ItemsEnded | None = Field(
        None, description="The progress of a swarm's items; GET /jobs/JOB/swarm has more. Null: not a swarm."
    )


class StepShown(Model):
    """A step of the plan, with its outcome."""

    name: str
    intent: str
    outcome: str = Field(description="begun, done, failed; empty: not started.")
    attempts: int
    seconds: float
    acts: dict[str, int]
    model: str
    note: str
    cost: float


class DeliverableShown(Model):
    """A deliverable of the job."""

    path: str
    name: str | None = Field(description="The file's name in the drive; null: not stored.")
    size: int | None
    sha256: str
    verdict: str = Field(description="passed, failed, or empty: no check was required.")
    findings: list[str]
    certificate: str = Field(description="SHA-256 of the file's certificate; empty: no certificate.")


class ReceiptShown(Model):
    """What a burn destroyed, kept on purpose, and left behind."""

    destroyed: list[str]
    kept: list[str]
    left: list[str]


class DeskOfJob(Model):
    """A desk that the job used."""

    id: str
    gone: bool
    checking: bool = Field(description="Whether the desk is a clean desk for checks, which cannot be watched.")
    wall: str = Field(description="The wall (isolation) of the desk, with program and kernel; empty: unknown.")


class JobShown(JobLine):
    """A job in full."""

    plan: str = Field(description="The digest of the current plan.")
    plan_text: str = Field(description="The plan as editable TOML; empty: no plan, or deleted.")
    steps: list[StepShown]
    desks: list[DeskOfJob]
    deliverables: list[DeliverableShown]
    receipt: ReceiptShown | None


def summarize_job(context: RequestContext, summary: JobSummary) -> JobLine:
    return JobLine.model_validate(_build_line_fields(context, _refresh_summary(context, summary)))


def _refresh_summary(context: RequestContext, summary: JobSummary) -> JobSummary:
    """Read a summary again if its job looks killed: the job's process may just have ended normally."""
    state, _ = summary.get_state(_is_live(context, summary.job), int(time.time() * 1000))
    if state != "killed":
        return summary
    return summarize(get_journal_path(context.tenant.settings), summary.job, summary.items)


def _is_live(context: RequestContext, job: str) -> bool:
    """Return whether a job's process exists; until it has ended, the job cannot be resumed."""
    here = context.native.jobs.launcher.is_running(context.tenant.name, job)
    return here or is_held(context.tenant.settings.lib / JOBS / job)


def _build_line_fields(context: RequestContext, summary: JobSummary) -> dict[str, object]:
    settings, live = context.tenant.settings, _is_live(context, summary.job)
    state, why = summary.get_state(live, int(time.time() * 1000))
    at, of = summary.place
    cost, items = summary.whole_cost, summary.items
    request = context.native.jobs.read_requests(context.tenant.name, settings).get(summary.job)
    return {
        "id": summary.job,
        "task": get_task(context, summary),
        "state": state,
        "live": live,
        "why": "" if state == "waiting" else clean(why),
        "needs_model": state == "paused" and summary.lacks_model,
        "by": request.by if request is not None else summary.by,
        "begun": summary.begun / 1000,
        "ended": summary.over / 1000 if summary.ended is not None else None,
        "step": at,
        "of": of,
        "pending": [each.id for each in summary.waiting.open] if state == "waiting" else [],
        "brain": clean(summary.brain),
        "cost": None if cost.replies and cost.unpriced == cost.replies else cost.dollars,
        "tokens": cost.tokens,
        "acts": summary.whole_acts,
        "forgotten": summary.forgotten is not None,
        "items": ItemsEnded(total=items.total, done=items.done, quarantined=items.quarantined) if items else None,
    }


def get_task(context: RequestContext, summary: JobSummary) -> str:
    """Return a job's task as it was requested; a swarm's goal has additions for its planner."""
    request = context.native.jobs.read_requests(context.tenant.name, context.tenant.settings).get(summary.job)
    return clean(request.task if request is not None else summary.goal)


def build_unborn_fields(context: RequestContext, request: RequestedJob) -> dict[str, object]:
    """Return the view of a requested job that has not begun."""
    running = context.native.jobs.launcher.is_running(context.tenant.name, request.job)
    return {
        "id": request.job, "task": clean(request.task), "by": request.by, "begun": request.at,
        "state": "starting" if running else "broken", "live": running,
        "why": "" if running else read_last_line(context.tenant.settings, request.job) or "the job did not start",
        "needs_model": False,
        "ended": None, "step": 0, "of": 0, "pending": [], "brain": "", "cost": 0.0, "tokens": 0, "acts": 0,
        "forgotten": False,
    }  # fmt: skip


def describe_job(context: RequestContext, summary: JobSummary, open_desks: Sequence[str]) -> JobShown:
    summary = _refresh_summary(context, summary)
    walls = read_walls(get_journal_path(context.tenant.settings), summary.desks)
    return JobShown.model_validate({
        **_build_line_fields(context, summary),
        "plan": summary.plan,
        "plan_text": _read_plan_text(context, summary),
        "steps": [describe_step(each) for each in summary.list_steps()],
        "desks": [
            DeskOfJob(
                id=each,
                gone=each not in open_desks,
                checking=each in summary.checking,
                wall=clean(walls[each].describe()) if each in walls else "",
            )
            for each in summary.desks
        ],
        "deliverables": _describe_deliverables(summary),
        "receipt": _describe_receipt(summary.receipt),
    })  # fmt: skip


def describe_unborn(context: RequestContext, request: RequestedJob) -> JobShown:
    none: list[object] = []
    rest = {"plan": "", "plan_text": "", "steps": none, "desks": none, "deliverables": none, "receipt": None}
    return JobShown.model_validate({**build_unborn_fields(context, request), **rest})


def _read_plan_text(context: RequestContext, summary: JobSummary) -> str:
    """Read the plan as editable TOML; empty if there is none, or it was deleted."""
    if not summary.plan_paper:
        return ""
    try:
        stored = papers.find(context.tenant.settings.lib / JOBS, summary.job)
        return clean(as_draft(stored.read_text(summary.plan_paper)))
    except HotdeskError:
        return ""


def describe_step(step: StepProgress) -> StepShown:
    last = step.tries[-1] if step.tries else None
    return StepShown(
        name=clean(step.name), intent=clean(step.what), outcome=step.outcome, attempts=len(step.tries),
        seconds=step.seconds, acts=dict(step.tools), model=clean(last.model) if last else "",
        note=clean(last.note) if last else "", cost=step.cost.dollars,
    )  # fmt: skip


def _describe_deliverables(summary: JobSummary) -> list[DeliverableShown]:
    """Describe the files of a job, each with its latest state."""
    found = []
    for each in summary.group_deliverables().values():
        last = select_latest(each.checks)
        verdict = ("passed" if all(check.outcome == "passed" for check in last) else "failed") if last else ""
        file = each.stored
        found.append(DeliverableShown(
            path=clean(each.path), name=f"{summary.job}/{each.path}" if file is not None else None,
            size=file.size if file is not None else None,
            sha256=file.sha256 if file is not None else last[-1].sha256, verdict=verdict,
            findings=[clean(one) for check in last for one in check.findings],
            certificate=each.certified.certificate if each.certified is not None else "",
        ))  # fmt: skip
    return found


def _describe_receipt(burnt: JobBurnt | None) -> ReceiptShown | None:
    if burnt is None:
        return None
    return ReceiptShown(
        **{name: [clean(each) for each in getattr(burnt, name)] for name in ("destroyed", "kept", "left")}
    )
