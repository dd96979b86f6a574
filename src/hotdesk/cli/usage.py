"""`hotdesk usage`: what desks use."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.ids import find_desk
from hotdesk.cli.ps import find_desks
from hotdesk.cli.terminal import aligned, run_interruptible
from hotdesk.config import MIB
from hotdesk.desk.confine import confine
from hotdesk.desk.seam import Usage
from hotdesk.errors import DeskGone, HostError
from hotdesk.host import borrow


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("desks", nargs="*", metavar="ID", help="ids of desks; without one, every open desk")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Say what desks use, as their keepers count it: processor time, memory, disk, processes.

    For example:

      hotdesk usage
      hotdesk usage $ID --json
    """

    settings = config.load()
    named = arguments.desks or [str(told["id"]) for told in find_desks(settings) if told["kept"]]
    chosen = [find_desk(settings, name) for name in named]

    async def work() -> int:
        confine([])
        found: dict[str, Usage] = {}
        for each in chosen:
            try:
                async with borrow(settings, each) as desk:
                    found[each] = await desk.usage()
            except (DeskGone, HostError):
                if arguments.desks:
                    raise  # otherwise it ended while we looked, or its owner lends it to nobody
        show(found, as_json=arguments.json)
        return 0

    return run_interruptible(work)


def show(found: dict[str, Usage], *, as_json: bool) -> None:
    """Print what was found."""
    if as_json:
        print(json.dumps([{"id": name, **asdict(usage)} for name, usage in found.items()], indent=1))
        return
    rows = [("ID", "CPU", "MEMORY", "DISK", "PIDS", "OOM KILLS")]
    rows += [
        (
            name,
            f"{usage.cpu:.2f}s",
            f"{usage.memory / MIB:.1f}M",
            f"{usage.disk / MIB:.1f}M",
            str(usage.pids),
            str(usage.oom_kills),
        )
        for name, usage in found.items()
    ]
    print("\n".join(aligned(rows)))
