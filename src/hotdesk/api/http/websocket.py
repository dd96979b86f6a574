"""The server's WebSockets: uvicorn's, which cut a client that reads too little."""

from __future__ import annotations

import asyncio
from functools import partial

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from hotdesk.api.http.write_watch import WRITE_STALL_S, WriteWatch, reset_connection


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket. A close that waits for its client is watched as well."""

    write_stall_s = WRITE_STALL_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.writes = WriteWatch(
            self.transport, self.loop, self.write_stall_s, partial(reset_connection, self.transport)
        )
        self.writes.start()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.close_sent:
            self.handshake_complete = True  # otherwise a refusal would be logged as a defect

    def connection_lost(self, exc: Exception | None) -> None:
        self.writes.stop()
        super().connection_lost(exc)
