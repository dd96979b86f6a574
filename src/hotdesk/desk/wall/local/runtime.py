"""Desks that are plain directories: the guest is an ordinary process. For tests."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from hotdesk.brief import CLOSED, Scope
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.seam import DeskId, Spec, new_id
from hotdesk.desk.wall.local.handle import LocalHandle, copy_tree
from hotdesk.errors import DeskGone, HostError
from hotdesk.ipc.tasks import Background, background
from hotdesk.walls import TRAITS

SWITCH = "HOTDESK_ALLOW_LOCAL"
"""The variable that must be 1 to use it: a program in a `local` desk is a program on this machine."""


class LocalRuntime:
    """Opens directories without isolation or a keeper; of a wall it has only the traits."""

    name = "local"
    traits = TRAITS[name]

    def __init__(self, tasks: Background) -> None:
        self.tasks = tasks
        self.open_desks: dict[DeskId, tuple[LinkedDesk, LocalHandle]] = {}

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        return await self.open_with(spec, None)

    async def open_with(self, spec: Spec, home: Path | None) -> LinkedDesk:
        desk = new_id()
        folder = Path(tempfile.mkdtemp(prefix=f"hotdesk-{desk}-"))
        outside = LocalHandle(folder, spec, self.tasks, self)
        try:
            if home is None:
                outside.home.mkdir()
            else:
                await copy_tree(home, outside.home)
            link = await outside.start()
        except BaseException:
            outside.clear()
            raise
        opened = LinkedDesk(desk, link, str(outside.home), outside, self.burn)
        self.open_desks[desk] = (opened, outside)
        return opened

    async def find(self, desk: DeskId) -> LinkedDesk:
        if desk not in self.open_desks:
            raise DeskGone(f"desk {desk} is not open")
        return self.open_desks[desk][0]

    async def burn(self, desk: DeskId) -> None:
        """End the guest and its programs, and delete the directory. A halt or boot in progress is completed first."""
        if desk in self.open_desks:
            opened, outside = self.open_desks.pop(desk)
            with anyio.CancelScope(shield=True):
                async with opened.rebooting:
                    opened.hang_up()
                    outside.clear()


@contextlib.asynccontextmanager
async def local_runtime() -> AsyncIterator[LocalRuntime]:
    """Yield a runtime without walls. Its desks burn when the block ends."""
    if os.environ.get(SWITCH) != "1":
        raise HostError(f"the local runtime does not isolate desks and is for tests only; set {SWITCH}=1 to use it")
    async with background() as tasks:
        runtime = LocalRuntime(tasks)
        try:
            yield runtime
        finally:
            with anyio.move_on_after(10, shield=True):
                for desk in list(runtime.open_desks):
                    await runtime.burn(desk)
