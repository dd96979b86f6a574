"""Writes events of many items in one commit: each waits until its own is on disk, and no longer than a moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.event import Event

FLUSH_INTERVAL_S = 0.25
MAX_WAITING = 64


@dataclass(slots=True)
class EventBatch:
    """Events that wait to be written. `run` writes until cancelled; what still waits then was never acknowledged."""

    note: Callable[..., None]
    """Writes events down in one commit."""
    listener: Callable[[Event], None]
    """Told every event once it is on disk."""
    events: list[Event] = field(default_factory=list)
    written: anyio.Event = field(default_factory=anyio.Event)
    arrived: anyio.Event = field(default_factory=anyio.Event)
    expected: Callable[[], int] = lambda: MAX_WAITING
    """Says how many more may come soon: where none will, nothing is waited for."""

    async def add(self, event: Event) -> None:
        """Have an event written; it is on disk when this returns."""
        self.events.append(event)
        written = self.written
        if len(self.events) >= MAX_WAITING or self.expected() <= 0:
            self.flush()
        else:
            self.arrived.set()
        await written.wait()

    def flush(self) -> None:
        events, written = self.events, self.written
        if events:
            self.events, self.written = [], anyio.Event()
            self.note(*events)
            written.set()
            for event in events:
                self.listener(event)

    async def run(self) -> None:
        """Write what waits, a few times a second, until cancelled."""
        while True:
            await self.arrived.wait()
            self.arrived = anyio.Event()
            await anyio.sleep(FLUSH_INTERVAL_S)
            self.flush()
