"""Attacks on the door: names, addresses and malformed bytes that must not get past it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.config import Config
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk
from hotdesk.door.egress import Egress, GrantValue
from hotdesk.door.exchange import Forward
from hotdesk.door.http import framing
from hotdesk.door.http.resolve import Resolver
from hotdesk.door.http.upstream import UnreachableError, Upstreams, UpstreamSlot
from hotdesk.door.http.wire import Wire
from hotdesk.door.policy import target
from hotdesk.door.policy.policy import Policy
from hotdesk.errors import BriefError
from hotdesk.event import Event, RequestAdmitted
from hotdesk.host import Host
from hotdesk.linux import private_files, uids
from hotdesk.vault import Token, Vault
from tests.origins import Origin
from tests.security.conftest import KNOCK, Attack, Launch
from tests.security.door_rows import AWAY, AWAY_TOOLS, CHUNKED, FRAMES, INWARD, MEANT, SAME, TOOLS, proxied
from tests.security.guards import CANARIES_IGNORED, HEADERS_TWICE, ROUTED_TO_LOOPBACK, Removal, falls_without, no_guard
from tests.security.hostile import FLOOD, PACKED, PIECE, Hostile, hostile
from tests.security.other_walls import UNREACHABLE
from tests.upstream import Upstream, upstream

pytestmark = [pytest.mark.container, pytest.mark.timeout(90)]

ROWS = FRAMES | MEANT
SECRET = b"a-secret-that-stays-outside-4711"
HOSTS = (
    "erp.test", "other.test", "raw.test", "kept.test", "wild.test", "a.wild.test", "evilwild.test",
    "wild.test.evil.test",
)  # fmt: skip


@dataclass
class World:
    """The hosts a desk may reach, and what each received."""

    settings: Config
    up: Upstream
    plain: Upstream
    raw: Hostile

    @property
    def names(self) -> dict[str, str]:
        """Return where names resolve to, denied ones included, so that an attack could succeed."""
        found = dict.fromkeys(HOSTS, self.up.address)
        return found | {"raw.test": self.raw.address, "plain.test": self.plain.address, "kept.test": self.raw.address}

    @property
    def scope(self) -> Scope:
        written = ("write plain.test", "write erp.test", "write other.test", "write raw.test", "read *.wild.test")
        rules = (*written, f"read localhost:{self.plain.port}", "FROB,PUT never.test")
        return Scope(rules=tuple(map(parse_rule, rules)), names=self.names)

    def seen(self) -> list[str]:
        return [each.path for each in (*self.up.seen, *self.plain.seen)]


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, home: Path, origin: Origin) -> Iterator[World]:
    """Start upstreams on loopback, called only by desks of one origin: an honest one, one without TLS, a hostile one.

    The settings are requested here, so that only tests which use them, because they open desks, are searched for
    leftovers: for two hundred rows that only check an answer this would take longer than all attacks.
    """
    settings: Config = request.getfixturevalue("settings")
    folders = home / "upstream", home / "plain"
    for folder in folders:
        folder.mkdir(exist_ok=True)
    with (
        upstream(folders[0], *HOSTS) as up,
        upstream(folders[1], "plain.test", tls=False) as plain,
        hostile(folders[0] / "upstream.pem") as raw,
    ):
        yield World(replace(settings, ca=str(up.ca)), up, plain, raw)


@pytest.fixture(scope="module")
async def host(world: World, origin: Origin) -> AsyncIterator[Host]:
    folder = world.settings.lib / "keys"
    private_files.make_folder(folder, uids.KEYS)
    try:
        vault = Vault.make(folder, "file")
    except BriefError:
        vault = Vault.open(folder)
    vault.put("kept-token", Token(), SECRET)
    async with Host(world.settings, control=False) as host:
        assert isinstance(host.runtime, KeeperRuntime)
        host.runtime = origin(host.runtime)
        async with host.open_desk(scope=world.scope) as first:
            await first.run(KNOCK, timeout=20)
        yield host
    assert isinstance(host.runtime, KeeperRuntime)
    host.runtime.keeper.sock.close()


@pytest.fixture(scope="module")
async def desk(host: Host, world: World) -> AsyncIterator[Desk]:
    async with host.open_desk(scope=world.scope) as opened:
        yield opened


def chosen(request: pytest.FixtureRequest, rows: Iterable[str]) -> list[str]:
    """Return the rows that this run checks: the others need not be sent."""
    cases = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    values = {value for case in cases for value in case.values() if isinstance(value, str)}
    return [row for row in rows if row in values]


@pytest.fixture(scope="module")
async def replies(
    request: pytest.FixtureRequest, desk: Desk, attack: Attack, world: World
) -> dict[str, dict[str, Any]]:
    def filled(what: str) -> tuple[str, str]:
        via, data = ROWS[what]
        data = data.replace("PATH", path_of(what)).replace("PORT", str(world.plain.port))
        return via, data.replace("UPSTREAM", world.up.address)

    names = chosen(request, ROWS)
    code = TOOLS + "tell([try_row(*row) for row in given['rows']])"
    return dict(zip(names, await attack(desk, code, rows=[filled(what) for what in names]), strict=True))


def path_of(what: str) -> str:
    return f"/row/{list(ROWS).index(what)}"


# -- names and addresses ------------------------------------------------------------------------------------------


@falls_without(
    "no route from a desk with a door",
    CANARIES_IGNORED,
    ROUTED_TO_LOOPBACK,
    cases="""
    a name by UDP 53 | a name by TCP 53 | a name over TLS | a name over HTTPS | QUIC | QUIC on IPv6 | the time
    """,
)
@no_guard(
    "there is no resolver in a desk: an empty resolv.conf has libc ask loopback, where nobody listens",
    cases="a name by libc | a name by its own loopback",
)
@pytest.mark.parametrize("how", AWAY)
async def test_nothing_leaves_except_through_the_door(away: dict[str, str], how: str) -> None:
    assert away[how] == AWAY[how][1] or {away[how], AWAY[how][1]} == UNREACHABLE


@pytest.fixture(scope="module")
async def away(desk: Desk, attack: Attack) -> dict[str, str]:
    told: dict[str, str] = await attack(desk, AWAY_TOOLS, rows={name: row[0] for name, row in AWAY.items()})
    return told


def asked(host: Host) -> int:
    """Return how much the door's resolver has read: for a lookup it reads its files again."""
    assert isinstance(host.runtime, KeeperRuntime)
    for entry in Path("/proc").iterdir():
        try:
            status = (entry / "status").read_text() if entry.name.isdigit() else ""
            if f"\nUid:\t{uids.RESOLVER}\t" in status and keeper_of(int(entry.name)) == host.runtime.keeper.pid:
                return int((entry / "io").read_text().split()[1])
        except OSError:
            continue
    raise AssertionError("there is no resolver")


def keeper_of(pid: int) -> int:
    for _ in range(2):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


ANY_HOST = Removal("policy/policy.py", "yield from self.exact.get(host, ())", "yield from self.all")


@falls_without("hosts that a rule names", CANARIES_IGNORED, ANY_HOST)
async def test_no_name_is_looked_up_before_a_rule_admits_it(
    host: Host, desk: Desk, world: World, attack: Attack
) -> None:
    """The names are this machine's: even if they were looked up, that would not leave it."""
    ask = TOOLS + ("tell([ask(dial(), line)['status'] for line in given['lines']])")
    denied = [
        proxied("GET http://localhost/", "localhost")[1],
        proxied("GET http://localhost:9/", "localhost:9")[1],
        f"POST http://localhost:{world.plain.port}/ HTTP/1.1\r\nHost: localhost:{world.plain.port}\r\n\r\n",
        "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "CONNECT localhost:53 HTTP/1.1\r\nHost: localhost:53\r\n\r\n",
        "CONNECT localhost:853 HTTP/1.1\r\nHost: localhost:853\r\n\r\n",
    ]
    allowed = proxied(f"GET http://localhost:{world.plain.port}/", f"localhost:{world.plain.port}")[1]
    assert await attack(desk, ask, lines=[allowed]) == [502]
    before = asked(host)
    assert await attack(desk, ask, lines=denied) == [403] * len(denied)
    assert asked(host) == before
    assert await attack(desk, ask, lines=[allowed]) == [502]
    assert asked(host) > before, "this would not have shown it"


ANY_PORT = Removal(
    "policy/policy.py",
    "            if end in each.ends:\n                if each.whole:\n",
    "            if True:\n                if each.whole:\n",
)
HOST_HEADER_IGNORED = Removal(
    "policy/target.py",
    '        raise UnclearTargetError("the Host header does not match the host of the request")\n',
    "        pass\n",
)
INNER_HOST_IGNORED = Removal("policy/target.py", "    if inside not in (None, authority):\n", "    if False:\n")
ANY_ADDRESS = Removal(
    "http/resolve.py",
    "            if reason := check(address, named, own, private=private):",
    '            if reason := "":',
)


@falls_without("hosts that a rule names", cases="a denied host | loopback | loopback on IPv6 | the door by its name")
@falls_without("ports that a rule names", ANY_PORT, cases="a denied port")
@falls_without(
    "hosts and ports that a rule names",
    CANARIES_IGNORED,
    ANY_HOST,
    ANY_PORT,
    cases="the address of an allowed host | the gate",
)
@falls_without(
    "whole labels below a wildcard",
    Removal(
        "policy/policy.py",
        "yield from self.exact.get(host, ())",
        'yield from (each for each in self.all if each.rule.host.lstrip("*.") in host)',
    ),
    cases="""
    a host that only ends like an allowed one | a host that only begins like an allowed one |
    the name above a wildcard
    """,
)
@falls_without(
    "the Host is the host",
    CANARIES_IGNORED,
    HOST_HEADER_IGNORED,
    cases="""
    an address that is none of the Host's | another Host inside TLS | another port in the Host |
    a homograph in punycode
    """,
)
@falls_without("the host of the CONNECT", INNER_HOST_IGNORED, cases="a target for another host inside TLS")
@falls_without(
    "the host of the CONNECT, of the target and of the Host are one",
    CANARIES_IGNORED,
    HOST_HEADER_IGNORED,
    INNER_HOST_IGNORED,
    cases="a target that disagrees with the Host inside TLS",
)
@falls_without(
    "the scheme that is spoken",
    Removal("policy/target.py", "    if found[1].lower() != scheme:\n", "    if False:\n"),
    cases="another scheme inside TLS | a target of another scheme | https without CONNECT",
)
@falls_without(
    "one Host",
    HEADERS_TWICE,
    Removal(
        "policy/target.py",
        "    if len(hosts) != 1:\n        raise UnclearTargetError(",
        "    if False:\n        raise UnclearTargetError(",
    ),
    cases="two Hosts | the same Host twice",
)
@falls_without(
    "a Host that names one",
    Removal(
        "policy/target.py",
        '(check_ascii("Host header", hosts[0]))',
        '(check_ascii("Host header", hosts[0]) or "erp.test")',
    ),
    cases="an empty Host",
)
@falls_without(
    "a host is a host and a port",
    Removal(
        "policy/target.py",
        "        return split_authority(text)\n",
        '        return split_authority(__import__("urllib.parse").parse.unquote(text).rpartition("@")[2])\n',
    ),
    cases="""
    a name and a password in the Host | a name in the Host | a name in the target | percent forms in the Host |
    percent forms in the target
    """,
)
@falls_without(
    "no backslash in a host",
    Removal(
        "policy/target.py",
        "        return split_authority(text)\n",
        '        return split_authority(text.partition("\\\\")[0])\n',
    ),
    cases="a backslash in the target",
)
@falls_without(
    "one dot at a name's end",
    Removal("brief/names.py", 'text.lower().removesuffix(".")', 'text.lower().rstrip(".")'),
    cases="two trailing dots",
)
@falls_without(
    "whole addresses in requests to a proxy",
    Removal(
        "policy/target.py",
        '        scheme = "http"\n        authority, rest = split_absolute(text, scheme)\n',
        '        scheme = "http"\n'
        "        at = Authority(named[0], 80)\n"
        '        authority, rest = (at, text) if text[:1] == "/" else split_absolute(text, scheme)\n',
    ),
    cases="no host in the target",
)
@falls_without(
    "a path",
    Removal(
        "policy/target.py",
        '    elif text.startswith("/"):\n        authority, rest = inside, text\n',
        '    elif text.startswith(("/", "*")):\n        authority, rest = inside, text.replace("*", "/")\n',
    ),
    cases="an asterisk",
)
@falls_without(
    "the Host of a CONNECT",
    Removal(
        "door/proxy.py",
        "        if host[0] != where.host or host[1] not in (None, where.port):\n",
        "        if False:\n",
    ),
    cases="a CONNECT for another Host",
)
@falls_without(
    "the port of a CONNECT",
    Removal(
        "policy/target.py",
        '    if port is None:\n        raise UnclearTargetError("CONNECT needs a port, as in example.test:443")\n',
        "    port = port or 443\n",
    ),
    cases="a CONNECT without a port",
)
@falls_without(
    "no body of a CONNECT",
    Removal("http/framing.py", '    if body and method == b"CONNECT":\n', "    if False:\n"),
    cases="a CONNECT with a body",
)
@falls_without(
    "nothing behind a CONNECT",
    Removal(
        "door/proxy.py", "        if self.wire.buffer:\n            return", "        if False:\n            return"
    ),
    cases="bytes behind a CONNECT",
)
@falls_without(
    "no CONNECT inside another",
    Removal("door/proxy.py", "        if self.place.inside is not None:\n", "        if False:\n"),
    cases="a CONNECT inside a CONNECT",
)
@falls_without(
    "names that are no numbers",
    CANARIES_IGNORED,
    Removal("brief/names.py", "    if NUMBER_SHAPE.fullmatch(name):\n", "    if False:\n"),
    ANY_HOST,
    Removal("http/resolve.py", '*[a-z][a-z0-9-]{0,62}(?<!-)\\Z")', '*[a-z0-9][a-z0-9-]{0,62}(?<!-)\\Z")'),
    ANY_ADDRESS,
    cases="loopback as one number | loopback in hexadecimal | loopback in two parts | loopback in octal",
)
@falls_without(
    "IPv4 is not written as IPv6",
    Removal("brief/names.py", " or address.ipv4_mapped is not None):", "):"),
    CANARIES_IGNORED,
    ANY_HOST,
    ANY_ADDRESS,
    cases="loopback as a mapped address",
)
@falls_without("addresses are checked", ANY_ADDRESS, cases="an allowed name of loopback")
@no_guard(
    "what is no name can be dialled by nobody: the same shape is asked for by rules, requests and the resolver",
    cases="a path | a unix socket | a homograph in bytes",
)
@pytest.mark.parametrize("what", MEANT)
async def test_an_ambiguous_or_inward_request_reaches_no_host(
    replies: dict[str, dict[str, Any]], world: World, what: str
) -> None:
    check_refused(replies, world, what)


def check_refused(replies: dict[str, dict[str, Any]], world: World, what: str) -> None:
    told = replies[what]
    assert path_of(what) not in world.seen()
    assert told["headers"].get("x-hotdesk-door") == "refused", told
    assert 400 <= told["status"] < 600
    assert json.loads(told["body"])["rule"]


@falls_without(
    "the Host is written anew",
    Removal(
        "door/exchange.py",
        '(b"Host", self.meant.authority.encode())',
        '(b"Host", self.request.headers.get_all(b"host")[0])',
    ),
)
@pytest.mark.parametrize("how", SAME)
async def test_a_host_in_another_spelling_is_normalised(desk: Desk, attack: Attack, world: World, how: str) -> None:
    path = f"/same/{list(SAME).index(how)}"
    code = TOOLS + "tell(ask(connect('erp.test'), get(given['host'], given['path']))['status'])"
    assert await attack(desk, code, host=SAME[how], path=path) == 200
    (seen,) = [each for each in world.up.seen if each.path == path]
    assert [value for name, value in seen.headers if name.lower() == "host"] == ["erp.test"]


@falls_without(
    "the name of a handshake",
    CANARIES_IGNORED,
    Removal(
        "door/proxy.py",
        'return None if name is not None and name.lower().rstrip(".") == host else',
        "return None if True else",
    ),
)
@pytest.mark.parametrize("name", ["other.test", "localhost", ""], ids=["another", "this-machine", "none"])
async def test_tls_for_another_name_than_the_connection_fails_in_the_handshake(
    desk: Desk, attack: Attack, name: str
) -> None:
    code = (
        TOOLS
        + """
try:
    connect("erp.test", sni=given["name"])
    tell("done")
except ssl.SSLError as e:
    tell(e.reason)
"""
    )
    assert await attack(desk, code, name=name) != "done"


MUST_PASS = "no attack: what is admitted must pass, or a desk would look for other ways"


@no_guard(MUST_PASS)
async def test_a_name_below_a_wildcard_is_admitted(desk: Desk, attack: Attack) -> None:
    code = TOOLS + "tell(ask(connect('a.wild.test'), get('a.wild.test', '/wild'))['status'])"
    assert await attack(desk, code) == 200


@falls_without("hosts that a rule names")
async def test_each_hop_of_a_redirect_needs_its_own_admission(desk: Desk, world: World) -> None:
    world.plain.answers["/go"] = (302, {"Location": "http://wild.test/landed"}, b"")
    world.plain.answers["/on"] = (302, {"Location": "http://plain.test/landed"}, b"")
    denied = await desk.run(["curl", "-sS", "-L", "-w", "%{http_code}", "http://plain.test/go"], timeout=20)
    assert denied.text.endswith("403")
    assert "/landed" not in world.seen()
    followed = await desk.run(["curl", "-sS", "-L", "-w", "%{http_code}", "http://plain.test/on"], timeout=20)
    assert followed.text.endswith("200")
    assert "/landed" in world.seen()


@contextmanager
def telling(*addresses: str, own: tuple[str, ...] = ()) -> Iterator[tuple[Resolver, list[str]]]:
    """Play the resolver's child: each lookup gets the next address, the last one forever; yields the lookups."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    questions: list[str] = []

    def work() -> None:
        while question := theirs.recv(1024):
            told = json.loads(question)
            found = addresses[min(len(questions), len(addresses) - 1)]
            questions.append(told["name"])
            theirs.send(json.dumps({"id": told["id"], "addresses": [found], "own": own}).encode())
        theirs.close()

    thread = threading.Thread(target=work)
    thread.start()
    resolver = Resolver(ours)
    resolver.listen()
    try:
        yield resolver, questions
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        ours.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        ours.close()


LOOPBACK_DIALLED = Removal(
    "http/upstream.py", "create_connection(Wire, str(address), port)", 'create_connection(Wire, "127.0.0.1", port)'
)
"""Even without the guard, the address dialled is on this machine."""


@falls_without("addresses that lead inward", ANY_ADDRESS, LOOPBACK_DIALLED)
@falls_without(
    "tunnels to elsewhere are no addresses of the internet",
    Removal("policy/address.py", '        "6to4": "2002::/16",\n        "Teredo": "2001::/32",\n', ""),
    LOOPBACK_DIALLED,
    cases="a router of 6to4's | a server of Teredo's",
)
@pytest.mark.parametrize("what", INWARD)
async def test_a_name_that_resolves_to_an_internal_address_is_not_dialled(what: str) -> None:
    with telling(INWARD[what], own=("198.41.0.4",)) as (resolver, questions):
        upstreams = Upstreams(resolver, ssl.create_default_context())
        with pytest.raises(UnreachableError, match=r" is "):
            await upstreams.dial("http", "a.example", 9, private=False, named="a.example", names={})
        assert questions == ["a.example"]


@falls_without(
    "what an address carries is denied with it",
    Removal("policy/policy.py", "yield from map(str, extract_ipv4(ip_address(host)))", "pass"),
    LOOPBACK_DIALLED,
)
async def test_a_denied_address_is_not_reached_through_an_embedding_form() -> None:
    denied = Policy([parse_rule("deny 8.8.8.0/24")], anywhere=True)
    assert not denied.can_reach("https", "64:ff9b::808:808", 443)
    with telling("64:ff9b::808:808") as (resolver, _):
        upstreams = Upstreams(resolver, ssl.create_default_context())
        with pytest.raises(UnreachableError, match="a deny rule covers"):
            await upstreams.dial("http", "a.example", 9, private=False, named="*", names={}, bars=denied.bars)


@falls_without("addresses that lead inward")
@pytest.mark.parametrize("what", ["metadata", "this host"])
async def test_a_rule_for_private_networks_or_a_whole_network_admits_neither_metadata_nor_this_host(what: str) -> None:
    network = str(ip_network(f"{INWARD[what]}/16", strict=False))
    with telling("127.0.0.1", own=("198.41.0.4",)) as (resolver, _):
        upstreams = Upstreams(resolver, ssl.create_default_context())
        with pytest.raises(UnreachableError, match=r"metadata|this machine"):
            await upstreams.dial("http", INWARD[what], 9, private=True, named=network, names={})


@falls_without(
    "the address that was checked",
    Removal("http/upstream.py", "create_connection(Wire, str(address), port)", "create_connection(Wire, host, port)"),
)
async def test_the_address_dialled_is_the_one_that_was_checked() -> None:
    """This machine's own resolver would return 127.0.0.1; the door's child returns 127.0.0.2 first."""
    with socket.create_server(("127.0.0.2", 0)) as checked, telling("127.0.0.2", "127.0.0.1") as (resolver, questions):
        port = checked.getsockname()[1]
        with socket.create_server(("127.0.0.1", port)):
            upstreams = Upstreams(resolver, ssl.create_default_context())
            wire = await upstreams.open("localhost", port, False, "127.0.0.0/8")
            assert wire.transport.get_extra_info("peername")[0] == "127.0.0.2"
            assert questions == ["localhost"]
            wire.abort()
            await anyio.lowlevel.checkpoint()


# -- framing ------------------------------------------------------------------------------------------------------


ANY_METHOD = Removal(
    "policy/policy.py",
    "        if view.target.method not in self.methods:\n            return",
    "        if False:\n            return",
)


@falls_without(
    "a length or chunks",
    Removal(
        "http/framing.py",
        '        if length is not None:\n            raise HttpMessageError(400, "the message has both',
        '        if False:\n            raise HttpMessageError(400, "the message has both',
    ),
    cases="a length and chunks | chunks and a length",
)
@falls_without(
    "headers that stand once", HEADERS_TWICE, cases="the same length twice | two lengths | two headers of codings"
)
@falls_without(
    "lengths in digits",
    Removal(
        "http/framing.py",
        '    if not length.isdigit():\n        raise HttpMessageError(400, "the Content-Length is not a number")\n',
        '    length = length.split(b",")[0]\n    length = str(int(length, 16 if b"x" in length else 10)).encode()\n',
    ),
    cases="a list of lengths | a length with a sign | a length with an underscore | a length in hexadecimal",
)
@falls_without(
    "lengths of few digits",
    Removal("http/framing.py", "LENGTH_DIGITS = 18", "LENGTH_DIGITS = 180"),
    cases="a length of many digits",
)
@falls_without(
    "one coding",
    Removal("http/framing.py", '        if coding.lower() != b"chunked":\n', "        if False:\n"),
    cases="xchunked | chunked twice | two codings | identity | chunked with a parameter",
)
@falls_without(
    "no chunks in HTTP/1.0",
    Removal(
        "http/framing.py",
        '        if version != "1.1":\n'
        '            raise HttpMessageError(400, "HTTP/1.0 does not allow Transfer-Encoding")\n',
        "",
    ),
    cases="chunks in HTTP 1.0",
)
@falls_without(
    "every line is a header",
    Removal("http/framing.py", '    if len(pairs) != count or head[-4:] != b"\\r\\n\\r\\n":\n', "    if False:\n"),
    cases="""
    a space before a colon | a space before a header | a folded header | a header without a colon |
    a header without a name | a bare line feed in a header | a bare carriage return in a header |
    a zero byte in a header | a line end of another script | a control character in a header
    """,
)
@falls_without(
    "lines end in CR LF",
    Removal(
        "http/framing.py",
        "    if STRAY.search(buffer, max(searched - 1, 0)):\n"
        "        raise HttpMessageError("
        '400, "the head has a control character, or a line that does not end in CR LF")\n',
        '    if b"\\n\\n" in buffer:\n'
        '        buffer[:] = bytes(buffer).replace(b"\\n", b"\\r\\n")\n'
        '        return buffer.find(b"\\r\\n\\r\\n") + 4\n',
    ),
    cases="bare line feeds",
)
@falls_without(
    "bytes of a head",
    Removal("http/framing.py", "HEAD_LIMIT = 64 * 1024", "HEAD_LIMIT = 1024 * 1024"),
    cases="a head of 70 KB",
)
@falls_without("headers of a head", Removal("http/framing.py", "HEADERS = 128", "HEADERS = 1000"), cases="200 headers")
@falls_without(
    "bytes of a first line",
    Removal("http/framing.py", "LINE_LIMIT = 16 * 1024", "LINE_LIMIT = 64 * 1024"),
    Removal("policy/target.py", "LONGEST = 16384", "LONGEST = 65536"),
    cases="a first line of 20 KB",
)
@falls_without(
    "a Host in every request",
    Removal("http/framing.py", '    if headers.get_single(b"host") is None and version == "1.1":\n', "    if False:\n"),
    Removal(
        "policy/target.py",
        "    if len(hosts) != 1:\n        raise UnclearTargetError(",
        '    if not hosts:\n        return "erp.test", None\n    if False:\n        raise UnclearTargetError(',
    ),
    cases="no Host",
)
@falls_without(
    "a method, a target and a version",
    Removal(
        "http/framing.py",
        '(rb"(%b) ([!-~]++) HTTP/1\\.([01])\\r\\n" % NAME)',
        '(rb"(%b)[ \\t]+([!-~]++)(?: HTTP/[12]\\.([0-9]))?\\r\\n" % NAME)',
    ),
    cases="HTTP 1.2 | HTTP 2.0 in words | no version | two spaces | a tab",
)
@falls_without(
    "methods in capitals",
    Removal("policy/target.py", "    if not METHOD_SHAPE.fullmatch(name):\n", "    if False:\n"),
    ANY_METHOD,
    cases="a method in small letters",
)
@falls_without(
    "headers that some servers read as framing",
    Removal("http/framing.py", "    if MIMIC.search(head):\n", "    if False:\n"),
    cases="""
    a length's name with an underscore | a length and its name with an underscore | a length's name with a dot |
    a coding's name with an underscore | a packing's name with an underscore | a type's name with an underscore |
    a proxy's name with an underscore
    """,
)
@falls_without("methods that are known", ANY_METHOD, cases="a method nobody knows")
@falls_without(
    "methods that are never admitted",
    Removal("policy/target.py", "    if name in NEVER:\n", "    if False:\n"),
    ANY_METHOD,
    cases="TRACE",
)
@falls_without(
    "one expectation",
    Removal("http/framing.py", '    if headers.get_list(b"expect") != [b"100-continue"]:\n', "    if False:\n"),
    cases="another expectation",
)
@falls_without(
    "upgrades to a WebSocket only",
    Removal("door/exchange.py", '        if self.request.upgrade != b"websocket":\n', "        if False:\n"),
    cases="an upgrade to another protocol",
)
@falls_without(
    "chunks in plain hexadecimal numbers",
    Removal(
        "http/framing.py",
        'CHUNK = re.compile(rb"\\r\\n([0-9A-Fa-f]{1,16})\\r\\n")',
        'CHUNK = re.compile(rb"(?:[g-z]*\\r?\\n)?(?:0x|\\+| )?([0-9A-Fa-f]{1,17}) ?(?:;[^\\r\\n]*)?\\r?\\n")',
    ),
    cases="""
    a chunk size with a sign | a chunk size with 0x | a chunk extension | a space before a chunk size |
    a space after a chunk size | a chunk that ends in a line feed | a chunk size that ends in a line feed |
    a chunk without an end | a chunk longer than said | a chunk size of 17 digits
    """,
)
@falls_without(
    "trailers that change nothing",
    Removal("http/framing.py", "        if any(name in trailers for name in FRAMING):\n", "        if False:\n"),
    cases="a trailer that names a length | a trailer that names a host",
)
@falls_without(
    "bytes of trailers",
    Removal("http/framing.py", "TRAILER_LIMIT = 8 * 1024", "TRAILER_LIMIT = 64 * 1024"),
    cases="a trailer of 20 KB",
)
@pytest.mark.parametrize("what", FRAMES)
async def test_ambiguous_framing_reaches_no_host(replies: dict[str, dict[str, Any]], world: World, what: str) -> None:
    check_refused(replies, world, what)


@falls_without("the Host is the host")
async def test_pipelined_requests_are_judged_one_by_one(desk: Desk, attack: Attack, world: World) -> None:
    code = (
        TOOLS
        + """
hidden = get("erp.test", "/hidden")
post = "POST /first HTTP/1.1\\r\\nHost: erp.test\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(hidden), hidden)
s = connect("erp.test")
s.sendall((post + get("erp.test", "/second") + get("other.test", "/third")).encode())
file = s.makefile("rb")
tell([read(file)["status"] for _ in range(3)])
"""
    )
    assert await attack(desk, code) == [200, 200, 400]
    seen = [each.path for each in world.up.seen if each.path in ("/first", "/second", "/third", "/hidden")]
    assert seen == ["/first", "/second"]


@falls_without(
    "a body is read or the connection ends",
    Removal(
        "door/door_local.py",
        '    unread = request.body and (status >= 400 or meant.path != "/ask")\n',
        "    unread = None\n",
    ),
)
async def test_a_body_sent_to_the_door_is_not_parsed_as_a_request(desk: Desk, attack: Attack, world: World) -> None:
    code = (
        TOOLS
        + """
hidden = "GET http://plain.test/behind HTTP/1.1\\r\\nHost: plain.test\\r\\n\\r\\n"
head = "GET http://door.local/ HTTP/1.1\\r\\nHost: door.local\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(hidden)
s = dial()
s.sendall((head + hidden).encode())
file = s.makefile("rb")
tell([read(file)["status"] for _ in range(2)])
"""
    )
    assert await attack(desk, code) == [200, 0]
    assert "/behind" not in world.seen()


@falls_without(
    "headers that mean something else",
    Removal("door/exchange.py", 'in passing if not is_override(pair[0].decode("ascii"))]', "in passing]"),
)
async def test_no_header_changes_what_a_request_means(desk: Desk, attack: Attack, world: World) -> None:
    headers = {
        "X-HTTP-Method-Override": "DELETE", "X-Original-URL": "/admin", "X-Rewrite-URL": "/admin",
        "X-Forwarded-Host": "other.test", "Forwarded": "for=127.0.0.1", "X-Forwarded-For": "127.0.0.1",
        "X_Forwarded_Host": "other.test", "Proxy-Authorization": "Basic eDp5", "Via": "1.1 a",
    }  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    data = f"GET /overridden HTTP/1.1\r\nHost: erp.test\r\n{lines}\r\n"
    assert await attack(desk, TOOLS + "tell(ask(connect('erp.test'), given['data'])['status'])", data=data) == 200
    (seen,) = [each for each in world.up.seen if each.path == "/overridden"]
    assert {name for name, _ in seen.headers} & set(headers) == set()


SLOW = (
    TOOLS
    + """
def cut(what):
    begun = time.monotonic()
    what.settimeout(60)
    try:
        while what.recv(65536):
            pass
    except OSError:
        pass
    return time.monotonic() - begun

def drip(s):
    def work():
        try:
            while True:
                s.sendall(b"a")
                time.sleep(0.5)
        except OSError:
            pass
    threading.Thread(target=work, daemon=True).start()
    return s

def begun(*lines):
    s = connect("erp.test")
    s.sendall("\\r\\n".join(lines).encode())
    return s

def opened():
    s = dial()
    s.sendall(b"CONNECT erp.test:443 HTTP/1.1\\r\\nHost: erp.test\\r\\n\\r\\n")
    return s
"""
)


@falls_without("seconds of a head", Removal("door/proxy.py", "HEAD_SECONDS = 15.0", "HEAD_SECONDS = 1500.0"))
async def test_an_endless_head_and_a_missing_handshake_are_cut(desk: Desk, attack: Attack) -> None:
    code = (
        SLOW
        + """
lines = [drip(begun("GET /slow HTTP/1.1", "X-A: ")), begun("GET /slow HTTP/1.1", ""), opened()]
found = [None] * len(lines)

def measure(at):
    found[at] = cut(lines[at])

threads = [threading.Thread(target=measure, args=(at,), daemon=True) for at in range(len(lines))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(25)
tell(found)
"""
    )
    found = await attack(desk, code)
    assert None not in found
    assert all(8 < seconds < 20 for seconds in found)


@falls_without("seconds of a body", Removal("http/wire.py", "BODY_SECONDS = 120.0", "BODY_SECONDS = 1200.0"))
@pytest.mark.long
@pytest.mark.timeout(180)
async def test_a_stalled_body_is_cut(desk: Desk, attack: Attack, world: World) -> None:
    code = (
        SLOW
        + """
s = begun("POST /still HTTP/1.1", "Host: erp.test", "Content-Length: 10", "", "hello")
s.settimeout(140)
told = read(s.makefile("rb"))
tell(told["status"])
"""
    )
    assert await attack(desk, code, timeout=170) == 408
    assert "/still" not in world.seen()


@falls_without(
    "connections are counted desk by desk",
    Removal(
        "door/process.py",
        "        self.free = asyncio.Semaphore(CONNECTIONS)\n",
        '        self.free = door.__dict__.setdefault("free", asyncio.Semaphore(CONNECTIONS))\n',
    ),
)
async def test_a_desk_that_uses_all_its_connections_blocks_no_other(
    settings: Config, host: Host, world: World, launch: Launch, attack: Attack
) -> None:
    hold = (
        TOOLS
        + """
kept = []
for _ in range(300):
    s = dial(2)
    s.sendall(b"GET http://plain.test/held HTTP/1.1\\r\\n")
    kept.append(s)
tell(len(kept))
time.sleep(60)
"""
    )
    knock = (
        TOOLS
        + "s = dial(5); tell(ask(s, 'GET http://plain.test/ HTTP/1.1\\r\\nHost: plain.test\\r\\n\\r\\n')['status'])"
    )
    async with host.open_desk(scope=world.scope) as one, host.open_desk(scope=world.scope) as other:
        process, held = await launch(one, hold)
        assert held == 300
        assert await attack(one, knock) == 0, "it holds fewer than it may"
        assert [await attack(other, knock) for _ in range(3)] == [200] * 3, "one call may have had its place before"
        await process.kill()


ANSWERED_BADLY = (
    "length-and-chunked", "two-lengths", "length-that-is-none", "strange-coding", "folded", "bare-line-feeds",
    "a-control-character", "no-http", "endless-head", "many-headers", "flood-of-interim-answers",
    "protocol-changed-unasked", "no-answer", "half-a-head",
)  # fmt: skip
BROKEN_OFF = ("short-body", "short-chunks", "chunk-with-sign")
TOO_MUCH = (
    "more-than-said", "more-after-chunks", "more-later", "204-with-a-body", "304-with-a-body", "HEAD-with-a-body",
)  # fmt: skip


@pytest.fixture(scope="module")
async def answered(request: pytest.FixtureRequest, desk: Desk, attack: Attack) -> dict[str, list[dict[str, Any]]]:
    """Request each of the hostile upstream's answers, then a good one: on the same connection if that is still open."""
    code = (
        TOOLS
        + """
def both(path):
    s = connect("raw.test", seconds=10)
    method = "HEAD" if path.startswith("HEAD") else "GET"
    behind = get("raw.test", "/good") if path.startswith("short") else ""  # whose answer could fill up the first
    first = ask(s, get("raw.test", "/" + path, method) + behind, method)
    time.sleep(0.3 if "later" in path else 0)
    second = ask(s, get("raw.test", "/good"))
    if not second["status"]:
        second = ask(connect("raw.test", seconds=10), get("raw.test", "/good"))
    return [first, second]

tell({path: both(path) for path in given["paths"]})
"""
    )
    told: dict[str, list[dict[str, Any]]]
    told = await attack(desk, code, paths=chosen(request, (*ANSWERED_BADLY, *BROKEN_OFF, *TOO_MUCH)))
    return told


@falls_without("a length or chunks", cases="length-and-chunked")
@falls_without("headers that stand once", cases="two-lengths")
@falls_without("lengths in digits", cases="length-that-is-none")
@falls_without("one coding", cases="strange-coding")
@falls_without("every line is a header", cases="folded | a-control-character")
@falls_without("lines end in CR LF", cases="bare-line-feeds")
@falls_without("bytes of a head", cases="endless-head")
@falls_without("headers of a head", cases="many-headers")
@falls_without(
    "answers begin as answers",
    Removal(
        "http/framing.py",
        '        raise HttpMessageError(400, "the first line is not an HTTP version and a status code")\n',
        '        return Response(200, b"", Headers(()), None, False, "1.1")\n',
    ),
    cases="no-http",
)
@falls_without(
    "interim answers are counted",
    Removal("door/exchange.py", "INFORMED = 8", "INFORMED = 800"),
    cases="flood-of-interim-answers",
)
@falls_without(
    "no protocol is changed unasked",
    Removal(
        "door/exchange.py",
        '        if self.request.upgrade != b"websocket" or (answer.headers.get(b"upgrade")',
        '        if False and (answer.headers.get(b"upgrade")',
    ),
    cases="protocol-changed-unasked",
)
@falls_without(
    "an upstream that hangs up",
    Removal(
        "door/exchange.py",
        '                raise ExchangeError(502, f"the exchange with {self.meant.host} was cut off: {e}") from None\n',
        "                raise\n",
    ),
    cases="no-answer | half-a-head",
)
@pytest.mark.parametrize("how", ANSWERED_BADLY)
async def test_an_invalid_answer_becomes_a_502_and_affects_no_other(
    answered: dict[str, list[dict[str, Any]]], how: str
) -> None:
    first, second = answered[how]
    assert (first["status"], first["headers"].get("x-hotdesk-door")) == (502, "refused")
    assert second["body"] == "good"


@falls_without("chunks in plain hexadecimal numbers", cases="chunk-with-sign")
@falls_without(
    "bodies that break off",
    Removal(
        "http/framing.py",
        '            raise HttpMessageError(400, "the connection ended before the end of the body")\n',
        "            pass\n",
    ),
    cases="short-body | short-chunks",
)
@pytest.mark.parametrize("how", BROKEN_OFF)
async def test_an_interrupted_answer_never_looks_complete(answered: dict[str, list[dict[str, Any]]], how: str) -> None:
    first, second = answered[how]
    assert first["status"] == 502 or not first["whole"]
    assert second["body"] == "good"


@falls_without(
    "nothing comes behind an answer",
    Removal(
        "door/exchange.py",
        "            if rest:\n"
        '                raise ExchangeError(502, f"{self.meant.host} sent more data than the length of its '
        'response allows")\n',
        "            self.upstream.buffer[:0] = rest\n",
    ),
    Removal(
        "door/exchange.py",
        "answer.keep_alive and self.keep and not self.upstream.buffer:",
        "answer.keep_alive and self.keep:",
    ),
    Removal("http/upstream.py", "key != self.key or wire.ended or wire.buffer:", "key != self.key or wire.ended:"),
)
@pytest.mark.parametrize("how", TOO_MUCH)
async def test_bytes_after_an_upstreams_answer_are_dropped(answered: dict[str, list[dict[str, Any]]], how: str) -> None:
    first, second = answered[how]
    assert "evil" not in first["body"] + second["body"]
    assert second["body"] == "good"


@falls_without(
    "nothing is sent twice that may do something",
    Removal("door/exchange.py", " or self.meant.method not in REPEATABLE:", ":"),
)
async def test_a_request_with_side_effects_is_not_sent_twice(desk: Desk, attack: Attack, world: World) -> None:
    code = (
        TOOLS
        + """
s = connect("raw.test")
tell([ask(s, get("raw.test", "/once", "POST"))["status"] for _ in range(2)])
"""
    )
    assert await attack(desk, code) == [200, 502]
    assert len([head for head in world.raw.heads if b" /once " in head]) == 2


class Deaf:
    """An event sink that records nothing."""

    def note(self, event: Event) -> None:
        """Do nothing."""

    async def confirm(self, event: RequestAdmitted) -> None:
        """Do nothing."""

    async def steady(self) -> None:
        """Never lag behind."""

    async def mint(self, desk: str, live: GrantValue) -> bytes:
        return b""


class Dialled(Upstreams):
    """An upstream that is already connected."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    async def dial(self, *_args: object, **_named: object) -> Wire:
        return self.wire


@falls_without(
    "an upstream that heard half",
    Removal("door/exchange.py", "if not upload.done() or upload.exception() is not None:", "if not upload.done():"),
)
async def test_an_upstream_that_got_half_a_body_is_not_reused() -> None:
    """It answers at the moment the body ends early: reused, it would take the next request for the rest of the body."""
    loop = asyncio.get_running_loop()
    pairs = [socket.socketpair(), socket.socketpair()]
    (_, desk), (_, up) = [await loop.create_unix_connection(Wire, sock=pair[0]) for pair in pairs]
    way = Egress("d", Deaf())
    way.policy = Policy([parse_rule("write plain.test")])
    head = b"POST http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\nTransfer-Encoding: chunked\r\n\r\n"
    request = framing.parse_request(head)
    meant = target.read(request.method, request.target, request.headers.get_all(b"host"))
    place = UpstreamSlot(Dialled(up))
    going = asyncio.ensure_future(Forward(way, desk, place, request, meant).run())
    assert b"POST" in await loop.run_in_executor(None, pairs[1][1].recv, 4096)
    up.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    desk.data_received(b"5\r\nhel\r\nlo\r\n")
    try:
        assert not await going
        assert place.upstream is None
    finally:
        for wire, pair in zip((desk, up), pairs, strict=True):
            wire.abort()
            pair[1].close()
        await anyio.lowlevel.checkpoint()


# -- what lives longer than a request -------------------------------------------------------------------------------


@falls_without(
    "a body is asked for", Removal("door/request_body.py", "        if self.request.expects:\n", "        if False:\n")
)
async def test_a_request_that_expects_continue_gets_it_once_admitted(desk: Desk, attack: Attack) -> None:
    code = (
        TOOLS
        + """
def expecting(host, path):
    s = connect(host)
    lines = "POST %s HTTP/1.1\\r\\nHost: %s\\r\\nContent-Length: 5\\r\\nExpect: 100-continue\\r\\n\\r\\n"
    first = ask(s, lines % (path, host))
    return [first["status"], ask(s, "hello")["status"] if first["status"] == 100 else 0]

tell([expecting("erp.test", "/expected"), expecting("a.wild.test", "/expected")])
"""
    )
    assert await attack(desk, code) == [[100, 200], [403, 0]]


@no_guard("trailers are read past and never kept: there is no line that drops them")
async def test_trailers_are_dropped_at_the_door(desk: Desk, attack: Attack, world: World) -> None:
    code = TOOLS + "tell(ask(connect('erp.test'), given['data'])['status'])"
    data = CHUNKED.replace("PATH", "/trailed") + "5\r\nhello\r\n0\r\nAuthorization: x\r\n\r\n"
    assert await attack(desk, code, data=data) == 200
    (seen,) = [each for each in world.up.seen if each.path == "/trailed"]
    assert (seen.body, seen.header("authorization")) == (b"hello", None)


HELD = (
    TOOLS
    + """
s = connect("erp.test")
tell(ask(s, get("erp.test", "/one"))["status"])
s.settimeout(20)
try:
    ended = not s.recv(1)
except OSError as e:
    ended = not isinstance(e, TimeoutError)
again = ask(connect("erp.test"), get("erp.test", "/one/again"))["status"] if ended else 0
tell([ended, again])
"""
)


@falls_without(
    "a change cuts what was admitted before",
    Removal("door/egress.py", "        self.hang_up()\n\n    def end_canary", "\n    def end_canary"),
)
async def test_a_connection_does_not_outlive_the_step_it_was_opened_in(
    settings: Config, host: Host, world: World, launch: Launch
) -> None:
    rules = (
        parse_rule("erp.test/one/** step=one"),
        parse_rule("erp.test/two step=two"),
        parse_rule("erp.test/one step=one"),
    )
    assert host.doors is not None
    async with host.open_desk(scope=Scope(rules=rules, names=world.names)) as desk:
        await host.doors.enter_step(desk.id, "one")
        process, first = await launch(desk, HELD)
        assert first == 200
        await host.doors.enter_step(desk.id, "two")
        assert await last_line(process) == [True, 403]
    assert "/one/again" not in world.seen()


async def last_line(process: Any) -> Any:
    said = b""
    async for _, data in process.output():
        said += data
    return json.loads(said.splitlines()[-1])


def authorized(world: World) -> list[bool]:
    return [SECRET in head for head in world.raw.heads if b"kept.test" in head]


@falls_without("a change cuts what was admitted before")
async def test_a_connection_does_not_outlive_a_grant_that_is_revoked(
    settings: Config, host: Host, world: World, launch: Launch
) -> None:
    world.raw.heads.clear()
    scope = Scope((parse_rule("kept.test"),), (parse_grant("kept-token@kept.test"),), world.names)
    code = HELD.replace("erp.test", "kept.test").replace("/one/again", "/good").replace("/one", "/good")
    assert host.doors is not None
    async with host.open_desk(scope=scope) as desk:
        process, first = await launch(desk, code)
        assert first == 200
        await host.doors.revoke(desk.id, "kept-token")
        assert (await last_line(process))[0]
    assert authorized(world) == [True, False]


@falls_without(
    "a grant's end",
    Removal(
        "door/egress.py",
        "        return self.until is not None and time.time() >= self.until\n",
        "        return False\n",
    ),
)
async def test_a_connection_that_is_idle_across_a_grants_end_carries_no_secret_after_it(
    settings: Config, host: Host, world: World, attack: Attack
) -> None:
    world.raw.heads.clear()
    scope = Scope((parse_rule("kept.test"),), (parse_grant("kept-token@kept.test seconds=10"),), world.names)
    code = (
        TOOLS
        + """
s = connect("kept.test")
first = ask(s, get("kept.test", "/good"))["status"]
time.sleep(10.2)
tell([first, ask(s, get("kept.test", "/good"))["status"]])
"""
    )
    async with host.open_desk(scope=scope) as desk:
        assert await attack(desk, code) == [200, 200]
    assert authorized(world) == [True, False]


# -- what must pass -----------------------------------------------------------------------------------------------


@no_guard(MUST_PASS)
async def test_64_mib_arrive_intact_in_both_directions(desk: Desk, attack: Attack) -> None:
    code = (
        TOOLS
        + """
piece, size = bytes(range(256)) * 256, given["size"]
s = connect("raw.test", seconds=40)
s.sendall(("POST /take HTTP/1.1\\r\\nHost: raw.test\\r\\nContent-Length: %d\\r\\n\\r\\n" % size).encode())
for _ in range(size // len(piece)):
    s.sendall(piece)
file = s.makefile("rb")
there = read(file)["body"]
s.sendall(get("raw.test", "/flood").encode())
while file.readline() != b"\\r\\n":
    pass
found, left = hashlib.sha256(), size
while left and (data := file.read(min(left, 1 << 20))):
    found.update(data)
    left -= len(data)
mine = hashlib.sha256(piece * (size // len(piece))).hexdigest()
tell([there == mine, found.hexdigest() == mine, left])
"""
    )
    assert len(PIECE) == 1 << 16
    assert await attack(desk, code, size=FLOOD) == [True, True, 0]


@no_guard(MUST_PASS)
async def test_server_sent_events_arrive_one_by_one(desk: Desk, attack: Attack) -> None:
    code = (
        TOOLS
        + """
s = connect("raw.test")
s.sendall(get("raw.test", "/events").encode())
file = s.makefile("rb", 0)
while (line := file.readline()) != b"data: first\\n":
    assert line
acknowledged = ask(connect("raw.test"), get("raw.test", "/acknowledge"))["status"]
while (line := file.readline()) not in (b"data: second\\n", b""):
    pass
tell([acknowledged, line.decode()])
"""
    )
    assert await attack(desk, code) == [200, "data: second\n"]


WEB_SOCKET = (
    TOOLS
    + """
s = connect(given["host"])
s.settimeout(10)
key = base64.b64encode(bytes(16)).decode()
s.sendall(("GET /socket HTTP/1.1\\r\\nHost: %s\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n"
           "Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: %s\\r\\n\\r\\n" % (given["host"], key)).encode())
file = s.makefile("rb")
told = read(file)
if told["status"] == 101:
    first = file.read(7)
    s.sendall(b"\\x81\\x85\\1\\2\\3\\4" + bytes(a ^ b for a, b in zip(b"world", b"\\1\\2\\3\\4\\1")))
    told["frames"] = (first + file.read(7)).decode("latin-1")
tell([told["status"], told.get("frames", told["body"])])
"""
)


@no_guard(MUST_PASS)
async def test_a_websocket_works_in_both_directions(desk: Desk, attack: Attack) -> None:
    assert await attack(desk, WEB_SOCKET, host="raw.test") == [101, "\x81\x05hello\x81\x05world"]


@falls_without(
    "no WebSocket where a rule only reads",
    Removal("door/exchange.py", "        if self.only_reads:\n", "        if False:\n"),
)
async def test_a_websocket_is_refused_by_a_read_only_rule(desk: Desk, world: World, attack: Attack) -> None:
    world.up.seen.clear()
    status, said = await attack(desk, WEB_SOCKET, host="a.wild.test")
    assert (status, world.up.seen) == (403, [])
    assert "write" in said


@falls_without(
    "no body where a rule only reads",
    Removal("door/exchange.py", "        if self.request.body and self.only_reads:\n", "        if False:\n"),
)
async def test_a_get_with_a_body_is_refused_by_a_read_only_rule(desk: Desk, world: World, attack: Attack) -> None:
    world.up.seen.clear()
    request = "GET / HTTP/1.1\\r\\nHost: a.wild.test\\r\\nContent-Length: 5\\r\\n\\r\\nsteal"
    told = await attack(desk, TOOLS + f"tell(ask(connect('a.wild.test'), '{request}'))")
    assert (told["status"], world.up.seen) == (403, [])
    assert "write" in told["body"]


@falls_without(
    "no WebSocket beside a secret",
    Removal(
        "door/exchange.py",
        "            raise ExchangeError(403, inject.NO_UPGRADE)\n",
        "            pass\n",
    ),
)
async def test_a_websocket_to_a_host_with_a_grant_is_refused(
    settings: Config, host: Host, world: World, attack: Attack
) -> None:
    world.raw.heads.clear()
    scope = Scope((parse_rule("write kept.test"),), (parse_grant("kept-token@kept.test"),), world.names)
    async with host.open_desk(scope=scope) as desk:
        status, said = await attack(desk, WEB_SOCKET, host="kept.test")
    assert (status, world.raw.heads) == (403, [])
    assert "upgrade" in said


@falls_without(
    "nothing is looked through where no secret is about",
    Removal("secrets/response.py", "self.active = granted or bool(scrubber.spelt)", "self.active = True"),
)
@falls_without(
    "what a desk was tried with is forgotten",
    Removal(
        "door/egress.py", "        if set().union(*self.scrubber.spelt.values()) <= tried:\n", "        if False:\n"
    ),
)
async def test_a_compressed_answer_is_unchanged_where_no_secret_is_granted(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, TOOLS + "tell(ask(connect('raw.test'), get('raw.test', '/packed')))")
    assert told["body"].encode("latin-1") == PACKED
    assert (told["headers"]["content-encoding"], told["headers"]["etag"]) == ("gzip", "x")


@falls_without(
    "HTTP/2 by its name",
    Removal(
        "http/framing.py",
        '    if len(words) == 3 and words[2].startswith(b"HTTP/")',
        '    if False and words[2].startswith(b"HTTP/")',
    ),
)
async def test_http_2_is_refused_at_once_with_a_reason(desk: Desk, attack: Attack) -> None:
    code = (
        TOOLS
        + """
preface = "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + "\\0" * 9
tell([ask(connect("erp.test"), preface), ask(dial(), preface)])
"""
    )
    for told in await attack(desk, code):
        assert told["status"] == 505
        assert "HTTP/2" in json.loads(told["body"])["rule"]


@no_guard(MUST_PASS)
async def test_git_clones_through_the_door(desk: Desk, world: World, tmp_path: Path) -> None:
    """The history is served as plain files: loose objects, each requested by its path."""
    if shutil.which("git") is None:
        pytest.fail("git is not installed: apt-get install git", pytrace=False)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    for name in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{name}_NAME": "a", f"GIT_{name}_EMAIL": "a@a.test"}

    def git(*argv: str) -> None:
        subprocess.run(["git", *argv], cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=20)

    git("init", "-q", "-b", "main", ".")
    (tmp_path / "read.me").write_text("through the door\n")
    git("add", "read.me")
    git("commit", "-q", "-m", "first")
    git("update-server-info")
    folder = tmp_path / ".git"
    for file in (each for each in folder.rglob("*") if each.is_file()):
        world.up.answers[f"/a.git/{file.relative_to(folder)}"] = (200, {}, file.read_bytes())
    for missing in ("http-alternates", "alternates"):
        world.up.answers[f"/a.git/objects/info/{missing}"] = (404, {}, b"")
    done = await desk.run(["sh", "-c", "git clone -q https://erp.test/a.git && cat a/read.me"], timeout=40)
    assert done.text == "through the door\n", done.stderr
