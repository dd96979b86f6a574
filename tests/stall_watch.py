"""The stall watch of the servers that tests start: a callback that blocked a server's event loop fails the test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hotdesk.api.http import stalls
from hotdesk.api.http.stalls import Stall, watch_loop

LIMIT_MS = 50
"""Milliseconds that a callback of a server's event loop may take."""
WATCHED = {stalls.SWITCH: str(LIMIT_MS)}
"""The environment variable that makes a server report such callbacks on standard error."""
PLACE = re.compile(r'File "([^"]*)"')


def require_no_stalls(log: Path) -> None:
    """Fail if a server that was started with `WATCHED` reported a blocked event loop in its output."""
    text = log.read_text(errors="replace")
    assert "event loop was blocked" not in text, text


@contextmanager
def nothing_stalls() -> Iterator[None]:
    """Fail if our code blocked the event loop of this thread; what a test itself does to its loop is not checked."""
    found: list[Stall] = []
    with watch_loop(LIMIT_MS / 1000, found.append):
        yield
    slow = [each for each in found if each.seconds - each.collected > LIMIT_MS / 1000]  # the heap is that of all tests
    assert not [str(each) for each in slow if is_ours(each)]


def is_ours(stall: Stall) -> bool:
    places = [place for place in PLACE.findall(stall.stack) if "/hotdesk/" in place or "/tests/" in place]
    return any("stalls.py" not in place for place in places) and "/tests/" not in places[-1]
