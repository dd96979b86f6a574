"""Progress and cost of a swarm's items, counted from its events; the state of an item takes one byte."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from hotdesk.dataclass import dataclass
from hotdesk.event import ItemEnded

_DONE, _QUARANTINED = 1, 2
_MAX_ITEMS = 50_000
"""Maximum items of a swarm, also if a journal claims more."""


@dataclass(slots=True)
class ItemCounts:
    """Counts of the items of one swarm."""

    states: bytearray = field(default_factory=bytearray)
    """State of each item by index; 0 if it has not ended."""
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of ends by outcome and cause, including those before a retry."""
    dollars: float = 0.0
    tokens: int = 0
    acts: int = 0
    seconds: float = 0.0
    """Sum of the items' durations in seconds."""

    def grow(self, total: int) -> None:
        self.states.extend(bytes(max(0, min(total, _MAX_ITEMS) - len(self.states))))

    def take(self, event: ItemEnded) -> None:
        if 0 <= event.index < len(self.states):
            self.states[event.index] = _DONE if event.outcome == "done" else _QUARANTINED
        self.ends[event.outcome, event.cause] += 1
        self.dollars += max(event.dollars, 0.0)
        self.tokens += event.tokens
        self.acts += event.acts
        self.seconds += event.ms / 1000

    @property
    def total(self) -> int:
        return len(self.states)

    @property
    def done(self) -> int:
        return self.states.count(_DONE)

    @property
    def quarantined(self) -> int:
        return self.states.count(_QUARANTINED)
