"""A desk's screen and its control, through its owner's control socket."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from hotdesk.desk.owner.remote import RemoteRuntime
from hotdesk.desk.seam import DeskId
from hotdesk.hands.screen.viewers import PROTOCOL


class Far:
    """The owner of a desk, over its control socket."""

    def __init__(self, runtime: RemoteRuntime, desk: DeskId, behind: str = "") -> None:
        self.runtime = runtime
        self.desk = desk
        self.behind = behind
        """The person on whose behalf the requests are sent; empty if none."""

    async def open_screen(self, viewer: str, control: bool) -> socket.socket:
        target = f"/desks/{self.desk}/view/{viewer}{'/control' if control else ''}"
        return await self.runtime.upgrade(target, PROTOCOL)

    async def get_wheel(self) -> Mapping[str, object]:
        return await self.runtime.call("GET", f"/desks/{self.desk}/wheel")

    async def turn(self, act: str, viewer: str, secret: str) -> Mapping[str, object]:
        request = {"act": act, "viewer": viewer, "secret": secret} | ({"behind": self.behind} if self.behind else {})
        return await self.runtime.call("POST", f"/desks/{self.desk}/wheel", request)
