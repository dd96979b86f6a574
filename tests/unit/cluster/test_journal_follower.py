"""Tests of when a server asks a node for events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import anyio
from tests.unit.cluster.test_pull import FakeNode, restart

from hotdesk.cluster.journal_follower import MAX_PAUSE_S, UNREPORTED_S, JournalFollower, pull
from hotdesk.cluster.nodes import ClusterNode, NodeCalls
from hotdesk.cluster.pull import BATCH, PulledJournal
from hotdesk.cluster.report import NodeReport

REPORT = NodeReport("n1", "1" * 32, 2, 0, 0, ("container",), (), journals=())


@dataclass
class Calls:
    """A node that has so many events for each call, or fails (`None`)."""

    counts: list[int | None] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    async def pull(self) -> int | None:
        self.times.append(anyio.current_time())
        return self.counts.pop(0) if self.counts else 0

    async def reach(self, count: int) -> None:
        with anyio.fail_after(10):
            while len(self.times) < count:
                await anyio.sleep(0.01)


@asynccontextmanager
async def following(
    calls: Calls,
    report: NodeReport = REPORT,
    unreported_s: float = UNREPORTED_S,
    max_pause_s: float = MAX_PAUSE_S,
) -> AsyncIterator[JournalFollower]:
    """Follow a node; the first call has been made when this yields."""
    follower = JournalFollower(ClusterNode(report, cast(Any, None)), calls.pull, unreported_s, max_pause_s)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follower.run)
        await calls.reach(1)
        yield follower
        with anyio.fail_after(10):
            follower.end()
            await follower.ended.wait()


async def test_a_node_that_reports_nothing_is_asked_seldom() -> None:
    async with following(calls := Calls()):
        await anyio.sleep(1.5)
        assert len(calls.times) == 1


async def test_a_node_that_reports_nothing_is_asked_in_time() -> None:
    async with following(calls := Calls(), unreported_s=0.1) as follower:
        await calls.reach(4)
        assert follower.moves >= 3, "its desks are looked at, too"


async def test_reported_events_are_fetched_at_once() -> None:
    async with following(calls := Calls([0, 5])) as follower:
        follower.note()
        await calls.reach(2)
        assert calls.times[1] - calls.times[0] < 1


async def test_events_that_are_reported_during_a_call_are_fetched_by_the_next() -> None:
    calls = Calls()

    async def report_meanwhile() -> int | None:
        if len(calls.times) == 1:
            follower.note()
        return await calls.pull()

    async with following(calls) as follower:
        follower.pull = report_meanwhile
        follower.note()
        await calls.reach(3)


async def test_a_node_of_older_code_is_asked_every_second() -> None:
    async with following(calls := Calls(), replace(REPORT, journals=None)) as follower:
        await calls.reach(3)
        assert calls.times[2] - calls.times[0] >= 2
        assert follower.moves >= 2


async def test_a_node_that_reports_in_vain_is_asked_once_a_second() -> None:
    async with following(calls := Calls()) as follower:
        for _ in range(200):
            follower.note()
            await anyio.sleep(0.01)
        assert len(calls.times) <= 12 + calls.times[-1] - calls.times[0]


async def test_a_call_that_fails_is_repeated_less_and_less_often() -> None:
    async with following(calls := Calls([None] * 10)) as follower:
        with anyio.fail_after(10):
            while len(calls.times) < 3:
                follower.note()
                await anyio.sleep(0.05)
        first, second, third = calls.times
        assert second - first >= 1
        assert third - second >= 2


async def test_the_pause_after_calls_that_fail_has_a_limit() -> None:
    async with following(calls := Calls([None] * 10), max_pause_s=0.1) as follower:
        await calls.reach(6)
        assert calls.times[-1] - calls.times[0] < 5
        assert follower.moves >= 5, "its desks are looked at again"


async def test_a_node_that_mostly_reports_in_vain_is_asked_once_a_second() -> None:
    async with following(calls := Calls([0, 0, 0, 0, 1] * 40)) as follower:
        for _ in range(200):
            follower.note()
            await anyio.sleep(0.01)
        assert len(calls.times) <= 25 + calls.times[-1] - calls.times[0]


async def test_single_events_that_are_awaited_are_fetched_with_pauses(tmp_path: Path) -> None:
    class Dripping(NodeCalls):
        def __init__(self) -> None:
            self.count = 0

        async def call(self, method: str, target: str, *rest: object, **named: object) -> dict[str, object]:
            self.count += 1
            return {"awaited": True}

    calls, journal = Dripping(), PulledJournal(tmp_path / "n1")
    with anyio.move_on_after(0.5):
        await pull(calls, journal, lambda _: 1)
    assert 2 <= calls.count <= 28


async def test_an_earlier_agents_follower_ends_first() -> None:
    async with following(calls := Calls()) as earlier, anyio.create_task_group() as tasks:
        later = JournalFollower(earlier.node, calls.pull)
        tasks.start_soon(later.run, earlier)
        await anyio.sleep(0.1)
        assert len(calls.times) == 1
        earlier.end()
        await calls.reach(2)
        later.end()


class NodeInMemory(NodeCalls):
    """Answers from a journal on disk."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.targets: list[str] = []
        self.awaits = 0
        """The number of the last event that a door waits for."""

    async def call(self, method: str, target: str, *rest: object, **named: object) -> dict[str, object]:
        self.targets.append(target)
        after = int(target.split("/")[2])
        reply = self.node.answer(after)
        is_confirmed = target.count("/") == 3 and after >= self.awaits
        return {**reply, "events": cast(Sequence[object], reply["events"])[:BATCH], "awaited": not is_confirmed}


async def test_everything_new_is_fetched_also_under_another_key(tmp_path: Path) -> None:
    (node := FakeNode(tmp_path / "node")).add(3)
    calls, journal = NodeInMemory(node), PulledJournal(tmp_path / "n1")
    assert await pull(calls, journal, journal.take) == 3
    restart(node, 2)
    assert await pull(calls, journal, journal.take) == 2
    assert await pull(calls, journal, journal.take) == 0


async def test_the_next_call_confirms_events_that_a_door_waits_for(tmp_path: Path) -> None:
    (node := FakeNode(tmp_path / "node")).add(3)
    calls, journal = NodeInMemory(node), PulledJournal(tmp_path / "n1")
    calls.awaits = 3
    assert await pull(calls, journal, journal.take) == 3
    assert calls.targets == ["/journal/0", f"/journal/3/{journal.get_key()}"]
    calls, restarted = NodeInMemory(node), PulledJournal(tmp_path / "n1")
    calls.awaits = 3
    assert await pull(calls, restarted, restarted.take) == 0
    assert calls.targets == ["/journal/3", f"/journal/3/{journal.get_key()}"], "after a restart, too"


async def test_nothing_is_confirmed_to_a_node_of_older_code(tmp_path: Path) -> None:
    (node := FakeNode(tmp_path / "node")).add(3)
    calls, journal = NodeInMemory(node), PulledJournal(tmp_path / "n1")
    for _ in range(2):
        await pull(calls, journal, journal.take, confirms=False)
    assert {each.count("/") for each in calls.targets} == {2}
