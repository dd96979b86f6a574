"""Browsers that came by TLS come back by TLS, by names the operator gave: `localhost` and addresses are others'."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hotdesk.dataclass import dataclass

RULE = "max-age=31536000"
"""A year. Not for names below: what desks serve there is theirs."""


@dataclass(frozen=True, slots=True)
class Strict:
    """An application that is reached by TLS."""

    app: ASGIApp
    names: Collection[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host", "").partition(":")[0].lower()
        if scope["type"] != "http" or host not in self.names:
            await self.app(scope, receive, send)
            return

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["strict-transport-security"] = RULE
            await send(message)

        await self.app(scope, receive, send_with_header)
