"""Attacks between nodes and servers of a cluster: unknown callers, certificates, names, ids, frames, records."""

from __future__ import annotations

import errno
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hotdesk.api.cluster_host import ClusterHost
from hotdesk.api.quotas import Quotas
from hotdesk.api.walls import TenantWalls
from hotdesk.cluster.certificates import make_tls_context
from hotdesk.cluster.discovery import Address, StaticNode
from hotdesk.cluster.journal_follower import JournalFollower
from hotdesk.cluster.names import compute_node_code, new_node_id
from hotdesk.cluster.nodes import ClusterNode, Nodes
from hotdesk.cluster.pull import MAX_KEYS, PulledJournal
from hotdesk.cluster.tls import TlsTunnel
from hotdesk.config import Config
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.drive.chain import compute_digest
from hotdesk.drive.export import as_line, parse_row
from hotdesk.drive.journal import FILE, Journal, read
from hotdesk.drive.signing import PUBLIC, load_signer
from hotdesk.errors import BriefError, DeskGone, KeeperError
from hotdesk.event import Revoked
from hotdesk.ipc.tasks import background
from hotdesk.linux.sockets import send
from tests.conftest import settings_in
from tests.security.cluster_attack_room import REPORT, ClusterAttacks, attacked, reply
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]
BODY = {"spec": {**asdict(Spec(root=True)), "env": {}, "volumes": {}}}


@pytest.fixture
async def room(settings: Config, tmp_path: Path) -> AsyncIterator[ClusterAttacks]:
    async with attacked(settings, tmp_path) as found:
        yield found


@contextmanager
def refused(kind: type[Exception], why: str) -> Iterator[None]:
    with anyio.fail_after(10), pytest.raises(kind, match=why):
        yield


async def until(found: Callable[[], object]) -> None:
    with anyio.fail_after(20):
        while not found():
            await anyio.sleep(0.05)


@pytest.mark.long
@no_guard("no attack: what all the others differ from")
async def test_a_server_opens_uses_and_burns_a_desk_on_a_node(room: ClusterAttacks) -> None:
    cluster = room.cluster(room.node)
    with anyio.fail_after(20):
        while not cluster.nodes.by_name:
            await cluster.nodes.changed.wait()
        desk = await cluster.open(Spec(root=True))
    assert desk.id[1:4] == compute_node_code("n1")
    assert (await desk.run(["id", "-u"], user="root")).text == "0\n"
    await cluster.burn(desk.id)
    with refused(DeskGone, "was burnt"):
        await desk.run(["true"])


def unverified(role: str, *names: str) -> ssl.SSLContext:
    """Return the TLS context of an unknown caller: with any certificate, or none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


SHOWN = "cluster: a caller shows a server's certificate"


@falls_without(
    SHOWN,
    Removal(
        "cluster/certificates.py", "context.verify_mode = ssl.CERT_REQUIRED", "context.verify_mode = ssl.CERT_NONE"
    ),
    Removal("cluster/agent.py", "            if not server:", "            if server is None:"),
    Removal("cluster/dialer.py", "        if not name:", "        if name is None:"),
)
@pytest.mark.parametrize("case", ["none", "another authority's"])
async def test_a_caller_without_a_certificate_of_the_authority_gets_no_desk(room: ClusterAttacks, case: str) -> None:
    context = unverified("server")
    if case != "none":
        stranger = room.identity("server", "home", "strangers")
        context.load_cert_chain(stranger / "certificate.pem", stranger / "private.key")
    calls = room.calls(context=context)
    calls.dialer._check = lambda name: None  # type: ignore[method-assign]
    with refused(DeskGone, "closed the connection"):
        await calls.call("POST", "/desks", BODY)


BOTH = Removal(
    "cluster/certificates.py", "x509.ExtendedKeyUsage([_USAGE[role]])", "x509.ExtendedKeyUsage([*_USAGE.values()])"
)


ROLE = Removal("cluster/certificates.py", '    prefix = _format_uri(role, "")', '    prefix = "hotdesk:"')


@falls_without("cluster: a node cannot call", BOTH, ROLE)
async def test_a_nodes_certificate_cannot_be_used_to_call_other_nodes(room: ClusterAttacks) -> None:
    context = make_tls_context(room.identity("node", "n2"), "server")
    with refused(DeskGone, "closed the connection"):
        await room.calls(context=context).call("POST", "/desks", BODY)


@pytest.mark.long
@falls_without(
    "cluster: a server cannot answer",
    BOTH,
    ROLE,
    Removal("cluster/nodes.py", "if dialer.certified not in (report.node, ANY_NODE):", "if not dialer.certified:"),
)
async def test_a_servers_certificate_cannot_be_used_to_answer_as_a_node(room: ClusterAttacks) -> None:
    async def lend(sock: socket.socket, target: str) -> None:
        await reply(sock, 201, {"id": new_node_id("n1")})

    identity = room.identity("server", "other")
    address = await room.pose(lend, identity=identity)
    cluster = room.cluster(address)
    await until(lambda: cluster.nodes.by_name or room.has_error("unsuitable certificate purpose"))
    assert not cluster.nodes.by_name


@pytest.mark.sample(1)
@falls_without(
    "cluster: a tenant on a node is one server's",
    Removal("cluster/names.py", 'f"{server}\\0{tenant}"', 'f"{tenant}"'),
)
@pytest.mark.parametrize("act", ["use", "link", "burn", "list"])
async def test_another_server_cannot_access_a_tenants_desk(room: ClusterAttacks, act: str) -> None:
    ours, theirs = room.calls("home"), room.calls("other")
    desk = DeskId(str((await ours.call("POST", "/desks", BODY))["id"]))
    if act == "use":
        with refused(DeskGone, "is not open here"):
            await theirs.call("GET", f"/desks/{desk}/usage")
    elif act == "link":
        with refused(DeskGone, "is not open here"):
            await theirs.borrow(desk)
    elif act == "burn":
        with anyio.fail_after(10):
            await theirs.burn(desk)  # like burning one that is gone
    else:
        assert desk not in json.dumps(await theirs.call("GET", "/desks"))
    assert (await ours.call("GET", f"/desks/{desk}/usage"))["memory"]
    await ours.burn(desk)


@pytest.mark.long
@no_guard("a path is split before its tenant is looked up, and a tenant's name has a shape", cases=None)
@pytest.mark.parametrize("tenant", ["..", "default%2f..", "a/../default", "", "x" * 33])
async def test_no_path_leads_to_another_tenant(room: ClusterAttacks, tenant: str) -> None:
    desk = (await room.calls("home").call("POST", "/desks", BODY))["id"]
    with refused(BriefError, "is not a valid tenant name|does not have this path"):
        await room.calls("home", tenant).call("GET", f"/desks/{desk}/usage")
    await room.calls("home").burn(DeskId(str(desk)))


@pytest.mark.long
@no_guard("a node asks a vault, a lease or an approval of nobody: the protocol has no such word on a node")
@pytest.mark.parametrize("target", ["/unlock", "/leases", "/allow/x", "/questions"])
async def test_a_server_cannot_unlock_or_approve_on_a_node(room: ClusterAttacks, target: str) -> None:
    with refused(BriefError, "does not have this path"):
        await room.calls().call("POST", target, {"root": "AAAA"})


@falls_without(
    "cluster: a node gives its own ids",
    Removal(
        "cluster/runtime.py",
        "        if get_node_code(desk) != self.node.code:",
        "        if get_node_code(desk) == '':",
    ),
)
async def test_a_node_cannot_answer_with_another_nodes_desk(room: ClusterAttacks) -> None:
    other = new_node_id("n2")

    async def lie(sock: socket.socket, target: str) -> None:
        await reply(sock, 201, {"id": other})

    cluster = room.cluster(await room.pose(lie))
    with anyio.fail_after(10):
        while not cluster.nodes.by_name:
            await cluster.nodes.changed.wait()
    with pytest.raises(KeeperError, match="belongs to another node"):
        await cluster.open(Spec())


@pytest.mark.long
@falls_without(
    "cluster: a node has the name in its certificate",
    Removal("cluster/nodes.py", "if dialer.certified not in (report.node, ANY_NODE):", "if not dialer.certified:"),
)
async def test_a_node_cannot_report_as_another(room: ClusterAttacks) -> None:
    async def hang_up(sock: socket.socket, target: str) -> None:
        sock.close()

    address = await room.pose(hang_up, replace(REPORT, node="n2"))
    cluster = room.cluster(address)
    await until(lambda: cluster.nodes.by_name or room.has_error("presented the certificate of node n1"))
    assert not cluster.nodes.by_name


@pytest.mark.long
@falls_without(
    "cluster: two nodes have two codes",
    Removal("cluster/nodes.py", "            if other.code == node.code:", "            if other.code == '':"),
)
async def test_a_second_agent_of_a_pool_cannot_take_a_nodes_name(room: ClusterAttacks) -> None:
    async def hang_up(sock: socket.socket, target: str) -> None:
        sock.close()

    pool = room.identity("node", "*")
    first = await room.pose(hang_up, REPORT, pool)
    cluster = room.cluster(first)
    await until(lambda: cluster.nodes.by_name)
    held = cluster.nodes.by_name["n1"]
    second = await room.pose(hang_up, replace(REPORT, boot="2" * 32), pool)
    cluster.nodes.discoveries = [*cluster.nodes.discoveries, *room.cluster(second).nodes.discoveries]
    await until(lambda: cluster.nodes.by_name.get("n1") is not held or room.has_error("give their desks the same ids"))
    assert cluster.nodes.by_name["n1"] is held


@pytest.mark.long
@falls_without(
    "cluster: reports are bounded",
    Removal(
        "cluster/nodes.py", "                if len(buffer) > MAX_LINE_BYTES:", "                if len(buffer) < 0:"
    ),
)
async def test_a_node_cannot_exhaust_a_server_with_a_report(room: ClusterAttacks) -> None:
    sent = 0

    async def flood(sock: socket.socket, target: str) -> None:
        nonlocal sent
        while True:
            await send(sock, b"x" * 65536)
            sent += 65536

    flood.reports = True  # type: ignore[attr-defined]
    cluster = room.cluster(await room.pose(flood))
    await until(lambda: sent > 8 << 20 or room.has_error("status report of more than"))
    assert sent <= 8 << 20
    assert not cluster.nodes.by_name


@pytest.mark.long
@falls_without(
    "cluster: answers are bounded",
    Removal("owner/remote.py", "            if len(body) > ANSWER_LIMIT:", "            if len(body) < 0:"),
)
async def test_a_node_cannot_exhaust_a_server_with_an_answer(room: ClusterAttacks) -> None:
    body = json.dumps({"id": new_node_id("n1"), "more": "x" * (48 << 20)}).encode()
    sent = 0

    async def flood(sock: socket.socket, target: str) -> None:
        nonlocal sent
        await send(sock, f"HTTP/1.1 201 X\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        for start in range(0, len(body), 65536):
            await send(sock, body[start : start + 65536])
            sent += 65536

    cluster = room.cluster(await room.pose(flood))
    with anyio.fail_after(10):
        while not cluster.nodes.by_name:
            await cluster.nodes.changed.wait()
    with refused(KeeperError, "more than 16 MiB"):
        await cluster.open(Spec())
    assert sent < 20 << 20


@pytest.mark.long
@no_guard("TLS 1.3: both sides bring fresh randomness, and nothing is sent before the handshake is over")
async def test_a_recorded_call_cannot_be_replayed(room: ClusterAttacks) -> None:
    said = bytearray()

    class Recorder(TlsTunnel):
        async def flush(self) -> None:
            async with self.sending:
                while data := self.outgoing.read():
                    said.extend(data)
                    self.raw.setblocking(True)
                    self.raw.sendall(data)
                    self.raw.setblocking(False)

    raw = socket.create_connection(room.node)
    tunnel = Recorder(raw, make_tls_context(room.identity("server", "home"), "server"), server_side=False)
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    await tunnel.shake_hands()
    room.tasks.start(lambda: tunnel.run(theirs))
    body = json.dumps(BODY).encode()
    ours.sendall(b"POST /tenants/default/desks HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await anyio.wait_readable(ours)
    assert b" 201 " in ours.recv(65536)
    before = await room.calls().call("GET", "/desks")
    with socket.create_connection(room.node) as again:
        again.settimeout(30)
        await anyio.to_thread.run_sync(again.sendall, bytes(said))
        await anyio.sleep(1)
    after = await room.calls().call("GET", "/desks")
    assert len(after["items"]) == len(before["items"]) == 1  # type: ignore[arg-type]
    ours.close()


@falls_without(
    "cluster: reports in vain cause few calls",
    Removal("cluster/journal_follower.py", "_MAX_VAIN_CALLS = 10", "_MAX_VAIN_CALLS = 1 << 30"),
)
async def test_a_node_cannot_cause_calls_by_reporting_events_it_does_not_have() -> None:
    calls = 0

    async def pull() -> int:
        nonlocal calls
        calls += 1
        return 0

    follower = JournalFollower(ClusterNode(REPORT, cast(Any, None)), pull)
    begun = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follower.run)
        for _ in range(200):
            follower.note()
            await anyio.sleep(0.01)
        follower.end()
    assert calls <= 14 + anyio.current_time() - begun


def journal_lines(folder: Path, count: int) -> tuple[str, list[str]]:
    """Write a node's journal; return its key, and its events as they are sent."""
    folder.mkdir(mode=0o700)
    journal = Journal(folder / FILE, load_signer(folder))
    for number in range(count):
        journal.add("desk", "door", Revoked("desk", "erp-token", f"canary {number}"))
        journal.commit()
    journal.close()
    return (folder / PUBLIC).read_text(), [as_line(row) for row in read(folder / FILE)]


@falls_without(
    "cluster: pulled events follow those before",
    Removal(
        "cluster/pull.py",
        "            if trial.faults:\n                fault",
        "            if not trial:\n                fault",
    ),
)
@pytest.mark.parametrize("case", ["changed", "left out", "told anew"])
def test_a_node_cannot_change_events_it_reported(tmp_path: Path, case: str) -> None:
    key, lines = journal_lines(tmp_path / "node", 6)
    pulled = PulledJournal(tmp_path / "home")
    assert pulled.take({"key": key, "events": lines[:3]}) == 3
    pulled = PulledJournal(tmp_path / "home")
    later = {
        "changed": [lines[3].replace("canary 3", "canary x"), *lines[4:]],
        "left out": lines[4:],
        "told anew": lines[2:],
    }[case]
    with pytest.raises(KeeperError, match="do not follow those it sent before"):
        pulled.take({"key": key, "events": later})


def new_key() -> str:
    key = Ed25519PrivateKey.generate().public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@falls_without(
    "cluster: a key without events gets no file",
    Removal("cluster/pull.py", "        if not rows:", "        if rows is None:"),
)
def test_a_node_with_a_new_key_each_time_makes_no_files_without_events(tmp_path: Path) -> None:
    pulled = PulledJournal(tmp_path / "n1")
    for _ in range(20):
        assert pulled.take({"key": new_key(), "events": []}) == 0
    assert not list(tmp_path.glob("n1/*"))


@falls_without(
    "cluster: a node has a bounded number of keys",
    Removal("cluster/pull.py", "len(names) >= MAX_KEYS", "len(names) < 0"),
    Removal("cluster/pull.py", "if time.time() - names[oldest] < MIN_KEY_AGE_S:", "if time.time() < 0:"),
)
def test_a_node_that_signs_each_event_with_another_key_fills_no_folder(tmp_path: Path) -> None:
    pulled = PulledJournal(tmp_path / "n1")
    (tmp_path / "n1").mkdir(mode=0o700)
    for number in range(MAX_KEYS - 1):
        (tmp_path / f"n1/{number}.jsonl").touch()
    for attempt in range(3):
        key, lines = journal_lines(tmp_path / f"node {attempt}", 1)
        with suppress(KeeperError):
            for _ in range(2):  # the first reply with another key is not taken
                pulled.take({"key": key, "events": lines})
    assert len(list(tmp_path.glob("n1/*.jsonl"))) == MAX_KEYS
    with pytest.raises(KeeperError, match="move the files of its earlier keys"):
        pulled.take({"key": key, "events": lines})


def forge(event: str, **fields: object) -> str:
    return json.dumps(json.loads(event) | fields)


def forge_hash(event: str, **fields: object) -> str:
    row = parse_row(json.loads(forge(event, **fields)))
    assert row is not None
    return forge(event, **fields, hash=compute_digest(row, None).hex())


MALFORMED: dict[str, Callable[[str], object]] = {
    "a hash that is not hexadecimal": lambda event: forge(event, hash="zz"),
    "a signature that is not hexadecimal": lambda event: forge(event, signature="zz"),
    "no text": lambda event: 7,
    "no JSON": lambda event: "{",
    "half a character, well hashed": lambda event: forge_hash(event, chain="\ud800"),
    "nested too deeply": lambda event: "[" * 100_000,
}


@falls_without(
    "cluster: events of nodes are parsed strictly",
    Removal(
        "drive/export.py",
        "    except ValueError:\n        return None\n\n\ndef load_json",
        "    except KeyError:\n        return None\n\n\ndef load_json",
    ),
    cases="a hash that is not hexadecimal | a signature that is not hexadecimal",
)
@falls_without(
    "cluster: names of chains may be any text",
    Removal("drive/chain.py", '.encode("utf-8", "surrogatepass")\n\n\ndef compute', ".encode()\n\n\ndef compute"),
    cases="half a character, well hashed",
)
@no_guard(
    "the parser of every export, tried in tests/unit/drive",
    cases="no text | no JSON | nested too deeply",
)
@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_event_of_a_node_is_refused(tmp_path: Path, case: str) -> None:
    key, lines = journal_lines(tmp_path / "node", 2)
    pulled = PulledJournal(tmp_path / "n1")
    with pytest.raises(KeeperError, match="node n1 sent"):
        pulled.take({"key": key, "events": [MALFORMED[case](lines[0])]})
    assert pulled.take({"key": key, "events": lines}) == 2


@falls_without(
    "cluster: no event ends a server",
    Removal(
        "api/cluster_host.py",
        "        except Exception as e:  # noqa: BLE001 - a rim",
        "        except KeyError as e:  # a rim",
    ),
)
async def test_a_node_that_sends_malformed_events_ends_no_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both nodes report the same boot id, which does not lead calls for one to the other.

    The node is asked again less and less often, and has few lines of the log.
    """
    key, lines = journal_lines(tmp_path / "node", 2)

    broken = [forge(lines[0], hash="zz")]
    asked: list[list[str]] = []

    async def answer(sock: socket.socket, target: str, events: list[str]) -> None:
        if "/journal/" in target:
            asked.append(events)
        await reply(sock, 200, {"key": key, "events": events if target.endswith("/journal/0") else [], "items": []})

    async with background() as tasks:
        room = ClusterAttacks(tmp_path, tasks, Address("127.0.0.1", 1))
        hostile = await room.pose(partial(answer, events=broken))
        honest = await room.pose(
            partial(answer, events=lines), replace(REPORT, node="n2"), identity=room.identity("node", "n2")
        )
        context = make_tls_context(room.identity("server", "home"), "server")
        nodes = Nodes([StaticNode(hostile), StaticNode(honest)], context, tasks, room.errors.append)
        tasks.start(nodes.run)
        serving = {"nodes": ["127.0.0.1:1"], "identity": str(room.identity("server", "home"))}
        settings = replace(settings_in(tmp_path / "home"), serve=serving)
        async with ClusterHost(settings, "default", Quotas(), TenantWalls(), nodes):
            with anyio.fail_after(20):
                while not list((settings.lib / "serve/nodes/n2").glob("*.jsonl")):
                    await anyio.sleep(0.05)
                while asked.count(lines) < 6:
                    await anyio.sleep(0.05)
        assert not list((settings.lib / "serve/nodes/n1").glob("*.jsonl"))
        assert asked.count(broken) < 5
        assert capsys.readouterr().err.count("malformed journal event") < 3
        nodes.close()


CONNECT = """
import socket, sys
from pathlib import Path
from hotdesk.api import privileges
from hotdesk.config import Config
home = Path(sys.argv[1])
privileges.give_up(Config(run=home / "run", lib=home / "lib", images=home), ports=[int(sys.argv[2])])
for port in sys.argv[2:]:
    try:
        socket.create_connection(("127.0.0.1", int(port))).close()
        print("connected")
    except OSError as e:
        print(e.errno)
"""


@falls_without(
    "cluster: a server connects to nodes alone",
    Removal("api/privileges.py", "        dials=dials,\n", "        dials=True,\n"),
)
def test_a_compromised_server_can_connect_only_to_nodes(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with socket.create_server(("127.0.0.1", 0)) as node, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [str(each.getsockname()[1]) for each in (node, other)]
        done = subprocess.run(
            [sys.executable, "-c", CONNECT, str(tmp_path), *ports], capture_output=True, text=True, check=True
        )
    assert done.stdout.split() == ["connected", str(errno.EACCES)]
