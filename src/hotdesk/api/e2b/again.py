"""Requests that come twice: with an Idempotency-Key they are carried out once, and answered alike."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
from starlette.responses import Response

from hotdesk.api.e2b.answers import Refusal

SHAPE = re.compile(r"[A-Za-z0-9_-]{1,255}")
MOST = 10_000
"""Answers that are remembered."""


@dataclass(slots=True)
class Made:
    """A request that was made, and its answer once there is one."""

    body: str
    """What was asked for, by its digest."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    response: Response | None = None


class Again:
    """What was asked with a key of its own lately."""

    def __init__(self) -> None:
        self.known: OrderedDict[tuple[str, str], Made] = OrderedDict()

    async def once(self, tenant: str, key: str | None, body: str, work: Callable[[], Awaitable[Response]]) -> Response:
        """Carry a request out, unless it was or is being; a failure leaves it to the next try."""
        if key is None:
            return await work()
        if not SHAPE.fullmatch(key):
            raise Refusal(400, "an Idempotency-Key has 1 to 255 letters, digits, - and _")
        while (made := self.known.get((tenant, key))) is not None:
            if made.body != body:
                raise Refusal(422, "this Idempotency-Key was used for another request; use a new one")
            await made.answered.wait()
            if made.response is not None:
                return made.response
        return await self.first(tenant, key, body, work)

    async def first(self, tenant: str, key: str, body: str, work: Callable[[], Awaitable[Response]]) -> Response:
        """Carry a request out, and remember its answer."""
        made = self.known[tenant, key] = Made(body)
        while len(self.known) > MOST:
            self.known.popitem(last=False)
        try:
            made.response = await work()
            return made.response
        except BaseException:
            self.known.pop((tenant, key), None)
            raise
        finally:
            made.answered.set()
