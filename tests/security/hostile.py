"""Upstream servers that send, byte by byte over TLS, answers no honest server would; and honest streams beside them."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

MIB = 1 << 20
FLOOD = 64 * MIB
PIECE = bytes(range(256)) * 256
PAUSE = 0.1
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
EVIL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
PACKED = gzip.compress(b"packed once, and by nobody else" * 40)
WEB_SOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@dataclass(frozen=True, slots=True)
class Script:
    """An answer, byte by byte."""

    data: bytes
    """Sent at once."""
    late: bytes = b""
    """Sent a moment later, unrequested."""
    stays: bool = True
    """Whether the connection stays open."""


SCRIPTS = {
    "length-and-chunked": Script(
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"
    ),
    "two-lengths": Script(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 9\r\n\r\nevil"),
    "length-that-is-none": Script(b"HTTP/1.1 200 OK\r\nContent-Length: +4\r\n\r\nevil"),
    "strange-coding": Script(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"),
    "chunk-with-sign": Script(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+4\r\nevil\r\n0\r\n\r\n"),
    "folded": Script(b"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 4\r\n\r\nevil"),
    "bare-line-feeds": Script(b"HTTP/1.1 200 OK\nContent-Length: 4\n\nevil"),
    "a-control-character": Script(b"HTTP/1.1 200 OK\r\nX-A: \0\r\nContent-Length: 4\r\n\r\nevil"),
    "no-http": Script(b"SSH-2.0-evil\r\n\r\n"),
    "endless-head": Script(b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 70_000 + b"\r\nContent-Length: 4\r\n\r\nevil"),
    "many-headers": Script(b"HTTP/1.1 200 OK\r\n" + b"X-A: a\r\n" * 200 + b"Content-Length: 4\r\n\r\nevil"),
    "flood-of-interim-answers": Script(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20 + EVIL),
    "protocol-changed-unasked": Script(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nevil"
    ),
    "no-answer": Script(b"", stays=False),
    "half-a-head": Script(b"HTTP/1.1 200 OK\r\nContent-Le", stays=False),
    "short-body": Script(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nevil", stays=False),
    "short-chunks": Script(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n", stays=False),
    "more-than-said": Script(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + EVIL),
    "more-after-chunks": Script(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + EVIL),
    "more-later": Script(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", late=EVIL),
    "204-with-a-body": Script(b"HTTP/1.1 204 No Content\r\n\r\n" + EVIL),
    "304-with-a-body": Script(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 41\r\n\r\n" + EVIL),
    "HEAD-with-a-body": Script(b"HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n" + EVIL),
    "good": Script(GOOD),
    "packed": Script(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nETag: x\r\nContent-Length: %d\r\n\r\n" % len(PACKED) + PACKED
    ),
}


@dataclass
class Hostile:
    """A running hostile server and what it received."""

    listener: socket.socket
    context: ssl.SSLContext
    heads: list[bytes] = field(default_factory=list)
    """The head of every request."""
    acknowledged: threading.Event = field(default_factory=threading.Event)
    open: list[socket.socket] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self) -> None:
        while True:
            try:
                sock = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.talk, args=(sock,), daemon=True).start()

    def talk(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), self.context.wrap_socket(sock, server_side=True) as line:
            self.open.append(line)
            line.settimeout(60)
            while head := read_head(line):
                self.heads.append(head)
                path = head.split(b" ")[1].decode().removeprefix("/").partition("/")[0]
                if not SPECIAL.get(path, scripted)(self, line, head):
                    return


Special: TypeAlias = Callable[[Hostile, socket.socket, bytes], bool]
"""Answers one request; returns whether another may follow."""


def read_head(line: socket.socket) -> bytes:
    """Read up to the empty line byte by byte, so that the body stays unread."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = line.recv(1)
        if not piece:
            return b""
        head += piece
    return head


def header(head: bytes, name: bytes) -> bytes:
    lines = [line.partition(b":") for line in head.split(b"\r\n")]
    return next((value.strip() for key, _, value in lines if key.lower() == name), b"")


def scripted(server: Hostile, line: socket.socket, head: bytes) -> bool:
    script = SCRIPTS[head.split(b" ")[1].decode().removeprefix("/").partition("/")[0]]
    line.sendall(script.data)
    if script.late:
        time.sleep(PAUSE)
        line.sendall(script.late)
    return script.stays


def take(server: Hostile, line: socket.socket, head: bytes) -> bool:
    left, found = int(header(head, b"content-length")), hashlib.sha256()
    while left and (piece := line.recv(min(left, MIB))):
        found.update(piece)
        left -= len(piece)
    told = found.hexdigest().encode()
    line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(told), told))
    return True


def flood(server: Hostile, line: socket.socket, head: bytes) -> bool:
    line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % FLOOD)
    for _ in range(FLOOD // len(PIECE)):
        line.sendall(PIECE)
    return True


def events(server: Hostile, line: socket.socket, head: bytes) -> bool:
    server.acknowledged.clear()
    line.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    line.sendall(b"d\r\ndata: first\n\n\r\n")
    if server.acknowledged.wait(20):
        line.sendall(b"e\r\ndata: second\n\n\r\n0\r\n\r\n")
    return False


def acknowledge(server: Hostile, line: socket.socket, head: bytes) -> bool:
    server.acknowledged.set()
    line.sendall(GOOD)
    return True


def web_socket(server: Hostile, line: socket.socket, head: bytes) -> bool:
    accepted = base64.b64encode(hashlib.sha1(header(head, b"sec-websocket-key") + WEB_SOCKET).digest())  # noqa: S324
    line.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Accept: " + accepted + b"\r\n\r\n\x81\x05hello"
    )
    while frame := line.recv(1024):
        mask, masked = frame[2:6], frame[6:]
        plain = bytes(byte ^ mask[at % 4] for at, byte in enumerate(masked))
        line.sendall(bytes([0x81, len(plain)]) + plain)
    return False


def unanswered(server: Hostile, line: socket.socket, head: bytes) -> bool:
    first = sum(b" /once " in each for each in server.heads) == 1
    if first:
        line.sendall(GOOD)
    return first


SPECIAL: dict[str, Special] = {
    "take": take, "flood": flood, "events": events, "acknowledge": acknowledge, "socket": web_socket,
    "once": unanswered,
}  # fmt: skip


@contextlib.contextmanager
def hostile(chain: Path) -> Iterator[Hostile]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Hostile(listener, context)
        thread = threading.Thread(target=server.accept, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            for line in server.open:
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
