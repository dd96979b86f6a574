"""Which events of a node's journal the node's server has. With `sync`, desks with a scope wait for that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from hotdesk.door.egress import CONFIRM_SECONDS
from hotdesk.errors import HostError
from hotdesk.keys.client import KeysClient


class Confirmations:
    """The number of the last event that the server has, for one tenant of a node."""

    def __init__(self, meet: Callable[[], Awaitable[KeysClient]]) -> None:
        self.meet = meet
        self.is_required = False
        """Whether the server requires that desks wait; once it does, it is so for the life of this process."""
        self.confirmed = 0
        self.awaited = 0
        """The number of the last event that somebody waits for."""
        self.raised = anyio.Event()
        """Set, and replaced, when `confirmed` has risen."""
        self.on_awaited: Callable[[], None] = lambda: None
        """Called when somebody begins to wait: the server should fetch the events at once."""

    @property
    def is_awaited(self) -> bool:
        return self.awaited > self.confirmed

    def await_number(self, number: int) -> None:
        """Note that somebody waits for an event."""
        self.awaited = max(self.awaited, number)
        if self.is_awaited:
            self.on_awaited()

    async def confirm(self, number: int) -> None:
        """Note that the server has all events up to a number, and have keys tell the doors."""
        if self.is_required and number > self.confirmed:
            await (await self.meet()).ask("confirmed", "", number=number)
            if number > self.confirmed:
                self.confirmed = number
                self.raised.set()
                self.raised = anyio.Event()

    async def wait(self) -> None:
        """Wait until the server has all events so far; raise `HostError` if it has not in time."""
        if not self.is_required:
            return
        number = int((await (await self.meet()).ask("position", ""))["number"])
        self.await_number(number)
        with anyio.move_on_after(CONFIRM_SECONDS):
            while self.confirmed < number:
                await self.raised.wait()
        if self.confirmed < number:
            raise HostError(
                f"the server has not confirmed within {CONFIRM_SECONDS:.0f} s that it has the events recorded so far, "
                "which its setting `[serve] sync` requires before a desk gets a scope; try again"
            )
