"""The pilot of a swarm: the first few items, a forecast for all, and the approval card."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable
from hotdesk.event import ItemEnded
from hotdesk.job.people.wait import Card
from hotdesk.swarm.items import Item


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected cost of all items of a swarm."""

    items: int
    dollars: float
    tokens: int
    seconds: float
    failed: int
    """Number of the pilot's items that are in quarantine."""


def choose_pilot(items: Sequence[Item], count: int) -> list[Item]:
    count = min(count, len(items))
    return [items[at * len(items) // count] for at in range(count)] if count else []


def forecast(records: Sequence[ItemEnded], total: int, seconds: float) -> Forecast:
    """Extrapolate the cost of all items from the first ones. `seconds` is what all but the first took together.

    The first item ran alone. With a provider that caches prompts, it paid for filling the cache, and no later item
    does.
    """
    later = records[1:] or records
    share = (total - len(records) + len(later)) / max(1, len(later))
    first = records[: len(records) - len(later)]
    return Forecast(
        items=total,
        dollars=sum(each.dollars for each in first) + sum(each.dollars for each in later) * share,
        tokens=round(sum(each.tokens for each in first) + sum(each.tokens for each in later) * share),
        seconds=seconds * share,
        failed=sum(each.outcome != "done" for each in records),
    )


def make_card(records: Sequence[ItemEnded], expected: Forecast, plan: str) -> Card:
    """Make the approval card of a pilot: approving it continues the same plan with all items."""
    facts = {
        "pilot": f"{len(records)} items, {expected.failed} in quarantine",
        "per item": f"{_compute_mean(records, 'tokens'):,.0f} tokens, ${_compute_mean(records, 'dollars'):.4f}, "
        f"{_compute_mean(records, 'ms') / 1000:.2f} s",
        "forecast for all": f"{expected.items:,} items, {expected.tokens:,} tokens, ${expected.dollars:,.2f}, "
        f"{expected.seconds:,.0f} s",
        "plan": plan,
    }
    lines = [
        make_printable(f"{each.item}: {each.outcome}, {', '.join(each.paths) or 'nothing'} {each.why}".strip())[:300]
        for each in records
    ]
    subject = json.dumps({"plan": plan, "pilot": [[each.item, each.outcome, *each.digests] for each in records]})
    return Card("Continue with all items?", facts, tuple(lines), "", subject)


def _compute_mean(records: Sequence[ItemEnded], name: str) -> float:
    return float(sum(getattr(each, name) for each in records) / max(1, len(records)))
