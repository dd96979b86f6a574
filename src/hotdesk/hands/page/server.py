"""The page that shows a desk to a person, served on this machine's loopback: its files, its streams, its wheel.

GET  /enter/CODE    once: sets the cookie, and leads to the page
GET  /PLACE/        the page, and its files below; PLACE is the session's own
GET  /PLACE/state   who looks and who drives
POST /PLACE/wheel   take the wheel, keep it, hand it back
POST /PLACE/stream  a handle to begin one stream with
GET  /PLACE/screen  upgrade to a WebSocket that carries RFB; the handle is one of its subprotocols
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Protocol

import anyio
import h11

from hotdesk.errors import BriefError, DeskGone, HotdeskError, printable
from hotdesk.hands.page.login import PageLogin, PageSession
from hotdesk.hands.page.websocket import carry
from hotdesk.linux.sockets import accept, receive, send

COOKIE = "desk"
HANDLE = "desk."
"""What the subprotocol begins with that carries a handle."""
FIRST = b"HANDLE"
"""What stands in the page for the handle of its first stream."""
BODY_LIMIT = 4096
MOST_CALLS = 256
PAUSE = 0.1
STRANGER_SECONDS = 5.0
"""Seconds for a request of who has not entered: anybody on this machine can call."""
IDLE_SECONDS = 30.0
ACTS = frozenset({"take", "keep", "hand back", "type"})


class Owner(Protocol):
    """The owner of the desk that is shown."""

    async def screen(self, viewer: str, control: bool) -> socket.socket:
        """Give a stream of the desk's screen, for a viewer of this name."""
        ...

    async def wheel(self) -> Mapping[str, object]:
        """Say who looks and who drives."""
        ...

    async def turn(self, act: str, viewer: str, secret: str) -> Mapping[str, object]:
        """Take the wheel, keep it, hand it back, or have a secret's placeholder typed."""
        ...


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page."""

    media: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PageResponse:
    """What is answered to a request."""

    status: int
    body: bytes = b""
    media: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request, as far as anybody looks at it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def key(self) -> str:
        """Give what its cookie says."""
        with suppress(CookieError):
            if (found := SimpleCookie(self.headers.get("cookie", "")).get(COOKIE)) is not None:
                return found.value
        return ""

    @property
    def handle(self) -> str:
        """Give the handle among its subprotocols."""
        asked = self.headers.get("sec-websocket-protocol", "").split(",")
        return next((each.strip().removeprefix(HANDLE) for each in asked if each.strip().startswith(HANDLE)), "")


FORBIDDEN = PageResponse(403, b"This page is shown once, to whoever began it. Run `hotdesk watch` again.")
NOTHING = PageResponse(404, b"There is no such thing here.")


class Web:
    """Shows one desk."""

    def __init__(
        self, desk: str, owner: Owner, entry: PageLogin, files: Mapping[str, PageFile], port: int, control: bool
    ) -> None:
        self.desk = desk
        self.owner = owner
        self.entry = entry
        self.files = files
        self.host = f"127.0.0.1:{port}"
        self.control = control
        """Whether whoever looks may take the wheel."""
        self.free = anyio.Semaphore(MOST_CALLS)
        always = {
            "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
            f"connect-src 'self' ws://{self.host}; img-src 'self' data: blob:; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "cache-control": "no-store",
        }
        self.always = tuple(always.items())

    async def serve(self, listener: socket.socket) -> None:
        """Take calls until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                await self.free.acquire()
                try:
                    tasks.start_soon(self.talk, await accept(listener))
                except OSError:
                    self.free.release()
                    await anyio.sleep(PAUSE)  # too many files are open: the call waits in the queue

    async def talk(self, sock: socket.socket) -> None:
        """Answer the calls of one connection; a browser that breaks off harms nobody."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await self.converse(sock)
        except* Exception:  # noqa: BLE001, S110 - a rim: whatever one browser does must not end the page of others
            pass
        finally:
            self.free.release()
            anyio.notify_closing(sock)
            sock.close()

    async def converse(self, sock: socket.socket) -> None:
        """Answer request after request, until one becomes a stream or the browser leaves."""
        line = h11.Connection(h11.SERVER)
        session = None
        while True:
            with anyio.fail_after(STRANGER_SECONDS if session is None else IDLE_SECONDS):
                call = await read_call(line, sock)
                if call is None:
                    return
                if call.headers.get("host") != self.host:
                    await refuse(sock, FORBIDDEN)  # another name may lead here: a page of its own asks
                    return
                session = self.session(call)
                if session is not None and call.headers.get("upgrade", "").lower() == "websocket":
                    break
                await write_answer(line, sock, await self.answer(call, session), self.always)
            if line.our_state is not h11.DONE or line.their_state is not h11.DONE:
                return
            line.start_next_cycle()
        await self.stream(sock, call, session)

    # -- rules ------------------------------------------------------------------------------------------------

    def session(self, call: PageRequest) -> PageSession | None:
        """Give whose call this is; None: nobody's who entered, or one that another site's page makes."""
        origin = call.headers.get("origin")
        ours = f"http://{self.host}"
        needs_origin = call.method != "GET" or "upgrade" in call.headers
        if origin != ours and (origin is not None or needs_origin):
            return None
        return self.entry.find(call.path.removeprefix("/").partition("/")[0], call.key)

    async def answer(self, call: PageRequest, session: PageSession | None) -> PageResponse:
        """Answer one request."""
        if session is None:
            return self.enter(call)
        name = call.path.removeprefix(f"/{session.place}/")
        try:
            match call.method, name:
                case "GET", "state":
                    return self.tell(session, await self.owner.wheel())
                case "POST", "stream":
                    return as_json({"handle": self.entry.issue(session)})
                case "POST", "wheel":
                    return await self.turn(call, session)
        except HotdeskError as e:
            return as_json({"error": printable(str(e)), "gone": isinstance(e, DeskGone)}, 409)
        return self.show(name, session) if call.method == "GET" else NOTHING

    def show(self, name: str, session: PageSession) -> PageResponse:
        """Give a file of the page; the page itself brings the handle of its first stream, which saves it a question."""
        file = self.files.get(name)
        if file is None:
            return NOTHING
        data = file.data if name else file.data.replace(FIRST, self.entry.issue(session).encode())
        return PageResponse(200, data, file.media)

    def enter(self, call: PageRequest) -> PageResponse:
        """Let a browser in that brings a code."""
        code = call.path.removeprefix("/enter/")
        if call.method != "GET" or code == call.path or (session := self.entry.enter(code)) is None:
            return FORBIDDEN
        place = f"/{session.place}/"
        cookie = f"{COOKIE}={session.key}; Path={place}; HttpOnly; SameSite=Strict"
        return PageResponse(303, headers=(("set-cookie", cookie), ("location", place)))

    async def turn(self, call: PageRequest, session: PageSession) -> PageResponse:
        """Do something with the wheel."""
        act, secret = parse_act(call.body)
        if act not in ACTS:
            return PageResponse(400, b"The wheel is taken, kept or handed back.")
        if not self.control:
            raise BriefError("this page only shows the desk; `hotdesk watch --control` lets you drive it")
        return self.tell(session, await self.owner.turn(act, session.viewer, secret))

    def tell(self, session: PageSession, told: Mapping[str, object]) -> PageResponse:
        """Say what the page shows beside the picture."""
        driver = str(told.get("driver", ""))
        mine = bool(driver) and session.viewer.startswith(driver)
        return as_json({**told, "desk": self.desk, "control": self.control, "mine": mine})

    async def stream(self, sock: socket.socket, call: PageRequest, session: PageSession) -> None:
        """Carry the screen to a browser that has a handle."""
        if call.path != f"/{session.place}/screen" or not self.entry.redeem(call.handle, session):
            await refuse(sock, FORBIDDEN)
            return
        name = secrets.token_hex(16)
        try:
            screen = await self.owner.screen(name, self.control)
        except HotdeskError as e:
            await refuse(sock, PageResponse(503, printable(str(e)).encode()))
            return
        with screen:
            session.viewer = name
            await carry(sock, screen, call.path, call.headers)


def parse_act(body: bytes) -> tuple[str, str]:
    """Read what shall be done with the wheel, and with which secret; empty when it makes no sense."""
    with suppress(ValueError, RecursionError):
        match json.loads(body):
            case {"act": str(act), **rest} if rest.keys() <= {"secret"}:
                return act, str(rest.get("secret", ""))
    return "", ""


async def read_call(line: h11.Connection, sock: socket.socket) -> PageRequest | None:
    """Read one request, bounded; None when the browser hung up."""
    request: h11.Request | None = None
    body = bytearray()
    while True:
        event = line.next_event()
        if event is h11.NEED_DATA:
            line.receive_data(await receive(sock))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > BODY_LIMIT:
                raise h11.RemoteProtocolError("more than anybody has to say here")
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            break
        else:
            return None
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    return PageRequest(request.method.decode("latin-1"), request.target.decode("latin-1"), headers, bytes(body))


async def write_answer(
    line: h11.Connection, sock: socket.socket, answer: PageResponse, always: tuple[tuple[str, str], ...]
) -> None:
    """Write one answer."""
    own = (("content-type", answer.media), ("content-length", str(len(answer.body))))
    head = line.send(h11.Response(status_code=answer.status, headers=[*always, *own, *answer.headers]))
    body = line.send(h11.Data(data=answer.body))
    await send(sock, (head or b"") + (body or b"") + (line.send(h11.EndOfMessage()) or b""))


async def refuse(sock: socket.socket, answer: PageResponse) -> None:
    """Answer a call that would have become a stream."""
    head = f"HTTP/1.1 {answer.status} No\r\nContent-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
    await send(sock, head.encode() + answer.body)


def as_json(value: Mapping[str, object], status: int = 200) -> PageResponse:
    """Answer with a value."""
    return PageResponse(status, json.dumps(value).encode(), "application/json")
