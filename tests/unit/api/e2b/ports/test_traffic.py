"""Tests of finding the sandbox that a request is for."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, Literal, cast

import anyio
import pytest

from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.envd import envd
from hotdesk.api.e2b.ports.traffic import Traffic
from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.http.dispatch import Aim
from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED
from hotdesk.desk.seam import DeskId, Spec

pytestmark = pytest.mark.anyio
ID = DeskId("i" + "0" * 20)


@pytest.mark.parametrize("state", ["running", "paused"])
@pytest.mark.parametrize("port", [envd.PORT, 8000])
async def test_a_sandbox_whose_desk_ended_is_not_running(state: Literal["running", "paused"], port: int) -> None:
    now = time.time()
    tenant = cast(Any, SimpleNamespace(name="default", host=SimpleNamespace(has_ended=lambda desk: True)))
    desk = cast(Any, SimpleNamespace(id=ID))
    sandbox = Sandbox(desk, tenant, "base", Spec(), CLOSED, "token", now, now + 60, state=state, auto_resume=True)
    scope = {"type": "http", "path": "/", "headers": [(b"x-access-token", b"token")], "query_string": b""}
    async with anyio.create_task_group() as tasks:
        sandboxes = Sandboxes(Serving(), tasks, Defaults(CLOSED, {}))
        sandboxes.add(sandbox)
        with pytest.raises(E2bError, match="The sandbox was not found") as refused:
            await Traffic(sandboxes).find(Aim(ID, port), scope)
    assert refused.value.status == 502
