"""`hotdesk replay`: repeat a job's recorded decisions at a fresh desk."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.job_request import read_chosen
from hotdesk.cli.job_runner import TerminalJob
from hotdesk.cli.jobs.resume import find_jobs
from hotdesk.desk.seam import new_id
from hotdesk.job.record import papers


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="the id of the job to repeat; its stored data must not be deleted")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="copy the results to this folder (default: ./out/JOB)"
    )
    options.add_json(parser, options.STREAM)


def main(arguments: argparse.Namespace) -> int:
    """Repeat a job's recorded decisions at a new desk: the same plan and acts, without a model or approvals.

    It is a new job that may only read, and has no secrets: what the first job changed outside is not changed
    again, and what it fetched with a secret cannot be fetched. So its results can differ; it shows what was done.

    For example:

      hotdesk replay $JOB
      hotdesk replay $JOB --out ./again
    """
    settings = config.load()
    job = next(iter(find_jobs(settings.lib / "jobs", arguments.job)), arguments.job)
    chosen = read_chosen(papers.find(settings.lib / "jobs", job).read_order())
    out = str(arguments.out.absolute()) if arguments.out else ""
    again = replace(chosen, replay=job, out=out)
    return TerminalJob(settings, again, new_id(), json=arguments.json).carry_out()
