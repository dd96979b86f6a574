"""What the providers' servers have in common: real HTTP, a script, and trouble on demand."""

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
"""From a request, as JSON, to what the model says."""
CHARACTERS = 4
"""A token, roughly."""
PICTURE_TOKENS = 1600
"""What the largest picture counts that a provider does not scale down."""
REPLY_TOKENS = 7
PICTURE = re.compile(r"[A-Za-z0-9+/=]{4000,}")


def estimate_tokens(written: str) -> int:
    """Estimate the tokens of a part of a request, written as JSON: its characters, and a fixed number for a picture."""
    text, pictures = PICTURE.subn("", written)
    return len(text) // CHARACTERS + 1 + pictures * PICTURE_TOKENS


class Refused(Exception):  # noqa: N818 - it becomes an answer
    """A request that the provider would answer with 400: says why, and which parameter it is."""

    def __init__(self, why: str, param: str = "") -> None:
        super().__init__(why)
        self.param = param


@dataclass(frozen=True)
class Trouble:
    """What goes wrong with one request, instead of its answer."""

    status: int = 0
    """An error's; 0: none."""
    why: str = "trouble"
    retry_after: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    param: str = ""
    """The parameter an error names, where the provider's do."""
    location: str = ""
    """Where a redirection leads."""
    cut: int = -1
    """The stream breaks off after so many events; -1: it does not."""
    stall: float = 0.0
    """Seconds in which nothing comes after so many events as `cut` says (or before the first)."""
    event: Body | None = None
    """Told instead of the next event, after so many as `cut` says: an error amid a stream."""
    name: str = "error"
    """Of that event."""


@dataclass
class Provider:
    """A server that runs: what it saw, and what it shall do."""

    script: Script
    path: str
    """Below the address: where `base_url` ends."""
    requests: list[Body] = field(default_factory=list)
    """Every request that was taken, as JSON; also those that met trouble."""
    refusals: list[str] = field(default_factory=list)
    """Why requests were answered with 400."""
    headers: list[dict[str, str]] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    """Of each body."""
    trouble: deque[Trouble] = field(default_factory=deque)
    """For the next requests, one each."""
    sealed: dict[str, Body] = field(default_factory=dict)
    """What was said that must come back unchanged, by what names it."""
    port: int = 0
    said: int = 0
    counts_output: bool = False
    """Whether the tokens of a reply are worked out from what it says; otherwise there are always `REPLY_TOKENS`."""
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
        """Check a request and give the stream's events: each one's name, if it has one, and data."""
        raise NotImplementedError

    def begin(self, path: str, headers: dict[str, str], body: Body) -> str | None:
        """Begin something that is asked for later; None: nothing of that kind is asked for."""
        return None

    def find(self, path: str) -> str:
        """Return what was begun before; empty: there is none."""
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
        """Answer a question about something that was begun before."""
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
        """Say nothing."""


class Threads(ThreadingHTTPServer):
    """Takes each connection in a thread, and does not mind one that ends."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that hangs up is part of the tests."""


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
