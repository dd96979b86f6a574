"""`hotdesk burn`: end desks."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence

from hotdesk import config
from hotdesk.cli.ids import find_desk
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.desk.keeper import state
from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError, HostError, HotdeskError
from hotdesk.host import burn


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desks", nargs="*", metavar="ID", help="the ids of the desks to burn")
    parser.add_argument(
        "--all",
        action="store_true",
        help="burn every open desk of the tenant in $HOTDESK_TENANT (default: the tenant `default`)",
    )


def main(arguments: argparse.Namespace) -> int:
    """Burn desks: end them and destroy everything in them. A desk that is already gone is no error.

    For example:

      hotdesk burn $ID
      hotdesk burn --all
    """
    settings = config.load()
    if bool(arguments.desks) == arguments.all:
        raise BriefError("pass either the ids of the desks to burn, or --all; `hotdesk ps` lists open desks")
    named = [str(facts["id"]) for facts in state.list_own_desks(settings)] if arguments.all else arguments.desks
    chosen = [find_desk(settings, name) for name in named]

    return run_interruptible(functools.partial(burn_each, [(settings, desk) for desk in chosen]))


async def burn_each(desks: Sequence[tuple[Config, DeskId]]) -> int:
    """Burn desks; one that resists does not keep the others."""
    errors = []
    for settings, desk in desks:
        try:
            await burn(settings, desk)
        except HotdeskError as e:
            errors.append(e)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise HostError(f"{len(errors)} desks could not be burnt: {'; '.join(map(str, errors))}")
    return 0
