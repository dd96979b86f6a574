"""One client's computer: opened at its first use, burnt when the client is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Protocol

import anyio

from hotdesk.api.mcp.deliver import DELIVER, MAX_DELIVERIES, Delivering
from hotdesk.api.mcp.desk_limits import McpPolicy
from hotdesk.api.mcp.remote_tools import LentTools, fetch_tools
from hotdesk.api.mcp.results import ToolAnswer
from hotdesk.dataclass import dataclass
from hotdesk.desk.owner.keeper_client import BURN_SECONDS
from hotdesk.desk.owner.remote import RemoteRuntime
from hotdesk.desk.seam import Desk
from hotdesk.errors import DeskGone, HotdeskError, make_printable
from hotdesk.host import Host
from hotdesk.tool import Observation, Tool, ToolArgumentError

_MAX_CONCURRENT_TOOLS = 8
"""Concurrent tool calls of one client."""
GONE = (
    "the desk is gone: it was idle too long, reached its deadline, or was burnt. Its files are lost. "
    "The next tool call opens a new desk."
)
_PROBE_TIMEOUT_S = 10.0
"""Seconds a desk may take to show that it still exists."""
_LOST = (
    "the reply to this tool call was lost; the desk and its files still exist. Look at the desk before you try again:"
)
_UNKNOWN = (
    "the reply to this tool call was lost, and whether the desk still exists could not be determined. Look at the desk "
    "before you try again:"
)
_UNDELIVERED = (
    "nothing was delivered: this desk and its drive belong to a hotdesk server. Ask a person to connect you to that "
    "server's `/mcp` with a key, or to copy the file out with `hotdesk cp`."
)


class Using(Protocol):
    """Something through which a desk's tools are called."""

    async def use(self, name: str, arguments: object) -> Observation:
        """Call a tool; raise `DeskGone` when the desk no longer exists."""
        ...


@dataclass(slots=True)
class McpSession:
    """A client, and its desk from the first tool call on."""

    host: Host
    policy: McpPolicy
    owner: str
    """The owner of the files it delivers, as the drive names owners."""
    by: str
    """The client's name in the journal."""
    desk: Desk | None = None
    toolbox: Using | None = None
    opening: anyio.Lock = field(default_factory=anyio.Lock)
    free: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_MAX_CONCURRENT_TOOLS))
    delivering: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(MAX_DELIVERIES))
    """Shared by all clients of a tenant."""

    async def list_tools(self) -> Sequence[Tool | Mapping[str, Any]]:
        """List the tools; if another process owns the desk, that needs an open desk."""
        if not isinstance(self.host.runtime, RemoteRuntime):
            return [*self.host.list_worker_tools(self.policy.spec.image), DELIVER]
        desk, _ = await self.ensure_desk()
        return await fetch_tools(self.host.runtime, desk.id)

    async def ensure_desk(self) -> tuple[Desk, Using]:
        async with self.opening:
            if self.desk is None or self.toolbox is None:
                desk = await self.host.open(replace(self.policy.spec, by=self.by), self.policy.scope)
                try:
                    self.toolbox = await self.make_tools(desk)
                except BaseException:
                    with suppress(HotdeskError):
                        await self.burn(desk)
                    raise
                self.desk = desk
            return self.desk, self.toolbox

    async def make_tools(self, desk: Desk) -> Using:
        runtime = self.host.runtime
        if isinstance(runtime, RemoteRuntime):
            return LentTools(runtime, desk.id)
        return await self.host.hands(desk)

    async def use(self, name: str, arguments: object) -> ToolAnswer:
        async with self.free:
            try:
                desk, toolbox = await self.ensure_desk()
            except HotdeskError as e:
                return ToolAnswer(f"no desk could be opened: {e}", ok=False)
            try:
                if name == DELIVER.name:
                    return await self.deliver(desk, arguments)
                observation = await toolbox.use(name, arguments)
            except DeskGone as e:
                exists = await probe(desk)
                if exists is not False:
                    return _make_failure(_LOST if exists else _UNKNOWN, e)
                await self.forget(desk)
                return ToolAnswer(GONE, ok=False)
            except HotdeskError as e:
                return _make_failure("the tool call failed:", e)
            return ToolAnswer(observation=observation, ok=observation.ok)

    async def deliver(self, desk: Desk, arguments: object) -> ToolAnswer:
        if isinstance(self.host.runtime, RemoteRuntime):
            return ToolAnswer(_UNDELIVERED, ok=False)
        try:
            checked = DELIVER.check(arguments)
        except ToolArgumentError as e:
            return ToolAnswer(str(e), ok=False)
        return await Delivering(self.host, self.owner, self.by, self.delivering).deliver(desk, checked)

    async def forget(self, desk: Desk) -> None:
        if self.desk is desk:
            self.desk = self.toolbox = None
            with suppress(HotdeskError):
                await self.burn(desk)

    async def close(self) -> None:
        """Burn the desk, even if a tool is in use."""
        desk, self.desk, self.toolbox = self.desk, None, None
        if desk is not None:
            await self.burn(desk)

    async def burn(self, desk: Desk) -> None:
        """Burn a desk, unless it is gone already."""
        with anyio.move_on_after(BURN_SECONDS, shield=True):
            try:
                await self.host.burn(desk.id)
            except DeskGone:
                return


async def probe(desk: Desk) -> bool | None:
    """Return whether a desk still exists, or `None` if it did not reply or its reply does not tell.

    Neither a lost reply nor the end of another desk proves that it is gone.
    """
    with anyio.move_on_after(_PROBE_TIMEOUT_S):
        try:
            await desk.stat(".")
        except DeskGone:
            return False
        except HotdeskError:
            return None
        return True
    return None


def _make_failure(what: str, error: HotdeskError) -> ToolAnswer:
    return ToolAnswer(what, Observation(make_printable(str(error)), ok=False), ok=False)
