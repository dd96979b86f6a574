"""Cache of recently requested job timelines: each is read once and then updated."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.job.report.story import Following

_MAX_STORIES = 32
"""Timelines that are cached, of all tenants together."""


@dataclass(slots=True)
class Remembered:
    """The timeline of one job, and the lock for reading on."""

    following: Following
    reading: anyio.Lock = field(default_factory=anyio.Lock)


@dataclass(slots=True)
class Stories:
    stories: OrderedDict[tuple[str, str], Remembered] = field(default_factory=OrderedDict)

    def find(self, tenant: str, job: str, begin: Callable[[], Following]) -> Remembered:
        found = self.stories.pop((tenant, job), None) or Remembered(begin())
        self.stories[tenant, job] = found
        while len(self.stories) > _MAX_STORIES:
            self.stories.popitem(last=False)
        return found

    def forget(self, tenant: str, job: str) -> None:
        self.stories.pop((tenant, job), None)
