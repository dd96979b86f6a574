"""Tests of port traffic: programs and browsers reach the servers inside a sandbox, and nothing else."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import pytest
from e2b import Sandbox
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

ECHO, SOCKETS = 8000, 8001
INSIDE = r"""
import base64, hashlib, http.server, json, socketserver, struct, threading, time

class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))
    def do(self):
        if self.path == "/early":
            self.raw(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlate")
            return
        if self.path == "/events":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            for n in range(3):
                self.wfile.write(b"data: %d\n\n" % n)
                self.wfile.flush()
                self.rfile.readline() if False else time.sleep(0.2)
            self.close_connection = True
            return
        if self.path == "/hang":
            open("/tmp/began", "w").close()
            while self.connection.recv(1): pass
            open("/tmp/left", "w").close()
            self.close_connection = True
            return
        if self.path == "/interim":
            self.raw(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return
        if self.path == "/trailers":
            self.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-After: yes\r\n\r\n")
            return
        if self.path == "/none":
            self.raw(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: x\r\n\r\n")
            return
        if self.path.startswith("/large"):
            self.send_response(200)
            size = 64 << 20
            self.send_header("Content-Length", str(size))
            self.end_headers()
            for _ in range(64): self.wfile.write(b"x" * (1 << 20))
            return
        body = self.body()
        seen = hashlib.sha256(body).hexdigest() if self.path == "/hash" else body.decode("latin-1")
        told = {"method": self.command, "path": self.path, "headers": self.headers.items(), "body": seen}
        data = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Set-Cookie", "mine=1; Path=/")
        self.send_header("Set-Cookie", "wide=1; Path=/; Domain=localhost")
        self.send_header("Set-Cookie", "__Host-hotdesk=1; Path=/; Secure")
        self.end_headers()
        if self.command != "HEAD": self.wfile.write(data)
    def raw(self, data):
        self.wfile.write(data)
        self.close_connection = True
    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = do

class Sockets(socketserver.StreamRequestHandler):
    def handle(self):
        first, headers = self.rfile.readline(), {}
        while line := self.rfile.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        if b"/refused" in first:
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
            return
        key = headers["sec-websocket-key"] if b"/wrong" not in first else "bm90IHRoZSBrZXkgYXQgYWxs"
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        chosen = headers.get("sec-websocket-protocol", "").partition(",")[0]
        more = f"Sec-WebSocket-Protocol: {chosen}\r\n".encode() if chosen else b""
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         b"Sec-WebSocket-Accept: " + accept + b"\r\n" + more + b"\r\n")
        while True:
            head = self.rfile.read(2)
            if len(head) < 2: break
            size = head[1] & 127
            if size == 126: size = struct.unpack(">H", self.rfile.read(2))[0]
            if size == 127: size = struct.unpack(">Q", self.rfile.read(8))[0]
            mask, data = self.rfile.read(4), self.rfile.read(size)
            data = bytes(a ^ mask[i % 4] for i, a in enumerate(data)) if size < 1 << 17 else data
            if head[0] & 15 == 8:
                self.wfile.write(bytes([0x88, len(data)]) + data)
                break
            sized = bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size)
            self.wfile.write(bytes([head[0]]) + sized + data)
        open("/tmp/socket-left", "w").close()

class Threads(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

http.server.ThreadingHTTPServer.request_queue_size = 128
threading.Thread(target=Threads(("127.0.0.1", 8001), Sockets).serve_forever).start()
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Echo).serve_forever()
"""


@pytest.fixture(scope="module")
def sandbox(server: Served) -> Iterator[Sandbox]:
    made = Sandbox.create(**server.e2b)
    try:
        serve_inside(made)
        yield made
    finally:
        made.kill()


def serve_inside(sandbox: Sandbox) -> None:
    """Start the servers, and wait until they listen."""
    sandbox.commands.run(f"python3 -c '{quoted(INSIDE)}'", background=True, timeout=0)
    check = 'import socket; [socket.create_connection(("127.0.0.1", p), 1) for p in (8000, 8001)]'
    done = sandbox.commands.run(
        f"for n in $(seq 100); do python3 -c '{check}' 2>/dev/null && exit 0; sleep 0.1; done; exit 1"
    )
    assert done.exit_code == 0


def quoted(text: str) -> str:
    return text.replace("'", "'\"'\"'")


def at(server: Served, sandbox: Sandbox, port: int) -> dict[str, str]:
    return {"Host": sandbox.get_host(port)}


def get(server: Served, sandbox: Sandbox, path: str, port: int = ECHO, **more: Any) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", headers={**at(server, sandbox, port), **more}, timeout=20)


def names(answer: httpx.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.json()["headers"]}


def test_a_server_inside_is_reached_by_name(server: Served, sandbox: Sandbox) -> None:
    answer = get(server, sandbox, "/a%2Fb?x=1&y=%20")
    assert answer.status_code == 200
    assert (answer.json()["method"], answer.json()["path"]) == ("GET", "/a%2Fb?x=1&y=%20")
    assert names(answer)["host"] == at(server, sandbox, ECHO)["Host"]


def test_a_server_inside_is_reached_by_header(server: Served, sandbox: Sandbox) -> None:
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(ECHO)}
    assert httpx.get(f"{server.url}/x", headers=headers).json()["path"] == "/x"


def test_header_names_are_spelled_as_by_e2bs_proxy(server: Served, sandbox: Sandbox) -> None:
    more = {"x-CUSTOM-id": "1", "etag": "2", "Sec-Fetch-Mode": "cors", "x_y": "3"}
    answer = httpx.get(f"{server.url}/", headers={**at(server, sandbox, ECHO), **more}, timeout=20)
    arrived = [name for name, _ in answer.json()["headers"]]
    assert {"Host", "X-Custom-Id", "Etag", "Sec-Fetch-Mode", "X_y", "User-Agent", "Connection"} <= set(arrived)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_a_body_arrives_as_it_was_sent(server: Served, sandbox: Sandbox, method: str) -> None:
    answer = httpx.request(method, f"{server.url}/", headers=at(server, sandbox, ECHO), content=b"a\r\n\0b")
    assert (answer.json()["method"], answer.json()["body"]) == (method, "a\r\n\0b")
    assert names(answer)["content-length"] == "5"


def test_a_large_body_streams_in_as_chunks(server: Served, sandbox: Sandbox) -> None:
    part = bytes(range(256)) * 1024
    answer = httpx.post(
        f"{server.url}/hash", headers=at(server, sandbox, ECHO), content=(part for _ in range(32)), timeout=60
    )
    assert answer.json()["body"] == hashlib.sha256(part * 32).hexdigest()
    assert names(answer)["transfer-encoding"] == "chunked"
    assert "content-length" not in names(answer)


def test_a_large_answer_streams_out(server: Served, sandbox: Sandbox) -> None:
    with httpx.stream("GET", f"{server.url}/large", headers=at(server, sandbox, ECHO), timeout=60) as answer:
        assert sum(len(data) for data in answer.iter_bytes()) == 64 << 20


def test_events_arrive_one_by_one(server: Served, sandbox: Sandbox) -> None:
    with httpx.stream("GET", f"{server.url}/events", headers=at(server, sandbox, ECHO), timeout=20) as answer:
        assert list(answer.iter_raw()) == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]


def test_a_head_is_answered_without_a_body(server: Served, sandbox: Sandbox) -> None:
    answer = httpx.head(f"{server.url}/", headers=at(server, sandbox, ECHO))
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


def test_an_interim_answer_is_followed_by_the_final_one(server: Served, sandbox: Sandbox) -> None:
    assert get(server, sandbox, "/interim").text == "ok"


def test_trailers_after_a_body_are_dropped(server: Served, sandbox: Sandbox) -> None:
    answer = get(server, sandbox, "/trailers")
    assert (answer.text, "x-after" in answer.headers) == ("ok", False)


def test_an_answer_that_has_no_body_has_none(server: Served, sandbox: Sandbox) -> None:
    answer = get(server, sandbox, "/none")
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", "x")


def test_an_answer_may_come_before_the_request_is_whole(server: Served, sandbox: Sandbox) -> None:
    answer = httpx.post(f"{server.url}/early", headers=at(server, sandbox, ECHO), content=b"x" * (4 << 20))
    assert (answer.status_code, answer.text) == (413, "late")


def test_a_client_that_expects_continue_gets_it(server: Served, sandbox: Sandbox) -> None:
    with connected(server) as sock:
        host = at(server, sandbox, ECHO)["Host"]
        sock.sendall(f"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n".encode())
        assert sock.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"ok")
        assert b'"body": "ok"' in read_answer(sock)


def test_one_connection_serves_many_requests(server: Served, sandbox: Sandbox) -> None:
    with httpx.Client(headers=at(server, sandbox, ECHO)) as client:
        assert [client.get(f"{server.url}/{n}").json()["path"] for n in range(5)] == [f"/{n}" for n in range(5)]


def test_a_client_that_disconnects_ends_its_request_inside(server: Served, sandbox: Sandbox) -> None:
    with connected(server) as sock:
        sock.sendall(f"GET /hang HTTP/1.1\r\nHost: {at(server, sandbox, ECHO)['Host']}\r\n\r\n".encode())
        seen(sandbox, "/tmp/began")
    seen(sandbox, "/tmp/left")


@pytest.mark.parametrize("port", [1, 3128, 8999, 65535])
def test_a_port_without_a_listener_is_reported(server: Served, sandbox: Sandbox, port: int) -> None:
    answer = get(server, sandbox, "/", port)
    told = {"code": 502, "message": "The sandbox is running but port is not open"}
    assert (answer.status_code, answer.json()) == (502, {**told, "sandboxId": sandbox.sandbox_id, "port": port})


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_an_invalid_port_is_not_open(server: Served, sandbox: Sandbox, port: str) -> None:
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": port}
    answer = httpx.get(server.url, headers=headers)
    assert (answer.status_code, answer.json()["message"]) == (502, "The sandbox is running but port is not open")


def test_a_sandbox_that_is_not_there_is_reported(server: Served) -> None:
    name = f"i{'0' * 20}"
    answer = httpx.get(server.url, headers={"Host": f"8000-{name}.localhost"})
    told = {"code": 502, "message": "The sandbox was not found", "sandboxId": name}
    assert (answer.status_code, answer.json()) == (502, told)


def test_killing_a_sandbox_cuts_open_requests(server: Served) -> None:
    made = Sandbox.create(**server.e2b)
    serve_inside(made)
    with connected(server) as sock:
        sock.sendall(f"GET /hang HTTP/1.1\r\nHost: {at(server, made, ECHO)['Host']}\r\n\r\n".encode())
        seen(made, "/tmp/began")
        made.kill()
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    assert get(server, made, "/").json()["message"] == "The sandbox was not found"


# -- WebSocket --------------------------------------------------------------------------------------------------------


def dial(server: Served, sandbox: Sandbox, path: str = "/", port: int = SOCKETS, **more: Any) -> ClientConnection:
    parts = urlsplit(server.url)
    sock = socket.create_connection((parts.hostname or "", parts.port or 0))
    return cast(ClientConnection, connect(f"ws://{sandbox.get_host(port)}{path}", sock=sock, **more))


def test_a_websocket_is_passed_both_ways(server: Served, sandbox: Sandbox) -> None:
    with dial(server, sandbox, compression=None) as ws:
        for message in ("hello", b"\0\xff", "x" * 60_000):
            ws.send(message)
            assert ws.recv(10) == message


def test_the_server_inside_chooses_the_subprotocol(server: Served, sandbox: Sandbox) -> None:
    with dial(server, sandbox, subprotocols=["binary", "base64"], compression=None) as ws:
        assert ws.subprotocol == "binary"


def test_a_websocket_that_ends_outside_ends_inside(server: Served, sandbox: Sandbox) -> None:
    sandbox.commands.run("rm -f /tmp/socket-left")
    with dial(server, sandbox, compression=None) as ws:
        ws.send("hello")
        ws.recv(10)
        ws.socket.close()
    seen(sandbox, "/tmp/socket-left")


@pytest.mark.parametrize(
    ("path", "port", "status"),
    [("/refused", SOCKETS, 403), ("/wrong", SOCKETS, 502), ("/", 8999, 502)],
    ids=["refused inside", "answered for another key", "nobody listens"],
)
def test_a_refused_websocket_gets_the_reason(
    server: Served, sandbox: Sandbox, path: str, port: int, status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused, dial(server, sandbox, path, port):
        pass
    assert refused.value.response.status_code == status


# -- headers and cookies -------------------------------------------------------------------------------------------


def test_a_server_inside_sees_its_clients_headers(server: Served, sandbox: Sandbox) -> None:
    told = names(
        get(server, sandbox, "/", ECHO, **{"Authorization": "Bearer x", "Cookie": "a=1; b=2", "X-Mine": "yes"})
    )
    assert (told["authorization"], told["cookie"], told["x-mine"]) == ("Bearer x", "a=1; b=2", "yes")


def test_a_server_inside_sets_cookies_for_its_own_name(server: Served, sandbox: Sandbox) -> None:
    assert get(server, sandbox, "/").headers.get_list("set-cookie") == ["mine=1; Path=/"]


# -- beside the tests -------------------------------------------------------------------------------------------------


def connected(server: Served) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20)


def read_answer(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < size:
        body += sock.recv(1 << 16)
    return body


def seen(sandbox: Sandbox, path: str) -> None:
    assert (
        sandbox.commands.run(f"for n in $(seq 200); do [ -e {path} ] && exit 0; sleep 0.05; done; exit 1").stdout == ""
    )
