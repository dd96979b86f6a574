"""A desk without a wall, for tests that need a desk."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.local.runtime import local_runtime


@pytest.fixture(scope="module")
async def desk() -> AsyncIterator[Desk]:
    async with local_runtime() as runtime:
        yield await runtime.open(Spec())
