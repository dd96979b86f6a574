"""Rows of a workbook as items. A workbook may be hostile, so it is opened in a clean desk and the output is bounded."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from hotdesk.brief.brief import Brief
from hotdesk.checks.evidence import LOOK_TIMEOUT_S, look, read_json
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, DeskError, make_printable
from hotdesk.job.desks import Desks
from hotdesk.job.machine import Machine
from hotdesk.job.verify import BASE
from hotdesk.strict import Length, StrictError, compile_reader
from hotdesk.swarm.items import MAX_ITEMS, TableRow, read_table
from hotdesk.swarm.worker import ignore_events

_MAX_WORKBOOK_BYTES = 32 << 20
_PROGRAM, _FILE = "sheet_look", "items.xlsx"


@dataclass(frozen=True, slots=True)
class WorkbookRows:
    """A desk's report on a workbook: its rows, headings first, or the reason why it cannot be read."""

    rows: Annotated[list[list[str]], Length(MAX_ITEMS + 1)] = field(default_factory=list)
    unreadable: str = ""


async def read_workbook(machine: Machine, brief: Brief, job: str) -> list[TableRow]:
    """Read the rows of a brief's workbook in a desk that is burnt afterwards; raise `BriefError` if that fails."""
    assert brief.each is not None
    data = read_table(brief, _MAX_WORKBOOK_BYTES)
    desks = Desks(machine, brief, job, ignore_events, brief.seconds)
    try:
        async with desks.sterile(BASE) as desk:
            await desk.write(_FILE, data)
            evidence = await look(desk, _PROGRAM, {"path": _FILE, "rows": True}, seconds=LOOK_TIMEOUT_S)
    except DeskError as e:  # a desk that fails was broken by the file
        raise BriefError(f"{make_printable(brief.each.over)} cannot be read: {e}") from e
    if evidence.trouble:
        raise BriefError(f"{make_printable(brief.each.over)} cannot be read: {evidence.trouble}")
    return parse_rows(evidence.report, brief.each.over)


def parse_rows(report: bytes, over: str) -> list[TableRow]:
    """Parse a desk's report on a workbook strictly: the desk may be under an attacker's control."""
    name = make_printable(over)
    try:
        found: WorkbookRows = compile_reader(WorkbookRows)(read_json(report))
    except (ValueError, StrictError) as e:
        raise BriefError(f"{name} cannot be read: {make_printable(str(e)[:200])}") from None
    if found.unreadable or not found.rows:
        why = make_printable(found.unreadable[:300]) or "it is empty"
        raise BriefError(f"{name} has no rows that can be read: {why}")
    headings, *rows = found.rows
    if len(set(headings)) != len(headings) or "" in headings:
        raise BriefError(
            f"{name} has a column without a heading, or two columns with the same heading; correct its first row"
        )
    for number, row in enumerate(rows, 2):
        if len(row) > len(headings):
            raise BriefError(
                f"row {number} of {name} (empty rows not counted) has more cells ({len(row)}) than row 1 has headings "
                f"({len(headings)}); correct row {number}, or add headings"
            )
    return [dict(zip(headings, row + [""] * (len(headings) - len(row)), strict=True)) for row in rows]
