"""`hotdesk snapshot`: take a snapshot of a desk's files."""

from __future__ import annotations

import argparse
import json

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.desks.pause import act_on_desks
from hotdesk.cli.ids import find_desk
from hotdesk.desk.keeper import state
from hotdesk.desk.link.handle import Handle
from hotdesk.errors import DeskGone


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desk", metavar="ID", help="the desk's id")
    acts = parser.add_mutually_exclusive_group()
    acts.add_argument("--list", action="store_true", help="list the desk's snapshots instead of taking one")
    acts.add_argument("--forget", metavar="SNAPSHOT", help="delete this snapshot instead of taking one")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Take a snapshot of a desk's files, and print its name. Programs in the desk continue.

    A snapshot lasts as long as its desk. It does not contain files in memory (/run, /dev/shm).
    For example:

      BEFORE=$(hotdesk snapshot $ID)
      hotdesk exec $ID -- ./risky.sh || hotdesk rollback $ID $BEFORE
      hotdesk snapshot --list $ID
    """
    if arguments.list:
        show(list_snapshots(arguments.desk), arguments.json)
        return 0

    async def act(desk: Handle) -> None:
        if arguments.forget:
            await desk.forget(arguments.forget)
        else:
            name = await desk.snapshot()
            print(json.dumps({"snapshot": name}) if arguments.json else name)

    return act_on_desks([arguments.desk], act)


def list_snapshots(desk: str) -> list[str]:
    settings = config.load()
    facts = state.read_facts(settings.run / "desks" / find_desk(settings, desk))
    if facts is None:
        raise DeskGone(f"desk {desk} is not open; `hotdesk ps` lists open desks")
    names = facts.get("snapshots", [])
    return [str(name) for name in names] if isinstance(names, list) else []


def show(names: list[str], as_json: bool) -> None:
    if as_json:
        print(json.dumps(names))
    elif names:
        print("\n".join(names))
