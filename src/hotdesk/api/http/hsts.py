"""HSTS for the names that the operator configured: `localhost` and addresses may be other servers', too."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hotdesk.dataclass import dataclass

RULE = "max-age=31536000"
"""One year, without `includeSubDomains`: names below may be those of desks' own servers."""


@dataclass(frozen=True, slots=True)
class Strict:
    """The application behind a TLS listener."""

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
