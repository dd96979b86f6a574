"""The page that shows a desk to a person, served on this machine's loopback: files, streams, control.

GET  /enter/CODE    once: sets the cookie and redirects to the page
GET  /PLACE/        the page, and its files below; PLACE is the session's own
GET  /PLACE/state   who watches and who has control
POST /PLACE/wheel   take control, keep it, hand it back
POST /PLACE/stream  a handle to begin one stream with
GET  /PLACE/screen  upgrade to a WebSocket that carries RFB; the handle is one of its subprotocols
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Protocol

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.desk.owner.control_http import read_request
from hotdesk.errors import BriefError, DeskGone, HotdeskError, make_printable
from hotdesk.hands.page.login import PageLogin, PageSession
from hotdesk.hands.page.websocket import carry
from hotdesk.linux.sockets import accept, send

COOKIE = "desk"
_HANDLE = "desk."
"""Prefix of the subprotocol that carries a handle."""
FIRST = b"HANDLE"
"""Placeholder in the page for the handle of its first stream."""
BODY_LIMIT = 4096
_MAX_CONNECTIONS = 256
_ACCEPT_PAUSE_S = 0.1
_REQUEST_TIMEOUT_S = 5.0
"""Short, because every process on this machine can connect; an open page sends a request every two seconds."""
RESPONSE_TIMEOUT_S = 30.0
ACTS = frozenset({"take", "keep", "hand back", "type"})


class Owner(Protocol):
    """The owner of the desk that is shown."""

    async def open_screen(self, viewer: str, control: bool) -> socket.socket:
        """Return a stream of the desk's screen for a viewer with this name."""
        ...

    async def get_wheel(self) -> Mapping[str, object]:
        """Return who watches and who has control."""
        ...

    async def turn(self, act: str, viewer: str, secret: str) -> Mapping[str, object]:
        """Take, renew or hand back control, or type a secret's placeholder."""
        ...


@dataclass(frozen=True, slots=True)
class PageFile:
    media: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PageResponse:
    status: int
    body: bytes = b""
    media: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The parts of a request that are used."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def key(self) -> str:
        with suppress(CookieError):
            if (found := SimpleCookie(self.headers.get("cookie", "")).get(COOKIE)) is not None:
                return found.value
        return ""

    @property
    def handle(self) -> str:
        offered = self.headers.get("sec-websocket-protocol", "").split(",")
        return next((each.strip().removeprefix(_HANDLE) for each in offered if each.strip().startswith(_HANDLE)), "")


FORBIDDEN = PageResponse(403, b"This page works once, in the browser that opened it first. Run `hotdesk watch` again.")
NOTHING = PageResponse(404, b"Not found.")


class PageServer:
    """Shows one desk."""

    def __init__(
        self, desk: str, owner: Owner, login: PageLogin, files: Mapping[str, PageFile], port: int, control: bool
    ) -> None:
        self.desk = desk
        self.owner = owner
        self.login = login
        self.files = files
        self.host = f"127.0.0.1:{port}"
        self.control = control
        """Whether the viewer may take control."""
        self.free = anyio.Semaphore(_MAX_CONNECTIONS)
        self.always = {
            "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
            f"connect-src 'self' ws://{self.host}; img-src 'self' data: blob:; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "cache-control": "no-store",
        }

    async def serve(self, listener: socket.socket) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                await self.free.acquire()
                try:
                    tasks.start_soon(self.talk, await accept(listener))
                except OSError:
                    self.free.release()
                    await anyio.sleep(_ACCEPT_PAUSE_S)  # too many files are open: the connection waits in the queue

    async def talk(self, sock: socket.socket) -> None:
        """Answer the requests of one connection; a browser that disconnects has no effect on others."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while await self.respond(sock, await read(sock)):
                pass
        except* Exception:  # noqa: BLE001, S110 - a rim: an error of one browser must not end the page for others
            pass
        finally:
            self.free.release()
            anyio.notify_closing(sock)
            sock.close()

    async def respond(self, sock: socket.socket, request: PageRequest) -> bool:
        """Answer a request, or turn it into a stream; return whether another may follow."""
        if request.headers.get("host") != self.host:
            await self.write(sock, FORBIDDEN)  # another site's name may resolve to this address (DNS rebinding)
            return False
        session = self.find_session(request)
        if session is not None and request.headers.get("upgrade", "").lower() == "websocket":
            await self.stream(sock, request, session)
            return False
        with anyio.fail_after(RESPONSE_TIMEOUT_S):
            await self.write(sock, await self.answer(request, session))
        return request.headers.get("connection", "").lower() != "close"

    async def write(self, sock: socket.socket, response: PageResponse) -> None:
        own = {"content-type": response.media, "content-length": str(len(response.body)), **response.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**self.always, **own}.items())
        head = f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}\r\n{lines}\r\n"
        await send(sock, head.encode() + response.body)

    # -- rules ------------------------------------------------------------------------------------------------

    def find_session(self, request: PageRequest) -> PageSession | None:
        """Return the session of a request, or `None` if it has none or comes from another site's page."""
        origin = request.headers.get("origin")
        ours = f"http://{self.host}"
        needs_origin = request.method != "GET" or "upgrade" in request.headers
        if origin != ours and (origin is not None or needs_origin):
            return None
        return self.login.find(request.path.removeprefix("/").partition("/")[0], request.key)

    async def answer(self, request: PageRequest, session: PageSession | None) -> PageResponse:
        if session is None:
            return self.enter(request)
        name = request.path.removeprefix(f"/{session.place}/")
        try:
            match request.method, name:
                case "GET", "state":
                    return self.describe(session, await self.owner.get_wheel())
                case "POST", "stream":
                    return as_json({"handle": self.login.issue(session)})
                case "POST", "wheel":
                    return await self.turn(request, session)
        except HotdeskError as e:
            return as_json({"error": make_printable(str(e)), "gone": isinstance(e, DeskGone)}, 409)
        return self.show(name, session) if request.method == "GET" else NOTHING

    def show(self, name: str, session: PageSession) -> PageResponse:
        """Return a file of the page; the page itself has the handle of its first stream, which saves a request."""
        file = self.files.get(name)
        if file is None:
            return NOTHING
        data = file.data if name else file.data.replace(FIRST, self.login.issue(session).encode())
        return PageResponse(200, data, file.media)

    def enter(self, request: PageRequest) -> PageResponse:
        code = request.path.removeprefix("/enter/")
        if request.method != "GET" or code == request.path or (session := self.login.enter(code)) is None:
            return FORBIDDEN
        place = f"/{session.place}/"
        cookie = f"{COOKIE}={session.key}; Path={place}; HttpOnly; SameSite=Strict"
        return PageResponse(303, headers={"set-cookie": cookie, "location": place})

    async def turn(self, request: PageRequest, session: PageSession) -> PageResponse:
        act, secret = parse_act(request.body)
        if act not in ACTS:
            return PageResponse(400, b"The act must be take, keep, hand back or type.")
        if not self.control:
            raise BriefError("this page is view-only; run `hotdesk watch --control` to take control")
        return self.describe(session, await self.owner.turn(act, session.viewer, secret))

    def describe(self, session: PageSession, wheel: Mapping[str, object]) -> PageResponse:
        driver = str(wheel.get("driver", ""))
        mine = bool(driver) and session.viewer.startswith(driver)
        return as_json({**wheel, "desk": self.desk, "control": self.control, "mine": mine})

    async def stream(self, sock: socket.socket, request: PageRequest, session: PageSession) -> None:
        if request.path != f"/{session.place}/screen" or not self.login.redeem(request.handle, session):
            await self.write(sock, FORBIDDEN)
            return
        name = secrets.token_hex(16)
        try:
            screen = await self.owner.open_screen(name, self.control)
        except HotdeskError as e:
            await self.write(sock, PageResponse(503, make_printable(str(e)).encode()))
            return
        with screen:
            session.viewer = name
            await carry(sock, screen, request.path, request.headers)


async def read(sock: socket.socket) -> PageRequest:
    with anyio.fail_after(_REQUEST_TIMEOUT_S):
        head, body = await read_request(sock, BODY_LIMIT)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
    return PageRequest(head.method.decode("latin-1"), head.target.decode("latin-1"), headers, body)


def parse_act(body: bytes) -> tuple[str, str]:
    """Parse a viewer's action: what to do with the control, and with which secret; empty if invalid."""
    with suppress(ValueError, RecursionError):
        match json.loads(body):
            case {"act": str(act), **rest} if rest.keys() <= {"secret"}:
                return act, str(rest.get("secret", ""))
    return "", ""


def as_json(value: Mapping[str, object], status: int = 200) -> PageResponse:
    return PageResponse(status, json.dumps(value).encode(), "application/json")
