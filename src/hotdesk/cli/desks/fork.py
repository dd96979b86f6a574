"""`hotdesk fork`: open desks with another desk's files."""

from __future__ import annotations

import argparse
import json

from hotdesk.cli import options
from hotdesk.cli.desks.pause import act_on_desks
from hotdesk.desk.owner.remote import RemoteHandle
from hotdesk.errors import BriefError


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desk", metavar="ID", help="the desk's id")
    parser.add_argument("-n", "--count", type=int, default=1, metavar="N", help="number of copies (default: 1)")
    parser.add_argument("--snapshot", metavar="SNAPSHOT", help="copy this snapshot (default: the current files)")
    parser.add_argument(
        "--memory",
        action="store_true",
        help="also copy memory, so that programs continue in each copy; needs the wall gvisor or microvm",
    )
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Open copies of an open desk, with its files, and print their ids.

    Each copy is a computer of its own, with its own name, gate, grants and placeholders.
    For example:

      hotdesk fork $ID
      hotdesk fork $ID --memory
      for each in $(hotdesk fork $ID -n 4); do hotdesk exec $each -- ./try.sh; done
    """

    if arguments.memory and arguments.snapshot:
        raise BriefError("--memory cannot be combined with --snapshot: a snapshot has files and no memory")

    async def act(desk: RemoteHandle) -> None:
        opening = (
            desk.fork_live(None, arguments.count)
            if arguments.memory
            else desk.fork(arguments.snapshot or "", arguments.count)
        )
        forks = [each.id for each in await opening]
        print(json.dumps(forks) if arguments.json else "\n".join(forks))

    return act_on_desks([arguments.desk], act)
