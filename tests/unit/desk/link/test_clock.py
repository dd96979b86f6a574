"""Tests of a desk's clock: it stops while the desk is paused, and deadlines with it."""

from __future__ import annotations

import math

import anyio

from hotdesk.desk.link.clock import DeskClock


async def test_a_deadline_passes_when_the_clock_says_so() -> None:
    clock = DeskClock()
    with anyio.fail_after(30), clock.until(clock.get_time() + 0.05) as scope:
        await anyio.sleep(60)
    assert scope.cancelled_caught
    assert clock.scopes == {}


async def test_a_deadline_waits_while_the_clock_is_stopped_and_keeps_the_remaining_time() -> None:
    clock = DeskClock()
    with clock.until(clock.get_time() + 10) as scope:
        before = clock.get_time()
        clock.stop()
        clock.stop()
        assert scope.deadline == math.inf
        await anyio.sleep(0.2)
        assert abs(clock.get_time() - before) < 0.1
        clock.go_on()
        clock.go_on()
        assert abs(scope.deadline - anyio.current_time() - 10) < 0.1
    assert clock.lost >= 0.2


async def test_a_deadline_set_while_the_clock_is_stopped_begins_when_it_continues() -> None:
    clock = DeskClock()
    clock.stop()
    with clock.until(clock.get_time() + 10) as scope:
        assert scope.deadline == math.inf
        clock.go_on()
        assert scope.deadline < math.inf
