"""Usage and budget of a swarm: limits stop it before they are exceeded."""

from __future__ import annotations

import time
from dataclasses import field

from hotdesk.brief.brief import JobBudget
from hotdesk.dataclass import dataclass
from hotdesk.event import ItemEnded


@dataclass(slots=True)
class ItemCost:
    """The cost of one item so far, over all its attempts."""

    tokens: int = 0
    dollars: float = 0.0
    acts: int = 0


@dataclass(slots=True)
class SwarmLedger:
    """Limits and usage of all items of a swarm."""

    total: JobBudget
    each: JobBudget
    seconds: float
    """Seconds the swarm may work in total."""
    spent: ItemCost = field(default_factory=ItemCost)
    largest: ItemCost = field(default_factory=ItemCost)
    """The most that one item used: the expected use of an item if the brief sets no limit for it."""
    running: dict[str, ItemCost] = field(default_factory=dict)
    """Items in progress, with the usage of each."""
    worked: float = 0.0
    """Seconds that earlier processes worked on this swarm."""
    began: float = field(default_factory=time.monotonic)

    def recall(self, event: ItemEnded) -> None:
        self._add(ItemCost(event.tokens, event.dollars, event.acts))

    def begin(self, item: str) -> ItemCost:
        return self.running.setdefault(item, ItemCost())

    def end(self, item: str) -> ItemCost:
        """Close an item's account; its usage stays counted."""
        cost = self.running.pop(item, ItemCost())
        self._add(cost)
        return cost

    def _add(self, cost: ItemCost) -> None:
        for name in ("tokens", "dollars", "acts"):
            used = getattr(cost, name)
            setattr(self.spent, name, getattr(self.spent, name) + used)
            setattr(self.largest, name, max(getattr(self.largest, name), used))

    @property
    def seconds_left(self) -> float:
        return self.seconds - self.worked - (time.monotonic() - self.began)

    def measure_use(self, name: str) -> float:
        under_way = sum(getattr(each, name) for each in self.running.values())
        return float(getattr(self.spent, name) + under_way)

    def refuse_another(self) -> str:
        """Return which limit another item could exceed, counting the items in progress. Empty: it may start."""
        if self.seconds_left <= 0:
            return f"the swarm's time limit of {self.seconds:g} seconds is reached"
        for name in ("tokens", "dollars", "acts"):
            total = getattr(self.total, name)
            if total is None:
                continue
            share = getattr(self.each, name)
            expected = float(share if share is not None else getattr(self.largest, name))
            rest = sum(max(expected - getattr(each, name), 0) for each in self.running.values())
            if self.measure_use(name) + rest + expected > total or self.measure_use(name) >= total:
                used = f"{self.measure_use(name):,g} are used"
                return f"another item could exceed the swarm's budget of {total:,g} {name}: {used}"
        return ""

    def refuse_more(self, cost: ItemCost, acts: int = 0) -> tuple[str, bool]:
        """Return which limit stops an item, or an empty string, and whether that limit is the swarm's own."""
        for name, limit in (("tokens", self.each.tokens), ("dollars", self.each.dollars)):
            if limit is not None and getattr(cost, name) >= limit:
                return f"the item's budget of {limit:,g} {name} is used up", False
        if self.each.acts is not None and cost.acts + acts > self.each.acts:
            return f"the item's budget of {self.each.acts:,} tool calls is used up", False
        for name, limit in (("tokens", self.total.tokens), ("dollars", self.total.dollars)):
            if limit is not None and self.measure_use(name) >= limit:
                return f"the swarm's budget of {limit:,g} {name} is used up", True
        if self.total.acts is not None and self.measure_use("acts") + acts > self.total.acts:
            return f"the swarm's budget of {self.total.acts:,} tool calls is used up", True
        return "", False
