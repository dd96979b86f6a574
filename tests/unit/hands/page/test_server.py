"""Tests of the page's access rules over real connections."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import anyio
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from hotdesk.errors import DeskGone
from hotdesk.hands.page.login import PageLogin
from hotdesk.hands.page.server import BODY_LIMIT, PageFile, PageServer
from hotdesk.hands.page.websocket import BrowserSocket, relay
from hotdesk.linux.sockets import receive, send


class Script:
    """An owner that records its requests, and a screen that repeats its input."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.driver = ""
        self.gone = False
        self.screens: list[socket.socket] = []

    async def open_screen(self, viewer: str, control: bool) -> socket.socket:
        self.asked.append(f"screen {control}")
        if self.gone:
            raise DeskGone("it burnt")
        near, far = socket.socketpair()
        for sock in (near, far):
            sock.setblocking(False)
        self.screens.append(far)
        return near

    async def get_wheel(self) -> Mapping[str, object]:
        if self.gone:
            raise DeskGone("it burnt")
        return {"viewers": 1, "driver": self.driver, "holder": "<b>uid 0</b>"}

    async def turn(self, act: str, viewer: str, secret: str) -> Mapping[str, object]:
        self.asked.append(f"{act} {secret}".strip())
        self.driver = viewer[:6]
        return await self.get_wheel()


@dataclass
class Said:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Place:
    """A page that is served."""

    owner: Script
    entry: PageLogin
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def ask(self, target: str, method: str = "GET", body: bytes = b"", **headers: str) -> Said:
        """Make a request, with the right Host unless another is given."""
        told = {"Host": self.host, "Connection": "close", "Content-Length": str(len(body))}
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items() if value)
        with socket.create_connection(("127.0.0.1", self.port)) as sock:
            sock.setblocking(False)
            await send(sock, f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + body)
            data = b""
            with anyio.fail_after(30), suppress(ConnectionResetError):
                while more := await receive(sock):
                    data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *others = head.decode().split("\r\n")
        pairs = dict(line.lower().split(": ", 1) for line in others)
        return Said(int(first.split()[1]) if first else 0, pairs, rest)

    async def enter(self) -> Guest:
        said = await self.ask(f"/enter/{self.entry.invite()}")
        assert said.status == 303
        raw = next(
            session for session in self.entry.sessions.values() if f"/{session.place}/" == said.headers["location"]
        )
        return Guest(self, raw.place, f"desk={raw.key}")


@dataclass
class Guest:
    """A signed-in browser."""

    place: Place
    folder: str
    cookie: str

    async def ask(self, name: str, method: str = "GET", body: bytes = b"", **headers: str) -> Said:
        told = {"Cookie": self.cookie, "Origin": f"http://{self.place.host}" if method != "GET" else "", **headers}
        return await self.place.ask(f"/{self.folder}/{name}", method, body, **told)

    async def handle(self) -> str:
        return str(json.loads((await self.ask("stream", "POST")).body)["handle"])

    def stream(self, handle: str, origin: str = "", cookie: str = "", name: str = "127.0.0.1") -> connect:
        return connect(
            f"ws://{name}:{self.place.port}/{self.folder}/screen",
            host="127.0.0.1",
            port=self.place.port,
            origin=Origin(origin or f"http://{self.place.host}"),
            subprotocols=[Subprotocol("binary"), Subprotocol(f"desk.{handle}")],
            additional_headers={"Cookie": cookie or self.cookie},
            proxy=None,
        )


@pytest.fixture(params=[True], ids=["control"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    owner, entry = Script(), PageLogin(time.monotonic)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        files = {"": PageFile("text/html", b"<h1>"), "novnc/core/rfb.js": PageFile("text/javascript", b"//")}
        web = PageServer("idesk", owner, entry, files, port, control=request.param)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(web.serve, listener)
            yield Place(owner, entry, port)
            tasks.cancel_scope.cancel()
    for sock in owner.screens:
        sock.close()


async def begun(client: ClientConnection, owner: Script) -> socket.socket:
    assert client.subprotocol == "binary"
    return owner.screens[-1]


async def test_a_code_leads_to_the_page_once(place: Place) -> None:
    code = place.entry.invite()
    first = await place.ask(f"/enter/{code}")
    assert first.status == 303
    assert "httponly; samesite=strict" in first.headers["set-cookie"]
    assert f"path={first.headers['location']};" in first.headers["set-cookie"]
    assert (await place.ask(f"/enter/{code}")).status == 403


async def test_a_signed_in_user_gets_the_page_and_its_files(place: Place) -> None:
    guest = await place.enter()
    assert (await guest.ask("")).body == b"<h1>"
    assert (await guest.ask("novnc/core/rfb.js")).headers["content-type"] == "text/javascript"
    told = json.loads((await guest.ask("state")).body)
    assert (told["desk"], told["control"], told["mine"]) == ("idesk", True, False)


async def test_every_answer_says_what_a_page_may_do(place: Place) -> None:
    guest = await place.enter()
    for said in (await guest.ask(""), await guest.ask("nothing"), await place.ask("/")):
        policy = said.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert said.headers["x-content-type-options"] == "nosniff"
        assert said.headers["referrer-policy"] == "no-referrer"
        assert said.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "host", ["localhost:{port}", "127.0.0.1", "evil.test", "127.0.0.1:1", "127.0.0.1:{port}.evil.test", "[::1]:{port}"]
)
async def test_requests_for_another_host_are_refused(place: Place, host: str) -> None:
    guest = await place.enter()
    wrong = host.format(port=place.port)
    assert (await guest.ask("", Host=wrong)).status == 403
    code = place.entry.invite()
    assert (await place.ask(f"/enter/{code}", Host=wrong)).status == 403
    assert place.entry.enter(code) is not None


@pytest.mark.parametrize("cookie", ["", "desk=", "desk=wrong", "other={key}", "desk={key}x", "\x01"])
async def test_without_its_cookie_a_browser_sees_nothing(place: Place, cookie: str) -> None:
    guest = await place.enter()
    told = cookie.format(key=guest.cookie.removeprefix("desk="))
    for name in ("", "state", "novnc/core/rfb.js"):
        assert (await guest.ask(name, Cookie=told)).status in (400, 403)
    assert (await guest.ask("stream", "POST", Cookie=told)).status in (400, 403)


async def test_one_sessions_cookie_does_not_open_anothers_page(place: Place) -> None:
    one, two = await place.enter(), await place.enter()
    assert (await one.ask("", Cookie=two.cookie)).status == 403


@pytest.mark.parametrize("site", ["", "null", "http://evil.test", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
async def test_posts_from_another_origin_are_refused(place: Place, site: str) -> None:
    guest = await place.enter()
    wrong = site.format(port=place.port)
    for name, body in (("stream", b""), ("wheel", b'{"act": "take"}')):
        assert (await guest.ask(name, "POST", body, Origin=wrong)).status == 403
    if wrong:
        assert (await guest.ask("state", Origin=wrong)).status == 403
    assert place.owner.asked == []


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "novnc/core/../core/rfb.js", "novnc/core/", "%2e%2e/x", "view.js?x", "/", "stream"]
)
async def test_an_unknown_path_is_not_found(place: Place, name: str) -> None:
    guest = await place.enter()
    assert (await guest.ask(name)).status == 404


async def test_a_request_is_bounded(place: Place) -> None:
    guest = await place.enter()
    assert (await guest.ask("wheel", "POST", bytes(BODY_LIMIT + 1))).status == 0
    assert (await guest.ask("state", Long="x" * 100_000)).status == 0


async def test_a_stream_carries_bytes_both_ways(place: Place) -> None:
    guest = await place.enter()
    async with guest.stream(await guest.handle()) as client:
        screen = await begun(client, place.owner)
        await send(screen, b"RFB 003.008\n")
        assert await client.recv() == b"RFB 003.008\n"
        await client.send(b"RFB 003.008\n")
        assert await receive(screen) == b"RFB 003.008\n"
        screen.close()
        with anyio.fail_after(30):
            await client.wait_closed()


async def test_a_browser_that_leaves_ends_its_stream(place: Place) -> None:
    guest = await place.enter()
    async with guest.stream(await guest.handle()) as client:
        screen = await begun(client, place.owner)
    with anyio.fail_after(30):
        assert await receive(screen) == b""


async def test_a_handle_starts_one_stream_of_its_own_session(place: Place) -> None:
    one, two = await place.enter(), await place.enter()
    handle = await one.handle()
    async with one.stream(handle):
        pass
    stolen = await one.handle()
    for guest, tried in ((one, handle), (two, stolen), (one, stolen), (one, ""), (one, "guess")):
        with pytest.raises(InvalidStatus):
            async with guest.stream(tried):
                pass
    assert place.owner.asked == ["screen True"]


@pytest.mark.parametrize("site", ["null", "http://evil.test", "http://localhost:{port}"])
async def test_another_pages_stream_is_refused(place: Place, site: str) -> None:
    guest = await place.enter()
    with pytest.raises(InvalidStatus):
        async with guest.stream(await guest.handle(), site.format(port=place.port)):
            pass
    with pytest.raises(InvalidStatus):
        async with guest.stream(await guest.handle(), cookie="desk=x"):
            pass
    with pytest.raises(InvalidStatus):
        async with guest.stream(await guest.handle(), name="localhost"):
            pass
    assert place.owner.asked == []


async def test_the_wheel_is_turned_for_the_sessions_own_viewer(place: Place) -> None:
    guest, other = await place.enter(), await place.enter()
    async with guest.stream(await guest.handle()):
        told = json.loads((await guest.ask("wheel", "POST", b'{"act": "take"}')).body)
        assert told["mine"]
        assert not json.loads((await other.ask("state")).body)["mine"]
        await guest.ask("wheel", "POST", b'{"act": "type", "secret": "erp"}')
    assert place.owner.asked == ["screen True", "take", "type erp"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"act": "burn"}', b'{"act": []}', b'{"act": "take", "by": "me"}', b"[" * 4000]
)
async def test_an_invalid_act_is_refused(place: Place, body: bytes) -> None:
    guest = await place.enter()
    assert (await guest.ask("wheel", "POST", body)).status == 400
    assert place.owner.asked == []


@pytest.mark.parametrize("place", [False], indirect=True, ids=["view only"])
async def test_a_viewer_without_control_never_drives(place: Place) -> None:
    guest = await place.enter()
    async with guest.stream(await guest.handle()):
        for act in ("take", "keep", "hand back"):
            said = await guest.ask("wheel", "POST", json.dumps({"act": act}).encode())
            assert said.status == 409
            assert "--control" in json.loads(said.body)["error"]
    assert place.owner.asked == ["screen False"]


async def test_a_desk_that_is_gone_is_reported(place: Place) -> None:
    guest = await place.enter()
    place.owner.gone = True
    said = await guest.ask("state")
    assert (said.status, json.loads(said.body)["gone"]) == (409, True)
    with pytest.raises(InvalidStatus):
        async with guest.stream(await guest.handle()):
            pass


async def test_a_browser_that_leaves_during_a_picture_ends_only_its_own_stream() -> None:
    (near, browsers), (far, screen) = socket.socketpair(), socket.socketpair()
    for sock in (near, browsers, far, screen):
        sock.setblocking(False)
    with near, browsers, far, screen:
        browser = BrowserSocket(near)
        key, offer = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: binary"
        head = ["Host: x", "Upgrade: websocket", "Connection: Upgrade", key, offer, "Sec-WebSocket-Version: 13"]
        assert await browser.begin("/", dict(line.split(": ") for line in head))
        browser.protocol.receive_data(bytes.fromhex("88820000000003e8"))  # its goodbye, masked with nothing
        await send(screen, b"a picture")
        screen.close()
        with anyio.fail_after(30):
            await relay(far, anyio.sleep_forever, browser.send)
