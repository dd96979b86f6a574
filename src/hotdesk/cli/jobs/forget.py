"""`hotdesk forget`: delete everything about a job except its journal entries."""

from __future__ import annotations

import argparse
import os
import sys

from hotdesk import config
from hotdesk.api.launch.job_command import remove_order
from hotdesk.cli.jobs.decision import JOBS, describe_decider, get_journal_path
from hotdesk.cli.jobs.jobs import cut
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.errors import BriefError, HostError
from hotdesk.host import Host
from hotdesk.job.record.forget import forget
from hotdesk.job.record.lock import is_held
from hotdesk.job.record.summary import JobSummary, find_job, summarize


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="the id of the job; `hotdesk jobs` lists jobs")
    parser.add_argument("--yes", action="store_true", help="delete without asking")


def main(arguments: argparse.Namespace) -> int:
    """Delete a job's encryption key, stored data and checkpoint. Its files in the drive stay, and so does the journal.

    A job that has not ended cannot be resumed afterwards.

    For example:

      hotdesk forget $JOB
    """
    settings = config.load()
    if os.geteuid() != 0:
        raise HostError("only root can delete the stored data of jobs; use sudo")
    summary = summarize(get_journal_path(settings), find_job(get_journal_path(settings), arguments.job))
    folder = settings.lib / JOBS / summary.job
    if not folder.is_dir():
        raise BriefError(f"the stored data of job {summary.job} is already deleted; its journal entries stay")
    if is_held(folder):
        raise BriefError(f"another process is running job {summary.job}; wait for it, or stop it with Ctrl-C there")
    if not arguments.yes:
        confirm(summary)
    forget_all(settings, [summary])
    print(f"deleted: {summary.job}")
    return 0


def confirm(summary: JobSummary) -> None:
    if not sys.stdin.isatty():
        raise BriefError(f"deleting {summary.job} cannot be undone; pass --yes to confirm")
    going = "" if summary.ended else ", which has not ended and could not be resumed then,"
    if input(f"delete {summary.job}{going} ({cut(summary.goal)})? [y/N] ").strip().lower() not in ("y", "yes"):
        raise BriefError("nothing was deleted")


def forget_all(settings: Config, jobs: list[JobSummary], why: str = "") -> None:
    """Delete the stored data of jobs; each deletion is recorded before it happens."""

    async def work() -> int:
        async with Host(settings, control=False) as host:
            await host.prepare()
            for summary in jobs:
                noted = summary.forgotten is not None
                forget(settings.lib / JOBS, summary.job, host.note, describe_decider(), why, noted=noted)
                remove_order(settings, summary.job)
        return 0

    if code := run_interruptible(work):
        raise SystemExit(code)
