"""Attacks on port traffic: by callers, by pages of other origins, and by the servers inside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from hotdesk.config import Config
from tests.security.guards import HEADERS_TWICE, Removal, falls_without, no_guard
from tests.security.traffic_room import PORT, Ways, opened

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

KEY = f"e2b_{'0a' * 20}"


@pytest.fixture
async def ways(settings: Config) -> AsyncIterator[Ways]:
    async with opened(settings) as found:
        yield found


@falls_without(
    "traffic: what is this server's stays here",
    Removal("ports/headers.py", "    if OURS.fullmatch(name) or KEY.search(value):\n", "    if False:\n"),
    cases="an API key | envd's token | the traffic token | a key elsewhere",
)
@falls_without(
    "traffic: sessions stay here", Removal("ports/headers.py", " if not COOKIE.match(pair)", ""), cases="a session"
)
@pytest.mark.parametrize(
    "headers",
    [
        {"X_API_Key": "secret-word"},
        {"X_Access_Token": "secret-word"},
        {"E2B_Traffic_Access_Token": "secret-word"},
        {"Authorization": f"Bearer {KEY}"},
        {"Cookie": "a=1; __Host-hotdesk=secret-word; b=2"},
    ],
    ids=["an API key", "envd's token", "the traffic token", "a key elsewhere", "a session"],
)
async def test_no_secret_of_this_server_is_forwarded_into_a_sandbox(ways: Ways, headers: Mapping[str, Any]) -> None:
    heard = await ways.get(**headers)
    assert heard.startswith(b"HTTP/1.1 200")
    assert b"secret-word" not in heard
    assert KEY.encode() not in heard


@falls_without(
    "traffic: cookies are for one name",
    Removal("ports/headers.py", " if not is_ours(*pair)]", "]"),
    cases="a cookie for all names | a cookie of ours",
)
@falls_without(
    "traffic: nothing is said for other names",
    Removal("ports/headers.py", 'b"alt-svc", b"clear-site-data", ', ""),
    cases="everything cleared | another way",
)
@pytest.mark.parametrize(
    "header",
    ["Set-Cookie: a=secret; Domain=localhost", "Set-Cookie: __Host-hotdesk=secret; Secure; Path=/",
     'Clear-Site-Data: "secret"', "Alt-Svc: h2=secret"],
    ids=["a cookie for all names", "a cookie of ours", "everything cleared", "another way"],
)  # fmt: skip
async def test_a_sandboxes_headers_cannot_affect_other_host_names(ways: Ways, header: str) -> None:
    said = quote(f"HTTP/1.1 200 OK\r\nX-Seen: yes\r\n{header}\r\nContent-Length: 0\r\n\r\n")
    heard = await ways.get(f"/?say={said}")
    assert b"x-seen: yes" in heard
    assert b"secret" not in heard


@falls_without(
    "traffic: the gate is for its desk", Removal("ports/traffic.py", "frozenset((0, GATE[1]))", "frozenset((0,))")
)
async def test_a_desks_gate_cannot_be_called_from_outside(ways: Ways) -> None:
    assert b"port is not open" in await ways.get(port=3128, path="/")


@falls_without(
    "traffic: names are exact",
    Removal("ports/traffic.py", "                check_name(scope, self.sandboxes.serving)\n", ""),
)
@pytest.mark.parametrize("name", ["evil.test", "localhost.evil.test", "127.0.0.1.evil.test"])
async def test_a_page_of_another_origin_reaches_no_sandbox(ways: Ways, name: str) -> None:
    heard = await ways.get(host=name, E2b_Sandbox_Id=ways.sandbox.id, E2b_Sandbox_Port=str(PORT))
    assert heard.startswith(b"HTTP/1.1 421")


@falls_without(
    "traffic: the token is asked for",
    Removal(
        "ports/traffic.py",
        "share = check_token(scope, sandbox, port, self.sandboxes.serving)",
        "share = find_share(scope, sandbox, port)",
    ),
)
@pytest.mark.parametrize("shown", [{}, {"E2B_Traffic_Access_Token": "guess"}], ids=["no token", "a wrong token"])
async def test_private_ports_require_the_token(ways: Ways, shown: Mapping[str, Any]) -> None:
    ways.sandbox.traffic_token = "right"
    assert (await ways.get(**shown)).startswith(b"HTTP/1.1 403")
    assert (await ways.get(E2B_Traffic_Access_Token="right")).startswith(b"HTTP/1.1 200")


@falls_without("traffic: the token is asked for")
async def test_no_port_is_public_if_the_server_listens_on_all_addresses(ways: Ways) -> None:
    ways.house.serving = replace(ways.house.serving, host="0.0.0.0")
    assert (await ways.get()).startswith(b"HTTP/1.1 403")


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(SMUGGLED)


@pytest.mark.sample(4)
@falls_without(
    "traffic: a length cannot be named away",
    Removal("http/framing.py", "HOP.union(names) - KEPT if names", "HOP.union(names) if names"),
    cases="a length named away",
)
@no_guard(
    "the listener's parser, which is a library's, refuses it or reads it in one way before any code of ours",
    cases="""
    both lengths | no length first | no length last | a strange coding | two codings | a space before the colon |
    a folded line | a bare line feed | a zero
    """,
)
@pytest.mark.parametrize(
    "lines",
    [
        LENGTH + b"Connection: close, content-length\r\n",
        LENGTH + b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 0\r\n" + LENGTH,
        LENGTH + b"Content-Length: 0\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"X: a\r\n b\r\n" + LENGTH,
        b"X: a\nTransfer-Encoding: chunked\r\n" + LENGTH,
        b"X: a\0b\r\n" + LENGTH,
    ],
    ids=["a length named away", "both lengths", "no length first", "no length last", "a strange coding",
         "two codings", "a space before the colon", "a folded line", "a bare line feed", "a zero"],
)  # fmt: skip
async def test_a_body_is_never_parsed_as_a_request_inside(ways: Ways, lines: bytes) -> None:
    head = b"POST / HTTP/1.1\r\nHost: " + ways.name.encode() + b"\r\n"
    close = b"" if b"Connection" in lines else b"Connection: close\r\n"
    heard = await ways.say(head + lines + close + b"\r\n" + SMUGGLED)
    if heard.startswith(b"HTTP/1.1 200"):
        inside = heard.partition(b"\r\n\r\n")[2].partition(b"\r\n\r\n")
        assert inside[0].lower().count(b"content-length: %d" % len(SMUGGLED)) == 1
        assert b"transfer-encoding" not in inside[0].lower()
        assert inside[2] == SMUGGLED
    else:
        assert heard.startswith(b"HTTP/1.1 400") or heard in (b"RESET", b"")


@pytest.mark.sample(3)
@falls_without(
    "traffic: an answer has a length or chunks",
    Removal(
        "http/framing.py",
        '        if length is not None:\n            raise HttpMessageError(400, "the message has both',
        '        if False:\n            raise HttpMessageError(400, "the message has both',
    ),
    cases="both lengths",
)
@falls_without("traffic: an answer has one length", HEADERS_TWICE, cases="two lengths")
@falls_without(
    "traffic: an answer has one coding",
    Removal("http/framing.py", '        if coding.lower() != b"chunked":\n', "        if False:\n"),
    cases="a strange coding",
)
@falls_without(
    "traffic: only who asks gets another protocol",
    Removal("ports/proxy.py", "(response.status == 101 and self.request.accept)", "response.status == 101"),
    Removal(
        "ports/headers.py",
        "    if not right:\n        raise HttpMessageError(502",
        "    if False:\n        raise HttpMessageError(502",
    ),
    cases="an upgrade nobody asked for",
)
@falls_without(
    "traffic: every line of an answer is a header",
    Removal("http/framing.py", '    if len(pairs) != count or head[-4:] != b"\\r\\n\\r\\n":\n', "    if False:\n"),
    cases="a bare line feed",
)
@falls_without(
    "traffic: an answer begins as one",
    Removal(
        "http/framing.py",
        "    if matched is None:\n"
        '        raise HttpMessageError(400, "the first line is not an HTTP version and a status code")\n',
        '    matched = matched or STATUS_LINE.match(b"HTTP/1.1 200 OK\\r\\n")\n',
    ),
    cases="no answer",
)
@pytest.mark.parametrize(
    "answer",
    [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\nhello",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\r\n\r\n",
        "nonsense\r\n\r\n",
    ],
    ids=["both lengths", "two lengths", "a strange coding", "an upgrade nobody asked for", "a bare line feed",
         "no answer"],
)  # fmt: skip
async def test_an_ambiguous_answer_becomes_a_502(ways: Ways, answer: str) -> None:
    assert (await ways.get(f"/?say={quote(answer)}")).startswith(b"HTTP/1.1 502")


@falls_without(
    "traffic: what breaks off is cut",
    Removal("ports/proxy.py", "        if self.begun and self.broken:\n", "        if False:\n"),
)
@pytest.mark.parametrize(
    "answer",
    [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha",
    ],
    ids=["by its length", "in a chunk"],
)  # fmt: skip
async def test_an_interrupted_answer_never_looks_complete(ways: Ways, answer: str) -> None:
    heard = await ways.get(f"/?say={quote(answer)}")
    assert heard.endswith(b"RESET")


def quote(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())
