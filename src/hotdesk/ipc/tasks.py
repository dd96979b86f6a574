"""Tasks that serve a scope until its very end, because a cancelled caller needs them for its cleanup."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable

import anyio
import anyio.abc


class Background:
    """Tasks that are shielded from cancellation of their surroundings, and stopped by their owner."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self.tasks = tasks
        self.scopes: set[anyio.CancelScope] = set()

    def start(self, work: Callable[[], Awaitable[object]]) -> None:
        """Start a task that runs until it is done or `stop` is called."""
        scope = anyio.CancelScope(shield=True)
        self.scopes.add(scope)
        self.tasks.start_soon(self.run, scope, work)

    async def run(self, scope: anyio.CancelScope, work: Callable[[], Awaitable[object]]) -> None:
        with scope:
            await work()
        self.scopes.discard(scope)

    def stop(self) -> None:
        for scope in self.scopes:
            scope.cancel()


@contextlib.asynccontextmanager
async def background() -> AsyncIterator[Background]:
    """Yield background tasks that end with the block. An exception of the block is raised unwrapped."""
    failure = None
    async with anyio.create_task_group() as tasks:
        served = Background(tasks)
        try:
            yield served
        except Exception as e:  # noqa: BLE001 - raised again below, outside the group that would wrap it
            failure = e
        finally:
            served.stop()
    if failure is not None:
        raise failure


async def run_together(works: Iterable[Callable[[], Coroutine[None, None, None]]]) -> None:
    """Run several functions at once; the first error cancels the others, and is raised unwrapped."""
    try:
        async with anyio.create_task_group() as tasks:
            for work in works:
                tasks.start_soon(work)
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
