"""Stories of jobs that were asked for lately: each is read once, and then read on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from hotdesk.job.report.story import Following

MOST = 32
"""Stories that are remembered, of all tenants together."""


@dataclass(slots=True)
class Remembered:
    """One story."""

    following: Following
    reading: anyio.Lock = field(default_factory=anyio.Lock)


@dataclass(slots=True)
class Stories:
    """The stories of a server."""

    known: OrderedDict[tuple[str, str], Remembered] = field(default_factory=OrderedDict)

    def find(self, tenant: str, job: str, begin: Callable[[], Following]) -> Remembered:
        """Give a story, the remembered one if there is one."""
        found = self.known.pop((tenant, job), None) or Remembered(begin())
        self.known[tenant, job] = found
        while len(self.known) > MOST:
            self.known.popitem(last=False)
        return found

    def forget(self, tenant: str, job: str) -> None:
        """Drop what is remembered of a job."""
        self.known.pop((tenant, job), None)
