"""`hotdesk jobs`: list all jobs and their state."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.jobs.decision import JOBS, get_journal_path
from hotdesk.cli.terminal import align_columns
from hotdesk.config import Config
from hotdesk.errors import make_printable
from hotdesk.job.record.lock import is_held
from hotdesk.job.record.summary import JobSummary, read_summaries

GOAL = 60
"""Maximum characters shown of a goal."""
REASON = 32
"""Maximum characters shown of why a job paused; `hotdesk show` has the rest."""


def add(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """List all jobs in the journal, the newest last. `hotdesk resume` continues a job that is `killed` or paused.

    For example:

      hotdesk jobs
      hotdesk jobs --json | jq -r '.[] | select(.state == "waiting") | .waits'
    """
    settings = config.load()
    found = read_summaries(get_journal_path(settings))
    now = int(time.time() * 1000)
    if arguments.json:
        print(json.dumps([as_dict(settings, summary, now) for summary in found], indent=1))
        return 0
    rows = [("ID", "STATE", "STEP", "STARTED", "COST", "BRAIN", "GOAL")]
    rows += [_format_row(settings, summary, now) for summary in found]
    print("\n".join(align_columns(rows)))
    return 0


def _format_row(settings: Config, summary: JobSummary, now: int) -> tuple[str, str, str, str, str, str, str]:
    at, of = summary.place
    started = time.strftime("%Y-%m-%d %H:%M", time.gmtime(summary.begun / 1000))
    step = f"{at} of {of}" if of else "-"
    return (
        summary.job,
        _format_state(settings, summary, now),
        step,
        started,
        str(summary.whole_cost),
        summary.brain or "-",
        cut(summary.goal),
    )


def _format_state(settings: Config, summary: JobSummary, now: int) -> str:
    state, why = get_state(settings, summary, now)
    match state:
        case "waiting":
            return f"waiting for {why}"
        case "paused" if why:
            return f"paused: {cut(why, REASON)}"
    return str(state)


def get_state(settings: Config, summary: JobSummary, now: int) -> tuple[str, str]:
    return summary.get_state(is_held(settings.lib / JOBS / summary.job), now)


def cut(text: str, most: int = GOAL) -> str:
    shown = make_printable(" ".join(text.split()))
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def as_dict(settings: Config, summary: JobSummary, now: int) -> dict[str, object]:
    state, why = get_state(settings, summary, now)
    at, of = summary.place
    return {
        "id": summary.job,
        "state": state,
        "why": "" if state == "waiting" else why,
        "waits": [each.id for each in summary.waiting.open] if state == "waiting" else [],
        "step": at,
        "steps": of,
        "started": summary.begun / 1000,
        "cost": asdict(summary.whole_cost),
        "brain": summary.brain,
        "goal": summary.goal,
        "forgotten": summary.forgotten is not None,
    }
