"""The ways a desk can come to be: opened, kept ready and claimed, forked, rolled back, or stopped and resumed.

What is promised for a desk must be true whatever its origin. Every test runs on opened desks. Of the tests that share a
desk with others of their file, one in six (chosen by a hash of its name) also runs on one other origin (chosen by a
hash of its file's name). On the remaining origins tests are `long`, as are all tests that open desks themselves or
take seconds.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import anyio

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.config import MIB
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.gvisor.wall import MIN_MEMORY

Origin: TypeAlias = Callable[[KeeperRuntime], KeeperRuntime]
"""Wraps a runtime so that it opens desks in another way."""


class Opened(KeeperRuntime):
    """Desks as they are opened; everything a runtime has is shared with the runtime it wraps."""

    def __init__(self, runtime: KeeperRuntime) -> None:
        self.__dict__ = runtime.__dict__
        self.turns = anyio.Lock()


class BehindGvisor(Opened):
    """Desks behind gVisor, whatever their spec says, with the extra memory that gVisor's sentry needs."""

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        return await super().open(replace(spec, wall="gvisor", memory=max(spec.memory, MIN_MEMORY)), scope)


class BehindMicrovm(Opened):
    """Desks in virtual machines, whatever their spec says, with at least the memory that a guest kernel needs."""

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        memory = max(256 * MIB, min(spec.memory, 512 * MIB))
        return await super().open(replace(spec, wall="microvm", memory=memory, disk=max(spec.disk, 64 * MIB)), scope)


class Pooled(Opened):
    """Desks that were kept ready, and claimed."""

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        """Keep one desk ready, and claim it; a desk with a volume is opened instead, because a pool keeps none."""
        if spec.volumes:
            return await super().open(spec, scope)
        async with self.turns:
            ready, proven = await self.prepared(spec, scope)
        desk = await self.claim(ready, proven, spec, scope)
        assert desk is ready, "it could not be claimed, and another was opened"
        return desk

    async def prepared(self, spec: Spec, scope: Scope) -> tuple[LinkedDesk, bool]:
        proven = scope != CLOSED
        try:
            self.pool.keep(spec, 1, proven=proven)
            await self.pool.wait_until_full()
            ready = self.pool.take(spec, scope)
        finally:
            self.pool.keep(spec, 0, proven=proven)
        assert ready is not None, "the pool was full, and had none"
        return ready


class Forked(Opened):
    """Desks forked from another one, which is burnt."""

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        first = await super().open(spec, scope)
        if spec.disk_in == "memory":
            return first
        try:
            (desk,) = await first.fork()
        finally:
            with anyio.CancelScope(shield=True):
                await self.burn(first.id)
        assert isinstance(desk, LinkedDesk)
        return desk


class RolledBack(Opened):
    """Desks that were changed and rolled back."""

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        desk = await super().open(spec, scope)
        if spec.disk_in == "memory":
            return desk
        async with self.unless_whole(desk.id):
            fresh = await desk.snapshot()
            if spec.image == "base":
                await desk.write("spoilt", b"spoilt")
            await desk.rollback(fresh)
            await desk.forget(fresh)
        return desk


class Resumed(Opened):
    """Desks that were paused and resumed, with memory and without."""

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        desk = await super().open(spec, scope)
        async with self.unless_whole(desk.id):
            for memory in (True, False):
                await desk.pause(memory=memory)
                await desk.resume()
        return desk


ORIGINS: dict[str, Origin] = {
    "opened": Opened,
    "pooled": Pooled,
    "forked": Forked,
    "rolled-back": RolledBack,
    "resumed": Resumed,
}
OTHERS = tuple(ORIGINS)[1:]
WALLED: dict[str, Origin] = {"gvisor": BehindGvisor}
"""Walls, by name, behind which the tests of tests/security also run."""
WALL_SAMPLE: frozenset[str] = frozenset(
    """
    test_a_watch_sees_nothing_of_another_desk
    test_other_users_of_the_host_cannot_enter_desk_folders_or_stores
    test_the_hosts_own_address_cannot_be_reached
    """.split()
)
"""Security tests that run behind those walls in every run; the others are `long`."""
ONE_IN = 6
OPENERS = frozenset({"crafted", "fresh", "host", "owning", "room", "runtime"})
"""Fixtures with which a test opens desks itself."""
SLOW = frozenset(
    """
    test_a_desk_in_use_is_not_idle
    test_an_endless_head_and_a_missing_handshake_are_cut
    test_a_link_swapped_in_during_a_copy_leads_nowhere
    test_a_listing_stops_at_its_limit
    test_a_server_that_never_answers_does_not_block_forever
    test_an_unread_watch_blocks_nothing
    test_closed_watches_are_released
    test_huge_output_takes_little_memory_here
    test_many_concurrent_programs_do_not_grow_the_owner
    test_too_many_changes_are_reported_as_an_overflow
    test_processor_time_is_counted
    test_programs_continue_beside_long_file_work
    test_unread_output_stays_in_the_desk
    test_disk_use_is_counted
    test_what_the_command_line_prints_is_escaped
    """.split()
)
"""Tests that take seconds although they share a desk."""


def turn(test: Callable[..., object]) -> str | None:
    """Return the origin besides `opened` on which a test is not `long`, or None if there is none."""
    if test.__name__ in SLOW or OPENERS & inspect.signature(test).parameters.keys():
        return None
    if zlib.crc32(test.__name__.encode()) % ONE_IN:
        return None
    return OTHERS[zlib.crc32(Path(inspect.getfile(test)).name.encode()) % len(OTHERS)]
