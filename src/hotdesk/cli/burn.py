"""`hotdesk burn`: end desks."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from hotdesk import config
from hotdesk.cli.terminal import run_interruptible
from hotdesk.desk import state
from hotdesk.desk.seam import as_id
from hotdesk.errors import BriefError
from hotdesk.host import burn as burn_desk


def burn(
    *desks: Annotated[str, Parameter(help="Ids of desks.")],
    every: Annotated[
        bool, Parameter(name="--all", negative="", help="Burn every desk of this state directory.")
    ] = False,
) -> int:
    """Burn desks: end them and everything of them. One that is gone already is no error.

    For example:

      hotdesk burn $ID
      hotdesk burn --all
    """
    settings = config.load()
    if bool(desks) == every:
        raise BriefError("name the desks to burn, or --all; `hotdesk ps` lists them")
    names = [str(told["id"]) for told in state.desks(settings)] if every else list(desks)

    async def work() -> int:
        for name in names:
            await burn_desk(settings, as_id(name))
        return 0

    return run_interruptible(work)
