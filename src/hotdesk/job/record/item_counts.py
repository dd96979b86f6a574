"""Progress and cost of a swarm's items, counted from its events: a byte an item."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from hotdesk.dataclass import dataclass
from hotdesk.event import ItemEnded

_DONE, _QUARANTINED = 1, 2
_MAX_ITEMS = 50_000
"""No swarm has more, whatever a journal says."""


@dataclass(slots=True)
class ItemCounts:
    """The items of one swarm."""

    states: bytearray = field(default_factory=bytearray)
    """By place: 0 while an item has not ended."""
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Every end by outcome and cause, those before a retry included."""
    dollars: float = 0.0
    tokens: int = 0
    acts: int = 0
    seconds: float = 0.0
    """What items took, all together."""

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
