"""Requests that come twice are carried out once; a failure is tried again."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from hotdesk.api.idempotency import MAX_ANSWERS, IdempotentRequests

pytestmark = pytest.mark.anyio


class Body(BaseModel):
    """What is asked for."""

    text: str = ""


BODY = Body()


class ReusedError(Exception):
    """A key came with another request."""


class Work:
    """Counts how often it is done; may fail the first time."""

    def __init__(self, fails: bool = False) -> None:
        self.done = 0
        self.fails = fails

    async def __call__(self) -> str:
        await anyio.lowlevel.checkpoint()
        self.done += 1
        if self.fails and self.done == 1:
            raise ConnectionError
        return str(self.done)


async def test_those_who_come_together_get_one_answer() -> None:
    known, work, answers = IdempotentRequests(ReusedError), Work(), []

    async def ask() -> None:
        answers.append(await known.run_once("a", "key", BODY, work))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
    assert work.done == 1
    assert answers == ["1"] * 5


async def test_another_tenant_s_key_is_another_key() -> None:
    known, work = IdempotentRequests(ReusedError), Work()
    await known.run_once("a", "key", BODY, work)
    await known.run_once("b", "key", BODY, work)
    assert work.done == 2


async def test_a_key_in_another_space_is_another_key() -> None:
    known, work = IdempotentRequests(ReusedError), Work()
    for space in ("alice", "desks"), ("bob", "desks"), ("bob", "jobs"):
        await known.run_once("a", "key", BODY, work, space)
    assert work.done == 3


async def test_an_answer_is_forgotten_when_its_time_is_over() -> None:
    known, work = IdempotentRequests(ReusedError, lifetime_s=0.0), Work()
    assert [await known.run_once("a", "key", BODY, work) for _ in range(2)] == ["1", "2"]
    assert len(known.requests["a"]) == 1


async def test_requests_without_a_key_are_all_carried_out() -> None:
    known, work = IdempotentRequests(ReusedError), Work()
    assert [await known.run_once("a", None, BODY, work) for _ in range(2)] == ["1", "2"]


async def test_a_failure_is_not_remembered() -> None:
    known, work = IdempotentRequests(ReusedError), Work(fails=True)
    with pytest.raises(ConnectionError):
        await known.run_once("a", "key", BODY, work)
    assert await known.run_once("a", "key", BODY, work) == "2"


async def test_a_key_is_for_one_request_only() -> None:
    known, work = IdempotentRequests(ReusedError), Work()
    await known.run_once("a", "key", BODY, work)
    with pytest.raises(ReusedError):
        await known.run_once("a", "key", Body(text="other"), work)


async def test_no_more_is_remembered_of_a_tenant_than_is_allowed_and_nothing_of_another_s_is_forgotten() -> None:
    known, work, others = IdempotentRequests(ReusedError), Work(), Work()
    await known.run_once("b", "key", BODY, others)
    for number in range(MAX_ANSWERS + 10):
        await known.run_once("a", f"key-{number}", BODY, work)
    assert len(known.requests["a"]) == MAX_ANSWERS
    await known.run_once("a", f"key-{MAX_ANSWERS + 9}", BODY, work)
    await known.run_once("b", "key", BODY, others)
    assert (work.done, others.done) == (MAX_ANSWERS + 10, 1)


async def test_what_is_under_way_is_not_forgotten_however_much_comes_after_it() -> None:
    known, work, slow = IdempotentRequests(ReusedError), Work(), anyio.Event()
    done = []

    async def wait() -> str:
        await slow.wait()
        done.append(1)
        return "slow"

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(known.run_once, "a", "slow", BODY, wait)
            await anyio.wait_all_tasks_blocked()
            for number in range(MAX_ANSWERS + 10):
                await known.run_once("a", f"key-{number}", BODY, work)
        slow.set()
    assert done == [1]
