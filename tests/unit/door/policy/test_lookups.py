"""Tests of looking names up for rules: within a time limit, and never waiting for one name twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import pytest

from hotdesk.brief.data import Rule
from hotdesk.door.policy.lookups import LookupEntry, Lookups
from hotdesk.door.policy.presets import as_reached


class Resolver:
    """A resolver whose answers come when the test lets them."""

    def __init__(self, answers: dict[str, list[str]] | None = None) -> None:
        self.answers = answers or {}
        self.go = threading.Event()
        self.asked: list[str] = []

    def find(self, host: str) -> Iterable[str]:
        self.asked.append(host)
        self.go.wait(30)
        if host not in self.answers:
            raise OSError("no such name")
        return self.answers[host]


def is_pending(entry: LookupEntry) -> bool:
    return entry.pending


@pytest.fixture
def resolver() -> Iterable[Resolver]:
    """Return a resolver; in the end nobody waits for it."""
    made = Resolver({"inside.test": ["10.0.0.7"], "outside.test": ["93.184.216.34"]})
    yield made
    made.go.set()


def test_an_answer_is_remembered(resolver: Resolver) -> None:
    resolver.go.set()
    lookups = Lookups(resolver.find)
    assert [lookups.leads_inside(host) for host in ("inside.test", "outside.test", "none.test")] == [True, False, False]
    assert lookups.leads_inside("inside.test")
    assert sorted(resolver.asked) == ["inside.test", "none.test", "outside.test"]


def test_a_slow_resolver_is_waited_for_once_and_not_longer_than_that(resolver: Resolver) -> None:
    lookups = Lookups(resolver.find, seconds=0.2)
    assert not lookups.leads_inside("inside.test")
    begun = time.monotonic()
    assert not any(lookups.leads_inside("inside.test") for _ in range(50))
    assert time.monotonic() - begun < 5  # fifty times the patience were ten
    resolver.go.set()
    lookups.entries["inside.test"].answered.wait(30)
    assert lookups.leads_inside("inside.test")
    assert resolver.asked == ["inside.test"]


def test_a_known_answer_is_used_while_it_is_refreshed_and_if_that_fails(resolver: Resolver) -> None:
    resolver.go.set()
    lookups = Lookups(resolver.find, seconds=30)
    assert lookups.leads_inside("inside.test")
    resolver.go.clear()
    resolver.answers.clear()
    entry = lookups.entries["inside.test"]
    entry.expires = 0.0
    assert lookups.leads_inside("inside.test")
    assert is_pending(entry)
    resolver.go.set()
    while is_pending(entry):
        time.sleep(0.001)
    assert lookups.leads_inside("inside.test")
    assert len(resolver.asked) == 2


def test_the_hosts_of_a_preset_are_looked_up_at_once(resolver: Resolver) -> None:
    lookups = Lookups(resolver.find, seconds=30)
    found: list[tuple[Rule, ...]] = []
    rules = [Rule("inside.test"), Rule("outside.test"), Rule("own.test", private=True)]
    thread = threading.Thread(target=lambda: found.append(as_reached(rules, lookups)), daemon=True)
    thread.start()
    while len(resolver.asked) < 2:
        time.sleep(0.001)
    resolver.go.set()
    thread.join(30)
    assert [[rule.private for rule in each] for each in found] == [[True, False, True]]
    assert sorted(resolver.asked) == ["inside.test", "outside.test"]
