"""Fixtures of all fuzzers: time, seeds, and the recorded replies of a real guest."""

from __future__ import annotations

import contextvars
import os
import time
from collections.abc import Callable, Iterator

import anyio
import pytest

from tests.fuzz.corpus import record
from tests.fuzz.hostile import Corpus

TOTAL = float(os.environ.get("HOTDESK_FUZZ_SECONDS") or 3600)
"""Seconds for all long fuzzers together."""
FIRST = int(os.environ.get("HOTDESK_FUZZ_SEED") or 0)
"""The first seed; set it to the seed that a failure names to reproduce the failure."""
LONG_FUZZERS = 5
GRACE = 300.0

Seeds = Callable[[], Iterator[int]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/fuzz/" in str(item.path) and item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(TOTAL / LONG_FUZZERS + GRACE))


@pytest.fixture
def share() -> float:
    return TOTAL / LONG_FUZZERS


@pytest.fixture
def seeds(share: float, request: pytest.FixtureRequest) -> Seeds:
    """Yield seeds until a long fuzzer's share of the time is used; report how many there were."""

    def give() -> Iterator[int]:
        begun = time.monotonic()
        first = FIRST or time.time_ns() // 1000 % 10**9
        print(f"\n{request.node.name}: first seed {first}")
        count = 0
        while time.monotonic() - begun < share:
            yield first + count
            count += 1
        print(f"{request.node.name}: {count} cases in {time.monotonic() - begun:.0f} s")

    return give


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return contextvars.Context().run(anyio.run, record, tmp_path_factory.mktemp("corpus"))
