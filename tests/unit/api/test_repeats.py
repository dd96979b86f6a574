"""Our own API's requests that come twice: what one tenant asks makes nothing of another's be forgotten."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from hotdesk.api.caller import Caller
from hotdesk.api.native import repeats
from hotdesk.api.native.repeats import Repeats

pytestmark = pytest.mark.anyio


class Answer(BaseModel):
    """How often something was done."""

    number: int


async def test_a_tenant_that_asks_without_end_makes_nothing_of_another_s_be_forgotten() -> None:
    known, done = Repeats(), []

    async def make() -> Answer:
        done.append(1)
        return Answer(number=len(done))

    first = await known.once(Caller("b", "b", "1"), "desks", "key", None, make)
    for number in range(repeats.MOST + 10):
        await known.once(Caller("a", "a", "2"), "desks", f"key-{number}", None, make)
    assert len(known.known["a"]) == repeats.MOST
    assert await known.once(Caller("b", "b", "1"), "desks", "key", None, make) == first
