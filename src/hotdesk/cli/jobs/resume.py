"""`hotdesk resume`: resume paused desks, and jobs that stopped."""

from __future__ import annotations

import argparse
import functools
import sys
import time
from dataclasses import replace
from pathlib import Path

from hotdesk import config
from hotdesk.brain.models import names
from hotdesk.cli import options
from hotdesk.cli.desks.pause import act_on_desks
from hotdesk.cli.holder.client import wake_held
from hotdesk.cli.ids import MIN_PREFIX, begin_with, find_desk
from hotdesk.cli.job_request import JobRequest, add_limits, get_limits, read_chosen, require_ordered
from hotdesk.cli.job_runner import go_on
from hotdesk.cli.jobs.decision import describe_decider, get_journal_path, write_down
from hotdesk.cli.swarm_runner import ResumeChoice, add_resume_choice, go_on_swarm, read_resume_choice
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.desk.keeper.hibernated import describe_unlisted
from hotdesk.desk.records import list_hibernated
from hotdesk.desk.seam import ID_SHAPE
from hotdesk.errors import BriefError, make_printable
from hotdesk.event import ItemsOffered
from hotdesk.job.record import papers
from hotdesk.job.record.lock import is_held
from hotdesk.job.record.summary import summarize
from hotdesk.swarm.reduce import refuse_alone

_MAX_KEY_CHARS = 500
_ENDING_TIMEOUT_S = 30.0


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="ids of paused desks, or the id of one job")
    parser.add_argument("--ordered", type=Path, help=argparse.SUPPRESS)  # a server job: only what a server may request
    parser.add_argument("--installed", type=Path, action="append", default=[], help=argparse.SUPPRESS)
    model = "continue with this model instead, such as anthropic:MODEL; repeat the option for fallbacks"
    parser.add_argument("--model", action="append", metavar="NAME", help=model)
    parser.add_argument("--key-stdin", action="store_true", help="read the model's key from standard input")
    parser.add_argument("--listed", action="append", default=[], help=argparse.SUPPRESS)
    add_limits(parser)
    add_resume_choice(parser)
    options.add_json(parser, options.STREAM)


def main(arguments: argparse.Namespace) -> int:
    """Resume paused desks, or one job that stopped, was killed, or reached a limit.

    A desk that was paused without its memory boots again. A hibernated desk can be resumed after its owner ended, then
    without network access. A job continues after its last finished step, or within a step if its
    workspace was saved. Finished steps are not repeated; the worker is told which acts have an unknown outcome.

    For example:

      hotdesk resume $DESK
      hotdesk resume $JOB
      hotdesk resume $JOB --acts 200
      hotdesk resume $JOB --model anthropic:claude-sonnet-5
      hotdesk resume $JOB --key-stdin < key.txt
      hotdesk resume $SWARM --retry-failed
      hotdesk resume $SWARM --add-items
    """
    settings = config.load()
    jobs = [each for name in arguments.ids for each in find_jobs(settings.lib / "jobs", name)]
    if not jobs:
        require_desks(settings, arguments.ids)
        return _resume_desks(settings, arguments.ids)
    if len(arguments.ids) > 1:
        raise BriefError("`hotdesk resume` takes several desks, but only one job: `hotdesk resume JOB`")
    stored = papers.find(settings.lib / "jobs", jobs[0]).read_order()
    refuse_alone(stored, jobs[0])
    request = read_chosen(stored)
    if arguments.model:
        request = with_models(request, arguments.model)
    if arguments.ordered is not None:
        require_ordered(request, arguments.ordered, arguments.installed, arguments.listed)
    key = read_key() if arguments.key_stdin else ""
    choice = read_resume_choice(arguments)
    if request.has_items and arguments.add_items and is_running(settings, jobs[0]):
        return _offer_items(settings, jobs[0])
    if request.has_items:
        return go_on_swarm(settings, request, jobs[0], get_limits(arguments), choice, json=arguments.json)
    if choice != ResumeChoice():
        raise BriefError(f"{jobs[0]} is not a swarm; leave out --retry-failed, --accept-failed and --add-items")
    return go_on(
        settings, request, jobs[0], get_limits(arguments), json=arguments.json, key=key, anew=bool(arguments.model)
    )


def is_running(settings: Config, job: str) -> bool:
    """Return whether a process runs a job, after waiting for one whose job has ended to exit."""
    folder, end = settings.lib / "jobs" / job, time.monotonic() + _ENDING_TIMEOUT_S
    while is_held(folder) and time.monotonic() < end:
        if summarize(get_journal_path(settings), job).ended is None:
            return True
        time.sleep(0.1)
    return is_held(folder)


def _offer_items(settings: Config, job: str) -> int:
    write_down(settings, ItemsOffered(job, describe_decider()))
    print(f"job {job} is running; it will process the new items")
    return 0


def _resume_desks(settings: Config, names: list[str]) -> int:
    """Resume desks: hibernated ones without an owner at a holder, the others at their owner."""
    desks = [find_desk(settings, name) for name in names]
    asleep = [desk for desk in desks if desk in {record["id"] for record in list_unowned(settings)}]
    for desk in asleep:
        if code := run_interruptible(functools.partial(wake_held, settings, desk)):
            return code
    rest = [str(desk) for desk in desks if desk not in asleep]
    return act_on_desks(rest, lambda desk: desk.pause(False)) if rest else 0


def list_unowned(settings: Config) -> list[dict[str, object]]:
    owned = {path.name for path in (settings.run / "desks").glob("i*")}
    hibernated = [*list_hibernated(settings.run), *describe_unlisted(settings)]
    return [record for record in hibernated if record["id"] not in owned]


def with_models(request: JobRequest, models: list[str]) -> JobRequest:
    if request.is_recorded:
        raise BriefError("this job follows a script or a recording, not a model; resume it without --model")
    for name in models:
        names.split_name(name)
    return replace(request, plan=tuple(models), act=tuple(models))


def read_key() -> str:
    """Read a provider's key: one line without characters that a header cannot have."""
    key = sys.stdin.readline(_MAX_KEY_CHARS + 1).strip()
    if not key or len(key) > _MAX_KEY_CHARS or not key.isascii() or not key.isprintable() or " " in key:
        raise BriefError(
            "--key-stdin found no valid key on standard input; pass it as one line of ASCII characters without spaces"
        )
    return key


def find_jobs(jobs: Path, name: str) -> list[str]:
    """Return the job with stored data whose id starts with `name`, or none: it may be a desk's id."""
    if len(name) < MIN_PREFIX:
        return []
    matching = [path.parent.name for path in jobs.glob(f"*/{papers.KEY}") if path.parent.name.startswith(name)]
    if len(matching) > 1:
        raise BriefError(
            f"several jobs start with {name!r}: {', '.join(sorted(matching))}; pass more characters of the id"
        )
    return matching


def require_desks(settings: Config, names: list[str]) -> None:
    for name in names:
        if not ID_SHAPE.fullmatch(name) and not begin_with(settings, name):
            raise BriefError(
                f"{make_printable(name[:40])!r} is neither a job nor an open desk; `hotdesk jobs` and `hotdesk ps` "
                "list them"
            )
