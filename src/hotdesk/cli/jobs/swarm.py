"""`hotdesk swarm`: carry out a brief for many items."""

from __future__ import annotations

import argparse
from pathlib import Path

from hotdesk.cli import options, prestart
from hotdesk.cli.job_request import add_limits, choose
from hotdesk.cli.swarm_runner import begin_swarm
from hotdesk.desk.seam import as_id


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("brief", type=Path, help="a brief with [each], or the folder of such a brief")
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--model",
        action="append",
        metavar="NAME",
        help="the model that works on the items, such as anthropic:MODEL; repeat the option for fallbacks",
    )
    who.add_argument(
        "--script",
        type=Path,
        metavar="FILE",
        help="a Python script instead of a model: its variable PLAN lists the steps of an item, REDUCE those of the "
        "report; it runs with your rights",
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
    turned = "for tests: a hostile or clumsy script works on every item, within the plan of --script"
    parser.add_argument("--adversary", choices=("hijacked", "liar", "clumsy"), help=turned)
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="write every model request and reply, with its item, to this file"
    )
    by = "with --record: note in the recording that TEXT, not the model, gave the replies"
    parser.add_argument("--answered-by", metavar="TEXT", default="", help=by)
    parser.add_argument(
        "--pilot", type=int, metavar="N", default=0, help="finish N items first, and ask a person before the rest"
    )
    parser.add_argument("--review", type=int, metavar="N", default=0, help="ask a person to review N random results")
    parser.add_argument(
        "--most", type=int, metavar="N", default=0, help="maximum number of items to process at the same time"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="copy report, results and certificate to this folder (default: ./out/ID)",
    )
    parser.add_argument("--id", type=as_id, help=argparse.SUPPRESS)
    add_limits(parser)
    options.add_json(parser, options.STREAM)


def main(arguments: argparse.Namespace) -> int:
    """Carry out a brief for every item that its [each] names: plan once, approve once, verify every item.

    Each item is processed at a desk of its own and sees no other item. Its files are verified in clean desks, each
    shared by at most 100 items. An item that fails goes to quarantine with its evidence, and the others continue. Then
    [reduce] builds one report from all verified results, at a desk without network access.

    Ctrl-C once lets the running items finish and pauses the swarm; `hotdesk resume` continues with the other items.
    Twice burns the desks at once. Exit code 0 means that every item passed and the report was built, 1 that some are in
    quarantine or the report failed, 75 that it paused, 125 that hotdesk failed.

    For example:

      hotdesk swarm contracts/brief.toml --planner anthropic:claude-opus-5 --model anthropic:claude-haiku-5 --pilot 5
      hotdesk swarm examples/contracts --script examples/contracts/brain.py --out ./results
      hotdesk swarm brief.toml --model anthropic:claude-haiku-5 --record swarm.jsonl
      hotdesk swarm brief.toml --replay swarm.jsonl
      hotdesk resume $SWARM --retry-failed
      hotdesk verify --item c-0001 c-0001.json swarm-certificate.json
      hotdesk swarm brief.toml --json | jq 'select(.event == "ItemEnded").data | .item, .outcome'
    """
    return begin_swarm(prestart.get_settings(), choose(arguments), arguments, json=arguments.json)
