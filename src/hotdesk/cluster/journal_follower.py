"""Copies a tenant's events from a node: when the node reports new ones, and now and then without a report.

A node that reports too much causes no more calls than one a second, and one that reports nothing, or whose reports are
lost, delays its events by a minute at most.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import anyio

from hotdesk.cluster.nodes import ClusterNode, NodeCalls
from hotdesk.cluster.pull import BATCH, PulledJournal

UNREPORTED_S = 60.0
"""Maximum seconds between two calls to a node that reports no new events."""
_POLL_INTERVAL_S = 1.0
"""Seconds between two calls to a node that runs older code and does not report journals, or reports them in vain."""
_MAX_VAIN_CALLS = 10
"""Calls in a row that may find nothing before they are limited to one in each `_POLL_INTERVAL_S`."""
_MIN_INTERVAL_S = 0.02
MAX_PAUSE_S = 60.0
"""Maximum seconds until a node whose events could not be stored is asked again; the pause doubles up to it."""
MAX_SYNC_PAUSE_S = 2.0
"""The same for a server with `sync`: meanwhile the node's doors refuse every request."""


class JournalFollower:
    """Copies a tenant's events from one node, for the lifetime of the node's agent."""

    def __init__(
        self,
        node: ClusterNode,
        pull: Callable[[], Awaitable[int | None]],
        unreported_s: float = UNREPORTED_S,
        max_pause_s: float = MAX_PAUSE_S,
    ) -> None:
        self.node = node
        self.max_pause_s = max_pause_s
        self.unreported_s = unreported_s
        self.pull = pull
        """Copies what is new; returns the number of events, or `None` if that failed."""
        self.moves = 0
        """Incremented when the journal may have new events."""
        self.cleared_at = -1
        """The number of moves when the node had no desk of another process of the tenant."""
        self.moved = anyio.Event()
        self.lost = anyio.Event()
        self.ended = anyio.Event()

    def note(self) -> None:
        """Note that the journal has new events."""
        self.moves += 1
        self.moved.set()

    def end(self) -> None:
        """Note that the node is lost."""
        self.lost.set()
        self.moved.set()

    async def run(self, earlier: JournalFollower | None = None) -> None:
        """Follow until the node is lost; first wait until the follower of an earlier agent has ended."""
        try:
            if earlier is not None:
                await earlier.ended.wait()
            await self._follow()
        finally:
            self.ended.set()

    async def _follow(self) -> None:
        pause, vain = 0.0, 0.0
        begun = anyio.current_time()
        while not self.lost.is_set():
            self.moved = anyio.Event()  # events that are reported during a call are fetched by the next
            count = await self.pull()
            vain = max(0.0, vain - (anyio.current_time() - begun) / _POLL_INTERVAL_S)
            begun = anyio.current_time()
            if count is None:
                pause = min(max(2 * pause, _POLL_INTERVAL_S), self.max_pause_s)
                self.moves += 1  # what the node has is unknown
                await self._rest(pause)
                continue
            pause, vain = 0.0, max(0.0, vain - 1) if count else vain + 1
            await self._rest(_POLL_INTERVAL_S if vain > _MAX_VAIN_CALLS else _MIN_INTERVAL_S)
            await self._wait()

    async def _rest(self, seconds: float) -> None:
        """Pause, whatever the node reports, until it is lost."""
        with anyio.move_on_after(seconds):
            await self.lost.wait()

    async def _wait(self) -> None:
        """Wait for a report of new events, or until it is time for a call without one."""
        is_reported = self.node.report.journals is not None
        seconds = self.unreported_s * random.uniform(0.75, 1) if is_reported else _POLL_INTERVAL_S  # noqa: S311
        with anyio.move_on_after(seconds):
            await self.moved.wait()
            return
        self.moves += 1


async def pull(
    calls: NodeCalls, journal: PulledJournal, take: Callable[[dict[str, object]], int], *, confirms: bool = True
) -> int:
    """Copy all new events of a node; return their number.

    A call also `confirms` that this machine has the events before those it asks for, for doors that wait for that.
    Nodes of older code do not understand it.
    """
    total, may_repeat = 0, True
    while True:
        after = await anyio.to_thread.run_sync(journal.read_last_number)
        key = journal.get_key() if confirms else ""
        reply = await calls.call("GET", f"/journal/{after}/{key}" if key else f"/journal/{after}")
        count = await anyio.to_thread.run_sync(take, reply)
        total += count
        is_awaited = reply.get("awaited") is True
        if count == BATCH:
            continue
        if count and is_awaited:
            if total > count:  # the first such call, which confirms the events, is made at once
                await anyio.sleep(_MIN_INTERVAL_S)
            continue
        is_unconfirmed = is_awaited and confirms and not key  # the key is known only now
        if count or not may_repeat or (journal.read_last_number() == after and not is_unconfirmed):
            return total
        may_repeat = False
