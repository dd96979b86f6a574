"""Test of a thousand desks, one after the other: the last opens as quickly as the first, and nothing is left."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.seam import Spec
from hotdesk.host import Host

pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(900)]

CYCLES, EDGE, SLOWER = 1000, 100, 1.2


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


async def test_the_last_of_a_thousand_desks_is_as_quick_as_the_first(settings: Config) -> None:
    taken = []
    async with Host(settings, control=False) as host:
        keeper = host.runtime.keeper.pid  # type: ignore[attr-defined]
        for number in range(CYCLES):
            start = time.perf_counter()
            async with host.open_desk(Spec(memory=256 * MIB)) as desk:
                assert (await desk.run(["true"])).ok
            taken.append(time.perf_counter() - start)
            if number == EDGE:
                before = (descriptors(keeper), resident(keeper))
        after = (descriptors(keeper), resident(keeper))
    first, last = statistics.median(taken[:EDGE]), statistics.median(taken[-EDGE:])
    print(f"first {EDGE}: {first * 1e3:.1f} ms, last {EDGE}: {last * 1e3:.1f} ms, keeper fds {before[0]} → {after[0]}")
    assert last <= SLOWER * first
    assert after[0] <= before[0] + 2
    assert after[1] <= before[1] + 4 * MIB
