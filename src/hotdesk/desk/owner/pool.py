"""A pool of ready desks: opened in advance, frozen, and configured when they are claimed.

A ready desk is for one tenant and one image digest. Every other property of a request is applied at the claim.
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
"""Maximum desks a pool may keep ready."""
MAX_AGE_S = 3600.0
"""Seconds after which an unclaimed desk is replaced by a new one."""
PROVEN_SECONDS = 86400.0
"""Maximum deadline in seconds of a desk with egress tested in advance, as long as its authority is valid."""
_QUIET_S = 0.1
"""Seconds without a request before the pool opens a desk."""
_MAX_DELAY_S = 1.0
"""Seconds after which it opens one even if requests keep coming."""
RETRY_INTERVAL_S = 5.0
"""Seconds until it tries again after a desk could not be opened."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The properties that a ready desk and a request must have in common."""

    tenant: str
    image: str
    """The image's digest: a name may refer to another image by now."""
    sterile: bool
    proven: bool
    """Whether it has egress, tested from inside, without any rules yet."""
    wall: str
    disk_in: str
    disk: int
    """Its size where the disk cannot be resized, else 0."""
    memory: int = 0
    cpus: float = 0.0
    """Memory in bytes and CPUs, where the wall cannot change them; else 0."""


@dataclass(frozen=True, slots=True)
class SpareDesk:
    """A ready desk."""

    desk: LinkedDesk
    kind: Kind


@dataclass(slots=True)
class Shelf:
    """The ready desks for one kind of request."""

    spec: Spec
    proven: bool
    count: int = 0
    ready: deque[SpareDesk] = field(default_factory=deque)


class SpareSource(Protocol):
    """Opens desks for the pool, and reports whether they have ended."""

    async def prepare(self, spec: Spec, proven: bool) -> tuple[LinkedDesk, str]:
        """Open a desk to keep ready; with `proven`, test its egress.

        Returns the desk, and the digest of its image.
        """
        ...

    def has_ended(self, desk: LinkedDesk) -> bool:
        """Return whether a desk has ended."""
        ...

    def is_dying(self, desk: LinkedDesk) -> bool:
        """Return whether a frozen desk was killed and will end when thawed. Expensive."""
        ...

    async def discard(self, desk: LinkedDesk) -> None:
        """Burn a desk that was not claimed. One that has ended is no error."""
        ...


class Pool:
    """The ready desks of one owner."""

    def __init__(self, config: Config, source: SpareSource) -> None:
        self.source = source
        self.shelves: dict[Kind, Shelf] = {}
        """By the properties of their requests, with the image by its name."""
        self.changed = anyio.Event()
        self.ordered = 0.0
        """When a desk was last requested."""
        self.images = ImageCatalog(config.images)
        self.failure: HotdeskError | OSError | None = None
        """Why the last desk could not be opened, or `None`."""

    def keep(self, spec: Spec, count: int, *, proven: bool = False) -> None:
        """Keep a number of desks of a spec ready from now on; 0 stops it.

        The egress of `proven` desks is tested in advance, for requests with a scope; that of others is tested at the
        claim.
        """
        if not 0 <= count <= MAX_READY:
            raise BriefError(f"the number of ready desks must be 0 to {MAX_READY}, not {count}")
        if spec.volumes:
            raise BriefError(
                "a desk with volumes cannot be kept ready: its volumes are mounted when it starts; leave them out"
            )
        self.find_kind(spec, proven)  # reports a missing image to the caller
        fresh = replace(spec, env={}, root=False, deadline=MAX_AGE_S)
        shelf = self.shelves.setdefault(self.make_kind(spec, spec.image, proven), Shelf(fresh, proven))
        shelf.spec, shelf.count = fresh, count
        self.failure = None
        self.change()

    def find_kind(self, spec: Spec, proven: bool) -> Kind:
        return self.make_kind(spec, self.find_digest(spec), proven)

    def find_digest(self, spec: Spec) -> str:
        """Return the digest of the image that a spec names now; raise `ImageError` if there is none."""
        return self.images.find(spec.image).digest

    def make_kind(self, spec: Spec, image: str, proven: bool) -> Kind:
        """Return what a ready desk and a request have in common; `image` is a digest, or a name for a shelf."""
        return make_kind(spec, image, proven)

    def take(self, spec: Spec, scope: Scope) -> tuple[LinkedDesk, bool] | None:
        """Remove and return a matching ready desk and whether it is proven, or `None` if there is none."""
        if not self.shelves or spec.volumes:  # mounts are fixed when a desk starts
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
            if (lost := self.shelves.get(self.make_kind(spec, spec.image, proven))) is not None and lost.ready:
                self.change()  # the existing desks cannot be used
        return None

    def change(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    def list_usable(self, shelf: Shelf) -> list[SpareDesk]:
        """Return the desks of a shelf that can be claimed: running, and of the image that the name now refers to."""
        try:
            kind = self.find_kind(shelf.spec, shelf.proven)
        except ImageError:
            return []
        return [spare for spare in shelf.ready if spare.kind == kind and not self.source.has_ended(spare.desk)]

    def find_lacking_shelf(self) -> Shelf | None:
        return next((shelf for shelf in self.shelves.values() if len(self.list_usable(shelf)) < shelf.count), None)

    def sort_out(self) -> list[LinkedDesk]:
        """Remove unusable and surplus desks from the shelves; return them."""
        found = []
        for shelf in self.shelves.values():
            ready = [spare for spare in self.list_usable(shelf) if not self.source.is_dying(spare.desk)][: shelf.count]
            found += [spare.desk for spare in shelf.ready if spare not in ready]
            shelf.ready = deque(ready)
        return found

    async def wait_until_full(self) -> None:
        """Wait until every requested desk is ready. Raise the error that prevents it."""
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
        """Open one more desk for a shelf. If that fails, wait before the next attempt."""
        try:
            desk, digest = await self.source.prepare(shelf.spec, shelf.proven)
            shelf.ready.append(SpareDesk(desk, self.make_kind(shelf.spec, digest, shelf.proven)))
            self.failure = None
            self.change()
        except (HotdeskError, OSError) as e:  # the owner's other desks must not end with this one
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
