"""The journal: events in order, and the requests at a job's door."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Annotated

import anyio
from fastapi import APIRouter, Query
from pydantic import Field

from hotdesk.api.native.access.auth import ForJobs, ForJournal, RequestContext
from hotdesk.api.native.events import Happened, as_dict
from hotdesk.api.native.jobs.jobs import find
from hotdesk.api.native.jobs.swarms import follow
from hotdesk.api.native.problems import document_errors
from hotdesk.api.native.schema import JobName, Limit, Model, Page, clean
from hotdesk.brief.names import bracket_ipv6, get_registrable_domain
from hotdesk.drive.chain import Row
from hotdesk.drive.journal import read
from hotdesk.drive.rows import MAX_ID
from hotdesk.event import Alarm, Answered, Exchange, Rescoped, Revoked
from hotdesk.event import Asked as Question
from hotdesk.job.record.decisions import get_journal_path
from hotdesk.job.record.summary import JobSummary

router = APIRouter(tags=["journal"], responses=document_errors())
DOOR = tuple(kind.__name__ for kind in (Exchange, Alarm, Question, Answered, Rescoped, Revoked))
_MAX_CHAINS = 500
"""Chains that are selected in the query; if there are more, rows are selected after reading them."""
_PIECE = 500
"""Rows that are read at a time, from the newest back."""
Place = Annotated[str, Query(pattern="^[0-9]{0,15}$", description="Only entries after this number.")]


class EventShown(Happened):
    """One event of the journal, with its hash."""

    hash: str


class DoorShown(Model):
    """The door's decision about a request."""

    id: int
    at: float
    desk: str
    name: str
    verdict: str
    method: str
    domain: str = Field(description="The registered domain of the host; its owner controls every name below it.")
    host: str
    path: str
    status: int
    up: int
    down: int
    reason: str = Field(description="The rule that decided, or why no rule applied.")
    step: str
    rule_to_allow: str = Field(description="For a refused request: the rule that would allow it; empty: no rule can.")


@router.get("/journal", summary="Events")
async def events(
    context: ForJournal,
    chain: Annotated[str, Query(pattern="^([A-Za-z0-9][A-Za-z0-9._-]{0,99})?$")] = "",
    after: Place = "",
    limit: Limit = 100,
) -> Page[EventShown]:
    """List events in order, of one chain or of all chains."""
    await context.tenant.host.prepare()  # writes the events that wait in the outbox
    rows = await anyio.to_thread.run_sync(read_rows, context, [chain] if chain else None, (), int(after or 0), limit)
    items = [EventShown.model_validate({**as_dict(row), "hash": row.hash.hex()}) for row in rows]
    return Page(items=items, next=str(rows[-1].id) if len(rows) == limit else None)


@router.get("/jobs/{job}/door", summary="Network requests of a job's desks")
async def door(
    context: ForJobs,
    job: JobName,
    after: Place = "",
    limit: Limit = 100,
    newest: Annotated[
        bool, Query(description="The newest first; `after` then selects those before that number.")
    ] = False,
) -> Page[DoorShown]:
    """List the network requests of a job's desks, each with its outcome."""
    summary = await find(context, job)
    desks = list(summary.desks) if isinstance(summary, JobSummary) else []
    is_swarm = isinstance(summary, JobSummary) and summary.items is not None
    if is_swarm:
        desks += [each.desk for each in (await follow(context, job)).state.items.values() if each.desk]
    rows: list[Row] = []
    if desks and newest:
        rows = await anyio.to_thread.run_sync(_read_newest, context, desks, int(after or MAX_ID), limit)
    elif desks:
        rows = await anyio.to_thread.run_sync(read_rows, context, desks, DOOR, int(after or 0), limit)
    lines = [as_shown(row) for row in rows]
    if is_swarm:  # a swarm's plan is fixed: no rule can be added for one item
        lines = [each.model_copy(update={"rule_to_allow": ""}) for each in lines]
    return Page(items=lines, next=str(rows[-1].id) if len(rows) == limit else None)


def read_rows(
    context: RequestContext, chains: list[str] | None, names: tuple[str, ...], after: int, limit: int
) -> list[Row]:
    path = get_journal_path(context.tenant.settings)
    if not path.exists():
        return []
    chosen, foreign = _choose_chains(chains)
    rows = (row for row in read(path, chosen, names=names, after=after) if not foreign(row))
    return list(islice((row for row in rows if not (names and is_trial(row))), limit))


def _read_newest(context: RequestContext, chains: list[str], before: int, limit: int) -> list[Row]:
    """Read the newest requests before a number, the newest first."""
    path = get_journal_path(context.tenant.settings)
    chosen, foreign = _choose_chains(chains)
    found: list[Row] = []
    while len(found) < limit and path.exists():
        rows = list(read(path, chosen, names=DOOR, until=before - 1, limit=_PIECE))
        found += [row for row in reversed(rows) if not foreign(row) and not is_trial(row)]
        if len(rows) < _PIECE:
            break
        before = rows[0].id
    return found[:limit]


def _choose_chains(chains: list[str] | None) -> tuple[list[str] | None, Callable[[Row], bool]]:
    """Return the chains to select in the query, and what says whether a row that it returns is of another chain."""
    if chains is None or len(chains) <= _MAX_CHAINS:
        return chains, lambda row: False
    named = frozenset(chains)
    return None, lambda row: row.chain not in named


def is_trial(row: Row) -> bool:
    """Return whether a desk only tested its own egress, as before its first step."""
    data = as_dict(row)["data"] if row.name == Exchange.__name__ else None
    return isinstance(data, dict) and not data.get("step")


def as_shown(row: Row) -> DoorShown:
    fields = as_dict(row)["data"]
    data = {str(name): value for name, value in fields.items()} if isinstance(fields, dict) else {}
    texts = {name: clean(str(data.get(name, ""))) for name in ("desk", "method", "host", "path", "step")}
    numbers = {name: int(str(data.get(name) or 0)) for name in ("status", "up", "down")}
    verdict = str(data.get("verdict") or data.get("answer") or row.name.lower())
    reason = clean(str(data.get("rule") or data.get("note") or data.get("reason") or ""))
    refused = row.name == Exchange.__name__ and verdict == "deny"
    return DoorShown.model_validate({
        "id": row.id, "at": row.at / 1000, "name": row.name, "verdict": verdict, "reason": reason, **texts, **numbers,
        "domain": get_registrable_domain(texts["host"]), "rule_to_allow": _suggest_rule(data) if refused else "",
    })  # fmt: skip


def _suggest_rule(data: dict[str, object]) -> str:
    """Return the rule that would have admitted a request: its method, host and path, and no more."""
    host, port, scheme = str(data.get("host", "")), int(str(data.get("port") or 0)), str(data.get("scheme", "https"))
    path = str(data.get("path", "")).partition("?")[0]
    if scheme not in ("http", "https") or not host or any(mark in path for mark in " *\\"):
        return ""
    usual = {"http": 80, "https": 443}[scheme]
    place = bracket_ipv6(host) + ("" if port in (0, usual) else f":{port}")
    return clean(f"{data.get('method', 'GET')} {scheme}://{place}{path or '/'}")
