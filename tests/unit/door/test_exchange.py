"""Tests of one request between a desk and an upstream, both ends in this process."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.security.door_room import door_room

from hotdesk.brief import Scope, parse_grant, parse_rule, scope_json
from hotdesk.door.denials import NO_PERMISSION_MISSING
from hotdesk.door.egress import DECODERS, Egress, GrantValue, UnconfirmedError
from hotdesk.door.exchange import Forward
from hotdesk.door.grant import LiveGrant
from hotdesk.door.http import framing
from hotdesk.door.http.upstream import UnreachableError, Upstreams, UpstreamSlot, is_metadata
from hotdesk.door.http.wire import Wire
from hotdesk.door.policy import target
from hotdesk.door.policy.policy import Policy
from hotdesk.door.policy.target import Authority
from hotdesk.door.proxy import DeskConnection
from hotdesk.event import Answered, Event, Exchange, RequestAdmitted

SECRET = b"a-secret-of-the-vault-0123456789"
HEAD = b"GET /data/x HTTP/1.1\r\nHost: erp.test\r\n\r\n"


class Written:
    """Takes events down in a list."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def note(self, event: Event) -> None:
        self.events.append(event)

    async def confirm(self, event: RequestAdmitted) -> None:
        """Record it; no server confirms anything."""
        self.events.append(event)
        raise UnconfirmedError("not confirmed; try again")

    async def steady(self) -> None:
        """Never lag behind."""

    async def mint(self, desk: str, live: GrantValue) -> bytes:
        raise AssertionError("nothing is minted here")


class Slow(Upstreams):
    """An upstream that is reached only after something else happened."""

    def __init__(self, wire: Wire, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.wire, self.meanwhile = wire, meanwhile
        self.asked: list[tuple[object, ...]] = []

    async def dial(self, *where: object, **how: object) -> Wire:
        self.asked.append((*where, how))
        await asyncio.sleep(0)
        self.meanwhile()
        return self.wire


def granted(outside: Written) -> Egress:
    way = Egress("i" + "a" * 20, outside)
    way.policy = Policy([parse_rule("erp.test/data/*")])
    held = LiveGrant("0", parse_grant("erp-token@erp.test"), b"hotdesk-secret-erp-token-" + b"a" * 26)
    way.live["0"] = GrantValue(held, {"value": base64.b64encode(SECRET).decode()})
    return way


async def pair() -> tuple[Wire, socket.socket]:
    """Make a connection: our end, and the other's."""
    ours, theirs = socket.socketpair()
    _, wire = await asyncio.get_running_loop().create_unix_connection(Wire, sock=ours)
    theirs.settimeout(30)
    return wire, theirs


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def exchange(
    way: Egress,
    meanwhile: Callable[[], None] = lambda: None,
    head: bytes = HEAD,
    body: bytes = b"",
    response: bytes = OK,
) -> tuple[bytes, bytes]:
    """Carry out one request; return what the upstream received and the answer to the desk."""
    desk, inside = await pair()
    up, outside = await pair()
    place = UpstreamSlot(Slow(up, meanwhile))
    place.inside, place.scheme = Authority("erp.test", 443), "https"
    request = framing.parse_request(head)
    desk.data_received(body)
    meant = target.read(request.method, request.target, request.headers.get_all(b"host"), place.inside, "https")
    up.data_received(response)
    await Forward(way, desk, place, request, meant).run()
    place.leave()
    up.abort()  # it was not dialled if the request was refused
    desk.close()
    await asyncio.sleep(0.01)
    with inside, outside:
        return read(outside), read(inside)


def read(sock: socket.socket) -> bytes:
    """Return all data until the other side disconnected."""
    data = b""
    while piece := sock.recv(65536):
        data += piece
    return data


async def test_a_secret_goes_with_a_request_that_is_still_admitted_when_it_is_sent() -> None:
    heard, answered = await exchange(granted(Written()), lambda: None)
    assert b"Authorization: Bearer " + SECRET in heard
    assert answered.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("head", "size"),
    [(b"", 0), (b"Content-Length: 5\r\n", 5), (b"Transfer-Encoding: chunked\r\n", -1),
     (b"Connection: Upgrade\r\nUpgrade: websocket\r\n", -1)],
)  # fmt: skip
async def test_a_request_whose_record_the_server_does_not_have_is_refused(head: bytes, size: int) -> None:
    way = Egress("i" + "a" * 20, outside := Written())
    way.policy, way.sync = Policy([parse_rule("write erp.test/data/*")]), True
    heard, answered = await exchange(way, lambda: None, HEAD[:-2] + head + b"\r\n")
    assert heard == b""
    assert answered.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    denial = json.loads(answered.partition(b"\r\n\r\n")[2])
    assert (denial["rule"], denial["ask"]) == ("not confirmed; try again", NO_PERMISSION_MISSING)
    admitted, ended = outside.events
    assert isinstance(admitted, RequestAdmitted)
    assert isinstance(ended, Exchange)
    assert (admitted.method, admitted.path, admitted.body) == ("GET", "/data/x", size)
    assert (ended.status, ended.up) == (503, 0)


async def test_a_request_whose_record_the_server_does_not_have_uses_no_budget() -> None:
    way = Egress("i" + "a" * 20, outside := Written())
    way.policy, way.sync = Policy([parse_rule("erp.test/data/* rate=0.01")]), True
    for _ in range(2):
        assert (await exchange(way))[1].startswith(b"HTTP/1.1 503 ")
    way.sync = False
    assert (await exchange(way))[1].startswith(b"HTTP/1.1 200 ")
    way.sync = True
    outside.events.clear()
    assert (await exchange(way))[1].startswith(b"HTTP/1.1 429 ")
    assert [type(each) for each in outside.events] == [Exchange], "what is over its budget is not recorded as admitted"


@pytest.mark.parametrize("chunked", [False, True])
async def test_the_bytes_of_a_body_are_counted_apart_from_the_head(chunked: bool) -> None:
    way = Egress("i" + "a" * 20, outside := Written())
    way.policy = Policy([parse_rule("write erp.test/data/*")])
    size = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 5"
    body = b"5\r\nhello\r\n0\r\n\r\n" if chunked else b"hello"
    heard, _ = await exchange(way, lambda: None, HEAD.replace(b"\r\n\r\n", b"\r\n" + size + b"\r\n\r\n"), body)
    await exchange(way, lambda: None)
    assert b"hello" in heard
    assert [event.body for event in outside.events if isinstance(event, Exchange)] == [5, 0]


@pytest.mark.parametrize("end", ["step", "revoke", "close", "leak"])
async def test_a_secret_that_ended_during_dialling_is_not_sent(end: str) -> None:
    way = granted(Written())
    ends: dict[str, Callable[[], None]] = {
        "step": lambda: way.change({"verb": "step", "step": "two", "identities": {}}),
        "revoke": lambda: way.change({"verb": "revoke", "grant": "erp-token"}),
        "close": way.close,
        "leak": lambda: way.report_leak({"0"}, "elsewhere.test"),
    }
    heard, answered = await exchange(way, ends[end])
    assert heard == b""
    assert not answered.startswith(b"HTTP/1.1 200 ")
    (told,) = [event for event in way.outside.events if isinstance(event, Exchange)]  # type: ignore[attr-defined]
    assert (told.status, told.up > 0) == (403, True)


SESSION = b"a-session-of-the-host-0123456789"
LOGGED_IN = OK.replace(b"Content", b"Set-Cookie: sid=" + SESSION + b"; HttpOnly\r\nSet-Cookie: seen=1\r\nContent")


async def log_in(way: Egress) -> bytes:
    """Let the host set a session's cookie; return the head of a request with what the desk got for it."""
    _, answered = await exchange(way, response=LOGGED_IN)
    cookie = answered.partition(b"Set-Cookie: ")[2].partition(b";")[0]
    assert cookie.startswith(b"sid=hotdesk-secret-issued-")
    return HEAD[:-2] + b"Cookie: " + cookie + b"\r\n\r\n"


def with_two_grants(outside: Written) -> Egress:
    """Return a desk whose host has a grant for the first step, and another for all steps."""
    way = granted(outside)
    way.step = "one"
    for id, text in (("0", "erp-token@erp.test step=one"), ("1", "other@erp.test header=X-Api-Key swap")):
        held = LiveGrant(id, parse_grant(text), b"hotdesk-secret-x-" + id.encode() * 26)
        way.live[id] = GrantValue(held, {"value": base64.b64encode(SECRET).decode()})
    way.ours = frozenset({"erp.test"})
    return way


def expire(way: Egress) -> None:
    way.live["0"].until = 1.0


def rescope(way: Egress) -> None:
    """Replace the scope by one with grants of the same secrets."""
    live = dict(way.live)
    scope = Scope((parse_rule("erp.test/data/*"),), tuple(one.live_grant.grant for one in live.values()))
    way.hold({
        "scope": json.loads(scope_json(scope)), "step": "one", "ceiling": [], "grants": [], "identities": {},
        "resumed": False, "approval_seconds": 1,
    })  # fmt: skip
    way.live = live


ENDS: dict[str, Callable[[Egress], None]] = {
    "revoked": lambda way: way.change({"verb": "revoke", "grant": "erp-token"}),
    "another step": lambda way: way.change({"verb": "step", "step": "two", "identities": {}}),
    "leaked": lambda way: way.report_leak({"0"}, "elsewhere.test"),
    "expired": expire,
    "rescoped": rescope,
}


@pytest.mark.parametrize("end", ENDS)
async def test_a_session_ends_with_its_grant_though_another_grant_of_the_host_lives_on(end: str) -> None:
    way = with_two_grants(Written())
    head = await log_in(way)
    heard, answered = await exchange(way, head=head)
    assert b"Cookie: sid=" + SESSION in heard
    assert answered.startswith(b"HTTP/1.1 200 ")
    ENDS[end](way)
    heard, answered = await exchange(way, head=head)
    assert heard == b""
    assert answered.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("end", ["leaked", "expired"])
async def test_a_session_whose_grant_ends_during_dialling_is_not_used(end: str) -> None:
    way = with_two_grants(Written())
    head = await log_in(way)
    way.live["2"] = way.live.pop("0")  # the request itself uses no secret that could end
    one = way.live["2"]
    one.live_grant = replace(one.live_grant, id="2", grant=parse_grant("erp-token@erp.test header=X-Other swap"))
    heard, answered = await exchange(
        way, lambda: way.revoke(one, "it leaked") if end == "leaked" else setattr(one, "until", 1.0), head
    )
    assert heard == b""
    assert answered.startswith(b"HTTP/1.1 403 ")


async def test_a_token_that_arrives_after_its_grant_ended_is_not_used() -> None:
    way = with_two_grants(Written())
    kept = way.get_issued("erp.test", 443)
    assert kept is not None
    ENDS["revoked"](way)
    assert (now := way.get_issued("erp.test", 443)) is not None
    placeholder = kept.keep(SESSION, b"sid")
    assert now.find_cookie(b"sid", placeholder) is None


async def test_a_field_that_a_later_scope_names_is_replaced_though_no_grant_was_active_before() -> None:
    way = with_two_grants(Written())
    way.live.pop("1")
    way.step = "two"
    assert way.get_issued("erp.test", 443) is not None
    grant = parse_grant("other@erp.test field=session_key")
    way.live["1"] = GrantValue(LiveGrant("1", grant, b"hotdesk-secret-x-" + b"1" * 26), way.live["0"].values)
    issued = way.get_issued("erp.test", 443)
    assert issued is not None
    assert b"session_key" in issued.names


async def test_a_readable_cookie_of_a_session_ends_with_its_grant() -> None:
    way = with_two_grants(Written())
    await log_in(way)
    head = HEAD[:-2] + b"Cookie: seen=1\r\n\r\n"
    assert (await exchange(way, head=head))[1].startswith(b"HTTP/1.1 200 ")
    ENDS["revoked"](way)
    assert (await exchange(way, head=head))[0] == b""


async def test_a_session_goes_on_in_a_step_with_a_grant_of_the_same_secret() -> None:
    way = with_two_grants(Written())
    again = LiveGrant("2", parse_grant("erp-token@erp.test step=two"), way.live["0"].live_grant.placeholder)
    way.live["2"] = GrantValue(again, way.live["0"].values)
    head = await log_in(way)
    ENDS["another step"](way)
    assert b"Cookie: sid=" + SESSION in (await exchange(way, head=head))[0]


async def test_a_question_ends_with_the_step_it_was_asked_in() -> None:
    outside = Written()
    way = granted(outside)
    asking = asyncio.ensure_future(way.ask(parse_rule("GET other.test/x"), None))
    await asyncio.sleep(0)
    way.change({"verb": "step", "step": "two", "identities": {}})
    assert await asking == "refused"
    assert [event.answer for event in outside.events if isinstance(event, Answered)] == ["expired"]


async def test_a_large_decoder_waits_for_another_to_end_and_a_small_one_does_not() -> None:
    way = granted(Written())
    async with AsyncExitStack() as held:
        for _ in range(DECODERS):
            await held.enter_async_context(way.reserve_decoder(b"br"))
        async with way.reserve_decoder(b"gzip"):
            pass
        waiting = asyncio.ensure_future(held.enter_async_context(way.reserve_decoder(b"gzip, zstd")))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        way.decoders.release()
        await waiting


@asynccontextmanager
async def server_that_breaks_off(reset: bool) -> AsyncIterator[str]:
    """Send the beginning of a response without a length, then close or reset the connection; yield the address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nthe first part")
        await asyncio.sleep(0.2)
        if reset:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_response_that_breaks_off_does_not_look_complete(tmp_path: Path, version: str, reset: bool) -> None:
    desk = "i" + "a" * 20
    async with server_that_breaks_off(reset) as address, door_room(tmp_path) as room:
        room.open(desk)
        await room.charter(desk, Scope((parse_rule("http://a.test"),), names={"a.test": address}))
        reader, writer = await asyncio.open_connection("127.0.0.1", room.gates[desk])
        writer.write(f"GET http://a.test/ HTTP/{version}\r\nHost: a.test\r\nConnection: close\r\n\r\n".encode())
        received, broken = b"", False
        try:
            while data := await reader.read(4096):
                received += data
        except ConnectionResetError:
            broken = True
        writer.close()
        (event,) = [each["data"] for each in await room.read_events()]
    assert b"the first part" in received
    complete = not broken if version == "1.0" else received.endswith(b"\r\n0\r\n\r\n")
    assert complete == (not reset)
    assert ("broke off" in event["note"]) == reset


RESET = struct.pack("ii", 1, 0)
CONNECT = b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"
UPGRADE = b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


@asynccontextmanager
async def stream(folder: Path, kind: str) -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    """Open a tunnel or a WebSocket through a door; yield the desk's end and the upstream's."""
    desk = "i" + "a" * 20
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        rule = "tunnel a.test:443" if kind == "tunnel" else "write http://a.test"
        async with door_room(folder) as room:
            room.open(desk)
            await room.charter(desk, Scope((parse_rule(rule),), names={"a.test": address}))
            loop = asyncio.get_running_loop()
            with socket.create_connection(("127.0.0.1", room.gates[desk])) as near:
                near.setblocking(False)
                await loop.sock_sendall(near, CONNECT if kind == "tunnel" else UPGRADE)
                async with asyncio.timeout(20):
                    far, _ = await loop.sock_accept(listener)
                with far:
                    if kind != "tunnel":
                        await loop.sock_recv(far, 4096)
                        await loop.sock_sendall(far, SWITCH)
                    await loop.sock_recv(near, 4096)
                    yield near, far


async def receive(sock: socket.socket) -> tuple[bytes, bool]:
    """Return all data until the end, and whether the connection was reset instead of ended."""
    data, loop = b"", asyncio.get_running_loop()
    try:
        async with asyncio.timeout(10):
            while piece := await loop.sock_recv(sock, 65536):
                data += piece
    except ConnectionResetError:
        return data, True
    return data, False


@pytest.mark.parametrize("kind", ["tunnel", "WebSocket"])
@pytest.mark.parametrize("breaks", ["desk", "upstream"])
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_stream_that_breaks_off_does_not_look_complete(
    tmp_path: Path, kind: str, breaks: str, reset: bool
) -> None:
    async with stream(tmp_path, kind) as ends:
        one, other = ends if breaks == "desk" else ends[::-1]
        await asyncio.get_running_loop().sock_sendall(one, b"the first part")
        await asyncio.sleep(0.2)
        if reset:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        one.close()
        assert await receive(other) == (b"the first part", reset)


@pytest.mark.parametrize("ends_first", ["desk", "upstream"])
async def test_what_is_sent_after_the_other_side_has_ended_arrives(tmp_path: Path, ends_first: str) -> None:
    loop = asyncio.get_running_loop()
    async with stream(tmp_path, "tunnel") as ends:
        one, other = ends if ends_first == "desk" else ends[::-1]
        request, reply = b"q" * (1 << 20), b"r" * (1 << 20)
        sending = asyncio.ensure_future(loop.sock_sendall(one, request))
        sending.add_done_callback(lambda _: one.shutdown(socket.SHUT_WR))
        assert await receive(other) == (request, False)
        answering = asyncio.ensure_future(loop.sock_sendall(other, reply))
        answering.add_done_callback(lambda _: other.close())
        assert await receive(one) == (reply, False)


@pytest.mark.slow
async def test_a_tunnel_is_bounded_by_the_ceiling() -> None:
    outside = Written()
    way = Egress("i" + "a" * 20, outside)
    way.policy = Policy([parse_rule("tunnel db.corp.test private")], "", [parse_rule("tunnel *.corp.test up=1K")])
    way.leaves = object()  # type: ignore[assignment]
    desk, inside = await pair()
    up, beyond = await pair()
    upstreams = Slow(up)
    caller = asyncio.ensure_future(DeskConnection(way, desk, upstreams).serve())
    with inside, beyond:
        inside.sendall(b"CONNECT db.corp.test:443 HTTP/1.1\r\nHost: db.corp.test:443\r\n\r\n")
        await asyncio.sleep(0.05)
        inside.sendall(b"x" * 4000)
        await asyncio.wait_for(caller, 10)
    (told,) = [event for event in outside.events if isinstance(event, Exchange)]
    assert "used up" in told.note
    (asked,) = upstreams.asked
    assert asked[-1]["private"] is False  # type: ignore[index]


@pytest.mark.parametrize(("host", "wrong"), [("169.254.169.254", True), ("127.0.0.1", False), ("erp.test", False)])
def test_no_name_resolves_to_a_cloud_metadata_address(host: str, wrong: bool) -> None:
    assert is_metadata(host) is wrong


async def test_a_name_that_is_mapped_to_a_metadata_address_is_not_dialled() -> None:
    upstreams = Upstreams(None, None)  # type: ignore[arg-type]
    with pytest.raises(UnreachableError, match="metadata"):
        await upstreams.connect("http", "ok.test", 80, False, "ok.test", {"ok.test": "169.254.169.254:80"})


async def test_a_connection_whose_desk_reads_nothing_is_cut() -> None:
    wire, other = await pair()
    with other:
        wire.write(b"x" * (4 << 20))
        await wire.end(0.1)
        assert wire.transport.get_write_buffer_size() == 0 or wire.transport.is_closing()
        await asyncio.sleep(0.01)
        assert wire.lost
