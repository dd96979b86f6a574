"""Tests of the pool: which desks it opens in advance, hands out and burns."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from hotdesk.brief import CLOSED, Scope, parse_rule
from hotdesk.config import MIB, Config
from hotdesk.desk.image import image
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner.pool import MAX_READY, Pool
from hotdesk.desk.seam import Spec, new_id
from hotdesk.errors import BriefError, HostError, ImageError

LAYER = "a" * 64


class Scripted:
    """A runtime whose desks are nothing but names."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.opened: list[tuple[LinkedDesk, Spec]] = []
        self.ended: set[str] = set()
        self.discarded: list[str] = []
        self.failures: list[Exception] = []
        self.under_way = 0
        self.most = 0
        self.moment = 0.0

    async def prepare(self, spec: Spec, proven: bool) -> tuple[LinkedDesk, str]:
        digest = image.find(self.store, spec.image).digest
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await anyio.sleep(self.moment)
        self.under_way -= 1
        if self.failures:
            raise self.failures.pop(0)
        ours, theirs = socket.socketpair()
        theirs.close()
        desk = LinkedDesk(new_id(), Link(ours), "/")
        ours.close()
        self.opened.append((desk, spec))
        return desk, digest

    def is_dying(self, desk: LinkedDesk) -> bool:
        """Return that no desk is dying: none is killed here."""
        return False

    def has_ended(self, desk: LinkedDesk) -> bool:
        return desk.id in self.ended

    async def discard(self, desk: LinkedDesk) -> None:
        self.discarded.append(desk.id)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    made = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path)
    (tmp_path / "layers" / LAYER).mkdir(parents=True)
    (tmp_path / "images").mkdir()
    build(made, "first")
    return made


def build(config: Config, digest: str, name: str = "base") -> None:
    made = image.Image(name, digest, (config.images / "layers" / LAYER,), "/usr/bin/python3", "x", 0.0, 0, "a test")
    (config.images / "images" / f"{name}.json").write_bytes(image.dump(made))


@asynccontextmanager
async def running(config: Config) -> AsyncIterator[tuple[Pool, Scripted]]:
    source = Scripted(config.images)
    pool = Pool(config, source)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.run)
        with anyio.fail_after(10):
            yield pool, source
        tasks.cancel_scope.cancel()


def took(pool: Pool, spec: Spec | None = None, scope: Scope = CLOSED) -> LinkedDesk | None:
    found = pool.take(spec or Spec(), scope)
    return found[0] if found else None


async def settled(pool: Pool) -> None:
    """Wait until a pool is full and idle."""
    await pool.wait_until_full()
    for _ in range(10):
        await anyio.sleep(0.001)


async def test_the_number_of_ready_desks_is_limited(config: Config) -> None:
    async with running(config) as (pool, source):
        source.moment = 0.01
        pool.keep(Spec(), 3)
        await settled(pool)
        assert len(source.opened) == 3
        assert source.most == 1, "one at a time"
        given = [took(pool) for _ in range(4)]
        assert given[:3] == [desk for desk, _ in source.opened[:3]]
        assert given[3] is None
        await settled(pool)
        assert len(source.opened) == 6
        assert source.discarded == []


async def test_a_lower_count_burns_the_rest(config: Config) -> None:
    async with running(config) as (pool, source):
        pool.keep(Spec(), 4)
        await settled(pool)
        pool.keep(Spec(), 1)
        await settled(pool)
        assert len(source.discarded) == 3
        assert took(pool) is not None
        pool.keep(Spec(), 0)
        await settled(pool)
        assert took(pool) is None
        assert len(source.discarded) == len(source.opened) - 1


@pytest.mark.parametrize("count", [-1, MAX_READY + 1])
async def test_the_count_of_ready_desks_has_bounds(config: Config, count: int) -> None:
    with pytest.raises(BriefError):
        Pool(config, Scripted(config.images)).keep(Spec(), count)


async def test_fields_specific_to_a_request_are_not_part_of_a_ready_desk(config: Config) -> None:
    asked = Spec(env={"SECRET": "x"}, root=True, deadline=5, idle=5, memory=64 * MIB)
    async with running(config) as (pool, source):
        pool.keep(asked, 1)
        await settled(pool)
        ((_, spec),) = source.opened
        assert (spec.env, spec.root, spec.memory) == ({}, False, 64 * MIB)
        assert spec.deadline > 60


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (Spec(env={"A": "b"}, root=True, memory=64 * MIB, cpus=1, pids=9, disk=9 * MIB, deadline=9, idle=9), True),
        (Spec(tenant="other"), False),
        (Spec(disk_in="memory"), False),
        (Spec(image="same"), True),
        (Spec(image="another"), False),
    ],
    ids=["limits", "tenant", "memory", "same image", "another image"],
)
async def test_a_desk_is_given_to_a_matching_request(config: Config, asked: Spec, given: bool) -> None:
    build(config, "first", "same")
    build(config, "second", "another")
    async with running(config) as (pool, _):
        pool.keep(Spec(), 1)
        await settled(pool)
        assert (took(pool, asked) is not None) is given


async def test_disks_in_memory_fit_by_their_size(config: Config) -> None:
    there = Spec(disk_in="memory", disk=64 * MIB)
    async with running(config) as (pool, _):
        pool.keep(there, 1)
        await settled(pool)
        assert took(pool, replace(there, disk=65 * MIB)) is None
        assert took(pool, there) is not None


async def test_a_rebuilt_image_has_every_desk_replaced(config: Config) -> None:
    async with running(config) as (pool, source):
        pool.keep(Spec(), 2)
        await settled(pool)
        build(config, "second")
        assert took(pool) is None
        await settled(pool)
        assert source.discarded == [desk.id for desk, _ in source.opened[:2]]
        assert took(pool) is source.opened[2][0]


async def test_a_desk_of_a_meanwhile_rebuilt_image_is_not_kept(config: Config) -> None:
    async with running(config) as (pool, source):
        source.moment = 0.05
        pool.keep(Spec(), 1)
        await anyio.sleep(0.01)
        build(config, "second")
        await settled(pool)
        assert len(source.opened) == 2
        assert source.discarded == [source.opened[0][0].id]


async def test_a_desk_of_a_removed_image_is_not_given(config: Config) -> None:
    async with running(config) as (pool, source):
        pool.keep(Spec(), 1)
        await settled(pool)
        (config.images / "images/base.json").unlink()
        with pytest.raises(ImageError):
            took(pool)
        with pytest.raises(ImageError):
            await pool.wait_until_full()
        assert source.discarded == [source.opened[0][0].id]


async def test_a_desk_that_ended_is_never_given_and_is_replaced(config: Config) -> None:
    async with running(config) as (pool, source):
        pool.keep(Spec(), 2)
        await settled(pool)
        dead, alive = (desk for desk, _ in source.opened)
        source.ended.add(dead.id)
        assert took(pool) is alive
        await settled(pool)
        assert source.discarded == [dead.id]
        assert len(source.opened) == 4


async def test_a_failure_to_open_a_ready_desk_is_reported_once(config: Config) -> None:
    async with running(config) as (pool, source):
        source.failures.append(HostError("the machine is full"))
        pool.keep(Spec(), 1)
        with pytest.raises(HostError, match="full"):
            await pool.wait_until_full()
        pool.keep(Spec(), 1)
        assert pool.failure is None


@pytest.mark.slow
async def test_the_pool_waits_for_a_quiet_moment_but_not_for_ever(config: Config) -> None:
    async with running(config) as (pool, source):
        pool.keep(Spec(), 1)
        await settled(pool)
        start = anyio.current_time()
        took(pool)
        while len(source.opened) < 2:
            took(pool, Spec(tenant="busy"))
            await anyio.sleep(0.01)
        assert 0.5 < anyio.current_time() - start < 30


async def test_two_shelves_are_both_filled(config: Config) -> None:
    async with running(config) as (pool, source):
        pool.keep(Spec(), 2)
        pool.keep(Spec(tenant="other"), 1)
        await settled(pool)
        assert sorted(spec.tenant for _, spec in source.opened) == ["", "", "other"]
        assert took(pool, Spec(tenant="other")) is not None


async def test_no_desk_is_ready_once_the_pool_is_closed(config: Config) -> None:
    async with running(config) as (pool, _):
        pool.keep(Spec(), 1)
        await settled(pool)
        pool.hang_up()
        assert took(pool) is None


async def test_a_desk_with_a_proven_door_is_given_only_to_requests_with_a_door(config: Config) -> None:
    out = Scope(rules=(parse_rule("erp.test"),))
    async with running(config) as (pool, source):
        pool.keep(Spec(), 1, proven=True)
        await settled(pool)
        assert took(pool) is None
        assert took(pool, Spec(deadline=2 * 86400), out) is None
        assert pool.take(Spec(), out) == (source.opened[0][0], True)
        pool.keep(Spec(), 0, proven=True)
        pool.keep(Spec(), 1)
        await settled(pool)
        found = pool.take(Spec(), out)
        assert found is not None
        assert found[1] is False
