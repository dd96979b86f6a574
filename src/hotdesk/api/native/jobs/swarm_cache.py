"""Cache of recently requested swarms: each is computed once from the journal and then updated."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from dataclasses import field
from pathlib import Path

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.drive.journal import read
from hotdesk.event import ItemEnded, ItemReviewed
from hotdesk.swarm.results import NAMES, SwarmState

_MAX_SWARMS = 16
"""Swarms that are cached, of all tenants together."""
_RATE_WINDOW_MS = 20_000


@dataclass(slots=True)
class FollowedSwarm:
    """One swarm as far as its journal was read."""

    job: str
    state: SwarmState = field(default_factory=SwarmState)
    changes: dict[str, int] = field(default_factory=dict)
    """By item: the position in the journal of its last change."""
    ends: deque[int] = field(default_factory=deque)
    """When recent items ended, in milliseconds since 1970."""
    last: int = 0
    reading: anyio.Lock = field(default_factory=anyio.Lock)

    def read_on(self, journal: Path) -> None:
        for row in read(journal, self.job, names=NAMES, after=self.last):
            self.last = row.id
            event = row.read_event()
            self.state.take(event)
            if isinstance(event, ItemEnded | ItemReviewed):
                self.changes[event.item] = row.id
            if isinstance(event, ItemEnded):
                self.ends.append(row.at)

    def measure_rate(self) -> float:
        now = time.time() * 1000
        while self.ends and now - self.ends[0] > _RATE_WINDOW_MS:
            self.ends.popleft()
        return len(self.ends) / max(1.0, (now - self.ends[0]) / 1000) if self.ends else 0.0

    def list_changes(self, after: int, limit: int) -> tuple[list[ItemEnded], int, bool]:
        """List items that changed after a position in the journal, the position read up to, and whether there are more.

        Items have distinct positions, so that a page never ends within one.
        """
        new = sorted((place, item) for item, place in self.changes.items() if place > after)
        some = new[:limit]
        is_whole = len(some) == len(new)
        last = max(self.last, after) if is_whole else some[-1][0]
        return [self.state.items[item] for _, item in some if item in self.state.items], last, not is_whole


@dataclass(slots=True)
class SwarmCache:
    swarms: OrderedDict[tuple[str, str], FollowedSwarm] = field(default_factory=OrderedDict)

    def find(self, tenant: str, job: str) -> FollowedSwarm:
        found = self.swarms.pop((tenant, job), None) or FollowedSwarm(job)
        self.swarms[tenant, job] = found
        while len(self.swarms) > _MAX_SWARMS:
            self.swarms.popitem(last=False)
        return found

    def forget(self, tenant: str, job: str) -> None:
        self.swarms.pop((tenant, job), None)
