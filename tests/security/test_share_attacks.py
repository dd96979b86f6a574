"""Attacks with share links: to reach another port, another site or the token, or to stay longer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from anyio.abc import ByteStream, TaskGroup

from hotdesk.api.e2b import live
from hotdesk.api.e2b.control import sharing
from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.hibernate import SavedSandboxes
from hotdesk.api.e2b.live import LiveRecords, LiveSandbox
from hotdesk.api.e2b.ports import shares
from hotdesk.api.e2b.ports.shares import Share
from hotdesk.api.e2b.ports.traffic import find_share
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.quotas import Quotas
from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED
from hotdesk.config import Config
from hotdesk.desk.seam import Desk, DeskId, Spec
from tests.security.guards import Removal, falls_without, no_guard
from tests.security.traffic_room import PORT, Ways, opened

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]
ID = "0123456789ab"
LASTING = r"""
import socket, time
listener = socket.create_server(("127.0.0.1", 8000), backlog=64)
print("up", flush=True)
sock, _ = listener.accept()
data = sock.recv(65536)
switch = b"Upgrade: websocket" in data
sock.sendall(
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nbegun" if switch
    else b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n"
)
time.sleep(600)
"""
"""A server whose only answer never ends."""


@pytest.fixture
async def ways(settings: Config) -> AsyncIterator[Ways]:
    async with opened(settings) as found:
        found.sandbox.token, found.sandbox.traffic_token = "t" * 64, "right"
        yield found


def token(ways: Ways, port: int = PORT, lasts: float = 60.0, secret: str = "t" * 64, sandbox: str = "") -> str:
    share = Share(ID, port, int(time.time() + lasts))
    return shares.sign(shares.derive_key(secret), sandbox or ways.sandbox.id, share)


@no_guard("no attack: what all the others differ from")
async def test_a_valid_link_gives_access(ways: Ways) -> None:
    assert (await ways.get(Hotdesk_Share=token(ways))).startswith(b"HTTP/1.1 200")


@falls_without("shares: a link is for one port", Removal("ports/shares.py", " or share.port != port:", ":"))
async def test_a_link_gives_no_access_to_another_port(ways: Ways) -> None:
    assert (await ways.get(Hotdesk_Share=token(ways, port=9000))).startswith(b"HTTP/1.1 403")


@falls_without(
    "shares: a link ends",
    Removal("ports/shares.py", "    return share if share.expires > ", "    return share if share or share.expires > "),
)
async def test_an_expired_link_gives_no_access(ways: Ways) -> None:
    assert (await ways.get(Hotdesk_Share=token(ways, lasts=-1.0))).startswith(b"HTTP/1.1 403")


@falls_without("shares: a link is revoked", Removal("ports/traffic.py", " and share.id not in sandbox.revoked", ""))
async def test_a_revoked_link_gives_no_access(ways: Ways) -> None:
    ways.sandbox.revoked.add(ID)
    assert (await ways.get(Hotdesk_Share=token(ways))).startswith(b"HTTP/1.1 403")


@falls_without(
    "shares: a link stays revoked",
    Removal("control/sharing.py", "        await sandboxes.record(sandbox)\n", "        pass\n"),
)
@pytest.mark.parametrize("owner", ["the server that paused it", "the next server"])
async def test_a_revoked_link_gives_no_access_after_a_restart(tmp_path: Path, owner: str) -> None:
    """The sandbox is paused on disk when its link is revoked; then its server is killed."""
    tenant = cast(Any, Machine(tmp_path))
    now = time.time()
    desk = cast(Desk, SimpleNamespace(id=DeskId("i" + "a" * 20)))
    paused = Sandbox(desk, tenant, "base", Spec(), CLOSED, "t" * 64, now, now + 300, state="paused")
    share = Share(ID, PORT, int(now + 300))
    passed = _make_request(shares.sign(paused.share_key, paused.id, share))
    (tmp_path / "hibernated").mkdir()
    (tmp_path / "hibernated" / f"{desk.id}.json").write_text("{}")  # as its keeper does
    async with anyio.create_task_group() as tasks:
        first, second, third = (_serve(tenant, tasks) for _ in range(3))
        first.add(paused)
        assert first.saved is not None
        await first.saved.note_pause(paused)
        at = first if owner == "the server that paused it" else _restart(second, tenant)
        assert find_share(passed, at.by_id[paused.id], PORT) == share
        await sharing.revoke(at, at.by_id[paused.id], ID)
        assert find_share(passed, _restart(third, tenant).by_id[paused.id], PORT) is None


@falls_without("shares: a link stays revoked")
async def test_a_revoked_link_of_a_sandbox_on_a_node_is_recorded_before_the_answer(tmp_path: Path) -> None:
    tenant = cast(Any, Machine(tmp_path))
    now = time.time()
    desk = cast(Desk, SimpleNamespace(id=DeskId("i" + "a" * 20)))
    sandbox = Sandbox(desk, tenant, "base", Spec(), CLOSED, "t" * 64, now, now + 300)
    async with anyio.create_task_group() as tasks:
        sandboxes = _serve(tenant, tasks)
        sandboxes.live = LiveRecords(sandboxes, cast(Any, None), tenant)
        sandboxes.add(sandbox)
        await sandboxes.record(sandbox)
        await sharing.revoke(sandboxes, sandbox, ID)
    [path] = live.get_folder(tenant).iterdir()
    assert LiveSandbox.model_validate_json(path.read_bytes()).revoked == [ID]


class Machine(SimpleNamespace):
    """A tenant, the list of all tenants, and a machine on which nothing is opened."""

    def __init__(self, lib: Path) -> None:
        super().__init__(name="default", settings=SimpleNamespace(lib=lib, run=lib), quotas=Quotas())


def _serve(tenant: Any, tasks: TaskGroup) -> Sandboxes:
    sandboxes = Sandboxes(Serving(), tasks, Defaults(CLOSED, {}))
    sandboxes.saved = SavedSandboxes(sandboxes, cast(Any, None), tenant)
    return sandboxes


def _restart(sandboxes: Sandboxes, tenant: Any) -> Sandboxes:
    assert sandboxes.saved is not None
    sandboxes.saved.find_for_tenant(tenant)
    return sandboxes


def _make_request(token: str) -> dict[str, Any]:
    return {"type": "http", "method": "GET", "headers": [(b"hotdesk-share", token.encode())], "query_string": b""}


@falls_without(
    "shares: a link is signed",
    Removal("ports/shares.py", 'if not hmac.compare_digest(_compute_mac(key, sandbox, share), found["mac"]) or', "if"),
)
@pytest.mark.parametrize("case", ["a guess", "another sandbox's"])
async def test_a_link_the_sandbox_did_not_sign_gives_no_access(ways: Ways, case: str) -> None:
    made = token(ways, secret="g" * 64) if case == "a guess" else token(ways, sandbox="i" + "0" * 20)
    assert (await ways.get(Hotdesk_Share=made)).startswith(b"HTTP/1.1 403")


@falls_without(
    "shares: tokens stay here",
    Removal("ports/headers.py", "hotdesk-share|", ""),
    Removal("ports/headers.py", 'strip_query(scope["query_string"])', 'scope["query_string"]'),
    cases="a header",
)
@falls_without("traffic: sessions stay here", cases="a cookie")
@no_guard("an address with a token is answered by a redirect, and goes nowhere", cases="an address")
@pytest.mark.parametrize("place", ["a header", "a cookie", "an address"])
async def test_no_program_inside_receives_a_token(ways: Ways, place: str) -> None:
    made = token(ways, port=9000 if place == "a header" else PORT)
    heard = {
        "a header": lambda: ways.get(f"/?hotdesk-share={made}", E2B_Traffic_Access_Token="right", Hotdesk_Share=made),
        "a cookie": lambda: ways.get(Cookie=f"hotdesk-share={made}"),
        "an address": lambda: ways.get(f"/?hotdesk-share={made}"),
    }
    answer = await heard[place]()
    assert made.encode() not in answer.partition(b"\r\n\r\n")[2]


@falls_without(
    "shares: what is read is removed",
    Removal(
        "ports/shares.py",
        '_PAIR.search(scope["query_string"])',
        '_PAIR.search(scope["query_string"].replace(b"%2D", b"-"))',
    ),
)
async def test_a_token_that_would_reach_the_program_inside_gives_no_access(ways: Ways) -> None:
    head = f"POST /?hotdesk%2Dshare={token(ways)} HTTP/1.1\r\nHost: {ways.name}\r\nConnection: close\r\n"
    answer = await ways.say(f"{head}Content-Length: 0\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403")


SIBLING = f"http://{PORT}-i{'b' * 20}.localhost"
"""The origin of another sandbox's page: the same site as this sandbox's, to a browser."""
BY_OTHERS: dict[str, dict[str, str]] = {
    "a fetch": {"Origin": SIBLING},
    "a fetch of a page without an origin": {"Origin": "null"},
    "a form": {"method": "POST", "Origin": SIBLING, "Content-Length": "0"},
    "a form without an origin": {"method": "POST", "Content-Length": "0"},
    "a WebSocket": {"Origin": SIBLING, "Connection": "Upgrade", "Upgrade": "websocket"},
    "a WebSocket without an origin": {"Connection": "Upgrade", "Upgrade": "websocket"},
    "a script": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
    "a frame": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
}
"""Requests that a page of another sandbox makes a browser send, with this sandbox's cookie."""


async def ask(ways: Ways, *, method: str = "GET", **headers: str) -> bytes:
    lines = {"Connection": "close", "Cookie": f"hotdesk-share={token(ways)}", **headers}
    if "Upgrade" in lines:
        lines |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return await ways.say(f"{method} / HTTP/1.1\r\nHost: {ways.name}\r\n{head}\r\n".encode())


@falls_without(
    "shares: a cookie counts for its own pages",
    Removal(
        "ports/shares.py", 'headers.getlist("cookie") if is_own_request(scope) else ()', 'headers.getlist("cookie")'
    ),
)
@pytest.mark.parametrize("what", BY_OTHERS)
async def test_a_page_of_another_sandbox_cannot_use_a_link_as_the_person_who_looks_at_it(ways: Ways, what: str) -> None:
    assert (await ask(ways, **BY_OTHERS[what])).startswith(b"HTTP/1.1 403")


@no_guard("no attack: what the port's own pages do, and what opens them")
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "own"},
        {"Origin": "own", "method": "POST", "Content-Length": "0", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "null", "method": "POST", "Content-Length": "0", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
    ],
)
async def test_a_cookie_gives_access_to_its_own_pages(ways: Ways, headers: dict[str, str]) -> None:
    own = {name: f"https://{ways.name}" if value == "own" else value for name, value in headers.items()}
    assert (await ask(ways, **own)).startswith(b"HTTP/1.1 200")


@falls_without(
    "shares: only a valid token becomes a cookie",
    Removal("ports/traffic.py", "redirect(scope, own, token)", "redirect(scope, share, token)"),
)
@pytest.mark.parametrize("case", ["another domain", "junk", "no latin letter", "revoked"])
async def test_no_other_text_of_an_address_becomes_a_cookie(ways: Ways, case: str) -> None:
    revoked = shares.sign(ways.sandbox.share_key, ways.sandbox.id, Share("b" * 12, PORT, int(time.time() + 60)))
    ways.sandbox.revoked.add("b" * 12)
    texts = {
        "another domain": "x;%20Domain=desk.example",
        "junk": "junk",
        "no latin letter": "%E2%82%AC",
        "revoked": revoked,
    }
    answer = await ways.get(f"/a?hotdesk-share={texts[case]}&b=1", Cookie=f"hotdesk-share={token(ways)}")
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.1 303")
    assert b"location: /a?b=1" in head
    assert b"set-cookie" not in head


@falls_without("shares: a redirect stays here", Removal("ports/shares.py", '.lstrip("/\\\\")', ""))
@pytest.mark.parametrize("path", ["//evil.test/", "///evil.test/", "/%5cevil.test/../"])
async def test_a_link_does_not_redirect_to_another_site(ways: Ways, path: str) -> None:
    answer = await ways.get(f"{path}?hotdesk-share={token(ways)}")
    lines = answer.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    (location,) = [line.partition(b": ")[2] for line in lines if line.startswith(b"location")]
    assert location.startswith(b"/")
    assert not location.startswith((b"//", b"/\\"))


async def read_on(stream: ByteStream) -> None:
    """Read until the connection ends, which raises an error."""
    while True:
        await stream.receive()


@falls_without(
    "shares: what a revoked link opened is cut",
    Removal("control/sharing.py", "        passage.cancel()\n", "        pass\n"),
    cases="revoked-plain | revoked-websocket",
)
@falls_without(
    "shares: what an expired link opened is cut",
    Removal("ports/traffic.py", "anyio.move_on_after(share.expires - time.time())", "anyio.CancelScope()"),
    cases="expired-plain | expired-websocket",
)
@pytest.mark.parametrize("kind", ["plain", "websocket"])
@pytest.mark.parametrize("end", ["revoked", "expired"])
async def test_a_connection_does_not_outlive_its_link(settings: Config, end: str, kind: str) -> None:
    async with opened(settings, program=LASTING) as ways:
        ways.sandbox.token, ways.sandbox.traffic_token = "t" * 64, "right"
        lines = [f"GET / HTTP/1.1\r\nHost: {ways.name}"]
        lines.append(f"hotdesk-share: {token(ways, lasts=60.0 if end == 'revoked' else 3.0)}")
        if kind == "websocket":
            lines += ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
            lines.append("Sec-WebSocket-Version: 13")
        async with await anyio.connect_tcp("127.0.0.1", ways.port) as stream:
            await stream.send(("\r\n".join(lines) + "\r\n\r\n").encode())
            heard = b""
            with anyio.fail_after(20):
                while b"begun" not in heard:
                    heard += await stream.receive()
                if end == "revoked":
                    await sharing.revoke(cast(Sandboxes, ways.house), ways.sandbox, ID)
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await read_on(stream)
        assert ways.sandbox.passages == {}
