"""Group commit: writes the events of many items together. Each caller waits until its own event is on disk."""

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
    """Events waiting to be written. `run` writes until cancelled; its caller handles the events still waiting then."""

    note: Callable[..., None]
    """Writes events in one commit."""
    listener: Callable[[Event], None]
    """Called with each event once it is on disk."""
    events: list[Event] = field(default_factory=list)
    written: anyio.Event = field(default_factory=anyio.Event)
    arrived: anyio.Event = field(default_factory=anyio.Event)
    expected: Callable[[], int] = lambda: MAX_WAITING
    """Returns how many more events may come soon. If none, the batch is written at once."""
    interval: float = FLUSH_INTERVAL_S

    async def add(self, event: Event) -> None:
        """Add an event to the batch; return once it is on disk."""
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
        """Write the waiting events a few times a second, until cancelled."""
        while True:
            await self.arrived.wait()
            self.arrived = anyio.Event()
            await anyio.sleep(self.interval)
            self.flush()
