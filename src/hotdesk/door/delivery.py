"""The response that a desk gets: how its end is marked, and its bytes, sent together where possible."""

from __future__ import annotations

from hotdesk.door.http.framing import Response
from hotdesk.door.http.wire import BODY_SECONDS, Wire

_SEND_AT_ONCE_BYTES = 64 << 10
"""Bytes of a response that are sent to the desk without waiting for more."""


class Delivery:
    """One response on its way to the desk."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.started = False
        """Whether any bytes of a response were sent to the desk."""
        self.ends_with_close = False
        """Whether only the end of the connection marks the end of the response to the desk."""
        self.ready: list[bytes] = []
        self.size = 0
        """Number of bytes in `ready`."""

    @property
    def is_full(self) -> bool:
        return self.size > _SEND_AT_ONCE_BYTES

    def put(self, data: bytes) -> None:
        """Queue bytes to be sent together: each write costs both sides a TLS record and a wake-up."""
        if data:
            self.ready.append(data)
            self.size += len(data)

    async def flush(self) -> None:
        """Send what is queued, and wait until the desk has taken most of it."""
        if self.ready:
            self.started = True
            self.wire.write(b"".join(self.ready))
            self.ready, self.size = [], 0
        await self.wire.drain(BODY_SECONDS)

    def break_off(self) -> None:
        """End the connection so that a response that has begun does not look complete to the desk."""
        if self.started and self.ends_with_close:
            self.wire.reset()

    def frame(
        self, headers: list[tuple[bytes, bytes]], answer: Response, *, rewritten: bool, version: str, keep: bool
    ) -> bool:
        """Choose how the body's end is marked, and add the headers for it; return whether the body is chunked."""
        length = answer.headers.get(b"content-length")
        chunked = False
        if answer.body is None:
            if length is not None and answer.status != 204:
                headers.append((b"Content-Length", length))
        elif isinstance(answer.body, int) and not rewritten:
            headers.append((b"Content-Length", str(answer.body).encode()))
        elif version == "1.1":
            headers.append((b"Transfer-Encoding", b"chunked"))
            chunked = True
        else:
            self.ends_with_close = True
        headers.append((b"Connection", b"keep-alive" if keep and not self.ends_with_close else b"close"))
        return chunked
