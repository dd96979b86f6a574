"""`hotdesk report`: write a report of one job for people, as one HTML file."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from hotdesk import config
from hotdesk.cli.jobs.decision import JOBS, get_journal_path
from hotdesk.errors import BriefError, HostError, make_printable
from hotdesk.job import report
from hotdesk.job.record.summary import find_job
from hotdesk.job.results import Out


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="the job's id, or a prefix of it")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="the file to write, or - for standard output (default: report.html)",
    )


def main(arguments: argparse.Namespace) -> int:
    """Write a job's report: goal, outcome, plan, approvals, timeline, network requests, results and cost.

    `hotdesk work` writes one next to its results; `hotdesk jobs` lists the jobs. It is one file without scripts that
    loads nothing, and may contain private data: what a worker did, and what its screen showed.

    For example:

      hotdesk report $JOB
      hotdesk report $JOB --out june.html
      hotdesk report $JOB --out - | less
    """
    settings = config.load()
    journal = get_journal_path(settings)
    if not journal.exists():
        raise BriefError("there are no jobs yet; `hotdesk work BRIEF` starts one")
    if os.geteuid() != 0:
        raise HostError("only root can read the records of jobs; use sudo")
    job = find_job(journal, arguments.job)
    if str(arguments.out) == "-":
        sys.stdout.buffer.write(report.make(journal, settings.lib / JOBS, job))
        return 0
    with Out(arguments.out.parent, [arguments.out.name]) as out:
        path = report.write(out, arguments.out.name, report.make(journal, settings.lib / JOBS, job))
    print(make_printable(str(path)))
    return 0
