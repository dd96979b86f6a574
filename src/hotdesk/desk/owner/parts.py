"""Start the trusted processes of an owner's desks: keys, doors, readers of screens."""

from __future__ import annotations

from typing import Protocol

from hotdesk.desk.owner.keeper_client import KeeperClient
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import DeskId, new_id


class Parts(Protocol):
    """Starts those processes. Their sockets are returned as descriptors that the caller must close."""

    async def start_keys(self) -> tuple[int, int]:
        """Start keys; return the socket for asynchronous calls, and the one for calls that block."""
        ...

    async def start_door(self, desk: DeskId) -> None:
        """Start the door process for a desk that is about to open, before it is needed."""
        ...

    async def start_reader(self, name: DeskId) -> tuple[int, int]:
        """Start a reader; return the socket for calls, and the one that takes a desk's sockets."""
        ...

    async def end_reader(self, name: DeskId) -> None:
        """Kill a reader's process: a compromised reader would not end by itself."""
        ...


class KeeperParts:
    """Starts the processes through a keeper: under user ids of their own, without privileges."""

    def __init__(self, keeper: KeeperClient) -> None:
        self.keeper = keeper

    async def start_keys(self) -> tuple[int, int]:
        _, (talk, wait) = await self.keeper.ask(KeeperRequest("keys", new_id()), 2)
        return talk, wait

    async def start_door(self, desk: DeskId) -> None:
        await self.keeper.tell(KeeperRequest("door", desk))

    async def start_reader(self, name: DeskId) -> tuple[int, int]:
        _, (talk, hand) = await self.keeper.ask(KeeperRequest("reader", name), 2)
        return talk, hand

    async def end_reader(self, name: DeskId) -> None:
        await self.keeper.ask(KeeperRequest("dismiss", name))
