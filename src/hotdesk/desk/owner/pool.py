"""A pool of ready desks: opened in advance, frozen, and configured when they are claimed.

A desk is kept for one tenant and one image, by its digest. All else an order may say is applied at the claim.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field, replace
from typing import Protocol

import anyio

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.image.image import ImageCatalog
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError, HotdeskError, ImageError
from hotdesk.walls import TRAITS

MAX_READY = 1000
"""Desks a pool may keep ready."""
MAX_AGE_S = 3600.0
"""Seconds after which a desk no one claimed is replaced by a fresh one."""
PROVEN_SECONDS = 86400.0
"""The longest deadline a desk that was proven beforehand may get: its authority lives no longer."""
_QUIET_S = 0.1
"""Seconds without an order before the pool opens a desk of its own."""
_MAX_DELAY_S = 1.0
"""Seconds after which it opens one all the same."""
RETRY_INTERVAL_S = 5.0
"""Seconds until it tries again when a desk could not be opened."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The properties that a ready desk and its order must have in common."""

    tenant: str
    image: str
    """Its digest: a name may mean another image by now."""
    sterile: bool
    proven: bool
    """Whether it has a way out, tried from inside, that leads nowhere yet."""
    wall: str
    disk_in: str
    disk: int
    """Its size where that cannot be changed."""
    memory: int = 0
    cpus: float = 0.0
    """What it has of both, behind a wall that cannot change them."""


@dataclass(frozen=True, slots=True)
class SpareDesk:
    """A desk that is ready."""

    desk: LinkedDesk
    kind: Kind


@dataclass(slots=True)
class Shelf:
    """Desks that are kept for one order."""

    spec: Spec
    proven: bool
    count: int = 0
    ready: deque[SpareDesk] = field(default_factory=deque)


class SpareSource(Protocol):
    """Opens desks for the pool, and reports when one has ended."""

    async def prepare(self, spec: Spec, proven: bool) -> tuple[LinkedDesk, str]:
        """Open a desk to keep ready, its way out tested if it must be proven.

        Returns the desk, and the digest of its image.
        """
        ...

    def has_ended(self, desk: LinkedDesk) -> bool:
        """Return whether a desk has ended."""
        ...

    def is_dying(self, desk: LinkedDesk) -> bool:
        """Return whether a frozen desk was killed and will end when thawed; expensive."""
        ...

    async def discard(self, desk: LinkedDesk) -> None:
        """Burn a desk that was not claimed. One that has ended is no error."""
        ...


class Pool:
    """The desks one owner keeps ready."""

    def __init__(self, config: Config, source: SpareSource) -> None:
        self.source = source
        self.shelves: dict[Kind, Shelf] = {}
        """By what their orders say, the image by its name."""
        self.changed = anyio.Event()
        self.ordered = 0.0
        """When a desk was last asked for."""
        self.images = ImageCatalog(config.images)
        self.failure: HotdeskError | None = None
        """Why the last desk could not be opened."""

    def keep(self, spec: Spec, count: int, *, proven: bool = False) -> None:
        """Keep a number of desks of a spec ready from now on; 0 ends it.

        The way out of `proven` ones was tested, for orders with a scope; others are tested at the claim.
        """
        if not 0 <= count <= MAX_READY:
            raise BriefError(f"the number of ready desks must be 0 to {MAX_READY}, not {count}")
        if spec.volumes:
            raise BriefError("a desk with volumes cannot be in the pool: its mounts are fixed when it starts")
        self.find_kind(spec, proven)  # a missing image is reported to the caller
        fresh = replace(spec, env={}, root=False, deadline=MAX_AGE_S)
        shelf = self.shelves.setdefault(make_kind(spec, spec.image, proven), Shelf(fresh, proven))
        shelf.spec, shelf.count = fresh, count
        self.failure = None
        self.change()

    def find_kind(self, spec: Spec, proven: bool) -> Kind:
        return make_kind(spec, self.images.find(spec.image).digest, proven)

    def take(self, spec: Spec, scope: Scope) -> tuple[LinkedDesk, bool] | None:
        """Return a desk that is ready, if one is, and whether it is proven; from then on it is the caller's."""
        if not self.shelves or spec.volumes:  # what is mounted is decided when a desk starts
            return None
        self.ordered = anyio.current_time()
        for proven in list_claimable(spec, scope):
            kind = self.find_kind(spec, proven)
            for shelf in self.shelves.values():
                for spare in shelf.ready:
                    if spare.kind == kind and not self.source.has_ended(spare.desk):
                        shelf.ready.remove(spare)
                        self.change()
                        return spare.desk, proven
            if (lost := self.shelves.get(make_kind(spec, spec.image, proven))) is not None and lost.ready:
                self.change()  # what is there cannot be given
        return None

    def change(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    def list_usable(self, shelf: Shelf) -> list[SpareDesk]:
        """Return what on a shelf can still be given: it lives, and its image is what the name means now."""
        try:
            kind = self.find_kind(shelf.spec, shelf.proven)
        except ImageError:
            return []
        return [spare for spare in shelf.ready if spare.kind == kind and not self.source.has_ended(spare.desk)]

    def find_lacking_shelf(self) -> Shelf | None:
        return next((shelf for shelf in self.shelves.values() if len(self.list_usable(shelf)) < shelf.count), None)

    def sort_out(self) -> list[LinkedDesk]:
        """Remove unusable and surplus desks from the shelves."""
        found = []
        for shelf in self.shelves.values():
            ready = [spare for spare in self.list_usable(shelf) if not self.source.is_dying(spare.desk)][: shelf.count]
            found += [spare.desk for spare in shelf.ready if spare not in ready]
            shelf.ready = deque(ready)
        return found

    async def wait_until_full(self) -> None:
        """Wait until every ready desk is there; raise what prevents one."""
        self.change()
        while self.find_lacking_shelf() is not None:
            if self.failure is not None:
                raise self.failure
            await self.changed.wait()

    async def run(self) -> None:
        """Open missing desks one at a time while no caller waits, and burn surplus ones."""
        while True:
            await self.wait_for_quiet()
            for desk in self.sort_out():
                await self.source.discard(desk)
            if (shelf := self.find_lacking_shelf()) is not None:
                await self.add(shelf)
                continue
            with anyio.move_on_after(MAX_AGE_S / 60):
                await self.changed.wait()

    async def add(self, shelf: Shelf) -> None:
        """Open one more desk for a shelf; when that fails, rest."""
        try:
            desk, digest = await self.source.prepare(shelf.spec, shelf.proven)
            shelf.ready.append(SpareDesk(desk, make_kind(shelf.spec, digest, shelf.proven)))
            self.failure = None
            self.change()
        except HotdeskError as e:
            self.failure = e
            self.change()
            await anyio.sleep(RETRY_INTERVAL_S)

    async def wait_for_quiet(self) -> None:
        with anyio.move_on_after(_MAX_DELAY_S):
            while (wait := self.ordered + _QUIET_S - anyio.current_time()) > 0:  # noqa: ASYNC110 - orders move the moment
                await anyio.sleep(wait)

    def hang_up(self) -> None:
        for shelf in self.shelves.values():
            for spare in shelf.ready:
                spare.desk.hang_up()
        self.shelves.clear()


def list_claimable(spec: Spec, scope: Scope) -> tuple[bool, ...]:
    found = (True, False) if scope != CLOSED and spec.deadline <= PROVEN_SECONDS else (False,)
    traits = TRAITS.get(spec.wall)
    if traits is None or traits.can_equip_spares:
        return found
    return () if spec.root else tuple(proven for proven in found if proven == (scope != CLOSED))


def make_kind(spec: Spec, image: str, proven: bool) -> Kind:
    traits = TRAITS.get(spec.wall)
    size = spec.disk if spec.disk_in == "memory" or (traits is not None and traits.stage) else 0
    memory, cpus = (0, 0.0) if traits is None or traits.can_resize else (spec.memory, spec.cpus)
    return Kind(spec.tenant, image, spec.sterile, proven, spec.wall, spec.disk_in, size, memory, cpus)
