"""Idempotency keys: a request that is repeated with the same key is carried out once and gets the same answer."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Any, TypeVar

import anyio
from pydantic import BaseModel

from hotdesk.dataclass import dataclass

MAX_ANSWERS = 1000
"""Answers that are remembered per tenant."""
Name = tuple[str, ...]
T = TypeVar("T")


@dataclass(slots=True)
class _Request:
    digest: bytes
    expires: float
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: Any = None


class IdempotentRequests:
    def __init__(self, reused: Callable[[], Exception], lifetime_s: float = math.inf) -> None:
        self.reused = reused
        """Makes the error for a key that was reused with a different request."""
        self.lifetime_s = lifetime_s
        self.requests: dict[str, dict[Name, _Request]] = {}
        """By tenant, the oldest first, so that no tenant's requests displace another's."""

    async def run_once(
        self, tenant: str, key: str | None, body: BaseModel, work: Callable[[], Awaitable[T]], space: Name = ()
    ) -> T:
        """Carry out a request unless it was or is being carried out; a failed one may be tried again.

        Equal keys in different spaces are different keys. Without a key the request is always carried out.
        """
        if key is None:
            return await work()
        own, name = self.requests.setdefault(tenant, {}), (*space, key)
        digest = hashlib.sha256(body.model_dump_json().encode()).digest()
        while (earlier := own.get(name)) is not None and earlier.expires > time.monotonic():
            if earlier.digest != digest:
                raise self.reused()
            await earlier.done.wait()
            if earlier.answer is not None:
                answer: T = earlier.answer
                return answer
        own.pop(name, None)  # expired: a repeated request counts as new
        own[name] = request = _Request(digest, time.monotonic() + self.lifetime_s)
        try:
            request.answer = answer = await work()
            return answer
        finally:
            if request.answer is None:
                own.pop(name, None)
            request.done.set()
            _drop_oldest(own)


def _drop_oldest(own: dict[Name, _Request]) -> None:
    """Drop the oldest answers beyond `MAX_ANSWERS`; requests under way stay."""
    done = [name for name, each in own.items() if each.done.is_set()] if len(own) > MAX_ANSWERS else []
    for name in done[: len(own) - MAX_ANSWERS]:
        del own[name]
