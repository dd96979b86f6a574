"""Tests of idempotency keys: a repeated request is carried out once, and a failed one again."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from hotdesk.api.idempotency import MAX_ANSWERS, IdempotentRequests

pytestmark = pytest.mark.anyio


class Body(BaseModel):
    """A request body."""

    text: str = ""


BODY = Body()


class ReusedError(Exception):
    """A key was reused with a different request."""


class Work:
    """Counts its calls; the first may fail."""

    def __init__(self, fails: bool = False) -> None:
        self.done = 0
        self.fails = fails

    async def __call__(self) -> str:
        await anyio.lowlevel.checkpoint()
        self.done += 1
        if self.fails and self.done == 1:
            raise ConnectionError
        return str(self.done)


async def test_concurrent_requests_get_one_answer() -> None:
    known, work, answers = IdempotentRequests(ReusedError), Work(), []

    async def ask() -> None:
        answers.append(await known.run_once("a", "key", BODY, work))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
    assert work.done == 1
    assert answers == ["1"] * 5


async def test_keys_of_different_tenants_are_separate() -> None:
    known, work = IdempotentRequests(ReusedError), Work()
    await known.run_once("a", "key", BODY, work)
    await known.run_once("b", "key", BODY, work)
    assert work.done == 2


async def test_keys_in_different_namespaces_are_separate() -> None:
    known, work = IdempotentRequests(ReusedError), Work()
    for space in ("alice", "desks"), ("bob", "desks"), ("bob", "jobs"):
        await known.run_once("a", "key", BODY, work, space)
    assert work.done == 3


async def test_an_answer_expires() -> None:
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


async def test_each_tenant_has_its_own_limit_of_remembered_answers() -> None:
    known, work, others = IdempotentRequests(ReusedError), Work(), Work()
    await known.run_once("b", "key", BODY, others)
    for number in range(MAX_ANSWERS + 10):
        await known.run_once("a", f"key-{number}", BODY, work)
    assert len(known.requests["a"]) == MAX_ANSWERS
    await known.run_once("a", f"key-{MAX_ANSWERS + 9}", BODY, work)
    await known.run_once("b", "key", BODY, others)
    assert (work.done, others.done) == (MAX_ANSWERS + 10, 1)


async def test_a_running_request_is_never_forgotten() -> None:
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
