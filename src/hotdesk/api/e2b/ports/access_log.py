"""The access log of sandboxes' ports: one line for each request, if the operator enables it.

A line has no query, header or body: they may hold secrets. What the caller wrote is escaped and shortened.
"""

from __future__ import annotations

import time
from dataclasses import field

from starlette.types import Message, Receive, Scope, Send

from hotdesk.api.log import LOG
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable

_MAX_PATH = 200


@dataclass(slots=True)
class AccessEntry:
    """One request, with the data for its log line."""

    scope: Scope
    sandbox: str
    port: int
    tenant: str = ""
    share: str = ""
    """The id of the share link it used; empty if it used none."""
    status: int = 0
    received: int = 0
    sent: int = 0
    began: float = field(default_factory=time.monotonic)

    def watch_receive(self, receive: Receive) -> Receive:
        async def receive_and_count() -> Message:
            message = await receive()
            self.received += len(message.get("body", b""))
            return message

        return receive_and_count

    def watch_send(self, send: Send) -> Send:
        """Record the status, and count the bytes of the response."""

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
            self.sent += len(message.get("body", b""))
            await send(message)

        return send_and_count

    def write(self) -> None:
        """Write the line; status 0 means that the connection was handed over or interrupted."""
        path = self.scope.get("raw_path", b"").decode("latin-1")
        LOG.write(
            "access",
            tenant=self.tenant,
            sandbox=self.sandbox,
            port=self.port,
            client=str((self.scope.get("client") or ("",))[0]),
            share=self.share,
            method=str(self.scope["method"]),
            path=make_printable(path[:_MAX_PATH]),
            status=self.status,
            received=self.received,
            sent=self.sent,
            ms=round((time.monotonic() - self.began) * 1000),
        )
