"""The log of one item's worker, stored as one paper that the item's journal event names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field

from hotdesk.brain.models.seam import ModelRequest, Reply, TokenUsage
from hotdesk.brain.seam import BudgetBalance, BudgetSpentError
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable
from hotdesk.event import Event
from hotdesk.plan import Plan
from hotdesk.swarm.ledger import ItemCost, SwarmLedger
from hotdesk.tool import Call, Observation

_MAX_TEXT_CHARS = 4000
"""Maximum characters of one text in an item's log."""
_MAX_ENTRIES = 2000


class ItemBudgetError(Exception):
    """One item exceeded its budget. It goes to quarantine; the swarm continues."""


@dataclass(slots=True)
class ItemLog:
    """The log of one item: records what its worker does, and enforces the item's and the swarm's budget."""

    item: str
    ledger: SwarmLedger
    cost: ItemCost
    entries: list[dict[str, object]] = field(default_factory=list)

    def use(self, event: Event) -> None:
        """Ignore a tool's own events: the entry of the call has the same information."""

    def note_reply(self, step: str, request: ModelRequest, reply: Reply, ms: int) -> list[int]:
        """Record a reply and count its cost; raise if its tool calls exceed a budget."""
        self.count_usage(reply.usage)
        self.require_budget(len(reply.calls))
        first = self.cost.acts + 1
        self.cost.acts += len(reply.calls)
        self.add({"step": step, "model": reply.model, "text": _cut(reply.text), "ms": ms})
        return [first + place for place in range(len(reply.calls))]

    def note_unused(self, step: str, reply: Reply) -> None:
        self.count_usage(reply.usage)
        self.add({"step": step, "model": reply.model, "text": _cut(reply.text), "unused": True})

    def count_usage(self, usage: TokenUsage) -> None:
        self.cost.tokens += usage.input + usage.output + usage.stored + usage.cached // 10
        self.cost.dollars += usage.dollars or 0.0

    def note_observation(self, step: str, act: int, call: Call, observation: Observation, ms: int) -> str:
        arguments = _cut(json.dumps(call.arguments, default=str))
        text = _cut(observation.text)
        self.add({"step": step, "act": act, "tool": call.tool, "with": arguments, "ok": observation.ok, "text": text})
        return ""

    def note_plan(self, plan: Plan, round_number: int, findings: Sequence[str]) -> None:
        """Raise: the plan of a swarm is made before its items."""
        raise AssertionError("items share the plan of the swarm and cannot amend it")

    def check(self) -> None:
        self.require_budget(0)

    def is_halted(self) -> bool:
        """Return `False`: a swarm that stops begins no further item, and waits for those that run."""
        return False

    def require_budget(self, acts: int) -> None:
        """Raise `ItemBudgetError` when the item's budget is used up, `BudgetSpentError` when the swarm's is."""
        why, is_total = self.ledger.refuse_more(self.cost, acts)
        if why:
            raise BudgetSpentError(why) if is_total else ItemBudgetError(why)

    def measure_balance(self) -> tuple[BudgetBalance, ...]:
        limits = [(name, getattr(self.ledger.each, name)) for name in ("acts", "tokens", "dollars")]
        return tuple(
            BudgetBalance(name, total - getattr(self.cost, name), total) for name, total in limits if total is not None
        )

    def add(self, entry: dict[str, object]) -> None:
        if len(self.entries) < _MAX_ENTRIES:
            self.entries.append(entry)


def _cut(text: str) -> str:
    shown = make_printable(text[:_MAX_TEXT_CHARS])
    return shown if len(text) <= _MAX_TEXT_CHARS else f"{shown} [and {len(text) - _MAX_TEXT_CHARS} more characters]"
