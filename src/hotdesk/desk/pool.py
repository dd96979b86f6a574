"""Desks kept ready: opened before anybody asks, frozen, and made what is asked for when they are claimed.

A desk is kept for one tenant and one image, by its digest. All else an order may say is applied at the claim.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Protocol

import anyio

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.desk.image import as_name, find, record_path
from hotdesk.desk.linked import LinkedDesk
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError, HotdeskError

MOST = 1000
"""Desks a pool may keep ready."""
AGE = 3600.0
"""Seconds after which a desk nobody claimed is replaced by a fresh one."""
PROVEN_SECONDS = 86400.0
"""The longest deadline a desk that was proven beforehand may get: its authority lives no longer."""
QUIET = 0.1
"""Seconds without an order before the pool opens a desk of its own."""
PATIENCE = 1.0
"""Seconds after which it opens one all the same."""
REST = 5.0
"""Seconds until it tries again when a desk could not be opened."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What must be the same for a desk kept ready to be given to somebody."""

    tenant: str
    image: str
    """Its digest: a name may mean another image by now."""
    sterile: bool
    proven: bool
    """Whether it has a way out, tried from inside, that leads nowhere yet."""
    disk_in: str
    disk: int
    """Its size where that cannot be changed."""


@dataclass(slots=True)
class Shelf:
    """Desks of one kind."""

    spec: Spec
    proven: bool
    count: int = 0
    ready: deque[LinkedDesk] = field(default_factory=deque)


class Source(Protocol):
    """Who opens desks for the pool, and says when one has ended."""

    async def prepare(self, spec: Spec, proven: bool) -> LinkedDesk:
        """Open a desk to be kept ready, with a way out that was tried if it shall be proven."""
        ...

    def has_ended(self, desk: LinkedDesk) -> bool:
        """Say whether a desk is no more."""
        ...


class Pool:
    """The desks one owner keeps ready."""

    def __init__(self, config: Config, source: Source) -> None:
        self.config = config
        self.source = source
        self.shelves: dict[Kind, Shelf] = {}
        self.changed = anyio.Event()
        self.ordered = 0.0
        """When a desk was last asked for."""
        self.known: dict[str, tuple[tuple[int, int], str]] = {}
        """Digests of images, each with what its description was when it was read."""
        self.failure: HotdeskError | None = None
        """Why the last desk could not be opened."""

    def keep(self, spec: Spec, count: int, *, proven: bool = False) -> None:
        """Have so many desks of a spec ready from now on; none ends it.

        Those that are `proven` have a way out that was tried, for orders with a scope; others are tried at the claim.
        """
        if not 0 <= count <= MOST:
            raise BriefError(f"a pool cannot keep {count} desks ready; 0 to {MOST}")
        kind, fresh = self.kind(spec, proven), replace(spec, env={}, root=False, deadline=AGE)
        shelf = self.shelves.setdefault(kind, Shelf(fresh, proven))
        shelf.spec, shelf.count = fresh, count
        self.change()

    def kind(self, spec: Spec, proven: bool) -> Kind:
        """Give the kind of desk a spec asks for."""
        digest = self.digest(spec.image)
        size = spec.disk if spec.disk_in == "memory" else 0
        return Kind(spec.tenant, digest, spec.sterile, proven, spec.disk_in, size)

    def digest(self, image: str) -> str:
        """Give the digest of the image of that name, read again when its description is another."""
        try:
            info = os.stat(record_path(self.config.images, as_name(image)))
        except OSError:
            info = None
        version = (info.st_ino, info.st_mtime_ns) if info is not None else (0, 0)
        if self.known.get(image, ((0, 0), ""))[0] != version or info is None:
            self.known[image] = (version, find(self.config.images, image).digest)
        return self.known[image][1]

    def take(self, spec: Spec, scope: Scope) -> tuple[LinkedDesk, bool] | None:
        """Give a desk that is ready, if one is, and whether it is proven; from then on it is the caller's."""
        if not self.shelves:
            return None
        self.ordered = anyio.current_time()
        for proven in (True, False) if scope != CLOSED and spec.deadline <= PROVEN_SECONDS else (False,):
            shelf = self.shelves.get(self.kind(spec, proven))
            while shelf is not None and shelf.ready:
                desk = shelf.ready.popleft()
                self.change()
                if not self.source.has_ended(desk):
                    return desk, proven
        return None

    def change(self) -> None:
        """Let whoever waits look again."""
        self.changed.set()
        self.changed = anyio.Event()

    def lacking(self) -> Shelf | None:
        """Give a shelf with too few desks."""
        for shelf in self.shelves.values():
            for desk in [desk for desk in shelf.ready if self.source.has_ended(desk)]:
                shelf.ready.remove(desk)
            if len(shelf.ready) < shelf.count:
                return shelf
        return None

    async def full(self) -> None:
        """Wait until every desk that shall be ready is; raise what keeps one from it."""
        while self.lacking() is not None:
            if self.failure is not None:
                raise self.failure
            await self.changed.wait()

    async def run(self) -> None:
        """Open what is lacking, one at a time, when nobody waits for a desk; until cancelled."""
        while True:
            shelf = self.lacking()
            if shelf is None:
                with anyio.move_on_after(AGE / 60):
                    await self.changed.wait()
                continue
            await self.be_patient()
            try:
                shelf.ready.append(await self.source.prepare(shelf.spec, shelf.proven))
                self.failure = None
            except HotdeskError as e:
                self.failure = e
                self.change()
                await anyio.sleep(REST)
            self.change()

    async def be_patient(self) -> None:
        """Wait for a quiet moment, though not for ever."""
        with anyio.move_on_after(PATIENCE):
            while (wait := self.ordered + QUIET - anyio.current_time()) > 0:  # noqa: ASYNC110 - orders move the moment
                await anyio.sleep(wait)

    def hang_up(self) -> None:
        """Let go of what is ready."""
        for shelf in self.shelves.values():
            for desk in shelf.ready:
                desk.hang_up()
        self.shelves.clear()
