"""`hotdesk door`: show the requests that the door admitted and refused."""

from __future__ import annotations

import argparse
import json

from hotdesk.cli import options
from hotdesk.cli.machine.journal import (
    as_json,
    format_fields,
    format_moment,
    format_value,
    parse_count,
    select_rows,
    stream,
)
from hotdesk.cli.parser import add_acts
from hotdesk.drive.chain import Row
from hotdesk.errors import make_printable
from hotdesk.event import Alarm, Answered, Asked, Event, Exchange, Rescoped, Revoked

SHOWN = frozenset(kind.__name__ for kind in (Exchange, Alarm, Asked, Answered, Rescoped, Revoked))


def add(parser: argparse.ArgumentParser) -> None:
    add_acts(parser, {"log": log}, {"log": _add_log})


def _add_log(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(chain=None)
    parser.add_argument("--follow", action="store_true", help="keep printing new events")
    parser.add_argument("--desk", metavar="ID", help="print only the events of this desk")
    parser.add_argument("--limit", type=parse_count, metavar="N", help="print only the newest N events")
    parser.add_argument("--self-tests", action="store_true", help="also show the self-test of every desk's door")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Read the log of the door.

    For example:

      hotdesk door log --follow
    """
    code: int = arguments.main(arguments)
    return code


def log(arguments: argparse.Namespace) -> int:
    """Show network requests, alarms, requests for access and their answers, one per line, as the journal has them.

    hotdesk door log --follow
    hotdesk door log --desk $ID --json | jq -r .data.host
    """
    written = as_shown_json if arguments.json else as_line
    everything = arguments.self_tests
    return stream(select_rows(arguments), lambda row: written(row) if everything or not _is_self_test(row) else None)


def _is_self_test(row: Row) -> bool:
    try:
        return row.name == Exchange.__name__ and json.loads(row.data).get("test") is True
    except (ValueError, RecursionError, AttributeError):
        return False  # of a later version, or damaged


def as_shown_json(row: Row) -> str | None:
    return as_json(row) if row.name in SHOWN else None


def as_line(row: Row) -> str | None:
    if row.name not in SHOWN:
        return None
    try:
        desk, what = _describe_event(row.read_event())
    except (ValueError, RecursionError):
        desk, what = row.chain, f"{row.name} {row.data}"  # of a later version, or damaged: shown as it is
    return make_printable(f"{format_moment(row.at)}  {desk}  {what}")


def _describe_event(event: Event) -> tuple[str, str]:
    match event:
        case Exchange():
            return event.desk, exchange(event)
        case Alarm(desk, what, secret, host, note):
            return desk, f"ALARM   {what} {format_fields({'secret': secret, 'host': host, 'note': note})}"
        case Asked(desk, id=number, rule=rule, reason=reason):
            return desk, f"asked   {format_fields({'id': number, 'rule': rule, 'reason': reason})}"
        case Answered(desk, number, _, answer, by):
            return desk, f"{answer:7} {format_fields({'id': number, 'by': by})}"
        case Rescoped(desk, _, rules, grants, by):
            return desk, f"scope   {format_fields({'rules': rules, 'grants': grants, 'by': by})}"
        case Revoked(desk, grant, why):
            return desk, f"revoked {format_fields({'grant': grant, 'why': why})}"
        case _:
            raise ValueError(type(event).__name__)


def exchange(event: Exchange) -> str:
    url = f"{event.scheme}://{event.host}:{event.port}{event.path}".replace(" ", "%20")
    sizes = f"up={event.up} down={event.down} {event.ms}ms"
    note = "self-test" if event.test else event.note
    rest = {"step": event.step, "rule": event.rule, "grants": event.grants, "note": note}
    return (
        f"{event.verdict:7} {format_value(event.method or '-')} {url} {event.status or '-'} {sizes} "
        f"{format_fields(rest)}".rstrip()
    )
