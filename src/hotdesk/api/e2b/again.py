"""Requests that come twice: with an Idempotency-Key they are carried out once, and answered alike."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
from starlette.responses import Response

from hotdesk.api.e2b.responses import ErrorResponse

SHAPE = re.compile(r"[A-Za-z0-9_-]{1,255}")
MOST = 1000
"""Answers that are remembered of one tenant."""


@dataclass(slots=True)
class RepeatableRequest:
    """A request that was made, and its answer once there is one."""

    body: str
    """What was asked for, by its digest."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    response: Response | None = None


class Again:
    """What was asked with a key of its own lately."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, RepeatableRequest]] = {}
        """By tenant and key, the oldest first: nobody's requests make another's be forgotten."""

    async def once(self, tenant: str, key: str | None, body: str, work: Callable[[], Awaitable[Response]]) -> Response:
        """Carry a request out, unless it was or is being; a failure leaves it to the next try."""
        if key is None:
            return await work()
        if not SHAPE.fullmatch(key):
            raise ErrorResponse(400, "an Idempotency-Key has 1 to 255 letters, digits, - and _")
        own = self.known.setdefault(tenant, {})
        while (made := own.get(key)) is not None:
            if made.body != body:
                raise ErrorResponse(422, "this Idempotency-Key was used for another request; use a new one")
            await made.answered.wait()
            if made.response is not None:
                return made.response
        made = own[key] = RepeatableRequest(body)
        try:
            made.response = await work()
            return made.response
        except BaseException:
            own.pop(key, None)
            raise
        finally:
            made.answered.set()
            forget(own)


def forget(own: dict[str, RepeatableRequest]) -> None:
    """Let go of the oldest answers where there are too many; what is under way is nobody's to forget."""
    answered = [key for key, made in own.items() if made.answered.is_set()] if len(own) > MOST else []
    for key in answered[: len(own) - MOST]:
        del own[key]
