"""A desk without a wall, for what stands on one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hotdesk.desk.local import local_runtime
from hotdesk.desk.seam import Desk, Spec


@pytest.fixture(scope="module")
async def desk() -> AsyncIterator[Desk]:
    """Give a desk that the tests of a module share."""
    async with local_runtime() as runtime:
        yield await runtime.open(Spec())
