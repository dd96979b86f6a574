"""`hotdesk work`: carry out a brief."""

from __future__ import annotations

import argparse
from pathlib import Path

from hotdesk.cli import options, prestart
from hotdesk.cli.brief_warnings import list_input_warnings, warn
from hotdesk.cli.job_request import add_limits, choose
from hotdesk.cli.job_runner import begin
from hotdesk.desk.seam import as_id
from hotdesk.errors import BriefError


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("brief", type=Path, help="a TOML or JSON file, or a folder with brief.toml or brief.json")
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--model",
        action="append",
        metavar="NAME",
        help="the model that does the work, such as anthropic:MODEL; repeat the option for fallbacks",
    )
    who.add_argument(
        "--script", type=Path, metavar="FILE", help="a script to run instead of a model; it runs with your rights"
    )
    who.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="use the replies that --record wrote to this file, instead of a model",
    )
    parser.add_argument(
        "--planner", action="append", metavar="NAME", help="the model that plans (default: that of --model)"
    )
    turned = "for tests: a hostile or clumsy script works at the desk, within the plan of --script if given"
    parser.add_argument("--adversary", choices=("hijacked", "liar", "clumsy"), help=turned)
    parser.add_argument("--record", type=Path, metavar="FILE", help="write every model request and reply to this file")
    by = "with --record: note in the recording that TEXT, not the model, gave the replies"
    parser.add_argument("--answered-by", metavar="TEXT", default="", help=by)
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="copy the results to this folder (default: ./out/JOB)"
    )
    parser.add_argument("--id", type=as_id, help=argparse.SUPPRESS)  # a server chooses a job's id in advance
    add_limits(parser)
    options.add_json(parser, options.STREAM)


def main(arguments: argparse.Namespace) -> int:
    """Carry out a brief: plan, get approval, act at a desk, check the result in a second desk, store it, burn both.

    Progress goes to standard error, the path of each result to standard output. Its certificate is next to it, and so
    is report.html, a report for people. The last line of --json names all three. Exit code 0 means that every check
    passed, 1 that the work or a check failed, 75 that the job stopped and can be resumed, 125 that hotdesk failed.
    Ctrl-C once finishes the current act and stops the job, which `hotdesk resume` continues; twice burns the desks at
    once.

    A script runs on this machine with your user's rights, like any program you start: read it before you run it. With
    --replay no model is called: the recorded decisions are carried out again for real, with the brief's permissions.

    For example:

      hotdesk work brief.toml --model anthropic:claude-sonnet-5
      hotdesk work brief.toml --planner anthropic:claude-opus-5 --model ollama:qwen3 --approve plan
      hotdesk work examples/invoices-small --script examples/invoices-small/brain.py --out ./results
      hotdesk work brief.toml --json | jq 'select(.event == "Receipt").data | .paths, .certificates, .report'
    """
    chosen = choose(arguments)
    job = chosen.build_job()
    if job.each is not None:
        raise BriefError("this brief has [each], so it is for many items; carry it out with `hotdesk swarm`")
    warn(list_input_warnings(job))
    return begin(
        prestart.get_settings(),
        chosen,
        json=arguments.json,
        record=arguments.record,
        job=arguments.id,
        answered_by=arguments.answered_by,
    )
