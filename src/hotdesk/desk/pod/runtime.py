"""Desks as pods, behind the same `Runtime` protocol as local desks."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.desk.keeper.parts_keeper import launch
from hotdesk.desk.keeper.spawn import Started, pair
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner.parts import Parts
from hotdesk.desk.owner.pool import PROVEN_SECONDS, Kind, Pool, make_kind
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.pod.catalog import PodCatalog
from hotdesk.desk.pod.door_setup import build_pod_environment, build_pod_files
from hotdesk.desk.pod.fleet import PodFleet
from hotdesk.desk.pod.keeper import PodKeeper
from hotdesk.desk.seam import DeskId, Spec, Supervisor
from hotdesk.event import Note, ignore
from hotdesk.ipc.tasks import Background, background


class PodPool(Pool):
    """Ready pods. Their size is fixed, so a request must have it."""

    def __init__(self, config: Config, source: KeeperRuntime, catalog: PodCatalog) -> None:
        super().__init__(config, source)
        self.catalog = catalog

    def take(self, spec: Spec, scope: Scope) -> tuple[LinkedDesk, bool] | None:
        """Return a ready pod as usual, unless it could not run long enough: its time can only be shortened."""
        return super().take(spec, scope) if spec.deadline <= PROVEN_SECONDS else None

    def find_digest(self, spec: Spec) -> str:
        return self.catalog.find_template(spec).image

    def make_kind(self, spec: Spec, image: str, proven: bool) -> Kind:
        kind = make_kind(spec, image, proven)
        return replace(kind, disk=spec.disk, memory=spec.memory, cpus=spec.cpus)


class PodRuntime(KeeperRuntime):
    """Desks opened as pods."""

    claims_may_fail = True

    def __init__(
        self,
        config: Config,
        keeper: PodKeeper,
        tasks: Background,
        note: Note = ignore,
        supervise: Callable[[Parts, Background], Supervisor] | None = None,
    ) -> None:
        self.catalog = keeper.catalog
        super().__init__(config, keeper, tasks, note, supervise)

    def make_pool(self) -> Pool:
        return PodPool(self.config, self, self.catalog)

    async def prepare(self, spec: Spec, proven: bool) -> tuple[LinkedDesk, str]:
        """Open a pod to keep ready. It is not frozen: an agent cannot freeze pods."""
        desk = await self.begin(spec, CLOSED, spare=True, gated=proven)
        async with self.unless_whole(desk.id):
            await desk.run(["true"])
            await desk.settle({})
        return desk, self.handles[desk.id].image

    def is_dying(self, desk: LinkedDesk) -> bool:
        return self.has_ended(desk)

    async def equip(self, desk: LinkedDesk, ca: str) -> dict[str, str]:
        """Write the door's files through the guest; return the variables that name them."""
        for path, text in build_pod_files(ca).items():
            await desk.write(path, text)
        return build_pod_environment(has_door=True)

    async def answer(
        self, desk: DeskId, body: dict[str, object], listening: int, console: int = -1, root: bool = False
    ) -> Link:
        """Take over the link to a guest that is connected already."""
        sock = socket.socket(fileno=os.dup(listening))
        sock.setblocking(False)
        link = Link(sock)
        link.explain_end = lambda: self.keeper.explain_end(desk)
        self.tasks.start(link.run)
        try:
            await link.wait_for_hello()
        except BaseException:
            link.hang_up()
            raise
        return link

    async def watch(self) -> None:
        """Follow the process that starts keys and doors. When it is gone, so are the desks."""
        await self.keeper.run()
        self.hang_up()


def start_parts(config: Config) -> Started:
    """Start the process that starts keys, doors and readers for the pods of this process."""
    ours, theirs = pair()
    with theirs:
        return Started(ours, launch(config, None, theirs, has_door=True))


@asynccontextmanager
async def pod_runtime(
    config: Config,
    fleet: PodFleet,
    catalog: PodCatalog,
    note: Note = ignore,
    supervise: Callable[[Parts, Background], Supervisor] | None = None,
    started: Started | None = None,
) -> AsyncIterator[PodRuntime]:
    """Yield a runtime whose desks are pods; they are burnt when the block ends."""
    async with background() as tasks:
        keeper = PodKeeper(started or start_parts(config), config, fleet, catalog, tasks)
        runtime = PodRuntime(config, keeper, tasks, note, supervise)
        tasks.start(runtime.watch)
        tasks.start(runtime.pulse)
        tasks.start(runtime.pool.run)
        tasks.start(keeper.enforce)
        try:
            yield runtime
        finally:
            with anyio.CancelScope(shield=True):
                await keeper.close()
            runtime.hang_up()
