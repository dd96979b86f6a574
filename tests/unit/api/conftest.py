"""A check for all tests of the API: no callback of the server's own code may block the event loop."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from hotdesk.api.http.stalls import Stall, watch_loop

LIMIT = 0.05
PLACE = re.compile(r'File "([^"]*)"')


@pytest.fixture(autouse=True)
def _nothing_stalls() -> Iterator[None]:
    """Fail a test in which our code blocked the loop; what a test itself does to its loop is not checked."""
    found: list[Stall] = []
    with watch_loop(LIMIT, found.append):
        yield
    slow = [each for each in found if each.seconds - each.collected > LIMIT]  # the heap is that of thousands of tests
    assert not [str(each) for each in slow if is_ours(each)]


def is_ours(stall: Stall) -> bool:
    places = [place for place in PLACE.findall(stall.stack) if "/hotdesk/" in place or "/tests/" in place]
    return any("stalls.py" not in place for place in places) and "/tests/" not in places[-1]
