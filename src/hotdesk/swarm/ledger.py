"""Usage and budget of a swarm: limits stop it before they are exceeded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, replace

import anyio

from hotdesk.brief.brief import JobBudget
from hotdesk.dataclass import dataclass
from hotdesk.event import ItemEnded, ItemsUsed
from hotdesk.job.record.resume_state import Spending

RECORD_INTERVAL_S = 5.0
"""Seconds between two records of what unfinished items have used: the use that is lost if the process is killed."""


@dataclass(slots=True)
class ItemCost:
    """The cost of one item so far, over all its attempts."""

    tokens: int = 0
    dollars: float = 0.0
    acts: int = 0

    def add(self, other: ItemCost | ItemEnded) -> None:
        self.tokens += other.tokens
        self.dollars += other.dollars
        self.acts += other.acts


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
    earlier: dict[str, ItemCost] = field(default_factory=dict)
    """Unfinished items, with the usage of attempts that were interrupted."""
    shared: Spending = field(default_factory=Spending)
    """What the swarm's own job uses beside its items, such as its planner."""
    reports: ItemCost = field(default_factory=ItemCost)
    """What jobs that built the swarm's report have used."""
    measure_seconds_left: Callable[[], float] = lambda: math.inf
    """Returns the seconds that are left, which do not pass while people are asked."""

    def recall(self, event: ItemEnded) -> None:
        self._add(ItemCost(event.tokens, event.dollars, event.acts))

    def begin(self, item: str) -> ItemCost:
        return self.running.setdefault(item, ItemCost())

    def end(self, item: str) -> ItemCost:
        """Close an item's account, which includes interrupted attempts; its usage stays counted."""
        self.put_back(item)
        cost = self.earlier.pop(item)
        self._add(cost)
        return cost

    def put_back(self, item: str) -> None:
        """Interrupt an item: its usage stays counted, and its next attempt has its whole budget again."""
        self.earlier.setdefault(item, ItemCost()).add(self.running.pop(item, ItemCost()))

    def list_unfinished(self) -> dict[str, ItemCost]:
        """Return the usage of every unfinished item."""
        found: dict[str, ItemCost] = {}
        for item, cost in (*self.earlier.items(), *self.running.items()):
            found.setdefault(item, ItemCost()).add(cost)
        return {item: cost for item, cost in found.items() if cost != ItemCost()}

    def _add(self, cost: ItemCost) -> None:
        self.spent.add(cost)
        for name in ("tokens", "dollars", "acts"):
            setattr(self.largest, name, max(getattr(self.largest, name), getattr(cost, name)))

    def measure_use(self, name: str) -> float:
        unfinished = sum(getattr(each, name) for each in (*self.running.values(), *self.earlier.values()))
        shared = getattr(self.shared, "budget_tokens" if name == "tokens" else name)
        return float(getattr(self.spent, name) + getattr(self.reports, name) + unfinished + shared)

    @property
    def is_time_up(self) -> bool:
        return self.measure_seconds_left() <= 0

    def refuse_another(self) -> str:
        """Return which limit another item could exceed, counting the items in progress. Empty: it may start."""
        if self.is_time_up:
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


@dataclass(slots=True)
class UsageRecord:
    """Records now and then what unfinished items have used, so that it counts after this process is killed."""

    job: str
    ledger: SwarmLedger
    note: Callable[[ItemsUsed], None]
    recorded: dict[str, ItemCost] = field(default_factory=dict)

    async def run(self) -> None:
        while True:
            await anyio.sleep(RECORD_INTERVAL_S)
            self.write()

    def write(self) -> None:
        """Record the usage that changed since it was last recorded."""
        found = {item: replace(cost) for item, cost in self.ledger.list_unfinished().items()}
        changed = {item: cost for item, cost in found.items() if cost != self.recorded.get(item)}
        self.recorded = found
        if changed:
            costs = [(each.tokens, round(each.dollars, 6), each.acts) for each in changed.values()]
            self.note(ItemsUsed(self.job, tuple(changed), *zip(*costs, strict=True)))
