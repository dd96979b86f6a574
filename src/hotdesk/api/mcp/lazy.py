"""The application at `/mcp`, loaded with the first request: importing its library takes as long as half a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from starlette.types import Receive, Scope, Send

from hotdesk.api.keys import ApiKeys
from hotdesk.api.mcp.desk_limits import McpPolicy
from hotdesk.api.tenants import Tenants

if TYPE_CHECKING:
    from hotdesk.api.mcp.http import Mcp


class LazyMcp:
    """Passes every request to the application, and loads it first if necessary."""

    def __init__(self, keys: ApiKeys, tenants: Tenants, policy: McpPolicy, tasks: TaskGroup, grace: float) -> None:
        self.keys, self.tenants, self.policy, self.tasks, self.grace = keys, tenants, policy, tasks, grace
        self.lock = anyio.Lock()
        self.app: Mcp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self.lock:
            app: Mcp = self.app if self.app is not None else await anyio.to_thread.run_sync(self.load)
            self.app = app
        await app(scope, receive, send)

    def load(self) -> Mcp:
        """Import everything that a session needs; tools are otherwise imported by the first call, in the event loop."""
        from hotdesk.api.mcp.http import Mcp
        from hotdesk.hands import tools  # noqa: F401 - for the first session

        return Mcp(self.keys, self.tenants, self.policy, self.tasks, self.grace)
