"""The common part of the providers' servers: real HTTP, a script, and faults on demand."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]
Script: TypeAlias = Callable[[Body], Sequence[Body]]
"""Returns the model's reply to a request; both are JSON."""
CHARACTERS = 4
"""Characters of a token, roughly."""
PICTURE_TOKENS = 1600
"""Tokens of the largest picture that a provider does not scale down."""
REPLY_TOKENS = 7
PICTURE = re.compile(r"[A-Za-z0-9+/=]{4000,}")


def estimate_tokens(written: str) -> int:
    """Estimate the tokens of a part of a request, written as JSON, by its characters; a picture has a fixed number."""
    text, pictures = PICTURE.subn("", written)
    return len(text) // CHARACTERS + 1 + pictures * PICTURE_TOKENS


class Refused(Exception):  # noqa: N818 - it becomes an answer
    """A request that the provider would answer with 400: the reason, and the parameter at fault."""

    def __init__(self, why: str, param: str = "") -> None:
        super().__init__(why)
        self.param = param


@dataclass(frozen=True)
class Trouble:
    """A fault to inject in the answer to one request."""

    status: int = 0
    """Status of an error response, or 0 for none."""
    why: str = "trouble"
    retry_after: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    param: str = ""
    """The parameter an error names, for providers that name one."""
    location: str = ""
    """Target of a redirect."""
    cut: int = -1
    """Number of events after which the stream is cut, or -1 to send all."""
    stall: float = 0.0
    """Seconds of silence after `cut` events (or before the first)."""
    event: Body | None = None
    """An event to send after `cut` events instead of the next one: an error in the middle of a stream."""
    name: str = "error"
    """Name of that event."""


@dataclass
class Provider:
    """A running server: the requests it got, and the faults it will inject."""

    script: Script
    path: str
    """Path of `base_url`."""
    requests: list[Body] = field(default_factory=list)
    """Every accepted request as JSON, including those that met a fault."""
    refusals: list[str] = field(default_factory=list)
    """Why requests were answered with 400."""
    headers: list[dict[str, str]] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    """Size of each request body."""
    trouble: deque[Trouble] = field(default_factory=deque)
    """Faults of the next requests, one each."""
    sealed: dict[str, Body] = field(default_factory=dict)
    """Parts of replies that must come back unchanged, by id."""
    port: int = 0
    said: int = 0
    counts_output: bool = False
    """Whether a reply's token count is estimated from its content; otherwise it is always `REPLY_TOKENS`."""
    closing: threading.Event = field(default_factory=threading.Event)

    def count_output(self, reply: list[Body]) -> int:
        return estimate_tokens(json.dumps(reply)) if self.counts_output else REPLY_TOKENS

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    def number(self) -> int:
        self.said += 1
        return self.said

    def seal(self, *parts: str) -> str:
        return hashlib.sha256("\0".join(("sealed", *parts)).encode()).hexdigest()

    def answer(self, path: str, headers: dict[str, str], body: Body) -> list[tuple[str, Body | str]]:
        """Check a request and return the stream's events: each with its name, if it has one, and data."""
        raise NotImplementedError

    def begin(self, path: str, headers: dict[str, str], body: Body) -> str | None:
        """Start something that is polled later; None if the path starts nothing of that kind."""
        return None

    def find(self, path: str) -> str:
        """Return the state of something started before; empty if there is none."""
        return ""

    def error(self, status: int, why: str, param: str = "") -> Body:
        raise NotImplementedError


class Talk(BaseHTTPRequestHandler):
    """Speaks HTTP for a provider."""

    timeout = 60
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    provider: Provider

    def do_GET(self) -> None:
        """Answer a poll of something that was started before."""
        try:
            data = self.provider.find(self.path).encode()
        except ConnectionError:
            self.close_connection = True
            return
        self.send_response(200 if data else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        taken = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}"
        provider = self.provider
        trouble = provider.trouble.popleft() if provider.trouble else Trouble()
        try:
            body = json.loads(taken)
            provider.requests.append(body)
            provider.bytes.append(len(taken))
            headers = {name.lower(): value for name, value in self.headers.items()}
            provider.headers.append(headers)
            if trouble.status:
                self.refuse(trouble.status, trouble.why, trouble)
                return
            if (begun := provider.begin(self.path, headers, body)) is not None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(begun.encode())))
                self.end_headers()
                self.wfile.write(begun.encode())
                return
            events = provider.answer(self.path, headers, body)
        except Refused as e:
            provider.refusals.append(str(e))
            self.refuse(400, str(e), Trouble(param=e.param))
            return
        self.stream(events, trouble)

    def refuse(self, status: int, why: str, trouble: Trouble) -> None:
        told = json.dumps(self.provider.error(status, why, trouble.param)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told)))
        headers = (("Retry-After", trouble.retry_after), ("Location", trouble.location), *trouble.headers)
        for name, value in headers:
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(told)

    def stream(self, events: list[tuple[str, Body | str]], trouble: Trouble) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, (name, data) in enumerate(events):
            if number == trouble.cut or (trouble.stall and trouble.cut < 0):
                self.provider.closing.wait(trouble.stall)
                if trouble.event is not None:
                    self.write(trouble.name, trouble.event)
                if not trouble.stall or self.provider.closing.is_set():
                    self.close_connection = True
                    return
            self.write(name, data)
        self.wfile.write(b"0\r\n\r\n")

    def write(self, name: str, data: Body | str) -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        event = (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(event.encode()), event.encode()))

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class Threads(ThreadingHTTPServer):
    """Serves each connection in a thread, and ignores errors of connections that end."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error: a client that disconnects is part of the tests."""


@contextmanager
def serving(provider: Any) -> Iterator[Any]:
    server = Threads(("127.0.0.1", 0), type("Talk", (Talk,), {"provider": provider}))
    provider.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def only(value: Body, where: str, needed: str, optional: str = "") -> None:
    if not isinstance(value, dict):
        raise Refused(f"{where}: is no object")
    for name in needed.split():
        if name not in value:
            raise Refused(f"{where}.{name}: field required")
    for name in value:
        if name not in (needed + " " + optional).split():
            raise Refused(f"{where}.{name}: extra inputs are not permitted")


def picture(url: str, where: str) -> None:
    if not url.startswith(("data:image/png;base64,", "data:image/jpeg;base64,", "data:image/webp;base64,")):
        raise Refused(f"{where}: is no picture")
