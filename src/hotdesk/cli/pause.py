"""`hotdesk pause`: stop desks where they are."""

from __future__ import annotations

import argparse

from hotdesk import config
from hotdesk.cli.terminal import run_interruptible
from hotdesk.desk.confine import confine
from hotdesk.desk.seam import as_id
from hotdesk.host import borrow


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("desks", nargs="+", metavar="ID", help="ids of desks")


def main(arguments: argparse.Namespace) -> int:
    """Stop desks where they are: no program in them runs until `hotdesk resume`. Deadlines go on.

    For example:

      hotdesk pause $ID
    """
    return each(arguments.desks, paused=True)


def each(names: list[str], *, paused: bool) -> int:
    """Pause desks, or let them go on."""

    async def work() -> int:
        confine([])
        settings = config.load()
        for name in names:
            async with borrow(settings, as_id(name)) as desk:
                await (desk.pause() if paused else desk.resume())
        return 0

    return run_interruptible(work)
