"""Attacks on a server: by anyone who reaches its port, and by an attacker who has taken over its process."""

from __future__ import annotations

import base64
import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx
import pytest
from e2b.sandbox.signature import get_signature

from hotdesk.api.e2b.control import snapshots
from hotdesk.api.e2b.control.control import ACTS
from hotdesk.api.http import body_limits, protocol
from hotdesk.api.keys import MAX_TENANT_KEYS, STORED, ApiKeys
from hotdesk.api.launch import job_command
from hotdesk.api.launch.launcher import MAX_ERRANDS, OF_MODELS, PASSED, Starting, run
from hotdesk.api.launch.launcher_client import open_launcher, spawn
from hotdesk.api.native.access.browsers import MAX_SESSIONS_PER_TENANT as OF_TENANT
from hotdesk.api.native.access.browsers import Browsers
from hotdesk.cli.job_request import JobRequest
from hotdesk.config import Config, get_tenant_settings
from hotdesk.desk.wall.container.filter_cache import Filters
from hotdesk.errors import BriefError
from hotdesk.job.record import papers
from hotdesk.linux import private_files
from tests.conftest import settings_in
from tests.e2e.server.conftest import Served, served
from tests.security.conftest import environment
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
JOB = "i" + "a" * 20


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with served(home / "attacked") as found:
        yield found


def called(server: Served, host: str = "127.0.0.1") -> socket.socket:
    """Connect to a server from one of the loopback addresses."""
    port = int(server.url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(host, 0))


def say(server: Served, head: str) -> str:
    """Send raw bytes; return the first line of the answer."""
    with called(server) as line:
        line.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        return line.recv(4096).decode(errors="replace").partition("\r\n")[0]


@falls_without(
    "names of a server",
    Removal("http/dispatch.py", "        if name not in list_own_names(self.serving):\n", "        if False:\n"),
    cases="evil.test | xlocalhost",
)
@no_guard(
    "the names are exact; two cases have the guard",
    cases=(
        "127.0.0.1.evil.test",
        "localhost.evil.test",
        "",
    ),
)
@pytest.mark.parametrize("name", ["evil.test", "127.0.0.1.evil.test", "localhost.evil.test", "", "xlocalhost"])
def test_a_request_for_another_host_name_is_refused(server: Served, name: str) -> None:
    said = say(server, f"GET /sandboxes HTTP/1.1\nHost: {name}\nX-API-Key: {server.key}\nConnection: close")
    assert " 421" in said or " 400" in said


@falls_without(
    "headers that mean something, each once",
    Removal("http/dispatch.py", "        if len(headers.getlist(name)) > 1:\n", "        if False:\n"),
)
@pytest.mark.parametrize("header", ["Host: evil.test", "X-API-Key: x", "E2b-Sandbox-Id: a\nE2b-Sandbox-Id: b"])
def test_an_ambiguous_header_is_refused(server: Served, header: str) -> None:
    said = say(
        server, f"GET /sandboxes HTTP/1.1\nHost: 127.0.0.1\nX-API-Key: {server.key}\n{header}\nConnection: close"
    )
    assert " 400" in said


@falls_without(
    "paths without dots", Removal("http/dispatch.py", "    if DOTTED & set(segments) or ", "    if False and ")
)
@pytest.mark.parametrize(
    "path", ["/api/../sandboxes", "/web/%2e%2e/api/v1/desks", "/api/v1/./desks", "/api\\v1\\desks"]
)
def test_a_path_that_changes_when_normalised_is_refused(server: Served, path: str) -> None:
    said = say(server, f"GET {path} HTTP/1.1\nHost: 127.0.0.1\nX-API-Key: {server.key}\nConnection: close")
    assert " 400" in said


PARSER_REFUSES = "httptools refuses it before anything of ours reads it"


@no_guard(PARSER_REFUSES)
def test_two_content_lengths_are_refused(server: Served) -> None:
    said = say(
        server,
        f"POST /sandboxes HTTP/1.1\nHost: 127.0.0.1\nX-API-Key: {server.key}\nContent-Length: 4\nContent-Length: 5",
    )
    assert " 400" in said


@no_guard(PARSER_REFUSES)
def test_a_content_length_with_chunked_encoding_is_refused(server: Served) -> None:
    head = f"POST /sandboxes HTTP/1.1\nHost: 127.0.0.1\nX-API-Key: {server.key}\n"
    assert " 400" in say(server, f"{head}Content-Length: 4\nTransfer-Encoding: chunked")


@falls_without(
    "one host a request",
    Removal("http/protocol.py", '        if not self.url.startswith(b"/"):\n', "        if False:\n"),
    cases="http://evil.test/sandboxes | http://127.0.0.1/sandboxes",
)
@no_guard(PARSER_REFUSES, cases="* | evil.test:443")
@pytest.mark.parametrize("target", ["http://evil.test/sandboxes", "http://127.0.0.1/sandboxes", "*", "evil.test:443"])
def test_a_target_that_names_a_host_beside_the_header_is_refused(server: Served, target: str) -> None:
    said = say(server, f"GET {target} HTTP/1.1\nHost: 127.0.0.1\nX-API-Key: {server.key}\nConnection: close")
    assert " 400" in said


@falls_without("who answers, in plain letters", Removal("http/dispatch.py", '    if b"%" in ', '    if b"" == '))
@pytest.mark.parametrize("path", ["/%61pi/v1/desks", "/api%2fv1/desks", "/%73andboxes", "/web%2fx"])
def test_percent_encoding_does_not_change_which_route_answers(server: Served, path: str) -> None:
    said = say(server, f"GET {path} HTTP/1.1\nHost: 127.0.0.1\nX-API-Key: {server.key}\nConnection: close")
    assert " 400" in said


@no_guard("ids have a shape, and dots a guard of their own")
def test_an_encoded_slash_or_dot_in_an_id_does_not_change_the_route(server: Served) -> None:
    for path in ("/sandboxes/x%2f..%2f..%2fapi", "/api/v1/desks/%2e%2e", "/api/v1/drive/a%2f..%2fb"):
        said = say(server, f"GET {path} HTTP/1.1\nHost: 127.0.0.1\nX-API-Key: {server.key}\nConnection: close")
        assert " 400" in said or " 404" in said


@falls_without(
    "headers by number",
    Removal("http/protocol.py", "        if len(self.headers) >= MAX_HEADERS:\n", "        if False:\n"),
)
def test_a_flood_of_headers_is_refused(server: Served) -> None:
    flood = "\n".join(f"x-{number}: y" for number in range(protocol.MAX_HEADERS))
    assert " 400" in say(server, f"GET /health HTTP/1.1\nHost: 127.0.0.1\n{flood}\nConnection: close")


@falls_without(
    "heads by size",
    Removal("http/protocol.py", "        if self.size > HEAD_LIMIT + len(data):\n", "        if False:\n"),
)
@pytest.mark.parametrize("part", ["target", "header", "name"])
def test_an_endless_head_is_cut(server: Served, part: str) -> None:
    begin = {"target": "GET /", "header": "GET / HTTP/1.1\r\nx: ", "name": "GET / HTTP/1.1\r\n"}[part].encode()
    with called(server) as line:
        with suppress(ConnectionError):
            for piece in (begin, *[b"a" * 4096] * 512):
                line.sendall(piece)
        end = time.monotonic() + protocol.HEAD_TIMEOUT_S / 2
        while not is_cut(line):
            assert time.monotonic() < end
            time.sleep(0.05)


@falls_without(
    "bodies by size",
    Removal("http/body_limits.py", "    if length.isdecimal() and int(length[:20]) > most:\n", "    if False:\n"),
    Removal("http/body_limits.py", "            if len(data) > most:\n", "            if False:\n"),
    cases="told-/api/v1/desks | told-/web/x | chunked-/api/v1/desks | chunked-/web/x",
)
@no_guard(
    "whoever answers there has a bound of its own behind the front's",
    cases="told-/sandboxes | told-/mcp | chunked-/sandboxes | chunked-/mcp",
)
@pytest.mark.parametrize("path", ["/sandboxes", "/api/v1/desks", "/mcp", "/web/x"])
@pytest.mark.parametrize("how", ["told", "chunked"])
def test_a_body_that_is_not_a_file_is_limited(server: Served, path: str, how: str) -> None:
    data = b'{"templateID": "' + b"a" * body_limits.MAX_BODY_BYTES + b'"}'
    content = data if how == "told" else iter([data])
    headers = {"X-API-Key": server.key, "Authorization": f"Bearer {server.key}"}
    refusal = httpx.post(f"{server.url}{path}", content=content, headers=headers, timeout=30)
    assert (refusal.status_code, "valid key" in refusal.text) == (413, False)


@falls_without(
    "bodies of strangers",
    Removal(
        "http/dispatch.py",
        "body_limits.MAX_BODY_BYTES if is_known else body_limits.MAX_ANONYMOUS_BYTES",
        "body_limits.MAX_BODY_BYTES",
    ),
)
@pytest.mark.parametrize("key", ["", "e2b_" + "0" * 40])
@pytest.mark.parametrize("path", ["/sandboxes", "/api/v1/session", "/api/v1/desks", "/mcp"])
def test_unauthenticated_callers_can_send_very_little(server: Served, path: str, key: str) -> None:
    headers = {"X-API-Key": key, "Cookie": "__Host-hotdesk=x"}
    body = b" " * (body_limits.MAX_ANONYMOUS_BYTES + 1)
    told = httpx.post(f"{server.url}{path}", content=body, headers=headers, timeout=30)
    assert told.status_code == 413


NEVER = {
    "nothing": ("", protocol.HEAD_TIMEOUT_S),
    "half a head": ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", protocol.HEAD_TIMEOUT_S),
    "only line ends": ("\r\n", protocol.HEAD_TIMEOUT_S),
    "no body": ("POST /sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n", body_limits.TIMEOUT_S),
    "half a chunk": (
        "POST /sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\na",
        body_limits.TIMEOUT_S,
    ),
    "no file": (
        "PUT /api/v1/drive/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {key}\r\nContent-Length: 9\r\n\r\n",
        protocol.BODY_TIMEOUT_S,
    ),
    "a body after its answer": (
        "POST /x HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 9\r\n\r\n", protocol.HEAD_TIMEOUT_S,
    ),
}  # fmt: skip
"""What a client may begin and never finish, and the seconds until the server gives up."""


def is_cut(line: socket.socket) -> bool:
    """Return whether the other side ended a connection, after an answer or without."""
    line.setblocking(False)
    try:
        while line.recv(4096):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


DROPS = {"half a head": b"a", "only line ends": b"\r\n", "half a chunk": b"a"}
"""The pieces some of them send, one every half second."""


@falls_without(
    "patience with a connection",
    Removal("http/protocol.py", "        self.wait_timer = self.loop.call_later(seconds, self.time_out)\n", ""),
)
@falls_without(
    "patience with a body",
    Removal(
        "http/body_limits.py", "    with anyio.move_on_after(TIMEOUT_S):\n", "    with anyio.move_on_after(None):\n"
    ),
)
def test_slow_and_stalled_requests_are_cut(server: Served) -> None:
    lines = {(name, drops): called(server) for name in NEVER for drops in {b"", DROPS.get(name, b"")}}
    for (name, _), line in lines.items():
        line.sendall(NEVER[name][0].format(key=server.key).encode())
    end = time.monotonic() + max(seconds for _, seconds in NEVER.values()) + 10
    kept = dict(lines)
    while kept and time.monotonic() < end:
        time.sleep(0.5)
        kept = {which: line for which, line in kept.items() if not is_cut(line)}
        for (_, drops), line in kept.items():
            with suppress(ConnectionError):
                line.sendall(drops)
    for line in lines.values():
        line.close()
    assert sorted(kept) == []


@falls_without(
    "connections of one address",
    Removal("http/protocol.py", "        if is_full(self.connections, self.client):\n", "        if False:\n"),
)
def test_one_address_does_not_use_up_all_connections(server: Served) -> None:
    pid, most = server.process.pid, 400
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    lines: list[socket.socket] = []
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        for _ in range(most):
            with suppress(ConnectionError):
                lines.append(called(server, "127.0.0.2"))
        with called(server, "127.0.0.3") as line:
            line.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert b" 200" in line.recv(4096)
        assert len(os.listdir(f"/proc/{pid}/fd")) < most
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        for each in lines:
            each.close()


def memory_of(pid: int) -> int:
    told = Path(f"/proc/{pid}/status").read_text()
    return int(told.partition("RssAnon:")[2].split()[0]) << 10


def flood(server: Served, count: int) -> None:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        for number in range(count):
            key = f"e2b_{number:040x}"
            client.get(f"/sandboxes/{number}", headers={"X-API-Key": key, "Idempotency-Key": key})
            client.post("/api/v1/session", json={"key": key})
            client.get(f"/api/{number}", headers={"Cookie": f"__Host-hotdesk={key}"})
            client.post("/mcp", headers={"Authorization": f"Bearer {key}", "Mcp-Session-Id": key}, json={})
            client.get(f"/{number}", headers={"E2b-Sandbox-Id": f"i{number:020d}"})


@no_guard("nothing is kept of whom nobody knows")
def test_a_flood_of_requests_without_a_key_does_not_make_a_server_grow(server: Served) -> None:
    flood(server, 100)
    before = memory_of(server.process.pid)
    flood(server, 500)
    assert memory_of(server.process.pid) < before + (4 << 20)


@falls_without("a log of what went wrong here", Removal("api/server.py", 'log_level="error"', 'log_level="warning"'))
def test_a_flood_of_invalid_requests_does_not_fill_the_log(server: Served) -> None:
    before = server.log.stat().st_size
    for _ in range(20):
        assert " 400" in say(server, "GET")
    assert server.log.stat().st_size == before


@no_guard("nothing writes them: there is no access log")
def test_no_key_or_token_is_in_the_log_or_the_state_directory(server: Served) -> None:
    headers = {"X-API-Key": server.key}
    made = httpx.post(
        f"{server.url}/sandboxes", json={"templateID": "base", "secure": True}, headers=headers, timeout=30
    ).json()
    wrong = "e2b_" + "5" * 40
    httpx.get(f"{server.url}/sandboxes/{wrong}", headers={"X-API-Key": wrong})
    httpx.post(f"{server.url}/sandboxes?key={wrong}", content=b"{", headers=headers)
    httpx.delete(f"{server.url}/sandboxes/{made['sandboxID']}", headers=headers, timeout=30)
    secrets = [server.key.encode(), wrong.encode(), made["envdAccessToken"].encode()]
    folder = server.settings.run.parent
    found: dict[Path, bytes] = {}
    # unlike `rglob`, `os.walk` continues where the server removes folders meanwhile
    for path in [Path(place, name) for place, _, names in os.walk(folder) for name in names]:
        with suppress(FileNotFoundError):  # the server replaces and removes files meanwhile
            if path.is_file() and not path.is_symlink() and path.name != "pool.btrfs":
                found[path] = path.read_bytes()
    assert server.log in found
    assert [path.name for path, data in found.items() for secret in secrets if secret in data] == []


E2B = ("GET /sandboxes", "POST /sandboxes", "POST /v2/sandboxes", "GET /v2/sandboxes", "GET /sandboxes/{desk}",
       "DELETE /sandboxes/{desk}", "POST /sandboxes/{desk}/connect", "PUT /sandboxes/{desk}/network", "GET /snapshots",
       "GET /sandboxes/metrics", "GET /templates/aliases/base", "DELETE /templates/base", "GET /nothing")  # fmt: skip


@falls_without(
    "keys for sandboxes",
    Removal(
        "control/control.py",
        '        if not caller.may("sandboxes"):\n',
        "        if False:\n",
    ),
    cases="one for something else",
)
@falls_without(
    "known keys for sandboxes",
    Removal(
        "control/control.py", "        if caller is None:\n", "        if caller is None:\n            return caller\n"
    ),
    cases="no key | one that never was",
)
@pytest.mark.parametrize("shown", ["no key", "one that never was", "one for something else"])
def test_no_e2b_route_answers_without_a_key(server: Served, shown: str) -> None:
    other = ApiKeys(server.settings.lib / "serve").make("other", powers=["drive"])
    key = {"no key": "", "one that never was": "e2b_" + "0" * 40, "one for something else": other}[shown]
    with httpx.Client(base_url=server.url, headers={"X-API-Key": key} if key else {}, timeout=30) as client:
        for method, path in (each.split(" ") for each in E2B):
            told = client.request(method, path.format(desk="i" + "a" * 20), json={})
            assert told.status_code == 401, (method, path, told.text)


@falls_without(
    "keys read again",
    Removal(
        "api/keys.py",
        "        self.look()\n        key = self.by_id.get(text[4:12])\n",
        "        self.by_id or self.look()\n        key = self.by_id.get(text[4:12])\n",
    ),
)
def test_a_revoked_key_is_refused_while_the_server_runs(server: Served) -> None:
    keys = ApiKeys(server.settings.lib / "serve")
    key = keys.make("leaver")
    url, headers = f"{server.url}/api/v1/desks", {"X-API-Key": key}
    assert httpx.get(url, headers=headers).status_code == 200
    keys.revoke(key[4:12])
    assert httpx.get(url, headers=headers).status_code == 401


@falls_without(
    "keys of one tenant",
    Removal("api/keys.py", "            self.require_room(tenant)\n", "            assert len(self.by_id) < 2000\n"),
)
def test_the_number_of_keys_of_a_tenant_is_limited(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path / "serve")
    mine = keys.make("greedy", "greedy")
    keys.by_id |= {f"{number:08x}": replace(keys.by_id[mine[4:12]], id=f"{number:08x}") for number in range(2000)}
    keep(keys)
    with pytest.raises(BriefError, match="revoke some"):
        keys.make("more", "greedy")
    assert keys.find(keys.make("other", "other")) is not None
    keys.by_id = {number: replace(key, revoked=1.0) for number, key in keys.by_id.items()}
    keep(keys)
    assert keys.find(keys.make("again", "greedy")) is not None
    assert len(keys.by_id) <= MAX_TENANT_KEYS + 2


def keep(keys: ApiKeys) -> None:
    private_files.write(keys.path.parent, keys.path.name, STORED.dump_json(list(keys.by_id.values())))


@falls_without(
    "browsers of one tenant",
    Removal(
        "access/browsers.py",
        "        for name in own[: -MAX_SESSIONS_PER_TENANT + 1]:\n",
        "        for name in list(self.sessions)[: -MAX_SESSIONS_PER_TENANT + 1]:\n",
    ),
)
def test_a_tenant_with_endless_sign_ins_signs_no_other_tenant_out(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path / "serve")
    browsers = Browsers(keys)
    _, other, _ = browsers.begin(keys.make("other", "other"), "127.0.0.1")
    key = keys.make("greedy", "greedy")
    cookies = [browsers.begin(key, "127.0.0.1")[1] for _ in range(3 * OF_TENANT)]
    assert other in browsers.sessions
    assert cookies[-1] in browsers.sessions
    assert len(browsers.sessions) == OF_TENANT + 1


@falls_without("numbers a journal can have", Removal("native/events.py", "min(int(last), 1 << 53)", "int(last)"))
def test_an_invalid_number_to_continue_from_breaks_nothing(server: Served) -> None:
    before = server.log.stat().st_size
    headers = {"X-API-Key": server.key, "Last-Event-ID": "9" * 20}
    told = httpx.get(f"{server.url}/api/v1/events?follow=false", headers=headers, timeout=30)
    assert (told.status_code, server.log.stat().st_size) == (200, before)


def opened(server: Served, path: str, **headers: str) -> socket.socket:
    line = called(server)
    told = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", **headers}
    told |= {"Host": "127.0.0.1", "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    line.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
    return line


@pytest.fixture(scope="module")
def desk(server: Served) -> str:
    headers = {"X-API-Key": server.key}
    made = httpx.post(f"{server.url}/api/v1/desks", json={}, headers=headers, timeout=60)
    return str(made.raise_for_status().json()["id"])


@falls_without(
    "a terminal's key",
    Removal(
        "desks/screens.py",
        "    await context.native.keys.wait_end(context.caller.key)\n",
        "    await anyio.sleep_forever()\n",
    ),
    cases="a terminal",
)
@falls_without(
    "a stream's key",
    Removal(
        "native/events.py",
        "    while context.native.keys.find_caller(context.caller.key) is not None:\n",
        "    while True:\n",
    ),
    cases="events",
)
@pytest.mark.parametrize("what", ["a terminal", "events"])
def test_running_requests_end_with_their_key(server: Served, desk: str, what: str) -> None:
    keys = ApiKeys(server.settings.lib / "serve")
    key = keys.make("leaver")
    if what == "a terminal":
        line = opened(server, f"/api/v1/desks/{desk}/terminal", **{"X-API-Key": key})
    else:
        line = called(server)
        line.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {key}\r\n\r\n".encode())
    with line:
        assert re.match(rb"HTTP/1.1 (101|200) ", line.recv(4096))
        keys.revoke(key[4:12])
        end = time.monotonic() + 8  # sooner than an idle connection would be cut
        while not is_over(line):
            assert time.monotonic() < end
            time.sleep(0.05)


def is_over(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        while data := line.recv(4096):
            if data.endswith((b"0\r\n\r\n", b"\x88\x02\x03\xe8")):
                return True
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


@falls_without(
    "sockets where somebody speaks them",
    Removal(
        "http/dispatch.py",
        '        if scope["type"] == "websocket" and part is not self.parts.native:\n',
        "        if False:\n",
    ),
    cases="/sandboxes | /files | /v2/sandboxes",
)
@no_guard("its part refuses a socket, too", cases="/ | /web/x | /mcp | /api/v1/session")
@pytest.mark.parametrize("path", ["/sandboxes", "/files", "/", "/web/x", "/mcp", "/v2/sandboxes", "/api/v1/session"])
def test_a_websocket_at_a_plain_route_is_refused_without_a_log_entry(server: Served, path: str) -> None:
    before = server.log.stat().st_size
    for _ in range(5):
        with opened(server, path) as line:
            assert b" 403" in line.recv(4096)
    written = server.log.read_bytes()[before:].decode().splitlines()
    assert [line for line in written if "unreported=" not in line] == []  # counts of earlier refusals arrive late


@pytest.fixture(scope="module")
def narrow(home: Path) -> Iterator[Served]:
    with served(home / "narrow", config=f"disk_floor = {1 << 60}\n[serve.quota]\nrate = 1\n") as found:
        yield found


@pytest.mark.sample(1)
@falls_without(
    "every way to show a key is counted",
    Removal(
        "http/dispatch.py",
        "        for tenant in tenants:\n            self.quotas.ask(tenant)\n",
        "        if (caller := self.keys.find(shown[0])) is not None:\n            self.quotas.ask(caller.tenant)\n",
    ),
    cases="header | beside | cookie",
)
@pytest.mark.parametrize("way", ["header", "beside", "cookie"])
def test_a_caller_with_too_many_requests_is_refused_however_it_authenticates(narrow: Served, way: str) -> None:
    key = ApiKeys(narrow.settings.lib / "serve").make("hasty", f"hasty-{way}")
    headers = {"Authorization": f"Bearer {key}", **({"X-API-Key": "x"} if way == "beside" else {})}
    if way == "cookie":
        told = httpx.post(f"{narrow.url}/api/v1/session", json={"key": key}, timeout=30)
        headers = {"Cookie": told.headers["set-cookie"].partition(";")[0]}
    with httpx.Client(base_url=narrow.url, headers=headers, timeout=30) as client:
        assert 429 in [client.get("/api/v1/session").status_code for _ in range(20)]


@falls_without(
    "a disk that is nearly full",
    Removal("native/bodies.py", "    if shutil.disk_usage(folder).free < floor:\n", "    if False:\n"),
)
@pytest.mark.parametrize("path", ["/api/v1/drive/x.bin", "/api/v1/uploads?name=x.bin"])
def test_a_tenant_cannot_fill_the_shared_disk(narrow: Served, path: str) -> None:
    key = ApiKeys(narrow.settings.lib / "serve").make("full", f"full-{len(path)}")
    method = "PUT" if "drive" in path else "POST"
    told = httpx.request(method, f"{narrow.url}{path}", content=b"x", headers={"X-API-Key": key}, timeout=30)
    assert (told.status_code, told.json()["code"]) == (507, "disk.full")
    left = list((narrow.settings.lib / "tenants").rglob("uploads/*"))
    assert left == []


@falls_without(
    "a server without privileges",
    Removal(
        "api/server.py", "        privileges.give_up(settings, ports=list_node_ports(serving))\n", "        pass\n"
    ),
)
def test_a_compromised_server_has_only_the_capability_to_read(server: Served) -> None:
    told = Path(f"/proc/{server.process.pid}/status").read_text()
    found = dict(line.split(":\t", 1) for line in told.splitlines() if line.startswith(("Cap", "NoNewPrivs")))
    assert {int(found[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0, 1 << 2}
    assert found["NoNewPrivs"] == "1"


TAKEN = """
import os, socket, sys
from dataclasses import replace
from pathlib import Path
from hotdesk.api import privileges
from hotdesk.config import Config
home = Path(sys.argv[1])
settings = Config(run=home / "run", lib=home / "lib", images=home / "images")
settings.images.mkdir(parents=True)
(settings.lib / "keys").mkdir(parents=True)
privileges.give_up(settings)
def tried(name, act):
    try:
        act()
    except OSError:
        return
    print(name)
tried("write an image", lambda: (settings.images / "x").write_text("x"))
tried("write the journal's folder", lambda: (settings.lib / "keys" / "x").write_text("x"))
tried("write elsewhere", lambda: (home / "x").write_text("x"))
tried("connect", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 2))
tried("listen", lambda: socket.create_server(("127.0.0.1", 0)))
tried("mount", lambda: os.chroot("/"))
tried("signal", lambda: os.kill(int(sys.argv[3]), 0))
for place in (settings.lib / "orders", settings.lib / "tenants", settings.run / "tenants", settings.run / "control"):
    tried(f"lay a link in {place.name}", lambda: (place / "link").symlink_to("/etc"))
    tried(f"lay a pipe in {place.name}", lambda: os.mkfifo(place / "pipe"))
tried("write what a runtime noted", lambda: (settings.run / "tenants" / "status").write_text("{}"))
(settings.run / "tenants" / "x" / "control").mkdir(parents=True)
socket.socket(socket.AF_UNIX).bind(str(settings.run / "tenants" / "x" / "control" / "1.sock"))
(settings.lib / "tenants" / "x").mkdir()
(settings.lib / "tenants" / "x" / "request.json").write_text("x")
(settings.lib / "orders" / "x").write_text("x")
print("over")
"""


@falls_without("what a server gives up", Removal("api/privileges.py", "    confine_reader(", "    print("))
@falls_without(
    "nothing but plain files of a server's",
    Removal("linux/landlock.py", "    restrict(list(writable), FILES, ", "    restrict(list(writable), ~0, "),
)
@falls_without(
    "nothing but sockets where keepers keep their state",
    Removal("linux/landlock.py", "*((each, SOCKETS) for each in sockets)", "*((each, ~0) for each in sockets)"),
)
def test_a_compromised_server_cannot_write_dial_or_signal_anything_else(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, owner = listener.getsockname()[1], Path("/proc/self").resolve().name
        argv = [sys.executable, "-c", TAKEN, str(tmp_path), str(port), owner]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split("\n") == ["over", ""], done.stderr


@falls_without(
    "words of a launcher",
    Removal("launch/job_command.py", "    if unknown := sorted(set(options) - allowed):\n", "    if unknown := []:\n"),
    cases="0 | 10",
)
@falls_without(
    "models a launcher takes",
    Removal("launch/job_command.py", "        if why := explain_refusal(each, listed):\n", '        if why := "":\n'),
    cases="11 | 12",
)
@no_guard("each option has a shape of its own", cases="1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9")
@pytest.mark.parametrize(
    "options",
    [
        {"script": "/x.py"},
        {"template": "../../etc"},
        {"template": "--debug"},
        {"models": ["--script=/x"]},
        {"models": ["anthropic:x --script"]},
        {"planners": "anthropic:x"},
        {"approve": "--json"},
        {"seconds": "1"},
        {"acts": -1},
        {"requester": "a\nb"},
        {"record": "/x"},
        {"models": ["chat:x@http://127.0.0.1:1/v1"]},
        {"planners": ["ollama:x"]},
    ],
    ids=range(13),
)
def test_a_launcher_refuses_invalid_options(options: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(BriefError):
        job_command.read_requester(options) or job_command.build_command("work", tmp_path, JOB, options, (tmp_path,))


@falls_without(
    "names of tenants", Removal("hotdesk/config.py", "    if not TENANT_SHAPE.fullmatch(name):\n", "    if False:\n")
)
@pytest.mark.parametrize("tenant", ["../x", "", "A", "x/y", "."])
def test_a_launcher_starts_nothing_for_an_invalid_tenant(tenant: str, tmp_path: Path) -> None:
    settings = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")

    async def attack() -> None:
        async with open_launcher(settings) as launcher:
            for asked in (
                launcher.start_keeper(tenant),
                launcher.work(tenant, JOB),
                launcher.forget_secret(tenant, "x"),
            ):
                with pytest.raises(BriefError):
                    await asked

    anyio.run(attack)


NONSENSE = {"nothing whole": b"{", "no request": b"[1]", "no end of depth": b"[" * 60_000, "no text": b"\xff"}


@falls_without(
    "nonsense for a launcher",
    Removal(
        "launch/launcher.py",
        "        except (ValueError, RecursionError, _UnknownRequestError):\n",
        "        except ZeroDivisionError:\n",
    ),
    cases="nothing whole | no end of depth | no text",
)
@falls_without(
    "what is no request for a launcher",
    Removal("launch/launcher.py", "            if not isinstance(message, dict):\n", "            if False:\n"),
    cases="no request",
)
@pytest.mark.parametrize("said", NONSENSE.values(), ids=NONSENSE)
def test_a_launcher_that_receives_garbage_ends_as_if_its_server_were_gone(said: bytes, tmp_path: Path) -> None:
    launcher = spawn(Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images"))
    with launcher.sock as line:
        line.setblocking(True)
        line.send(said)
        assert os.waitstatus_to_exitcode(os.waitpid(launcher.pid, 0)[1]) == 0


UNKNOWN = (
    {"n": 1, "verb": "shell", "tenant": "default"},
    {"n": 1, "verb": "keeper", "tenant": "default"},
    {"n": 1, "verb": "work", "tenant": "default", "job": 7, "options": {}},
    {"n": 1},
)


@falls_without(
    "known requests of a launcher",
    Removal("launch/launcher.py", "        raise _UnknownRequestError\n", '        raise BriefError("unknown")\n'),
)
@pytest.mark.parametrize("message", UNKNOWN, ids=["a verb", "no descriptor", "a type", "no verb"])
def test_a_launcher_that_receives_an_unknown_request_ends(message: dict[str, object], tmp_path: Path) -> None:
    launcher = spawn(Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images"))
    with launcher.sock as line:
        line.settimeout(20)
        line.send(json.dumps(message).encode())
        assert line.recv(4096) == b""
        assert os.waitstatus_to_exitcode(os.waitpid(launcher.pid, 0)[1]) == 0


@falls_without(
    "errands at once",
    Removal("launch/launcher.py", "        if len(self.errands) >= MAX_ERRANDS:\n", "        if False:\n"),
)
def test_a_launcher_runs_a_limited_number_of_errands(tmp_path: Path) -> None:
    settings = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        starting = Starting(settings, (), theirs)
        starting.errands = dict.fromkeys(range(MAX_ERRANDS), (0, 0))
        with pytest.raises(BriefError, match="changes to secrets and images"):
            starting.carry_out({"verb": "unsecret", "tenant": "acme", "name": "x", "n": 1}, [])


LOOKING, WANTED = 'goal = "Look around."\n', '[[deliverables]]\npath = "x.json"\ncheck = "json"\n'
FORGED: dict[str, dict[str, Any]] = {
    "a script": {"source": base64.b64encode(b"PLAN = ()").decode()},
    "a script under a template's name": {"script": "{installed}/audit/brain.py", "source": "UExBTiA9ICgpCg=="},
    "another folder for results": {"out": "/etc/cron.d"},
    "another folder of the brief": {"folder": "/root"},
    "decisions of another job": {"replay": "i" + "b" * 20},
    "replies of a recording": {"recording": "/root/recording.jsonl"},
    "a turned brain": {"adversary": "hijacked"},
    "a model at an address": {"plan": ("chat:x@http://127.0.0.1:1/v1",)},
    "a model of this machine": {"act": ("ollama:x",)},
    "a model that its brief names": {"brief": f'{LOOKING}[models]\nplan = "openai:x"\n{WANTED}'},
    "a model that its brief shows pictures": {"brief": f'{LOOKING}look = "openai:x"\n{WANTED}'},
}


@pytest.mark.sample(3)
@falls_without(
    "orders of a server's jobs", Removal("jobs/resume.py", "    if arguments.ordered is not None:\n", "    if False:\n")
)
@falls_without(
    "models of a server's orders",
    Removal("cli/job_request.py", "        if why := explain_refusal(name, listed):\n", '        if why := "":\n'),
    cases="a model at an address | a model of this machine",
)
@falls_without(
    "models of a stored brief",
    Removal("cli/job_request.py", "(*request.plan, *request.act, *sorted(own))", "(*request.plan, *request.act)"),
    cases="a model that its brief names | a model that its brief shows pictures",
)
@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_job_does_not_resume_with_a_request_a_server_forged(change: dict[str, Any], tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    folder, installed = job_command.get_folder(settings, JOB), tmp_path / "templates"
    folder.mkdir(parents=True)
    (installed / "audit").mkdir(parents=True)
    (installed / "audit" / "brain.py").write_text("PLAN = (look,)\n")
    right = JobRequest(brief=LOOKING + WANTED, folder=str(folder / "brief"), form="toml", out=str(folder / "out"))
    changed: dict[str, Any] = {
        name: value.format(installed=installed) if isinstance(value, str) else value for name, value in change.items()
    }
    forged = replace(right, **changed)
    papers.create(settings.lib / "jobs", JOB).keep_order(forged.as_bytes())
    argv = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
    listed = ("openai:gpt-5",) if "brief" in change else ()
    argv += job_command.build_command("resume", folder, JOB, {}, (installed,), listed)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=environment(settings))
    assert "was changed after the server wrote it" in done.stderr or "cannot continue with its model" in done.stderr
    assert done.returncode != 0


@falls_without(
    "variables of jobs and errands",
    Removal("launch/launcher.py", "if name in passed or name.startswith(PASSED_LIKE)}", "if name or passed}"),
)
def test_a_launcher_passes_on_only_listed_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {
        "HOTDESK_HOME": str(tmp_path),
        "HOTDESK_MICROVM_EMULATE": "0",
        "HOTDESK_CHAT_IMAGES": "1",
        "OPENAI_API_KEY": "sk-jobs",
        "PIP_INDEX_URL": "http://a.test/simple",
    }
    unlisted = {
        "DATABASE_URL": "postgres://x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "HOTDESK_ALLOW_LOCAL": "1",
        "LD_PRELOAD": "",
    }
    for name, value in (listed | unlisted).items():
        monkeypatch.setenv(name, value)
    seen = {kind: started_with(passed) for kind, passed in (("errand", PASSED), ("job", (*PASSED, *OF_MODELS)))}
    assert [sorted(set(each) & set(unlisted)) for each in seen.values()] == [[], []]
    assert listed.items() <= seen["job"].items()
    assert not {"OPENAI_API_KEY", "HOTDESK_CHAT_IMAGES"} & set(seen["errand"])


def started_with(passed: tuple[str, ...]) -> dict[str, str]:
    """Start a command that waits for input; return its environment variables."""
    read, write = os.pipe()
    with open(os.devnull, "wb") as nothing:
        places = (read, nothing.fileno(), nothing.fileno())
        pid = run(["vault", "set", "x"], "acme", "", *places, passed=passed)
    try:
        while not (told := Path(f"/proc/{pid}/environ").read_bytes()):
            time.sleep(0.01)  # its program is being loaded
        words = told.decode().split("\0")
        return dict(each.split("=", 1) for each in words if "=" in each)
    finally:
        os.close(write)
        os.close(read)
        os.waitpid(pid, 0)


@falls_without(
    "filters a keeper made",
    Removal(
        "container/filter_cache.py",
        "            if os.fstat(file.fileno()).st_uid != uids.KEEPER:\n",
        "            if False:\n",
    ),
)
def test_a_launcher_does_not_use_a_filter_a_server_wrote(tmp_path: Path) -> None:
    filters = Filters(tmp_path / "cache", "crun")
    assert filters.file is not None
    made = tmp_path / "made"
    made.write_bytes(bytes(8))
    filters.keep(made)
    assert Filters(tmp_path / "cache", "crun").compiled is not None
    filters.file.unlink()
    filters.file.write_bytes(bytes(8))
    assert Filters(tmp_path / "cache", "crun").compiled is None


@falls_without(
    "links in a job's folder", Removal("launch/job_command.py", "os.O_CREAT | os.O_NOFOLLOW |", "os.O_CREAT |")
)
def test_a_launcher_follows_no_link_when_writing(tmp_path: Path) -> None:
    settings = get_tenant_settings(
        Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images"), "acme"
    )
    folder = job_command.get_folder(settings, JOB)
    folder.mkdir(parents=True)
    target = tmp_path / "target"
    target.write_text("")
    (folder / "stdout").symlink_to(target)
    with pytest.raises(OSError, match="symbolic"), job_command.outputs(folder):
        pass


NO_SANDBOX = "i" + "0" * 20
"""The id of a sandbox that never existed."""


@dataclass(frozen=True, slots=True)
class Theirs:
    """What one tenant has in the E2B API, and a client of another tenant."""

    eve: httpx.Client
    sandbox: str
    token: str
    snapshot: str
    image: str
    """The image its files are stored in, whose name no one is told."""


@pytest.fixture(scope="module")
def theirs(server: Served) -> Iterator[Theirs]:
    """Yield another tenant's objects, which must still exist in the end."""
    eve = ApiKeys(server.settings.lib / "serve").make("eve", "other")
    with (
        httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=60) as owner,
        httpx.Client(base_url=server.url, headers={"X-API-Key": eve}, timeout=60) as stranger,
    ):
        made = owner.post("/v2/sandboxes", json={"templateID": "base", "timeout": 300, "secure": True}).json()
        place = f"/sandboxes/{made['sandboxID']}"
        taken = owner.post(f"{place}/snapshots", json={"name": "ours"}).raise_for_status().json()
        [kept] = json.loads((server.settings.lib / "serve" / snapshots.FILE).read_text())
        yield Theirs(stranger, made["sandboxID"], made["envdAccessToken"], taken["snapshotID"], kept["image"])
        assert owner.get(place).json()["state"] == "running"
        assert [each["snapshotID"] for each in owner.get("/snapshots").json()] == [taken["snapshotID"]]
        owner.delete(place)
        owner.delete(f"/templates/{quote(taken['snapshotID'], safe='')}")


@falls_without(
    "snapshots are no templates", Removal("control/snapshots.py", " and not image.startswith(PREFIX):\n", ":\n")
)
def test_another_tenant_cannot_open_a_snapshot_by_any_name(theirs: Theirs) -> None:
    word = theirs.snapshot.partition(":")[0]
    for name in (theirs.snapshot, word, "ours", "default/ours", "ours:default", theirs.image, f"other/{theirs.image}"):
        told = theirs.eve.post("/v2/sandboxes", json={"templateID": name, "timeout": 60})
        assert told.status_code == 404, (name, told.text)


@falls_without(
    "snapshots are no images", Removal("desks/images.py", "    if image.startswith(PREFIX):\n", "    if False:\n")
)
def test_a_snapshot_cannot_be_used_as_an_image_for_a_desk(theirs: Theirs) -> None:
    assert theirs.eve.post("/api/v1/desks", json={"image": theirs.image}).status_code == 404


@falls_without("snapshots are no images")
def test_a_snapshot_cannot_be_used_as_an_image_for_a_job(theirs: Theirs) -> None:
    brief = f'goal = "Look around."\nimage = "{theirs.image}"\n[[deliverables]]\npath = "x.json"\ncheck = "json"\n'
    told = theirs.eve.post("/api/v1/jobs", json={"brief": brief})
    assert (told.status_code, told.json()["code"]) == (404, "image.missing")


@falls_without("snapshots are no templates")
def test_another_tenant_cannot_see_or_delete_a_snapshot(theirs: Theirs) -> None:
    for name in (theirs.snapshot, "ours", "default/ours", theirs.image):
        path = quote(name, safe="")
        assert theirs.eve.get(f"/templates/aliases/{path}").status_code == 404
        assert theirs.eve.delete(f"/templates/{path}").status_code == 404
    for query in ("", f"?sandboxID={theirs.sandbox}", "?name=ours", "?name=default/ours"):
        assert theirs.eve.get(f"/snapshots{query}").json() == []


@falls_without(
    "sandboxes of one tenant",
    Removal("e2b/sandboxes.py", "if each.tenant.name == tenant and not has_ended(each))", "if not has_ended(each))"),
)
def test_another_tenants_sandbox_is_in_no_list_and_no_metrics(theirs: Theirs) -> None:
    assert theirs.eve.get("/sandboxes").json() == []
    assert theirs.eve.get("/v2/sandboxes?state=running,paused").json() == []
    assert theirs.eve.get(f"/sandboxes/metrics?sandbox_ids={theirs.sandbox}").json() == {"sandboxes": {}}


ACT_BODIES: dict[str, dict[str, object]] = {
    "connect": {"timeout": 60}, "resume": {"timeout": 60}, "timeout": {"timeout": 1}, "refreshes": {"duration": 60},
    "snapshots": {"name": "stolen"}, "network": {"allowOut": ["a.test"], "denyOut": ["0.0.0.0/0"]},
    "shares": {"port": 8000},
}  # fmt: skip
BY_SANDBOX = [("GET", ""), *((method, f"/{act}") for method, act in ACTS), ("DELETE", "")]


@falls_without(
    "a sandbox is one tenant's",
    Removal("e2b/sandboxes.py", " or found.tenant.name != tenant or has_ended(found)", " or has_ended(found)"),
)
@pytest.mark.parametrize(("method", "act"), BY_SANDBOX, ids=[f"{method} {act}" for method, act in BY_SANDBOX])
def test_another_tenants_sandbox_is_answered_as_unknown(theirs: Theirs, method: str, act: str) -> None:
    body = ACT_BODIES.get(act[1:], {}) if method in ("POST", "PUT") else None
    found, never = [
        theirs.eve.request(method, f"/sandboxes/{each}{act}", json=body) for each in (theirs.sandbox, NO_SANDBOX)
    ]
    assert (found.status_code, found.text.replace(theirs.sandbox, NO_SANDBOX)) == (never.status_code, never.text)
    assert found.status_code == 404, found.text


@falls_without(
    "tokens of one sandbox",
    Removal("envd/signing.py", "    if not hmac.compare_digest(shown.encode(), token.encode()):\n", "    if False:\n"),
)
def test_a_key_of_another_tenant_is_not_accepted_as_a_sandboxes_token(theirs: Theirs) -> None:
    aimed = {"E2b-Sandbox-Id": theirs.sandbox, "E2b-Sandbox-Port": "49983"}
    key = theirs.eve.headers["x-api-key"]
    for shown in ({}, {"X-Access-Token": key}, {"X-Access-Token": theirs.token[:-1]}, {"X-API-Key": key}):
        told = theirs.eve.get("/files?path=/etc/hostname&username=user", headers={**aimed, **shown})
        assert told.status_code == 401, told.text


@falls_without(
    "signatures of one token",
    Removal(
        "envd/signing.py",
        "hmac.compare_digest(self.compute_signature(token).encode(), self.signature.encode())",
        "True",
    ),
)
def test_a_signature_is_valid_only_for_the_sandbox_whose_token_made_it(theirs: Theirs) -> None:
    made = theirs.eve.post("/v2/sandboxes", json={"templateID": "base", "timeout": 60, "secure": True}).json()
    own = get_signature("/etc/hostname", "read", "user", made["envdAccessToken"])["signature"]
    query = {"path": "/etc/hostname", "username": "user", "signature": own}
    aimed = {"E2b-Sandbox-Id": theirs.sandbox, "E2b-Sandbox-Port": "49983"}
    assert theirs.eve.get("/files", params=query, headers=aimed).status_code == 401
    theirs.eve.delete(f"/sandboxes/{made['sandboxID']}")


@no_guard("a link is 256 random bits")
def test_a_viewing_link_cannot_be_guessed_or_used_elsewhere(server: Served, theirs: Theirs) -> None:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=60) as owner:
        owner.put("/api/v1/drive/plan.txt", content=b"ours").raise_for_status()
        link = (
            owner.post("/api/v1/content", json={"kind": "drive", "path": "plan.txt"}).raise_for_status().json()["url"]
        )
    path, origin = link.partition("://")[2].partition("/")[2], link.partition("://")[2].partition("/")[0]
    assert theirs.eve.get(f"/{path}").status_code == 404
    assert theirs.eve.get(f"/{path[:-1]}", headers={"Host": origin}).status_code == 404
    assert theirs.eve.post("/api/v1/content", json={"kind": "drive", "path": "plan.txt"}).status_code == 404
