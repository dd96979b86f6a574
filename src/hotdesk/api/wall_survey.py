"""Surveys the walls of a running server's machine periodically, so that a new wall needs no restart."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.to_thread

from hotdesk.api.log import LOG
from hotdesk.api.walls import TenantWalls
from hotdesk.config import Config
from hotdesk.desk.wall.program import forget_silent
from hotdesk.desk.wall.registry import survey
from hotdesk.errors import HotdeskError
from hotdesk.walls import WallCatalog

_PERIOD_S = 60.0
"""Seconds between surveys. A survey is a few `stat` calls; a program is run once for each version of its file."""


class WallSurvey:
    """Keeps the catalog of a server's walls current."""

    def __init__(
        self,
        settings: Config,
        walls: TenantWalls,
        changed: Callable[[], object],
        look: Callable[[Config], WallCatalog] = survey,
        period: float = _PERIOD_S,
    ) -> None:
        self.settings = settings
        self.walls = walls
        self.changed = changed
        """Called after the set of available walls changed."""
        self.look = look
        self.period = period
        self.requested = anyio.Event()

    def ask(self) -> None:
        self.requested.set()

    async def run(self) -> None:
        while True:
            with anyio.move_on_after(self.period):
                await self.requested.wait()
            self.requested = anyio.Event()
            await self.refresh()

    async def refresh(self) -> None:
        """Survey the walls; if that fails, the catalog stays as it is."""
        forget_silent()
        try:
            found = await anyio.to_thread.run_sync(self.look, self.settings)
        except (HotdeskError, OSError) as e:
            LOG.write("walls", f"cannot determine which walls (isolation) this machine supports: {e}")
            return
        before, self.walls.catalog = self.walls.catalog, found
        if before.list_available() != found.list_available():
            LOG.write(
                "walls",
                "the walls (isolation) that this machine supports have changed",
                available=",".join(found.list_available()),
            )
            self.changed()
