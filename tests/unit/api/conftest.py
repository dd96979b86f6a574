"""A check for all tests of the API: no callback of the server's own code may block the event loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.stall_watch import nothing_stalls


@pytest.fixture(autouse=True)
def _nothing_stalls() -> Iterator[None]:
    with nothing_stalls():
        yield
