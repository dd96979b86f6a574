"""Requests that may come twice: whoever gives an `Idempotency-Key` gets the first answer again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

import anyio
from fastapi import Header
from pydantic import BaseModel

from hotdesk.api.caller import Caller
from hotdesk.api.native.problems import Problem

SECONDS = 86400.0
"""How long an answer is remembered."""
MOST = 1000
"""Answers that are remembered of one tenant."""
Name = tuple[str, str, str]
"""Which key asked for which act, and with which key of its own."""
T = TypeVar("T", bound=BaseModel)
IdempotencyKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", pattern="^[!-~]{1,200}$", description="The same again: the same answer."),
]


@dataclass(slots=True)
class Once:
    """One request, and what came of it."""

    digest: bytes
    until: float
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: BaseModel | None = None


class Repeats:
    """What was asked before."""

    def __init__(self) -> None:
        self.known: dict[str, dict[Name, Once]] = {}
        """By tenant, the oldest first: nobody's requests make another's be forgotten."""

    async def once(
        self, caller: Caller, act: str, key: str | None, asked: BaseModel | None, make: Callable[[], Awaitable[T]]
    ) -> T:
        """Do something once for a caller's key; one that failed may be tried again."""
        if key is None:
            return await make()
        own, name = self.known.setdefault(caller.tenant, {}), (caller.key, act, key)
        digest = hashlib.sha256(b"" if asked is None else asked.model_dump_json().encode()).digest()
        while (earlier := own.get(name)) is not None and earlier.until > time.monotonic():
            if earlier.digest != digest:
                raise Problem(
                    409, "idempotency.reused", "this Idempotency-Key came with another request; take a new one"
                )
            await earlier.done.wait()
            if earlier.answer is not None:
                return earlier.answer  # type: ignore[return-value]
        return await first(own, name, digest, make)


async def first(own: dict[Name, Once], name: Name, digest: bytes, make: Callable[[], Awaitable[T]]) -> T:
    """Do it, and remember what came of it."""
    own.pop(name, None)  # one whose time is over: what is asked anew is the newest
    own[name] = once = Once(digest, time.monotonic() + SECONDS)
    try:
        answer = await make()
        once.answer = answer
        return answer
    finally:
        if once.answer is None:
            own.pop(name, None)
        once.done.set()
        forget(own)


def forget(own: dict[Name, Once]) -> None:
    """Let go of the oldest answers where there are too many; what is under way is nobody's to forget."""
    done = [name for name, each in own.items() if each.done.is_set()] if len(own) > MOST else []
    for name in done[: len(own) - MOST]:
        del own[name]
