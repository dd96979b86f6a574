"""HTTP/1.1 to one server: a connection per request, streamed bodies, errors as the library's classes."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import anyio
import h11
from anyio.abc import ByteStream

from hotdesk.dataclass import dataclass
from hotdesk.errors import (
    BriefError,
    DeskError,
    DeskGone,
    DoorError,
    FileError,
    HostError,
    HotdeskError,
    ImageError,
    KeeperError,
    LinkError,
    ModelError,
    WallError,
)

ERRORS: dict[str, type[HotdeskError]] = {
    each.code: each
    for each in (
        BriefError, DeskError, DeskGone, DoorError, HostError, ImageError, KeeperError, LinkError, ModelError,
        WallError,
    )
}  # fmt: skip
PREFIX = "/api/v1"
PIECE = 1 << 16
MAX_BODY_BYTES = 1 << 30
"""Maximum bytes of a response that is read whole."""
RESPONSE_TIMEOUT_S = 3700.0
"""Seconds to wait for a response's head: a program in a desk may run for an hour."""


class ServerRefusedError(BriefError):
    """A server refused a request; `code` and `status` say why."""

    def __init__(self, message: str, code: str, status: int) -> None:
        super().__init__(message)
        self.code, self.status = code, status


@dataclass(slots=True)
class HttpResponse:
    """A server's response: its head, and a body that arrives in pieces."""

    status: int
    headers: dict[str, str]
    connection: h11.Connection = field(repr=False)
    stream: ByteStream = field(repr=False)

    async def iterate_pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        while True:
            event = await _read_next_event(self.connection, self.stream)
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return

    async def read_body(self) -> bytes:
        """Return the whole body."""
        found = bytearray()
        async for piece in self.iterate_pieces():
            found += piece
            if len(found) > MAX_BODY_BYTES:
                raise HostError(
                    f"the response has more than {MAX_BODY_BYTES >> 30} GiB, the limit of this client; download a "
                    "larger file with another HTTP client, such as curl"
                )
        return bytes(found)


class HttpClient:
    """HTTP requests to one server."""

    def __init__(
        self,
        url: str,
        key: str = "",
        trust: ssl.SSLContext | None = None,
        response_timeout: float = RESPONSE_TIMEOUT_S,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BriefError(f"{url[:200]!r} is not a server address; write it like http://127.0.0.1:3700")
        self.host = parts.hostname
        self.secure = parts.scheme == "https"
        self.port = parts.port or (443 if self.secure else 80)
        self.name = parts.netloc.rpartition("@")[2]
        self.key, self.trust = key, trust
        self.response_timeout = response_timeout

    async def dial(self) -> ByteStream:
        try:
            if self.secure:
                trust = self.trust or ssl.create_default_context()
                return await anyio.connect_tcp(self.host, self.port, ssl_context=trust, tls_standard_compatible=False)
            return await anyio.connect_tcp(self.host, self.port)
        except ssl.SSLError as e:
            raise HostError(
                f"no secure connection to the server at {self.name}: {e}; check its certificate, and pass the "
                "authority that signed it as `trust`"
            ) from e
        except OSError as e:
            raise HostError(
                f"the server at {self.name} does not respond: {e}; check that `hotdesk serve` is running there"
            ) from e

    @asynccontextmanager
    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        media: str = "application/octet-stream",
    ) -> AsyncIterator[HttpResponse]:
        """Send one request; raise the library's error for an error response."""
        parameters = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        target = PREFIX + quote(path, safe="/@:") + (f"?{urlencode(parameters)}" if parameters else "")
        sent = {"Host": self.name, "Authorization": f"Bearer {self.key}", "Content-Length": str(len(body)),
                "Connection": "close", **({"Content-Type": media} if body else {}), **(headers or {})}  # fmt: skip
        connection = h11.Connection(h11.CLIENT)
        async with await self.dial() as stream:
            try:
                await stream.send(
                    connection.send(h11.Request(method=method, target=target, headers=list(sent.items())))
                )
                for begin in range(0, len(body), PIECE):
                    await stream.send(connection.send(h11.Data(data=body[begin : begin + PIECE])))
                await stream.send(connection.send(h11.EndOfMessage()))
            except anyio.BrokenResourceError as e:
                raise HostError(
                    f"the server at {self.name} closed the connection before it had read the request; try again"
                ) from e
            except h11.LocalProtocolError as e:
                raise HostError(f"the request to the server at {self.name} is not valid HTTP: {e}") from e
            head = await self.read_head(connection, stream)
            found = {name.decode().lower(): value.decode("latin-1") for name, value in head.headers}
            answer = HttpResponse(head.status_code, found, connection, stream)
            if answer.status >= 400:
                raise make_error(answer.status, await answer.read_body())
            yield answer

    async def read_head(self, connection: h11.Connection, stream: ByteStream) -> h11.Response:
        try:
            with anyio.fail_after(self.response_timeout):
                head = await _read_next_event(connection, stream)
        except TimeoutError as e:
            raise HostError(
                f"the server at {self.name} did not respond in {self.response_timeout:g} seconds; check whether the "
                "request took effect before you repeat it"
            ) from e
        assert isinstance(head, h11.Response)
        return head

    async def call(
        self,
        method: str,
        path: str,
        value: object = None,
        *,
        query: Mapping[str, object] | None = None,
        again: str = "",
    ) -> Any:
        """Send a JSON request; return the parsed response. `again` is its idempotency key; empty: it has none."""
        body = b"" if value is None else json.dumps(value).encode()
        headers = {"Idempotency-Key": again} if again else {}
        async with self.ask(method, path, body, query=query, headers=headers, media="application/json") as answer:
            found = await answer.read_body()
        try:
            return json.loads(found) if found else None
        except ValueError as e:
            raise HostError(
                f"the server at {self.name} sent a response that is not JSON; check that "
                "`hotdesk serve` is running there"
            ) from e

    async def list_all(self, path: str, **query: object) -> list[dict[str, Any]]:
        """Return all items of a paginated list."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = await self.call("GET", path, query={**query, "limit": 1000, "after": after})
            found += page["items"]
            if (more := page["next"]) is None:
                return found
            after = more


async def _read_next_event(connection: h11.Connection, stream: ByteStream) -> object:
    """Return the next event of a response; raise `HostError` if the connection ends."""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as e:
            raise HostError(
                f"the server's response is incomplete or not HTTP: {e}; check the server's address, and try again"
            ) from e
        if event is h11.NEED_DATA:
            try:
                connection.receive_data(await stream.receive(PIECE))
            except anyio.EndOfStream:
                connection.receive_data(b"")
            except anyio.BrokenResourceError as e:
                raise HostError("the server closed the connection before it responded; try again") from e
        elif isinstance(event, h11.ConnectionClosed):
            raise HostError("the server closed the connection before it responded; try again")
        elif not isinstance(event, h11.InformationalResponse):
            return event


def make_error(status: int, body: bytes) -> HotdeskError:
    try:
        reply = json.loads(body)
        code, message = str(reply["code"]), str(reply["message"])
    except (ValueError, KeyError, TypeError):
        return HostError(f"the server responded with status {status} without an error message")
    if code.startswith("desk.file."):
        return FileError(message, code.removeprefix("desk.file."))
    kind = ERRORS.get(code)
    return kind(message) if kind is not None else ServerRefusedError(message, code, status)
