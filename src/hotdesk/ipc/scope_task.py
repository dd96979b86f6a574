"""Keeps a context manager open in a task of its own: entered by one task, closed by another.

Task groups must be left by the task that entered them. Each cell of a notebook is a task, so a context that one cell
opens and a later one closes needs a task that outlives both. Detached tasks come from asyncio, because anyio has none
on purpose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from hotdesk.errors import HostError

T = TypeVar("T")
Errand = tuple[Callable[[], Awaitable[Any]], "asyncio.Future[Any]"]


class Standing:
    """A context manager, its task, and a queue of calls to run in that task."""

    def __init__(self, context: AbstractAsyncContextManager[object]) -> None:
        self.context = context
        self.errands: asyncio.Queue[Errand | None] = asyncio.Queue()
        self.entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        """Enter the context, run queued calls until `close`, and leave it."""
        try:
            async with self.context:
                self.entered.set_result(None)
                while (errand := await self.errands.get()) is not None:
                    await self.do(*errand)
        except BaseException as e:
            if self.entered.done():
                raise
            self.entered.set_exception(e)

    async def do(self, work: Callable[[], Awaitable[Any]], outcome: asyncio.Future[Any]) -> None:
        """Run one call in this task; store its result or error for the caller."""
        try:
            result = await work()
        except Exception as e:  # noqa: BLE001 - raised where it was asked for
            if not outcome.done():
                outcome.set_exception(e)
        else:
            if not outcome.done():
                outcome.set_result(result)

    async def wait_until_entered(self) -> None:
        """Wait until the context is entered; raise the error if entering failed."""
        await asyncio.shield(self.entered)

    async def call(self, work: Callable[[], Awaitable[T]]) -> T:
        if self.task.done():
            raise HostError("this Host is closed; create another")
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.errands.put_nowait((work, outcome))
        await asyncio.wait((outcome, self.task), return_when=asyncio.FIRST_COMPLETED)
        if not outcome.done():
            raise HostError("this Host was closed during the call; create another")
        return outcome.result()

    async def close(self) -> None:
        """Leave the context, and wait until it is left. A second call is no error."""
        self.errands.put_nowait(None)
        await asyncio.shield(self.task)
