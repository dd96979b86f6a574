"""The part of HTTP/1.1 that the interpreter's server needs: requests with a body, responses in one piece or by line."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

MAX_HEAD_BYTES = 64 << 10
"""Maximum bytes of a request's head."""
MAX_BODY_BYTES = 64 << 20
"""Maximum bytes of a request's body."""


class HttpError(Exception):
    """A request that is answered with a status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class InterpreterRequest:
    method: str
    path: str
    body: bytes
    lasting: bool
    """Whether the connection is kept open for another request."""

    def parse_body(self) -> dict[str, object]:
        """Return the body as a JSON object; an empty body is an empty object."""
        try:
            found = json.loads(self.body or b"{}")
        except (ValueError, RecursionError):
            raise HttpError(400, "the body is not JSON") from None
        if not isinstance(found, dict):
            raise HttpError(400, "the body must be a JSON object")
        return found


@dataclass(frozen=True, slots=True)
class InterpreterResponse:
    """A response: a text or JSON value in one piece, or a stream of lines."""

    value: object = None
    status: int = 200
    lines: AsyncIterator[bytes] | None = None

    def encode_body(self) -> tuple[str, bytes]:
        if isinstance(self.value, str):
            return "text/plain; charset=utf-8", self.value.encode("utf-8", "replace")
        return "application/json", b"" if self.value is None else json.dumps(self.value).encode()


Respond = Callable[[InterpreterRequest], Awaitable[InterpreterResponse]]


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, respond: Respond) -> None:
    """Answer the requests of one connection in order."""
    try:
        lasting = True
        while lasting:
            try:
                request = await read_request(reader)
                if request is None:
                    return
                lasting, answer = request.lasting, await respond(request)
            except HttpError as e:
                lasting, answer = False, InterpreterResponse(str(e), e.status)
            if answer.lines is not None:
                lasting = await stream(reader, writer, answer.lines) and lasting
            else:
                await give(writer, answer, lasting)
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def read_request(reader: asyncio.StreamReader) -> InterpreterRequest | None:
    """Read one request; return `None` at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raise HttpError(431, "the head of the request is too long") from None
    first, *rest = head.decode("latin-1").split("\r\n")[:-2]
    words = first.split(" ")
    if len(words) != 3:
        raise HttpError(400, "the request is not valid HTTP")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    if "chunked" in fields.get("transfer-encoding", "").lower():
        body = await read_chunks(reader)
    else:
        body = await reader.readexactly(parse_size(fields.get("content-length", "0"), 10))
    lasting = fields.get("connection", "").lower() != "close" and words[2] == "HTTP/1.1"
    return InterpreterRequest(words[0], words[1].partition("?")[0], body, lasting)


def parse_size(text: str, base: int) -> int:
    try:
        size = int(text, base)
    except ValueError:
        raise HttpError(400, "the body's length is not a number") from None
    if not 0 <= size <= MAX_BODY_BYTES:
        raise HttpError(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
    return size


async def read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    total = 0
    while size := parse_size((await reader.readline()).partition(b";")[0].decode("latin-1").strip(), 16):
        if (total := total + size) > MAX_BODY_BYTES:
            raise HttpError(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
        parts.append(await reader.readexactly(size))
        await reader.readline()
    while (await reader.readline()).strip():
        pass
    return b"".join(parts)


async def give(writer: asyncio.StreamWriter, answer: InterpreterResponse, lasting: bool) -> None:
    kind, body = answer.encode_body()
    lines = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        f"Connection: {'keep-alive' if lasting else 'close'}",
    )
    writer.write("\r\n".join((*lines, "\r\n")).encode() + body)
    await writer.drain()


async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lines: AsyncIterator[bytes]) -> bool:
    """Send a response line by line; return whether it was completed. A disconnect ends the lines' source."""
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nCache-Control: no-store\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    sending = asyncio.ensure_future(send(writer, lines))
    listening = asyncio.ensure_future(reader.read(1))  # the client is silent meanwhile, so this detects its end
    try:
        await asyncio.wait((sending, listening), return_when=asyncio.FIRST_COMPLETED)
        finished = sending.done()
        if finished:
            sending.result()
        return finished and not listening.done()
    finally:
        for task in (sending, listening):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await task


async def send(writer: asyncio.StreamWriter, lines: AsyncIterator[bytes]) -> None:
    try:
        async for line in lines:
            writer.write(b"%x\r\n%b\r\n" % (len(line), line))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    finally:
        await lines.aclose()  # type: ignore[attr-defined]
