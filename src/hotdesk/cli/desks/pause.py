"""`hotdesk pause`: pause desks."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Awaitable, Callable

from hotdesk import config
from hotdesk.cli.ids import find_desk
from hotdesk.cli.terminal import run_interruptible
from hotdesk.desk.owner.remote import RemoteHandle
from hotdesk.errors import BriefError
from hotdesk.host import reach
from hotdesk.linux.landlock import confine


def add(parser: argparse.ArgumentParser) -> None:
    _add_desks(parser)
    parser.add_argument(
        "--no-memory",
        action="store_true",
        help="end every program and keep only the files; `hotdesk resume` boots the desk again",
    )
    parser.add_argument(
        "--keep",
        choices=("ram", "disk"),
        default="ram",
        help="where to keep the desk's memory (default: ram); disk needs the wall gvisor or microvm, frees RAM, and "
        "lets the desk outlive the process that opened it",
    )


def _add_desks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desks", nargs="+", metavar="ID", help="the ids of the desks to pause")


def main(arguments: argparse.Namespace) -> int:
    """Pause desks: no program in them runs until `hotdesk resume`. Their deadlines still apply.

    For example:

      hotdesk pause $ID
      hotdesk pause --no-memory $ID
      hotdesk pause --keep disk $ID
    """
    if arguments.no_memory and arguments.keep == "disk":
        raise BriefError("--no-memory cannot be combined with --keep disk, which keeps memory; leave one of them out")
    return act_on_desks(arguments.desks, functools.partial(_stop, no_memory=arguments.no_memory, keep=arguments.keep))


async def _stop(desk: RemoteHandle, *, no_memory: bool, keep: str) -> None:
    if no_memory:
        await desk.halt()
    elif keep == "disk":
        await desk.hibernate(None)
    else:
        await desk.pause(True)


def act_on_desks(names: list[str], act: Callable[[RemoteHandle], Awaitable[object]]) -> int:
    settings = config.load()
    chosen = [find_desk(settings, name) for name in names]

    async def work() -> int:
        confine([])
        for each in chosen:
            async with reach(settings, each) as desk:
                await act(desk)
        return 0

    return run_interruptible(work)
