"""A WebSocket into a desk, and the one HTTP request that finds it. The peer is hostile.

Data is read only while a caller waits for it, so it does not accumulate here: the rest stays in the desk.
"""

from __future__ import annotations

import json
import re
import socket
from collections import deque

import anyio
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

from hotdesk.hands.reader import BROWSER_PORT, PeerError, ProtocolError
from hotdesk.linux import sockets

MAX_MESSAGE_BYTES = 32 << 20
MAX_HEAD_BYTES = 16 << 10
MAX_BODY_BYTES = 64 << 10
AUTHORITY = f"127.0.0.1:{BROWSER_PORT}"
PATH = re.compile(r"/devtools/browser/[0-9A-Za-z-]{1,64}")
CLOSED = "closed its connection to hotdesk (it may have crashed); try again"
LENGTH = re.compile(rb"(?im)^content-length:[ \t]*([0-9]{1,8})[ \t]*\r?$")
"""The browser writes this field without a space after the colon."""


class WebSocket:
    """One connection that carries text messages, each at most `MAX_MESSAGE_BYTES`."""

    def __init__(self, sock: socket.socket, path: str) -> None:
        self.sock = sock
        self.protocol = ClientProtocol(parse_uri(f"ws://{AUTHORITY}{path}"), max_size=MAX_MESSAGE_BYTES)
        self.waiting: deque[bytes] = deque()
        """Complete messages that arrived together with the one before; at most one read's worth."""
        self.part = bytearray()

    async def shake(self) -> None:
        self.protocol.send_request(self.protocol.connect())
        await self.flush()
        while self.protocol.handshake_exc is None:
            if any(isinstance(event, Response) for event in await self.read_more()):
                break
        if self.protocol.handshake_exc is not None:
            raise ProtocolError(
                f"the WebSocket handshake failed: {self.protocol.handshake_exc}"
            ) from self.protocol.handshake_exc

    async def send(self, message: bytes) -> None:
        self.protocol.send_text(message)
        await self.flush()

    async def receive(self) -> bytes:
        while not self.waiting:
            for event in await self.read_more():
                assert isinstance(event, Frame)
                self.take(event)
        return self.waiting.popleft()

    def take(self, frame: Frame) -> None:
        if frame.opcode is Opcode.BINARY:
            raise ProtocolError("the browser sent a binary message instead of text")
        if frame.opcode in (Opcode.TEXT, Opcode.CONT):
            self.part += frame.data
            if frame.fin:
                self.waiting.append(bytes(self.part))
                self.part = bytearray()

    async def read_more(self) -> list[object]:
        """Read once; return the events in the data."""
        data = await receive_some(self.sock)
        if not data:
            raise PeerError(CLOSED)
        self.protocol.receive_data(data)
        events: list[object] = list(self.protocol.events_received())
        if self.protocol.parser_exc is not None:
            raise ProtocolError(f"malformed WebSocket data: {self.protocol.parser_exc}") from self.protocol.parser_exc
        await self.flush()
        if any(isinstance(event, Frame) and event.opcode is Opcode.CLOSE for event in events):
            raise PeerError(CLOSED)
        return events

    async def flush(self) -> None:
        """Send the protocol's pending data; wait while the peer does not read."""
        try:
            for data in self.protocol.data_to_send():
                await _send_all(self.sock, data)
        except BaseException:  # nothing can follow a partly sent message
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        return self.sock.fileno() >= 0

    def close(self) -> None:
        self.sock.close()


async def find_path(sock: socket.socket) -> str:
    await _send_all(sock, f"GET /json/version HTTP/1.1\r\nHost: {AUTHORITY}\r\n\r\n".encode())
    body = await read_answer(sock)
    try:
        version = json.loads(body)
        address = version["webSocketDebuggerUrl"]
        path = address.removeprefix(f"ws://{AUTHORITY}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise ProtocolError(
            "the browser gave no address for remote control (DevTools); try again, or open another desk"
        ) from e
    if not PATH.fullmatch(path):
        raise ProtocolError(
            "the browser gave an invalid address for remote control (DevTools); try again, or open another desk"
        )
    return str(path)


async def read_answer(sock: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        if len(head) > MAX_HEAD_BYTES:
            raise ProtocolError(f"the head of the browser's response has more than {MAX_HEAD_BYTES} bytes")
        head += await _receive_more(sock)
    head, _, body = head.partition(b"\r\n\r\n")
    if not re.match(rb"HTTP/1\.[01] 200 ", head):
        raise ProtocolError("the browser did not respond with status 200")
    lengths = LENGTH.findall(head)
    if len(lengths) != 1 or int(lengths[0]) > MAX_BODY_BYTES:
        raise ProtocolError(f"the browser's response has no length, or more than {MAX_BODY_BYTES} bytes")
    while len(body) < int(lengths[0]):
        body += await _receive_more(sock)
    return body[: int(lengths[0])]


async def _receive_more(sock: socket.socket) -> bytes:
    """Read once; raise `ProtocolError` at the end of the connection."""
    if not (data := await receive_some(sock)):
        raise PeerError(CLOSED)
    return data


async def receive_some(sock: socket.socket) -> bytes:
    """Wait for data and read it; return nothing at the end or after an error."""
    await anyio.lowlevel.checkpoint()
    try:
        return await sockets.receive(sock)
    except OSError:
        return b""


async def _send_all(sock: socket.socket, data: bytes) -> None:
    try:
        await sockets.send(sock, data)
    except OSError as e:
        raise PeerError(CLOSED) from e
