"""Byte streams that are counted and not read: tunnels, and WebSockets after the upgrade."""

from __future__ import annotations

import asyncio
import time

from hotdesk.brief import Rule
from hotdesk.door.egress import Egress
from hotdesk.door.http.wire import HungUpError, Wire

SILENT_SECONDS = 600.0
"""Seconds a stream may be silent."""
_LAST_SECONDS = 60.0
"""Seconds one side may be silent after the other one has ended."""
_FLUSH_SECONDS = 30.0
"""Seconds an upstream may take to read the rest of a stream."""
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
    """Pass bytes both ways until both sides end. Return why the stream was cut, or an empty string.

    Both sides of a stream that is cut get a reset: after an end it would look complete.
    """
    is_complete = False
    try:
        await _pass_both_ways(inner, outer, count)
        is_complete = True
    except RuleSpentError as e:
        return str(e)
    except (HungUpError, OSError) as e:
        return f"interrupted: {e}"
    finally:
        if not is_complete:
            inner.reset()
            outer.reset()
    await outer.end(_FLUSH_SECONDS)
    return ""


async def _pass_both_ways(inner: Wire, outer: Wire, count: Count) -> None:
    """Pass bytes until both sides have ended; with TLS, which cannot be half closed, until one has."""
    ways = ((inner, outer), (outer, inner))
    tasks = [asyncio.ensure_future(pass_on(*way, count, SILENT_SECONDS, up=way[0] is inner)) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        open_ways = [way for way, task in zip(ways, tasks, strict=True) if not task.done()]
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    for source, sink in open_ways:
        if source.end_sending() and sink.can_be_half_closed:
            await pass_on(source, sink, count, _LAST_SECONDS, up=source is inner)


async def pass_on(source: Wire, sink: Wire, count: Count, seconds: float, *, up: bool) -> None:
    """Pass bytes one way until the source ends; raise if it did not end but was lost."""
    while data := await source.read(seconds):
        count.add(up=len(data) if up else 0, down=0 if up else len(data))
        sink.write(data)
        await sink.drain(STUCK_SECONDS)
    if source.cut_off:
        raise HungUpError("the connection broke off")
