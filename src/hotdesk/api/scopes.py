"""Builds scopes in threads, because a preset may wait for this machine's resolver."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

Found = TypeVar("Found")
AT_ONCE = 8
"""Threads that may wait for the resolver; other work has its own threads."""


async def run_in_thread(work: Callable[..., Found], *args: object) -> Found:
    return await anyio.to_thread.run_sync(work, *args, limiter=_get_limiter())


@functools.cache
def _get_limiter() -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(AT_ONCE)
