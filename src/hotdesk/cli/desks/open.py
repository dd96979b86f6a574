"""`hotdesk open`: open a desk that stays, owned by a holder in the background."""

from __future__ import annotations

import argparse
import json

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.holder.client import open_held
from hotdesk.cli.parser import parse_timeout
from hotdesk.cli.terminal import run_interruptible


def add(parser: argparse.ArgumentParser) -> None:
    options.add_spec(parser)
    options.add_scope(parser)
    parser.add_argument(
        "--deadline",
        type=parse_timeout,
        default=3600.0,
        metavar="SECONDS",
        help="burn the desk after this time, even if it is in use (default: 3600)",
    )
    parser.add_argument(
        "--idle",
        type=parse_timeout,
        default=900.0,
        metavar="SECONDS",
        help="burn the desk after this time without use (default: 900)",
    )
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Open a desk that stays, and print its id. It is burnt at its deadline, when idle, or by `hotdesk burn`.

    For example:

      ID=$(hotdesk open --memory 4G)
      hotdesk exec $ID -- uname -a
      hotdesk open --allow github-read --ask 'write api.test'
    """
    spec = options.make_spec(arguments, arguments.deadline, arguments.idle)
    settings = config.load()
    scope = options.make_scope(arguments)
    key = options.find_key(settings, scope)

    async def work() -> int:
        desk = await open_held(settings, spec, scope, key)
        print(json.dumps({"id": desk}) if arguments.json else desk)
        return 0

    return run_interruptible(work)
