"""`hotdesk show`: show one job, from its plan to its receipt."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.board.state import plan_intents
from hotdesk.cli.jobs.decision import JOBS, get_journal_path
from hotdesk.cli.jobs.jobs import get_state
from hotdesk.cli.jobs.show_page import as_dict, format_page
from hotdesk.cli.machine import door, journal
from hotdesk.config import Config
from hotdesk.drive.chain import Row
from hotdesk.drive.journal import follow, read
from hotdesk.errors import BriefError, HostError
from hotdesk.event import Exchange, StepBegun, Verified
from hotdesk.job.record import papers
from hotdesk.job.record.door_activity import read_door
from hotdesk.job.record.lock import is_held
from hotdesk.job.record.summary import JobSummary, find_job, summarize
from hotdesk.job.record.transcript import format_transcript


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="the job's id, or a prefix of it")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--door", action="store_true", help="show the network requests of the job's desks, and the door's decisions"
    )
    chosen.add_argument("--journal", action="store_true", help="show the events of the job and its desks, one per line")
    chosen.add_argument(
        "--papers",
        "--transcript",
        action="store_true",
        help="show the transcript: model replies, tool calls and results; it may contain private data",
    )
    parser.add_argument("--follow", action="store_true", help="follow the job while it runs")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Show a job: its plan as a checklist, approvals, network requests, checks, results, and what was destroyed.

    For example:

      hotdesk show $JOB
      hotdesk show $JOB --door
      hotdesk show $JOB --journal --follow
      hotdesk show $JOB --json | jq .kept
    """
    settings = config.load()
    if not get_journal_path(settings).exists():
        raise BriefError("there are no jobs yet; `hotdesk work BRIEF` starts one")
    summary = summarize(get_journal_path(settings), find_job(get_journal_path(settings), arguments.job))
    if arguments.papers:
        return journal.print_all(_read_papers(settings, summary))
    if arguments.door or arguments.journal or arguments.follow:
        return journal.stream(
            iterate_rows(settings, summary, arguments.follow), _choose_writers(arguments)[arguments.json]
        )
    return show(settings, summary, arguments.json)


def _choose_writers(arguments: argparse.Namespace) -> tuple[Callable[[Row], str | None], Callable[[Row], str | None]]:
    if not arguments.door:
        return journal.as_line, journal.as_json
    return (
        lambda row: None if is_trial(row) else door.as_line(row),
        lambda row: None if is_trial(row) else door.as_shown_json(row),
    )


def is_trial(row: Row) -> bool:
    """Return whether a request is part of a door's self-test, which `hotdesk door log` shows."""
    with suppress(ValueError, RecursionError):
        event = row.read_event()
        return isinstance(event, Exchange) and not event.step
    return False


def show(settings: Config, summary: JobSummary, as_data: bool) -> int:
    now = int(time.time() * 1000)
    state = get_state(settings, summary, now)
    door = read_door(get_journal_path(settings), summary.desks)
    if as_data:
        print(json.dumps(as_dict(summary, state, door.exchanges), indent=1))
    else:
        _tell_why(settings, summary)
        print("\n".join(format_page(summary, state, door, _read_intents(settings, summary), now)))
    return 0


def _read_intents(settings: Config, summary: JobSummary) -> dict[str, str]:
    """Read the intents of steps from the plan; empty if it is gone."""
    try:
        return plan_intents(papers.find(settings.lib / JOBS, summary.job).read_text(summary.plan_paper))
    except (BriefError, HostError, ValueError):
        return {}


def _tell_why(settings: Config, summary: JobSummary) -> None:
    for attempt in (each for step in summary.course.steps.values() for each in step.tries if each.paper):
        with suppress(BriefError, HostError):
            words = papers.find(settings.lib / JOBS, summary.job).read_text(attempt.paper)
            attempt.note = f"{attempt.note}; the worker says: {words}".removeprefix("; ")


def _read_papers(settings: Config, summary: JobSummary) -> Iterator[str]:
    """Yield the transcript from the job's papers; only root can read them."""
    if os.geteuid() != 0:
        raise HostError("only root can read the stored data of jobs; use sudo")
    rows = read(get_journal_path(settings), summary.job)
    return format_transcript(rows, papers.find(settings.lib / JOBS, summary.job))


def iterate_rows(settings: Config, summary: JobSummary, going_on: bool) -> Generator[Row | None, None, None]:
    """Yield the events of a job and its desks; with `going_on`, also new ones, and `None` when idle."""
    path, chains = get_journal_path(settings), {summary.job, *summary.desks}
    if not going_on:
        yield from read(path, chains)
        return
    coming, last = follow(path, limit=0), 0
    next(coming)
    for row in read(path, chains):
        last = row.id
        yield row
    for each in coming:
        if each is None:
            yield None
            if not is_held(settings.lib / JOBS / summary.job):
                return
        elif each.id > last and each.chain in chains:
            chains |= _find_desks(each)
            yield each


def _find_desks(row: Row) -> set[str]:
    if row.name not in (StepBegun.__name__, Verified.__name__):
        return set()
    data = json.loads(row.data)
    return {str(data.get("desk", ""))} if isinstance(data, dict) else set()
