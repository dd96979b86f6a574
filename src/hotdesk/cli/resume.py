"""`hotdesk resume`: let paused desks go on, and jobs that stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.carrying import add_limits, limits_of, read_chosen, require_ordered
from hotdesk.cli.ids import MIN_PREFIX, begin_with
from hotdesk.cli.job_run import go_on
from hotdesk.cli.pause import each
from hotdesk.config import Config
from hotdesk.desk.seam import ID_SHAPE
from hotdesk.errors import BriefError, printable
from hotdesk.job import papers


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("ids", nargs="+", metavar="ID", help="desks, or one job")
    parser.add_argument("--ordered", type=Path, help=argparse.SUPPRESS)  # a server's job: only what a server may order
    parser.add_argument("--installed", type=Path, action="append", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--listed", action="append", default=[], help=argparse.SUPPRESS)
    add_limits(parser)
    options.add_json(parser, options.STREAM)


def main(arguments: argparse.Namespace) -> int:
    """Let paused desks go on, or one job that stopped, was killed, or used up a limit.

    A desk paused without its memory starts anew. A job goes on after its last finished step, or amid one where its
    workspace was kept; finished steps are not taken again, and what has an unknown outcome is told, not repeated.

    For example:

      hotdesk resume $DESK
      hotdesk resume $JOB
      hotdesk resume $JOB --acts 200
    """
    settings = config.load()
    jobs = [each for name in arguments.ids for each in found(settings.lib / "jobs", name)]
    if not jobs:
        require_desks(settings, arguments.ids)
        return each(arguments.ids, lambda desk: desk.pause(False))
    if len(arguments.ids) > 1:
        raise BriefError("one job at a time: `hotdesk resume JOB`")
    kept = read_chosen(papers.find(settings.lib / "jobs", jobs[0]).order())
    if arguments.ordered is not None:
        require_ordered(kept, arguments.ordered, arguments.installed, arguments.listed)
    return go_on(settings, kept, jobs[0], limits_of(arguments), json=arguments.json)


def found(jobs: Path, name: str) -> list[str]:
    """Give the job whose id begins so and of which something is kept; none: it may be a desk's."""
    if len(name) < MIN_PREFIX:
        return []
    kept = [path.parent.name for path in jobs.glob(f"*/{papers.KEY}") if path.parent.name.startswith(name)]
    if len(kept) > 1:
        raise BriefError(f"several jobs begin with {name!r}: {', '.join(sorted(kept))}")
    return kept


def require_desks(settings: Config, names: list[str]) -> None:
    """Refuse what names neither a job nor an open desk."""
    for name in names:
        if not ID_SHAPE.fullmatch(name) and not begin_with(settings, name):
            raise BriefError(
                f"{printable(name[:40])!r} is neither a job nor an open desk; `hotdesk jobs` and `hotdesk ps` list them"
            )
