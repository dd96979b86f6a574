"""Tests of counting a tenant's desks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hotdesk.api.metering import MeteredHost
from hotdesk.api.quotas import Quotas
from hotdesk.config import Config
from hotdesk.desk.seam import DeskId, Spec

pytestmark = pytest.mark.anyio
ID = DeskId("i" + "a" * 20)


class Runtime:
    """A runtime that has every hibernated desk."""

    async def wake(self, desk: DeskId, scope: object) -> Any:
        return SimpleNamespace(id=desk)


async def test_a_desk_that_ended_while_it_was_resumed_counts_once_when_it_is_resumed_again(tmp_path: Path) -> None:
    quotas = Quotas()
    host = MeteredHost(Config(run=tmp_path, lib=tmp_path, images=tmp_path), "default", quotas)
    host.own_runtime = cast(Any, Runtime())
    for _ in range(2):
        await host.wake(ID, spec=Spec(cpus=2.0))
    assert (quotas.has("default", "desks"), quotas.has("default", "cpus")) == (1, 2.0)
