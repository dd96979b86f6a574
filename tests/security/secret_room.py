"""A desk with grants of every kind, the hosts they are for, and a hostile one: the set-up of attacks on secrets."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
import time
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.config import Config
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk
from hotdesk.drive.chain import Row
from hotdesk.drive.journal import FILE, read
from hotdesk.host import Host
from hotdesk.linux import private_files, uids
from hotdesk.vault import Basic, Command, OAuth2, Token, Totp, Vault, encode_argv
from tests.leftovers import parent, pids
from tests.origins import Origin
from tests.upstream import Seen, Upstream, upstream

SECRETS = {
    "token-a": b"alpha-real-value-0123456789abcdef",
    "token-b": b"bravo-real-value-0123456789abcdef",
    "token-p": b"papa-real-value-0123456789abcdef",
    "token-i": b"india-real-value-0123456789abcdef",
    "token-r": b"romeo-real-value-0123456789abcdef",
    "token-o": b"oscar-real-value-0123456789abcdef",
}
PASSWORD = b"charlie-real-password-0123456789"
CLIENT = b"echo-client-real-secret-0123456789"
SEED = b"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
WHO = ["/bin/sh", "-c", 'echo "printed-by-uid-$(id -u)-gid-$(id -g)"']
REFUSED = (0, 400, 403)
"""The statuses of a refused request; 0: the connection ended without a readable answer."""

HOSTS = tuple(f"{name}.test" for name in "a b pin basic totp oauth command issue open".split())
FREE, HOSTILE, LATE = "free.test", "hostile.test", "late.test"
RULES = tuple(parse_rule(f"write {host}") for host in (*HOSTS, FREE, HOSTILE))
GRANTS = tuple(
    map(
        parse_grant,
        (
            "token-a@a.test env=A",
            "token-b@b.test header=X-Api-Key swap env=B",
            "token-p@pin.test query=key:GET:/pinned swap form=password:POST:/login json=auth.password:POST:/json env=P",
            "basic-c@basic.test basic swap env=C",
            "totp-d@totp.test form=code:POST:/login env=D",
            "oauth-e@oauth.test",
            "command-f@command.test",
            "token-i@issue.test env=I",
            "token-r@hostile.test env=R",
            "token-o@open.test foreign",
        ),
    )
)

VISIT = """
import base64, concurrent.futures, http.client, ssl

trusted = ssl.create_default_context()

def visit(host, method="GET", path="/data", headers=(), body="", chunks=None, pause=0.0, scheme="https", ca=None,
          trailer="", case=""):
    context = trusted
    if ca:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=ca)
    try:
        if scheme == "https":
            line = http.client.HTTPSConnection("127.0.0.1", 3128, timeout=25, context=context)
            line.set_tunnel(host, 443)
        else:
            line = http.client.HTTPConnection("127.0.0.1", 3128, timeout=25)
            path = "http://" + host + path
        line.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        line.putheader("Host", host)
        for name, value in [*headers, *([["X-Request-Id", case]] if case else [])]:
            line.putheader(name, value)
        data = base64.b64decode(body)
        if chunks is not None:
            line.putheader("Transfer-Encoding", "chunked")
        elif data:
            line.putheader("Content-Length", str(len(data)))
        line.endheaders()
        try:
            for chunk in map(base64.b64decode, chunks or ()):
                line.send(b"%x\\r\\n%b\\r\\n" % (len(chunk), chunk))
                time.sleep(pause)
            if chunks is not None:
                line.send(b"0\\r\\n" + trailer.encode() + b"\\r\\n")
            elif data:
                line.send(data)
        except OSError:
            pass
        answer = line.getresponse()
        return [answer.status, answer.getheaders(), base64.b64encode(answer.read()).decode(), answer.reason]
    except (OSError, http.client.HTTPException) as e:
        return [0, [], "", repr(e)]

def visit_all(requests):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda each: visit(**each), requests))
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer a desk got; status 0 means that it could read none."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    reason: str

    @property
    def told(self) -> bytes:
        head = "\n".join(f"{name}: {value}" for name, value in self.headers)
        return f"{self.status} {self.reason}\n{head}\n".encode("latin-1", "replace") + self.body

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


@dataclass(frozen=True, slots=True)
class Case:
    """One of many requests sent together: the answer to it, and what arrived upstream."""

    answer: Answer
    seen: tuple[Seen, ...]

    @property
    def arrived(self) -> bytes:
        return b"\n".join(
            f"{seen.method} {seen.path} {seen.headers} ".encode() + unpacked(seen.body) + unbasic(seen.headers)
            for seen in self.seen
        )


def unpacked(body: bytes) -> bytes:
    with suppress(zlib.error):
        return zlib.decompressobj(31).decompress(body)
    return body


def unbasic(headers: list[tuple[str, str]]) -> bytes:
    return b"".join(base64.b64decode(value[6:] + "==") for _, value in headers if value.startswith("Basic "))


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@dataclass
class Raw:
    """A server that sends exactly the bytes it is given."""

    port: int = 0
    says: dict[str, Sequence[bytes]] = field(default_factory=dict)
    """By path: the pieces to send, one after the other."""
    got: list[bytearray] = field(default_factory=list)
    """Everything received, for each connection."""

    def talk(self, sock: socket.socket) -> None:
        data = bytearray()
        self.got.append(data)
        with sock, suppress(OSError):
            sock.settimeout(30)
            while b"\r\n\r\n" not in data and (more := sock.recv(1 << 16)):
                data += more
            path = data.split(b" ")[1].decode("latin-1").partition("?")[0] if data.count(b" ") > 1 else ""
            for piece in self.says.get(path, (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",)):
                sock.sendall(piece)
                time.sleep(0.02)
            sock.settimeout(0.3)
            while more := sock.recv(1 << 16):
                data += more


@contextmanager
def raw_server(chain: Path) -> Iterator[Raw]:
    """Run, for a block, a hostile host with the certificate and key in a file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    raw, over = Raw(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        raw.port = listener.getsockname()[1]
        listener.settimeout(0.1)

        def accept() -> None:
            while not over.is_set():
                with suppress(OSError):
                    sock, _ = listener.accept()
                    sock.settimeout(30)
                    talk = context.wrap_socket(sock, server_side=True)
                    threading.Thread(target=raw.talk, args=(talk,), daemon=True).start()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield raw
        finally:
            over.set()
            thread.join()


@dataclass
class Room:
    """Everything an attack needs."""

    settings: Config
    vault: Vault
    up: Upstream
    raw: Raw
    tokens: Upstream
    """The token server."""
    origin: Origin
    host: Host
    desk: Desk
    neighbour: Desk
    held: Mapping[str, str]
    """The placeholders in the desk, by variable."""
    strange: Mapping[str, str]
    """The placeholders in the neighbouring desk."""

    def scope(self, *grants: str, rules: Sequence[str] = (), may_ask: bool = True) -> Scope:
        more = tuple(map(parse_rule, rules)) or RULES
        return Scope(more, tuple(map(parse_grant, grants)), self.names, may_ask)

    @property
    def names(self) -> dict[str, str]:
        return dict.fromkeys((*HOSTS, FREE, LATE), self.up.address) | {HOSTILE: f"127.0.0.1:{self.raw.port}"}

    @property
    def journal(self) -> Path:
        return self.settings.lib / "keys" / FILE

    def rows(self, desk: Desk | None = None) -> list[Row]:
        return list(read(self.journal, desk=(desk or self.desk).id))

    def alarms(self, what: str, desk: Desk) -> int:
        return sum(row.name == "Alarm" and json.loads(row.data)["what"] == what for row in self.rows(desk))

    def part(self, uid: int, keeper: int = 0) -> int:
        assert isinstance(self.host.runtime, KeeperRuntime)
        return part(keeper or self.host.runtime.keeper.pid, uid)


def part(keeper: int, uid: int) -> int:
    for pid in pids():
        with suppress(OSError):
            if parent(pid) == keeper and f"\nUid:\t{uid}\t" in Path(f"/proc/{pid}/status").read_text():
                return pid
    raise AssertionError(f"the keeper has no child of user {uid}")


async def placeholders(desk: Desk) -> dict[str, str]:
    lines = (await desk.run(["env"])).text.splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines) if "hotdesk-secret-" in value}


def make_vault(settings: Config, token_url: str) -> Vault:
    folder = settings.lib / "keys"
    private_files.make_folder(folder, uids.KEYS)
    vault = Vault.make(folder, "file")
    for name, value in SECRETS.items():
        vault.put(name, Token(), value)
    vault.put("basic-c", Basic("clerk"), PASSWORD)
    vault.put("totp-d", Totp(), SEED)
    vault.put("oauth-e", OAuth2(token_url, "client-e", "read"), CLIENT, loopback=True)
    vault.put("command-f", Command(), encode_argv(WHO))
    return vault


@asynccontextmanager
async def opened(settings: Config, folder: Path, origin: Origin) -> AsyncIterator[Room]:
    for name in ("up", "tokens"):
        (folder / name).mkdir(parents=True)
    with (
        upstream(folder / "up", *HOSTS, FREE, LATE, HOSTILE) as up,
        upstream(folder / "tokens", "unused.test", tls=False) as tokens,
        raw_server(folder / "up" / "upstream.pem") as raw,
    ):
        settings = replace(settings, run=folder / "run", lib=folder / "lib", ca=str(up.ca))
        vault = make_vault(settings, f"http://127.0.0.1:{tokens.port}/token")
        async with Host(settings, control=True) as host:
            assert isinstance(host.runtime, KeeperRuntime)
            host.runtime = origin(host.runtime)
            room = Room(settings, vault, up, raw, tokens, origin, host, None, None, {}, {})  # type: ignore[arg-type]
            async with (
                host.open_desk(scope=replace(room.scope(), grants=GRANTS)) as room.desk,
                host.open_desk(scope=room.scope("token-a@a.test env=A", "token-b@b.test header=X-Api-Key env=B")) as n,
            ):
                room.neighbour = n
                room.held, room.strange = await placeholders(room.desk), await placeholders(n)
                yield room


def loads(told: str) -> list[Answer]:
    return [
        Answer(status, tuple((name, value) for name, value in headers), base64.b64decode(body), reason)
        for status, headers, body, reason in json.loads(told)
    ]
