"""Journal events as they happen, as server-sent events. Each has its number in the journal, to continue from."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from fastapi import APIRouter, Header, Query
from pydantic import Field
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from hotdesk.api.native.access.auth import ForJobs, RequestContext
from hotdesk.api.native.jobs.jobs import find
from hotdesk.api.native.jobs.ledger import stamp
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import JobName, Model
from hotdesk.drive.chain import Row
from hotdesk.drive.journal import read
from hotdesk.event import Acted
from hotdesk.job.record.decisions import get_journal_path
from hotdesk.job.record.summary import JobSummary
from hotdesk.job.report.pictures import OURS as DRAWN_HERE
from hotdesk.job.report.story import find_desk

router = APIRouter(tags=["events"], responses=document_errors())
POLL_INTERVAL_S, HEARTBEAT_INTERVAL_S = 0.25, 15.0
"""Seconds between two checks for new events, and without events until a comment is sent."""
MAX_STREAMS = 200
"""Open streams of one tenant."""
PIECE = 500
"""Events that are read at a time."""


class Happened(Model):
    """One event of the journal."""

    id: int
    chain: str
    seq: int
    at: float
    name: str
    data: dict[str, object]
    frame: int | None = None


DATA = {"type": "string", "contentMediaType": "application/json", "contentSchema": Happened.model_json_schema()}
_ITEM = {"type": "object", "required": ["id", "data"], "properties": {"id": {"type": "string"}, "data": DATA}}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events, each with its number as `id` and a JSON object as `data`.",
        "content": {"text/event-stream": {"itemSchema": _ITEM}},
    }
}
From = Annotated[int, Query(ge=0, le=1 << 53, description="Only events after this number.")]
_FromOrNow = Annotated[
    Annotated[int, Field(ge=0, le=1 << 53)] | Literal["now"],
    Query(description="Only events after this number; `now`: only new events."),
]
Last = Annotated[
    str | None,
    Header(alias="Last-Event-ID", max_length=20, description="Same as `after`; browsers send it on reconnect."),
]
Follow = Annotated[bool, Query(description="Whether to follow new events; false: only past ones.")]


@router.get("/jobs/{job}/events", summary="Events of a job", response_class=StreamingResponse, responses=STREAM)
async def job_events(
    context: ForJobs, job: JobName, after: From = 0, follow: Follow = True, last: Last = None
) -> StreamingResponse:
    """Return the past events of a job and its desks, then new events as they come."""
    summary = await find(context, job)
    chains = {job, *summary.desks} if isinstance(summary, JobSummary) else {job}
    return answer(context, begin(after, last), follow, chains)


@router.get("/events", summary="All events", response_class=StreamingResponse, responses=STREAM)
async def all_events(
    context: ForJobs, after: _FromOrNow = 0, follow: Follow = True, last: Last = None
) -> StreamingResponse:
    """Return the past events of the tenant, then new events as they come."""
    journal = get_journal_path(context.tenant.settings)
    since = await anyio.to_thread.run_sync(_read_newest_id, journal) if after == "now" else after
    return answer(context, begin(since, last), follow, None)


class Counted(StreamingResponse):
    """A stream that is counted from before its first byte until it ends."""

    def __init__(self, context: RequestContext, lines: AsyncIterator[str], headers: dict[str, str]) -> None:
        super().__init__(lines, 200, headers, "text/event-stream")
        self.context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream, unless too many streams are open; nothing is awaited between the check and the count."""
        with _count_stream(self.context):
            await super().__call__(scope, receive, send)


def begin(after: int, last: str | None) -> int:
    """Return the event id to continue from; the `Last-Event-ID` of a reconnecting browser takes precedence."""
    if last is None or not last.isascii() or not last.isdigit():
        return after
    return min(int(last), 1 << 53)


def answer(context: RequestContext, after: int, follow: bool, chains: set[str] | None) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Counted(context, stream(context, after, follow, chains), headers)


async def stream(context: RequestContext, after: int, follow: bool, chains: set[str] | None) -> AsyncIterator[str]:
    """Write events as they come, and a comment if there are none for a while."""
    journal = get_journal_path(context.tenant.settings)
    last_stamp: object = None
    yield f"id: {after}\nretry: 2000\n\n"  # no event, but the id from which a reconnecting browser continues
    last_write = time.monotonic()
    while context.native.keys.find_caller(context.caller.key) is not None:
        now = stamp(journal)
        rows = await anyio.to_thread.run_sync(_read_piece, journal, after, chains) if now != last_stamp else []
        if rows:
            after, last_write = rows[-1].id, time.monotonic()
            yield "".join(map(_format_event, rows))
        if len(rows) < PIECE:
            last_stamp = now
            if not follow:
                return
            await anyio.sleep(POLL_INTERVAL_S)
        if time.monotonic() - last_write >= HEARTBEAT_INTERVAL_S:
            last_write = time.monotonic()
            yield ": nothing new\n\n"


@contextmanager
def _count_stream(context: RequestContext) -> Iterator[None]:
    """Count a stream while it is open; refuse it if too many are."""
    streams, name = context.native.streams, context.tenant.name
    if streams[name] >= MAX_STREAMS:
        raise ProblemError(
            429,
            "events.many",
            f"{MAX_STREAMS} event streams are open already, which is the limit; close some",
            {"Retry-After": "10"},
        )
    streams[name] += 1
    try:
        yield
    finally:
        streams[name] -= 1


def _read_piece(journal: Path, after: int, chains: set[str] | None) -> list[Row]:
    """Read up to `PIECE` events; a desk that the job opens is added to `chains`."""
    if not journal.exists():
        return []
    found: list[Row] = []
    for row in read(journal, chains if chains is None else sorted(chains), after=after):
        if chains is not None and (desk := find_desk(row)) and desk not in chains:
            chains.add(desk)
            return [*found, row]  # later events of the new desk are read in the next call
        found.append(row)
        if len(found) >= PIECE:
            break
    return found


def _read_newest_id(journal: Path) -> int:
    """Return the number of the newest event; 0 if there is none."""
    return max((row.id for row in read(journal, limit=1)), default=0) if journal.exists() else 0


def _parse_data(row: Row) -> object:
    try:
        return json.loads(row.data)
    except (ValueError, RecursionError):
        return {}


def as_dict(row: Row) -> dict[str, object]:
    data = _parse_data(row)
    fields: dict[str, object] = {
        "id": row.id,
        "chain": row.chain,
        "seq": row.seq,
        "at": row.at / 1000,
        "name": row.name,
    }
    if row.name == Acted.__name__ and isinstance(data, dict) and str(data.get("tool")).startswith(DRAWN_HERE):
        fields["frame"] = data.get("act")
    return {**fields, "data": data}


def _format_event(row: Row) -> str:
    """Format an event for a stream: its number, and one line of ASCII JSON."""
    return f"id: {row.id}\ndata: {json.dumps(as_dict(row))}\n\n"
