"""Tests of swarm metrics: declared, typed, and with labels of few values."""

from __future__ import annotations

import re

from hotdesk.api.native.swarm_metrics import SwarmNumbers
from hotdesk.event import ItemEnded
from hotdesk.job.record.item_counts import ItemCounts

JOB, OVER = "i" + "a" * 20, "i" + "b" * 20


def count_items(*ends: tuple[int, str, str], total: int = 5) -> ItemCounts:
    counts = ItemCounts()
    counts.grow(total)
    for index, outcome, cause in ends:
        counts.take(ItemEnded(JOB, f"c-{index}", index, "", outcome, "", "", cause=cause, ms=500))  # type: ignore[arg-type]
    return counts


def read(lines: list[str]) -> dict[str, float]:
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_items_are_counted_by_outcome_and_a_fixed_list_of_causes() -> None:
    numbers = SwarmNumbers()
    running = count_items((0, "done", ""), (1, "quarantined", "check"), (2, "quarantined", 'x",evil="1'))
    numbers.count("default", {JOB: running, OVER: count_items((0, "done", ""))}, [JOB])
    values = read(list(numbers.iterate_lines()))
    assert values['hotdesk_swarms_running{tenant="default"}'] == 1
    assert values['hotdesk_swarm_items_pending{tenant="default"}'] == 2
    assert values['hotdesk_swarm_items_ended_total{tenant="default",outcome="done"}'] == 2
    assert values['hotdesk_swarm_items_quarantined_total{tenant="default",cause="check"}'] == 1
    assert values['hotdesk_swarm_items_quarantined_total{tenant="default",cause="other"}'] == 1
    assert values['hotdesk_swarm_item_seconds_total{tenant="default"}'] == 2.0
    assert not any("evil" in name for name in values)


def test_an_item_that_is_retried_is_one_item_and_ended_twice() -> None:
    counts = count_items((0, "quarantined", "step"), (0, "done", ""), total=1)
    assert (counts.total, counts.done, counts.quarantined, counts.ends.total()) == (1, 1, 0, 2)


def test_a_journal_cannot_count_more_items_than_were_listed() -> None:
    counts = count_items((7, "done", ""), (-1, "done", ""), total=2)
    assert (counts.total, counts.done) == (2, 0)


def test_every_metric_has_a_help_text_and_a_type() -> None:
    numbers = SwarmNumbers()
    numbers.count("default", {}, [])
    lines = list(numbers.iterate_lines())
    names = {re.split(r"[{ ]", line)[0] for line in lines if not line.startswith("#")}
    assert names == {line.split()[2] for line in lines if line.startswith("# HELP ")}
    assert names == {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    assert all(name.endswith("_total") is (f"# TYPE {name} counter" in lines) for name in names)
