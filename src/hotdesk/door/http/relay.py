"""Byte streams that are counted and not read: tunnels, and WebSockets after the upgrade."""

from __future__ import annotations

import asyncio
import time

from hotdesk.brief import Rule
from hotdesk.door.egress import Egress
from hotdesk.door.http.wire import Wire

SILENT_SECONDS = 600.0
"""Seconds a stream may be silent."""
STUCK_SECONDS = 120.0
"""Seconds the receiving side may go without reading."""


class RuleSpentError(Exception):
    """A rule's byte or rate budget is used up; the text says which."""


class Count:
    """The bytes of one exchange, counted against every rule that applies."""

    def __init__(self, way: Egress, rules: tuple[Rule, ...] = ()) -> None:
        self.way = way
        self.budgets = [way.get_budget(rule) for rule in rules]
        self.up = self.down = 0

    def begin(self) -> None:
        """Count one request against every rule's rate; raise if there were too many, or a rule's bytes are used up."""
        for budget in self.budgets:
            if why := budget.take_request(time.monotonic()):
                raise RuleSpentError(why)

    def add(self, *, up: int = 0, down: int = 0) -> None:
        """Add to the byte counts; raise if a budget is exceeded."""
        self.up += up
        self.down += down
        self.way.moved += up + down
        for budget in self.budgets:
            if why := (budget.count_sent(up) if up else None) or (budget.count_received(down) if down else None):
                raise RuleSpentError(why)


async def relay(inner: Wire, outer: Wire, count: Count) -> str:
    """Pass bytes both ways until either side disconnects. Return which budget was used up, or an empty string."""
    tasks = [
        asyncio.ensure_future(pass_on(inner, outer, count, up=True)),
        asyncio.ensure_future(pass_on(outer, inner, count, up=False)),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    return next((str(each) for each in outcomes if isinstance(each, RuleSpentError)), "")


async def pass_on(source: Wire, sink: Wire, count: Count, *, up: bool) -> None:
    while data := await source.read(SILENT_SECONDS):
        count.add(up=len(data) if up else 0, down=0 if up else len(data))
        sink.write(data)
        await sink.drain(STUCK_SECONDS)
