"""Prometheus metrics of swarms. Labels are a tenant, an outcome, or a cause from a short list."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from hotdesk.api.native.metrics import OTHER, format_labels, format_values
from hotdesk.dataclass import dataclass
from hotdesk.job.record.item_counts import ItemCounts

_CAUSES = frozenset({"check", "step", "time", "desk", "input", "budget", "unknown"})
"""Causes of failed items; any other cause in a journal counts as `other`."""
_OUTCOMES = ("done", "quarantined")


@dataclass(slots=True)
class SwarmNumbers:
    """Counters of tenants' swarms, by labels."""

    swarms: dict[str, float] = field(default_factory=dict)
    pending: dict[str, float] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    failures: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def count(self, tenant: str, swarms: Mapping[str, ItemCounts], live: Collection[str]) -> None:
        """Count the swarms of one tenant; `live` has the ids of the running ones."""
        running = [each for job, each in swarms.items() if job in live]
        mine = format_labels(tenant=tenant)
        self.swarms[mine] = len(running)
        self.pending[mine] = sum(each.total - each.done - each.quarantined for each in running)
        self.seconds[mine] = sum(each.seconds for each in swarms.values())
        for outcome in _OUTCOMES:
            self.ends[format_labels(tenant=tenant, outcome=outcome)] = sum(
                count for each in swarms.values() for (ended, _), count in each.ends.items() if ended == outcome
            )
        for cause in sorted({*_CAUSES, OTHER}):
            self.failures[format_labels(tenant=tenant, cause=cause)] = sum(
                _count_cause(each, cause) for each in swarms.values()
            )

    def iterate_lines(self) -> Iterable[str]:
        yield from format_values("hotdesk_swarms_running", "gauge", "Running swarms, by tenant.", self.swarms)
        words = "Items of running swarms that have not ended, by tenant."
        yield from format_values("hotdesk_swarm_items_pending", "gauge", words, self.pending)
        words = (
            "Items of swarms that ended, by tenant and outcome. An item that was retried is counted once for each end."
        )
        yield from format_values("hotdesk_swarm_items_ended_total", "counter", words, self.ends)
        words = "Items of swarms that were quarantined, by tenant and cause."
        yield from format_values("hotdesk_swarm_items_quarantined_total", "counter", words, self.failures)
        words = "Seconds from the start of an item of a swarm to its end, by tenant."
        yield from format_values("hotdesk_swarm_item_seconds_total", "counter", words, self.seconds)


def _count_cause(counts: ItemCounts, cause: str) -> int:
    return sum(
        count
        for (outcome, found), count in counts.ends.items()
        if outcome != "done" and (found if found in _CAUSES else OTHER) == cause
    )
