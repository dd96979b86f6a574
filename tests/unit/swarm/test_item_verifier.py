"""Tests of how items share clean desks: few in each, and none is affected by another."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from hotdesk.brief.load import parse_job
from hotdesk.config import Config
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.swarm_certificate import MOST_SHARED
from hotdesk.errors import BriefError, DeskGone
from hotdesk.job.local import local_machine
from hotdesk.job.verify import Candidate, CleanDesk
from hotdesk.swarm.items import Item
from hotdesk.swarm.verify import ItemVerifier, VerifyRequest

BRIEF = 'goal = "x"\nwall = "local"\ndeliverables = [{path = "{item}.json", %s}]\n[each]\nover = "*.txt"\n'


class Spoilt(ItemVerifier):
    """A verifier in which something always goes wrong when several items are checked together."""

    async def try_batch(self, batch: Sequence[VerifyRequest], at: CleanDesk, *, is_last: bool = False) -> bool:
        return len(batch) == 1 and await super().try_batch(batch, at, is_last=is_last)


@asynccontextmanager
async def make_verifier(folder: Path, kind: type[ItemVerifier] = ItemVerifier) -> AsyncIterator[ItemVerifier]:
    settings = Config(run=folder / "run", lib=folder / "lib", images=folder / "images")
    brief = parse_job((BRIEF % 'expect = {types = {n = "integer"}}').encode(), folder, scope_of)
    async with local_machine(settings) as machine:
        yield kind.make(machine, brief, "i" + "a" * 20)


def request(verifier: ItemVerifier, index: int, data: bytes) -> VerifyRequest:
    item = Item(index, f"c-{index}", "", "item.txt")
    return VerifyRequest(item, [Candidate(verifier.brief.deliverables[0], data)])


@pytest.mark.slow
async def test_each_item_has_its_own_verdict_in_a_batch(tmp_path: Path) -> None:
    async with make_verifier(tmp_path) as verifier, AsyncExitStack() as stack:
        batch = [request(verifier, at, b'{"n": 1}' if at % 2 else b'{"n": "one"}') for at in range(6)]
        batch.append(request(verifier, 6, b"{"))
        await verifier.look_at(batch, stack)
        assert [each.candidates[0].passed for each in batch] == [False, True, False, True, False, True, False]
        assert len({each.clean for each in batch}) == 1
        assert all(each.done.is_set() for each in batch)


@pytest.mark.slow
async def test_if_a_batch_fails_every_item_gets_its_own_desk(tmp_path: Path) -> None:
    async with make_verifier(tmp_path, Spoilt) as verifier, AsyncExitStack() as stack:
        batch = [request(verifier, at, b'{"n": 1}') for at in range(3)]
        await verifier.look_at(batch, stack)
        assert all(each.candidates[0].passed for each in batch)
        assert len({verifier.opened[0], *(each.clean for each in batch)}) == 4


class Breaking(ItemVerifier):
    """A verifier in which a file of one item breaks the desk that checks it."""

    async def bring(self, request: VerifyRequest, at: CleanDesk, folder: str) -> None:
        if request.item.index == 1:
            raise DeskGone("it is gone")
        await super().bring(request, at, folder)


@pytest.mark.slow
async def test_an_item_that_breaks_its_clean_desk_fails_alone(tmp_path: Path) -> None:
    async with make_verifier(tmp_path, Breaking) as verifier, AsyncExitStack() as stack:
        batch = [request(verifier, at, b'{"n": 1}') for at in range(3)]
        await verifier.look_at(batch, stack)
        assert [each.candidates[0].passed for each in batch] == [True, False, True]
        assert batch[1].candidates[0].lacks == "the clean desk that checked the item failed"


class Slow(ItemVerifier):
    """A verifier in which the first item of a batch reaches a limit; the others are done before it is checked alone."""

    others: Sequence[VerifyRequest] = ()

    async def try_batch(self, batch: Sequence[VerifyRequest], at: CleanDesk, *, is_last: bool = False) -> bool:
        if len(batch) == 1:
            assert all(each.done.is_set() for each in self.others)
        passed = await super().try_batch(batch, at, is_last=is_last)
        batch[0].is_cut = len(batch) > 1
        self.others = list(batch[1:])
        return passed


@pytest.mark.slow
async def test_an_item_that_reaches_a_limit_does_not_delay_its_batch(tmp_path: Path) -> None:
    async with make_verifier(tmp_path, Slow) as verifier, AsyncExitStack() as stack:
        batch = [request(verifier, at, b'{"n": 1}') for at in range(3)]
        await verifier.look_at(batch, stack)
        assert all(each.candidates[0].passed for each in batch)
        assert all(each.done.is_set() for each in batch)


async def test_no_clean_desk_is_for_more_items_than_it_may_be(tmp_path: Path) -> None:
    async with make_verifier(tmp_path) as verifier, AsyncExitStack() as stack:
        uses: Counter[str] = Counter()
        for count in (50, 50, 50, 1):
            uses[(await verifier.enter(count, stack)).desk.id] += count
        assert max(uses.values()) <= MOST_SHARED
        assert sorted(uses.values()) == [51, 100]


@pytest.mark.slow
async def test_waiting_items_are_looked_at_together(tmp_path: Path) -> None:
    async with make_verifier(tmp_path) as verifier, anyio.create_task_group() as tasks:
        tasks.start_soon(verifier.run)
        found: list[VerifyRequest] = []

        async def verify(index: int) -> None:
            one = request(verifier, index, b'{"n": 1}')
            found.append(await verifier.verify(one.item, one.candidates))

        async with anyio.create_task_group() as items:
            for index in range(5):
                items.start_soon(verify, index)
        assert len(found) == 5
        assert all(each.candidates[0].passed for each in found)
        tasks.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize(("wall", "desks"), [("container", 1), ("gvisor", 3), ("microvm", 3)])
async def test_items_share_a_clean_desk_only_where_the_host_counts_its_programs(
    tmp_path: Path, wall: str, desks: int
) -> None:
    async with make_verifier(tmp_path) as verifier, anyio.create_task_group() as tasks:
        verifier.brief = replace(verifier.brief, verify_wall=wall)  # its desks are still local ones
        batch = [request(verifier, at, b'{"n": 1}') for at in range(3)]
        verifier.waiting.extend(batch)
        tasks.start_soon(verifier.run)
        for each in batch:
            await each.done.wait()
        assert all(each.candidates[0].passed for each in batch)
        assert len({each.clean for each in batch}) == len(set(verifier.opened)) == desks
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("check", ["checks = []", 'check = "custom", expect = {file = "a.py"}', 'check = "xlsx"'])
def test_a_check_that_needs_a_desk_for_every_file_is_refused(tmp_path: Path, check: str) -> None:
    brief = parse_job((BRIEF % check).encode(), tmp_path, scope_of)
    with pytest.raises(BriefError, match=r"a swarm verifies every file|needs a clean desk for every file"):
        ItemVerifier.make(None, brief, "i5")  # type: ignore[arg-type]
