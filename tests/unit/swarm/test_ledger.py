"""Tests of a swarm's budgets and pace."""

from __future__ import annotations

import pytest

from hotdesk.brief.brief import JobBudget
from hotdesk.drive.swarm_certificate import compute_error_bound
from hotdesk.event import Event, ItemEnded, ItemsUsed
from hotdesk.job.record.resume_state import Spending
from hotdesk.swarm.items import Item
from hotdesk.swarm.ledger import ItemCost, SwarmLedger, UsageRecord
from hotdesk.swarm.pace import MachineLoad, choose_limit
from hotdesk.swarm.pilot import choose_pilot, forecast, make_card
from hotdesk.swarm.results import SwarmState
from hotdesk.swarm.review import choose_sample, make_review_card

GIB = 1 << 30


def ended(item: str, dollars: float, tokens: int = 100, outcome: str = "done") -> ItemEnded:
    return ItemEnded("i" * 21, item, 0, "0" * 64, outcome, "d", "c", dollars=dollars, tokens=tokens)  # type: ignore[arg-type]


def test_no_item_begins_that_could_pass_the_total() -> None:
    ledger = SwarmLedger(JobBudget(dollars=1.0), JobBudget(dollars=0.3), 1000)
    for number in range(3):
        assert not ledger.refuse_another()
        ledger.begin(f"i{number}")
    assert "1 dollars" in ledger.refuse_another()
    ledger.running["i0"].dollars = 0.05
    ledger.end("i0")
    assert not ledger.refuse_another()


def test_without_a_limit_an_item_is_expected_to_use_what_the_largest_did() -> None:
    ledger = SwarmLedger(JobBudget(tokens=1000), JobBudget(), 1000)
    ledger.recall(ended("a", 0.0, tokens=400))
    ledger.recall(ended("b", 0.0, tokens=300))
    assert "tokens" in ledger.refuse_another()


def test_what_one_item_may_use_is_its_own_and_the_total_is_the_swarms() -> None:
    ledger = SwarmLedger(JobBudget(acts=10), JobBudget(acts=3), 1000)
    cost = ledger.begin("a")
    cost.acts = 2
    assert ledger.refuse_more(cost, 1) == ("", False)
    assert ledger.refuse_more(cost, 2) == ("the item's budget of 3 tool calls is used up", False)
    ledger.spent.acts = 8
    assert ledger.refuse_more(cost, 1) == ("the swarm's budget of 10 tool calls is used up", True)


def test_interrupted_attempts_stay_counted_and_the_item_has_its_whole_budget_again() -> None:
    ledger = SwarmLedger(JobBudget(acts=10), JobBudget(acts=3), 1000)
    ledger.begin("a").acts = 3
    ledger.put_back("a")
    assert ledger.measure_use("acts") == 3
    cost = ledger.begin("a")
    assert ledger.refuse_more(cost, 3) == ("", False)
    cost.acts = 2
    assert ledger.list_unfinished() == {"a": ItemCost(acts=5)}
    assert (ledger.end("a"), ledger.measure_use("acts"), ledger.list_unfinished()) == (ItemCost(acts=5), 5, {})


def test_what_the_swarms_own_job_uses_counts_against_its_total() -> None:
    ledger = SwarmLedger(JobBudget(dollars=1.0), JobBudget(dollars=0.3), 1000, shared=Spending(dollars=0.8))
    assert "0.8 are used" in ledger.refuse_another()


def test_usage_is_recorded_when_it_changed_and_every_attempt_counts_after_a_restart() -> None:
    events: list[ItemsUsed] = []
    ledger = SwarmLedger(JobBudget(), JobBudget(), 1000)
    record = UsageRecord("i" * 21, ledger, events.append)
    record.write()
    ledger.begin("b").tokens = 50
    record.write()
    record.write()
    ledger.put_back("b")
    ledger.begin("b").tokens = 10
    record.write()
    assert [(each.items, each.tokens) for each in events] == [(("b",), (50,)), (("b",), (60,))]
    state = SwarmState()
    history: list[Event] = [ended("a", 0.5, outcome="quarantined"), *events, ended("a", 0.25)]
    for event in history:
        state.take(event)
    assert state.cost == ItemCost(260, 0.75)
    assert state.unfinished == {"b": ItemCost(60)}
    state.take(ended("b", 0.0, tokens=70))
    assert (state.cost, state.unfinished) == (ItemCost(270, 0.75), {})


@pytest.mark.parametrize(
    ("limit", "running", "idle", "available", "expected"),
    [
        (4, 4, 0.5, 16 * GIB, 5),
        (16, 16, 0.5, 16 * GIB, 20),
        (4, 3, 0.5, 16 * GIB, 4),
        (4, 4, 0.01, 16 * GIB, 4),
        (8, 8, 0.5, 1 * GIB, 4),
        (64, 64, 0.9, 16 * GIB, 64),
    ],
)
def test_the_pace_follows_the_machine(limit: int, running: int, idle: float, available: int, expected: int) -> None:
    assert choose_limit(limit, running, MachineLoad(idle, available, 24 * GIB), 64) == expected


def test_a_pilot_is_spread_over_all_and_forecasts_the_rest() -> None:
    items = [Item(number, f"c-{number}", "0" * 64, "item.pdf") for number in range(100)]
    assert [item.index for item in choose_pilot(items, 5)] == [0, 20, 40, 60, 80]
    records = [ended(f"c-{number}", 0.01) for number in range(4)] + [ended("c-5", 0.01, outcome="quarantined")]
    found = forecast(records, 100, 2.0)
    assert (round(found.dollars, 6), found.tokens, found.seconds, found.failed) == (1.0, 10_000, 49.5, 1)
    first = ended("c-0", 0.05)  # it paid for what the provider keeps for all
    assert round(forecast([first, *records[1:]], 100, 2.0).dollars, 6) == 1.04
    assert forecast(records[:1], 100, 2.0).dollars == pytest.approx(1.0)
    card = make_card(records, found, "f" * 64)
    assert "1 in quarantine" in card.facts["pilot"]
    assert card.digest != make_card(records[:-1], found, "f" * 64).digest


def test_a_review_is_a_random_sample_that_stays_the_same_and_bounds_the_error() -> None:
    records = [ended(f"c-{number}", 0.0) for number in range(200)] + [ended("c-bad", 0.0, outcome="quarantined")]
    sample = choose_sample(records, 50, "ia")
    assert sample == choose_sample(reversed(records), 50, "ia")
    assert sample != choose_sample(records, 50, "ib")
    assert len({each.item for each in sample}) == 50
    assert "c-bad" not in {each.item for each in choose_sample(records, 500, "ia")}
    assert [compute_error_bound(*each) for each in ((0, 0), (50, 0), (50, 1), (50, 50))] == [
        1.0,
        pytest.approx(0.0582, abs=1e-3),
        pytest.approx(0.0914, abs=1e-3),
        1.0,
    ]


def test_text_shown_to_a_reviewer_is_escaped() -> None:
    card = make_review_card(ended("c-1", 0.0), "contracts/c-1.pdf", {"c-1.json": b'{"a": "\x1b[2J"}, {"b": 1}'})
    assert len(card.lines) == 2
    assert all(line.isprintable() for line in card.lines)
