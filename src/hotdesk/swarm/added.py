"""The recorded list of a swarm's items, and items added to it, also while it runs."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hotdesk.drive.journal import read
from hotdesk.errors import BriefError
from hotdesk.event import ItemsAdded, ItemsOffered, SwarmBegun
from hotdesk.swarm.items import Item, add_items, format_manifest, read_manifest
from hotdesk.swarm.listing import find_items, make_kind
from hotdesk.swarm.results import read_last

if TYPE_CHECKING:
    from hotdesk.swarm.run import SwarmRun

_OFFER_INTERVAL_S = 2.0
"""Seconds between two checks for added items."""


class AddedItems:
    """Records which items a swarm has, and adds new ones."""

    def __init__(self, run: SwarmRun) -> None:
        self.run, order = run, run.context.order
        self.last = read_last(order.journal, order.id, ItemsOffered) if order.goes_on else 0
        """Journal id of the last `ItemsOffered` event that was read."""
        self.next_look = 0.0

    def begin(self) -> None:
        """Record the list of items; raise `BriefError` if a resumed swarm would have other items than before."""
        run, state = self.run, self.run.state
        manifest = format_manifest(run.items)
        digest = hashlib.sha256(manifest).hexdigest()
        if state.begun is None:
            run.note(SwarmBegun(run.id, len(run.items), digest, run.papers.write(manifest)))
        elif run.context.add_items or state.is_offered:
            self.add(run.items)
        elif state.begun.manifest != digest:
            self.recall_places()

    def recall_places(self) -> None:
        """Restore the items' recorded order; raise `BriefError` if there are items that the swarm did not have."""
        before = self.read_list()
        items = add_items(before, self.run.items)
        if len(items) > len(before):
            raise BriefError(
                f"{len(items) - len(before)} items are new since the swarm started, such as {items[len(before)].key}; "
                f"remove them, or run `hotdesk resume {self.run.id} --add-items`"
            )
        self.run.items = items

    def read_list(self) -> list[tuple[str, str, str]]:
        begun = self.run.state.begun
        assert begun is not None
        return read_manifest(self.run.papers.read(begun.paper))

    def add(self, items: Sequence[Item]) -> list[Item]:
        """Add the new items and record the longer list; return the new ones."""
        run, before = self.run, self.read_list()
        run.items, run.state.is_offered = add_items(before, items), False
        if len(run.items) == len(before):
            return []
        manifest = format_manifest(run.items)
        digest = hashlib.sha256(manifest).hexdigest()
        run.note(ItemsAdded(run.id, len(run.items), digest, run.papers.write(manifest)))
        return list(run.items[len(before) :])

    async def accept(self) -> list[Item]:
        """Add items that were offered since the last check; return the new ones."""
        run = self.run
        for row in read(run.context.order.journal, run.id, names=[ItemsOffered.__name__], after=self.last):
            self.last, run.state.is_offered = row.id, True
        if not run.state.is_offered:
            return []
        items = await find_items(run.machine, run.brief, run.id)
        make_kind(run.brief, items)  # raises `BriefError` for items of another kind
        return self.add(items)

    async def look(self) -> list[Item]:
        if time.monotonic() < self.next_look:
            return []
        self.next_look = time.monotonic() + _OFFER_INTERVAL_S
        try:
            return await self.accept()
        except BriefError:
            self.next_look = math.inf  # stop checking while items run; the error is raised again after they have ended
            return []
