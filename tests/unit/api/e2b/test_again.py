"""Requests that come twice are carried out once; a failure is tried again."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from starlette.responses import Response

from hotdesk.api.e2b import again
from hotdesk.api.e2b.again import Again
from hotdesk.api.e2b.responses import ErrorResponse

pytestmark = pytest.mark.anyio


class Work:
    """Counts how often it is done; may fail the first time."""

    def __init__(self, fails: bool = False) -> None:
        self.done = 0
        self.fails = fails

    async def __call__(self) -> Response:
        await anyio.lowlevel.checkpoint()
        self.done += 1
        if self.fails and self.done == 1:
            raise ErrorResponse(503, "later")
        return Response(str(self.done))


async def test_those_who_come_together_get_one_answer() -> None:
    known, work, answers = Again(), Work(), []

    async def ask() -> None:
        answers.append(await known.once("a", "key", "body", work))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
    assert work.done == 1
    assert {answer.body for answer in answers} == {b"1"}


async def test_another_tenant_s_key_is_another_key() -> None:
    known, work = Again(), Work()
    await known.once("a", "key", "body", work)
    await known.once("b", "key", "body", work)
    assert work.done == 2


async def test_a_failure_is_not_remembered() -> None:
    known, work = Again(), Work(fails=True)
    with pytest.raises(ErrorResponse):
        await known.once("a", "key", "body", work)
    assert (await known.once("a", "key", "body", work)).body == b"2"


async def test_a_key_is_for_one_request_only() -> None:
    known, work = Again(), Work()
    await known.once("a", "key", "body", work)
    with pytest.raises(ErrorResponse, match="another request"):
        await known.once("a", "key", "other", work)


async def test_no_more_is_remembered_of_a_tenant_than_is_allowed_and_nothing_of_another_s_is_forgotten() -> None:
    known, work, others = Again(), Work(), Work()
    await known.once("b", "key", "body", others)
    for number in range(again.MOST + 10):
        await known.once("a", f"key-{number}", "body", work)
    assert len(known.known["a"]) == again.MOST
    await known.once("a", f"key-{again.MOST + 9}", "body", work)
    await known.once("b", "key", "body", others)
    assert (work.done, others.done) == (again.MOST + 10, 1)


async def test_what_is_under_way_is_not_forgotten_however_much_comes_after_it() -> None:
    known, work, slow = Again(), Work(), anyio.Event()
    done = []

    async def wait() -> Response:
        await slow.wait()
        done.append(1)
        return Response("slow")

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(known.once, "a", "slow", "body", wait)
            await anyio.wait_all_tasks_blocked()
            for number in range(again.MOST + 10):
                await known.once("a", f"key-{number}", "body", work)
        slow.set()
    assert done == [1]
