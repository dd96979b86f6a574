"""Tests of loading the MCP application, once and in a thread."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any, cast

import anyio
import pytest

from hotdesk.api.mcp.lazy import LazyMcp

pytestmark = pytest.mark.anyio


async def test_requests_wait_for_one_load_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []
    answered: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        answered.append(scope)

    def load(self: LazyMcp) -> Any:
        time.sleep(0.05)
        loads.append(threading.get_ident())
        return app

    monkeypatch.setattr(LazyMcp, "load", load)
    nothing = cast(Any, None)
    lazy = LazyMcp(nothing, nothing, nothing, nothing, 1.0)
    async with anyio.create_task_group() as tasks:
        for name in ("first", "second"):
            tasks.start_soon(lazy, cast(Any, name), nothing, nothing)
    assert answered == ["first", "second"]
    assert len(loads) == 1
    assert loads[0] != threading.get_ident()


LOAD = """
import sys
from hotdesk.api.mcp.lazy import LazyMcp
LazyMcp(None, None, None, None, 1.0).load()
print("hotdesk.hands.tools" in sys.modules)
"""


@pytest.mark.slow
def test_the_load_imports_the_tools_of_a_desk() -> None:
    """Otherwise the first call of a tool imports them, and blocks the event loop."""
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "True\n"
