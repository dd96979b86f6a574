"""One tab in use: send commands, run our scripts in it, wait for it."""

from __future__ import annotations

import time

from hotdesk.errors import DeskError, make_printable
from hotdesk.hands.reader.cdp import CALL_SECONDS, Cdp, CdpError
from hotdesk.hands.reader.tabs import TabState, make_stale_error
from hotdesk.hands.reader.untrusted import UntrustedObject

OBJECT_GROUP = "hotdesk"
"""Group name of the objects that our scripts keep alive in a page until they are released."""
_REACTION_TIMEOUT_S = 0.05
"""Seconds to wait for a navigation after an action."""
_LOAD_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.1


class BrowserPage:
    def __init__(self, cdp: Cdp, tab: TabState) -> None:
        self.cdp = cdp
        self.tab = tab
        self.holds = False

    async def ask(self, method: str, /, **parameters: object) -> UntrustedObject:
        return await self.ask_within(CALL_SECONDS, method, **parameters)

    async def ask_within(self, seconds: float, method: str, /, **parameters: object) -> UntrustedObject:
        return await self.cdp.call(method, self.tab.session, seconds, **parameters)

    async def find_element(self, reference: str) -> str:
        """Return the object id by which scripts can use the element of a reference."""
        number = self.tab.references.find(reference)
        try:
            reply = await self.ask("DOM.resolveNode", backendNodeId=number, objectGroup=OBJECT_GROUP)
        except CdpError as e:
            raise make_stale_error(reference) from e
        self.holds = True
        return reply.read_object("object").read_text("objectId", 200)

    async def apply(self, reference: str, script: str, *arguments: object) -> UntrustedObject:
        found = await self.run(script, arguments, objectId=await self.find_element(reference))
        if found.flag("gone"):
            raise make_stale_error(reference)
        return found

    async def run(self, script: str, arguments: tuple[object, ...], **where: object) -> UntrustedObject:
        reply = await self.ask(
            "Runtime.callFunctionOn",
            functionDeclaration=script,
            arguments=[{"value": argument} for argument in arguments],
            returnByValue=True,
            **where,
        )
        if "exceptionDetails" in reply:
            raise DeskError(f"the page raised an error: {describe_exception(reply)}")
        return reply.read_object("result").read_object("value")

    async def look(self, script: str, *arguments: object) -> UntrustedObject:
        """Run a script in an isolated world of the page, which the page's own scripts cannot access."""
        for last in (False, True):
            try:
                return await self.run(script, arguments, executionContextId=await self.ensure_world())
            except CdpError:  # the page navigated meanwhile
                self.tab.world = 0
                if last:
                    raise
        raise AssertionError

    async def ensure_world(self) -> int:
        if not self.tab.world:
            reply = await self.ask("Page.createIsolatedWorld", frameId=self.tab.frame, worldName=OBJECT_GROUP)
            self.tab.world = reply.read_integer("executionContextId")
        return self.tab.world

    async def settle(self) -> None:
        """Let the page react; if it navigates, wait until it has loaded."""
        old = self.tab.loader
        if await self.cdp.wait(lambda: self.tab.loading or self.tab.loader != old, _REACTION_TIMEOUT_S):
            await self.cdp.wait(lambda: not self.tab.loading, _LOAD_TIMEOUT_S)

    async def pause(self, seconds: float = POLL_INTERVAL_S) -> None:
        await self.cdp.wait(lambda: False, seconds)

    async def release(self) -> None:
        if self.holds and self.tab.session and self.tab.dialog is None:
            await self.ask("Runtime.releaseObjectGroup", objectGroup=OBJECT_GROUP)


def describe_exception(reply: UntrustedObject) -> str:
    details = reply.read_object("exceptionDetails")
    description = details.read_object("exception").data.get("description")
    return make_printable(description[:500] if isinstance(description, str) else details.read_text("text", 500))


class Countdown:
    """The remaining part of a time limit."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        """Return the seconds left, never 0, so that every caller checks at least once."""
        return max(self.end - time.monotonic(), 0.001)

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.end
