"""The state of a swarm, folded from its events, so that another process can continue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.drive.journal import read
from hotdesk.event import (
    Event,
    ItemEnded,
    ItemReviewed,
    ItemsAdded,
    ItemsBegun,
    ItemsOffered,
    ItemsUsed,
    PilotEnded,
    ReduceBegun,
    Reduced,
    SwarmBegun,
    SwarmCertified,
)
from hotdesk.swarm.ledger import ItemCost

KINDS = (
    SwarmBegun, ItemsOffered, ItemsAdded, ItemsBegun, ItemsUsed, ItemEnded, PilotEnded, ReduceBegun, Reduced,
    ItemReviewed, SwarmCertified,
)  # fmt: skip
NAMES = tuple(kind.__name__ for kind in KINDS)


@dataclass(slots=True)
class SwarmState:
    """The state of one swarm."""

    begun: SwarmBegun | None = None
    """The event that started it, updated with the items that were added."""
    is_offered: bool = False
    """Whether items were offered that have not been added yet."""
    items: dict[str, ItemEnded] = field(default_factory=dict)
    """The last record of each item, by its key."""
    replaced: ItemCost = field(default_factory=ItemCost)
    """What items used whose record was replaced by a later one."""
    unfinished: dict[str, ItemCost] = field(default_factory=dict)
    """What each unfinished item has used, by its key."""
    open: dict[str, None] = field(default_factory=dict)
    """Keys of items that may have changed something outside, were started, and have no recorded end."""
    pilot: PilotEnded | None = None
    reduce: ReduceBegun | None = None
    reduced: Reduced | None = None
    reports: dict[str, None] = field(default_factory=dict)
    """All jobs that built or tried to build the report."""
    reviews: dict[str, ItemReviewed] = field(default_factory=dict)
    certified: SwarmCertified | None = None

    def take(self, event: Event) -> None:
        match event:
            case SwarmBegun():
                self.begun = event
            case ItemsOffered():
                self.is_offered = True
            case ItemsAdded() if self.begun is not None:
                self.begun = replace(self.begun, items=event.items, manifest=event.manifest, paper=event.paper)
                self.is_offered = False
                self.reduce = self.reduced = self.certified = None
            case ItemsBegun():
                self.open.update(dict.fromkeys(event.items))
            case ItemsUsed():
                costs = zip(event.items, event.tokens, event.dollars, event.acts, strict=False)
                self.unfinished |= {item: ItemCost(tokens, dollars, acts) for item, tokens, dollars, acts in costs}
            case ItemEnded():
                if event.item in self.items:
                    self.replaced.add(self.items[event.item])
                self.items[event.item] = event
                self.open.pop(event.item, None)
                self.unfinished.pop(event.item, None)
                self.reduce = self.reduced = self.certified = None  # a report built before does not include this item
            case PilotEnded():
                self.pilot = event
            case ReduceBegun():
                self.reduce = event
                self.reports[event.reduce] = None
            case Reduced():
                self.reduced = event
            case ItemReviewed():
                self.reviews[event.item] = event
            case SwarmCertified():
                self.certified = event

    @property
    def cost(self) -> ItemCost:
        """What all attempts at all items have used."""
        total = ItemCost()
        total.add(self.replaced)
        for record in self.items.values():
            total.add(record)
        for each in self.unfinished.values():
            total.add(each)
        return total

    @property
    def done(self) -> int:
        return sum(each.outcome == "done" for each in self.items.values())

    @property
    def quarantined(self) -> list[ItemEnded]:
        return [each for each in self.items.values() if each.outcome != "done"]

    def group_failures(self) -> list[tuple[str, str, int]]:
        """Group the items in quarantine: the cause, the reason, and the number of items of each group."""
        return [(cause, why, len(items)) for (cause, why), items in self.list_failures()]

    def list_failures(self) -> list[tuple[tuple[str, str], list[str]]]:
        groups: dict[tuple[str, str], list[str]] = {}
        for each in self.quarantined:
            groups.setdefault((each.cause, _generalize(each)), []).append(each.item)
        return sorted(groups.items(), key=lambda group: -len(group[1]))

    def list_in_order(self) -> list[ItemEnded]:
        return sorted(self.items.values(), key=lambda each: each.index)


def _generalize(event: ItemEnded) -> str:
    return event.why.replace(event.item, "{item}")


def read_state(journal: Path, job: str) -> SwarmState:
    """Read the state of a swarm. A job that is not a swarm has no items."""
    state = SwarmState()
    for event in _read_events(journal, job):
        state.take(event)
    return state


def read_last(journal: Path, job: str, kind: type[Event]) -> int:
    """Return the journal id of the last event of a kind, or 0 if there is none."""
    return max((row.id for row in read(journal, job, names=[kind.__name__])), default=0)


def _read_events(journal: Path, job: str) -> Iterator[Event]:
    return (row.read_event() for row in read(journal, job, names=NAMES))
