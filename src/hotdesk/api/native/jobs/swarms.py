"""A swarm over the API: its progress, the list of its items, and the evidence of each.

It is started, stopped and resumed like any job (`jobs.py`); its pilot and cohorts are decided like any approval.
"""

from __future__ import annotations

from pathlib import Path as FilePath
from pathlib import PurePosixPath
from typing import Annotated

import anyio
from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from hotdesk.api.launch.job_command import get_folder
from hotdesk.api.native import uploads
from hotdesk.api.native.access.auth import ForJobs, RequestContext
from hotdesk.api.native.bodies import BYTES_RESPONSE, MEDIA, build_attachment_headers
from hotdesk.api.native.jobs import templates
from hotdesk.api.native.jobs.briefs import require_expected_file
from hotdesk.api.native.jobs.jobs import FileSent, ResumeOrder, get_job, go_on
from hotdesk.api.native.jobs.requests import BRIEF
from hotdesk.api.native.jobs.stories import Since
from hotdesk.api.native.jobs.swarm_cache import FollowedSwarm
from hotdesk.api.native.jobs.swarm_evidence import ItemShown, describe_item, list_files
from hotdesk.api.native.jobs.templates import Template
from hotdesk.api.native.jobs.views import JobShown
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import JobName, Limit, Model, clean
from hotdesk.brief.load import FILES, read_job
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.names import check_name
from hotdesk.drive.swarm_certificate import prove, write_proof
from hotdesk.errors import BriefError
from hotdesk.event import ItemEnded, ItemsOffered, PilotEnded
from hotdesk.job.record.decisions import JOBS, get_journal_path
from hotdesk.job.report.paper_text import PaperReader
from hotdesk.swarm.items import is_workbook
from hotdesk.swarm.items import list_items as list_brief_items
from hotdesk.swarm.listing import make_kind
from hotdesk.swarm.results import SwarmState

router = APIRouter(prefix="/jobs/{job}", tags=["swarms"], responses=document_errors(409))
_MAX_GROUPS, _EXAMPLES = 50, 5
_OFFER_TIMEOUT_S, _OFFER_POLL_S = 20.0, 0.2
"""Seconds to wait until a swarm has taken in added items, and between two checks."""
_ItemName = Annotated[str, Path(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="The name of an item.")]
_Place = Annotated[int, Path(ge=0, le=100, description="The index of one of the item's files, from 0.")]


class FailureGroup(Model):
    """Items in quarantine for the same reason."""

    cause: str = Field(description="check, step, time, desk, input, budget, unknown")
    why: str
    count: int
    examples: list[str] = Field(description="The names of some items of this group.")


class ForecastShown(Model):
    """The estimated cost of all items, computed from the pilot."""

    dollars: float
    tokens: int
    seconds: float


class ReportFile(Model):
    """A file of the report that was built from all results."""

    path: str
    name: str = Field(description="The file's name in the drive.")
    sha256: str


class SwarmShown(Model):
    """The progress of a swarm."""

    job: str
    items: int
    done: int
    quarantined: int
    rate: float = Field(description="How many items ended per second, recently.")
    seconds_to_go: float | None = Field(
        description="Estimated seconds until all items have ended, at that rate; null: unknown, or no items remain."
    )
    dollars: float
    dollars_expected: float | None = Field(
        description="The estimated cost of all items, from those that ended; null: none has ended."
    )
    tokens: int
    acts: int
    pilot: ForecastShown | None
    reviewed: int
    wrong: int = Field(description="How many of the reviewed results a person found wrong.")
    failures: list[FailureGroup]
    report_job: str = Field(description="The job that builds the report; empty: it has not started.")
    report: list[ReportFile]
    root: str = Field(description="The signed root of the Merkle tree over all records; empty: not signed yet.")


class ItemsOrder(Model):
    """More items for a swarm: files that match its `over`, or its table with more rows."""

    files: Annotated[list[FileSent], Field(min_length=1, max_length=1000)]


class ItemLine(Model):
    """An item that ended."""

    index: int
    item: str
    state: str = Field(description="done, quarantined, or wrong (a person found the result wrong).")
    cause: str


class ItemsShown(Model):
    """Items that ended since the last call. An item that was never listed has not ended."""

    total: int
    items: list[ItemLine]
    last: int = Field(description="A position in the journal; pass it as `after` to get later changes.")
    more: bool = Field(description="Whether more changes are available now.")


@router.get("/swarm", summary="The progress of a swarm")
async def get_swarm(context: ForJobs, job: JobName) -> SwarmShown:
    """Return the progress of a swarm: items, rate, cost and forecast, failures by cause, its report."""
    swarm = await follow(context, job)
    return _describe_swarm(swarm)


@router.get("/items", summary="The items of a swarm")
async def list_items(
    context: ForJobs,
    job: JobName,
    after: Since = 0,
    limit: Limit = 1000,
    outcome: Annotated[str, Query(pattern="^(done|quarantined)?$", description="Only items with this outcome.")] = "",
) -> ItemsShown:
    """List the items that ended since a position in the journal, the earliest first."""
    swarm = await follow(context, job)
    records, last, more = swarm.list_changes(after, limit)
    lines = [_make_line(each, swarm.state) for each in records if not outcome or each.outcome == outcome]
    total = swarm.state.begun.items if swarm.state.begun is not None else 0
    return ItemsShown(total=total, items=lines, last=last, more=more)


@router.post("/items", status_code=202, summary="Add items to a swarm")
async def add_items(context: ForJobs, job: JobName, order: ItemsOrder) -> JobShown:
    """Add items to a swarm that is running, paused or done. Its plan applies to them, and the report is rebuilt."""
    summary = (await context.ledger.read_summaries()).get(job)
    if summary is None or summary.items is None:
        raise ProblemError(
            404,
            "swarm.missing",
            f"job {job} has no items: it is not a swarm, or has not listed them yet; GET /jobs/{job} shows its state",
        )
    if summary.ended is not None and summary.ended.outcome != "done":
        raise ProblemError(
            409, "job.over", f"swarm {job} ended without success, so no items can be added; start another swarm"
        )
    await anyio.to_thread.run_sync(_place_items, context, job, order.files)
    await anyio.to_thread.run_sync(context.tenant.host.note, ItemsOffered(job, context.by))
    await _have_offer_taken(context, job)
    return await get_job(context, job)


async def _have_offer_taken(context: RequestContext, job: str) -> None:
    """Wait until a running swarm has taken in the offered items; resume it if its process has ended before.

    A process that is about to end takes no more items, so the next one does. A process that waits for a person takes
    them later.
    """
    running = context.native.jobs.launcher.is_running
    with anyio.move_on_after(_OFFER_TIMEOUT_S):
        while running(context.tenant.name, job):
            if not (await follow(context, job)).state.is_offered:
                return
            await anyio.sleep(_OFFER_POLL_S)
        await go_on(context, job, ResumeOrder(models=[]), {"add": True})


@router.get("/items/{item}", summary="The evidence of one item")
async def get_item(context: ForJobs, job: JobName, item: _ItemName) -> ItemShown:
    """Return how an item ended: tool calls at its desk, results of its checks, delivered files."""
    swarm, record = await find_item(context, job, item)
    review = swarm.state.reviews.get(item)
    reading = PaperReader(context.tenant.settings.lib / JOBS, job)
    return await anyio.to_thread.run_sync(describe_item, reading, record, review)


@router.get(
    "/items/{item}/files/{place}",
    summary="A file of one item",
    response_class=Response,
    responses=BYTES_RESPONSE,
)
async def get_item_file(context: ForJobs, job: JobName, item: _ItemName, place: _Place) -> Response:
    """Return a file of an item as a download, even if it failed its checks."""
    _, record = await find_item(context, job, item)
    files = list_files(record)
    reading = PaperReader(context.tenant.settings.lib / JOBS, job)
    data = await anyio.to_thread.run_sync(reading.read_data, files[place][1]) if place < len(files) else None
    if data is None:
        why = (
            f"has no file number {place}" if place >= len(files) else f"no longer has its file {files[place][0]} stored"
        )
        raise ProblemError(404, "item.file", f"item {item} {why}")
    return Response(data, 200, build_attachment_headers(files[place][0]), MEDIA)


@router.get(
    "/items/{item}/proof",
    summary="The proof of one item",
    response_class=Response,
    responses=BYTES_RESPONSE,
)
async def get_proof(context: ForJobs, job: JobName, item: _ItemName) -> Response:
    """Return the proof that an item's record is in the signed Merkle tree, for `hotdesk verify --proof`."""
    swarm, record = await find_item(context, job, item)
    if swarm.state.certified is None:
        raise ProblemError(
            409, "swarm.unsigned", f"the records of swarm {job} are not signed yet; wait until the swarm is done"
        )
    records = swarm.state.list_in_order()
    proof = await anyio.to_thread.run_sync(lambda: write_proof(prove(records, record.index)))
    return Response(proof, 200, build_attachment_headers(f"{item}.proof.json"), MEDIA)


def _place_items(context: RequestContext, job: str, files: list[FileSent]) -> None:
    """Put files beside a swarm's brief; only the table whose rows are items may replace a file.

    On an error the files that were added are removed again.
    """
    folder = get_folder(context.tenant.settings, job) / BRIEF
    if not folder.is_dir():
        raise ProblemError(
            409, "job.elsewhere", f"swarm {job} was started on the command line; resume it with `hotdesk resume {job}`"
        )
    brief, template = read_job(folder, scope_of), find_template(context, job)
    assert brief.each is not None
    added: list[FilePath] = []
    try:
        for each in files:
            name = _require_item_name(each.name, brief.each.over)
            if template is not None:
                require_expected_file(template, name)
            if name == brief.each.over:
                _replace_table(context, each.upload, folder / name)
            else:
                uploads.place(context, each.upload, folder / name)
                added.append(folder / name)
        if not is_workbook(brief.each):
            make_kind(brief, list_brief_items(brief))
    except (ProblemError, BriefError):
        for path in added:
            path.unlink(missing_ok=True)
        raise


def find_template(context: RequestContext, job: str) -> Template | None:
    request = context.native.jobs.read_requests(context.tenant.name, context.tenant.settings).get(job)
    return templates.find(context.native.templates, request.template) if request and request.template else None


def _require_item_name(name: str, over: str) -> str:
    path = PurePosixPath(check_name(name))
    is_item = path.match(over) and len(path.parts) == len(PurePosixPath(over).parts)
    if path.parts[0] in FILES:
        raise ProblemError(400, "brief.file", f"{name} is the name of a brief; give the file another name")
    if not is_item:
        raise ProblemError(
            400,
            "brief.file",
            f"{name} cannot be added to this swarm: its items must match {over} (`over` in [each] of the brief)",
        )
    return name


def _replace_table(context: RequestContext, upload: str, target: FilePath) -> None:
    """Replace a table atomically."""
    fresh = target.with_name(f".{upload}")
    fresh.unlink(missing_ok=True)
    uploads.place(context, upload, fresh)
    fresh.replace(target)


async def follow(context: RequestContext, job: str) -> FollowedSwarm:
    """Return one of the tenant's swarms, read up to now; 404 for a job that is no swarm."""
    summary = (await context.ledger.read_summaries()).get(job)
    if summary is None or summary.items is None:
        raise ProblemError(
            404,
            "swarm.missing",
            f"job {job} has no items: it is not a swarm, or has not listed them yet; GET /jobs/{job} shows its state",
        )
    swarm = context.native.swarms.find(context.tenant.name, job)
    async with swarm.reading:
        await anyio.to_thread.run_sync(swarm.read_on, get_journal_path(context.tenant.settings))
    return swarm


async def find_item(context: RequestContext, job: str, item: str) -> tuple[FollowedSwarm, ItemEnded]:
    swarm = await follow(context, job)
    record = swarm.state.items.get(item)
    if record is None:
        raise ProblemError(
            404,
            "item.missing",
            f"item {item} of swarm {job} does not exist, or has not ended; GET /jobs/{job}/items lists the items "
            "that ended",
        )
    return swarm, record


def _describe_swarm(swarm: FollowedSwarm) -> SwarmShown:
    state, rate = swarm.state, swarm.measure_rate()
    records = state.items.values()
    total, ended = state.begun.items if state.begun is not None else 0, len(records)
    dollars = sum(each.dollars for each in records)
    return SwarmShown(
        job=swarm.job,
        items=total,
        done=state.done,
        quarantined=len(state.quarantined),
        rate=round(rate, 3),
        seconds_to_go=round((total - ended) / rate, 1) if rate and ended < total else None,
        dollars=dollars,
        dollars_expected=dollars * total / ended if ended else None,
        tokens=sum(each.tokens for each in records),
        acts=sum(each.acts for each in records),
        pilot=_describe_forecast(state.pilot),
        reviewed=len(state.reviews),
        wrong=sum(each.verdict == "wrong" for each in state.reviews.values()),
        failures=group_failures(state),
        report_job=state.reduce.reduce if state.reduce is not None else "",
        report=_list_report(state),
        root=state.certified.root if state.certified is not None else "",
    )


def group_failures(state: SwarmState) -> list[FailureGroup]:
    return [
        FailureGroup(cause=clean(cause), why=clean(why), count=len(items), examples=items[:_EXAMPLES])
        for (cause, why), items in state.list_failures()[:_MAX_GROUPS]
    ]


def _list_report(state: SwarmState) -> list[ReportFile]:
    if state.reduced is None:
        return []
    job, pairs = state.reduced.reduce, zip(state.reduced.paths, state.reduced.digests, strict=True)
    return [ReportFile(path=clean(path), name=f"{job}/{path}", sha256=sha256) for path, sha256 in pairs]


def _describe_forecast(pilot: PilotEnded | None) -> ForecastShown | None:
    if pilot is None:
        return None
    return ForecastShown(dollars=pilot.dollars, tokens=pilot.tokens, seconds=pilot.seconds)


def _make_line(record: ItemEnded, state: SwarmState) -> ItemLine:
    review = state.reviews.get(record.item)
    is_wrong = review is not None and review.verdict == "wrong"
    shown = "wrong" if is_wrong and record.outcome == "done" else record.outcome
    return ItemLine(index=record.index, item=record.item, state=shown, cause=clean(record.cause))
