"""Attacks on an agent whose desks are pods: stolen, guessed and used tokens, silent callers, pods that never read."""

from __future__ import annotations

import json
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from hotdesk.desk.pod.listener import HANDSHAKE_SECONDS, MAX_HANDSHAKES, MAX_OF_ADDRESS
from hotdesk.desk.pod.pool_trust import PoolTrust
from hotdesk.desk.pod.preflight import PreflightReport, ProbeRow, ProbeTarget
from hotdesk.desk.pod.probe import OPEN as OPEN_OUTCOME
from hotdesk.desk.pod.streams import MAX_WIDENED, DeskStreams
from hotdesk.desk.records import list_desks
from hotdesk.errors import DeskGone, HostError, HotdeskError, WallError
from hotdesk_guest.mux import DATA, MAX_STREAMS, OPEN, POD_WINDOW, VM_LIMIT
from hotdesk_guest.wire import encode_frame
from tests.pod_cluster import NODE, TESTED, make_trust
from tests.pod_room import PodRoom, open_pod_room, run_pod
from tests.security.guards import Removal, falls_without, no_guard
from tests.unit.desk.pod.test_runtime import SMALL, open_agent

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
OWN, OTHER = "127.0.0.1", "127.0.0.2"
"""The address of the pod, and that of another one."""


@pytest.fixture
async def room() -> AsyncIterator[PodRoom]:
    async with open_pod_room() as found:
        yield found


class Caller:
    """A caller that says what it likes, from any address of this machine's loopback."""

    def __init__(self, room: PodRoom, source: str) -> None:
        host, _, port = room.listener.address.rpartition(":")
        raw = socket.create_connection((host, int(port)), 10, (source, 0))
        raw.settimeout(7)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(cadata=room.listener.certificate)
        self.tls = context.wrap_socket(raw)

    def present(self, token: str) -> bool:
        """Present a token; return whether the agent answered with the guest's code."""
        try:
            self.tls.sendall(json.dumps({"token": token, "python": "00"}).encode() + b"\n")
            return len(self.read(int.from_bytes(self.read(4), "big"))) > 0
        except OSError:
            return False

    def read(self, size: int) -> bytes:
        """Read so many bytes, or to the end."""
        data = b""
        while len(data) < size and (part := self.tls.recv(size - len(data))):
            data += part
        return data


@contextmanager
def call(room: PodRoom, source: str = OWN) -> Iterator[Caller]:
    caller = Caller(room, source)
    try:
        yield caller
    finally:
        caller.tls.close()


def present(room: PodRoom, token: str, source: str = OWN) -> bool:
    try:
        with call(room, source) as caller:
            return caller.present(token)
    except OSError:  # the agent did not even shake hands
        return False


async def try_token(room: PodRoom, token: str, source: str = OWN) -> bool:
    return await anyio.to_thread.run_sync(present, room, token, source)


@falls_without(
    "a token is compared as a whole",
    Removal("pod/listener.py", "if guest is None or not hmac.compare_digest(guest.token, token):", "if guest is None:"),
)
async def test_a_guessed_token_gets_nothing(room: PodRoom) -> None:
    guest = room.expect()
    guest.locate(OWN)
    for token in (f"{guest.desk}.guess", f"{guest.token}x", guest.token[:-1], guest.desk):
        assert not await try_token(room, token)
    assert await try_token(room, guest.token)


CONNECTED_AGAIN = Removal("pod/listener.py", "        if streams is None or streams.is_over:\n", "        if True:\n")
NEVER_EVICTED = Removal(
    "pod/listener.py",
    "                self.evict()\n",
    "                raw.close()\n                continue\n",
)


@falls_without(
    "a token counts once",
    Removal("pod/listener.py", "        if guest.is_used:\n", "        if False:\n"),
    CONNECTED_AGAIN,
)
async def test_a_used_token_gets_nothing_again(room: PodRoom) -> None:
    guest = room.expect()
    guest.locate(OWN)
    assert await try_token(room, guest.token)
    assert not await try_token(room, guest.token)
    assert guest.streams is not None
    await room.listener.wait(guest, 1)
    assert not await try_token(room, guest.token)


@falls_without(
    "a token counts from its own pod",
    Removal("pod/listener.py", "        if guest.address != shake.address:\n", "        if False:\n"),
)
async def test_a_stolen_token_gets_another_pod_nothing(room: PodRoom) -> None:
    guest = room.expect()
    guest.locate(OWN)
    assert not await try_token(room, guest.token, OTHER)
    assert await try_token(room, guest.token, OWN)


@falls_without("a token counts from its own pod")
async def test_a_thief_that_is_first_gets_nothing(room: PodRoom) -> None:
    guest = room.expect()
    found: list[bool] = []

    async def steal() -> None:
        found.append(await try_token(room, guest.token, OTHER))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(steal)
        await anyio.sleep(0.5)
        guest.locate(OWN)
    assert found == [False]
    assert await try_token(room, guest.token, OWN)


@falls_without(
    "handshakes of one address are bounded",
    Removal("pod/listener.py", "if self.by_address[address] >= MAX_OF_ADDRESS or ", "if "),
    NEVER_EVICTED,
)
async def test_silent_callers_keep_nobody_out(room: PodRoom) -> None:
    guest = room.expect()
    guest.locate(OWN)
    host, _, port = room.listener.address.rpartition(":")

    def crowd(stack: ExitStack) -> None:
        for _ in range(MAX_HANDSHAKES + 20):
            stack.enter_context(socket.create_connection((host, int(port)), 10, (OTHER, 0)))

    with ExitStack() as stack:
        await anyio.to_thread.run_sync(crowd, stack)
        with anyio.move_on_after(HANDSHAKE_SECONDS / 2):
            assert await try_token(room, guest.token)
            return
    pytest.fail("the guest had to wait for callers that say nothing")


@falls_without("a handshake too many ends the oldest", NEVER_EVICTED)
async def test_silent_callers_of_many_addresses_keep_nobody_out(room: PodRoom) -> None:
    guest = room.expect()
    guest.locate(OWN)
    host, _, port = room.listener.address.rpartition(":")

    def crowd(stack: ExitStack) -> None:
        for number in range(MAX_HANDSHAKES + 20):
            source = f"127.0.1.{1 + number // MAX_OF_ADDRESS}"
            stack.enter_context(socket.create_connection((host, int(port)), 10, (source, 0)))

    with ExitStack() as stack:
        await anyio.to_thread.run_sync(crowd, stack)
        with anyio.move_on_after(HANDSHAKE_SECONDS / 2):
            assert await try_token(room, guest.token)
            return
    pytest.fail("the guest had to wait for callers that say nothing")


@no_guard("the control of the attack above: one of the crowd is ended, and not the guest that is slow")
async def test_the_handshake_that_is_ended_is_one_of_an_address_with_most(room: PodRoom) -> None:
    host, _, port = room.listener.address.rpartition(":")

    def crowd(stack: ExitStack) -> socket.socket:
        slow = stack.enter_context(socket.create_connection((host, int(port)), 10, (OWN, 0)))
        for number in range(MAX_HANDSHAKES + 20):
            source = f"127.0.1.{1 + number // MAX_OF_ADDRESS}"
            stack.enter_context(socket.create_connection((host, int(port)), 10, (source, 0)))
        return slow

    with ExitStack() as stack:
        slow = await anyio.to_thread.run_sync(crowd, stack)
        await anyio.sleep(0.5)
        assert len(room.listener.handshakes) == MAX_HANDSHAKES
        slow.setblocking(False)
        with pytest.raises(BlockingIOError):
            slow.recv(1)


@falls_without("a pod whose guest is connected gets no handshake", CONNECTED_AGAIN)
async def test_a_desk_cannot_occupy_the_agents_port(room: PodRoom) -> None:
    guest = room.expect()
    guest.locate(OWN)
    host, _, port = room.listener.address.rpartition(":")

    def occupy() -> bool:
        with call(room) as caller:
            assert caller.present(guest.token)
            with socket.create_connection((host, int(port)), 10) as silent:
                silent.settimeout(HANDSHAKE_SECONDS / 2)
                return silent.recv(1) == b""

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(room.listener.wait, guest, 10)
        assert await anyio.to_thread.run_sync(occupy)
    assert room.problems == []  # nor can it fill the log


@falls_without(
    "the first message has two texts",
    Removal("pod/listener.py", 'if not isinstance(hello, dict) or hello.keys() != {"token", "python"}:', "if False:"),
)
@pytest.mark.parametrize("hello", [b"[]\n", b"{}\n", b'{"python": "00"}\n'])
async def test_a_malformed_first_message_ends_only_its_connection(hello: bytes) -> None:
    def say(room: PodRoom) -> None:
        with call(room) as caller:
            caller.tls.sendall(hello)
            assert caller.tls.recv(1) == b""

    async with open_pod_room() as room:
        guest = room.expect()
        guest.locate(OWN)
        await anyio.to_thread.run_sync(say, room)
        assert await try_token(room, guest.token)


@no_guard("nothing is read from it but what TLS itself refuses")
async def test_garbage_instead_of_tls_ends_only_its_connection(room: PodRoom) -> None:
    guest = room.expect()
    guest.locate(OWN)
    host, _, port = room.listener.address.rpartition(":")
    for data in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"\x16\x03\x01\xff\xff" + bytes(100)):
        with socket.create_connection((host, int(port)), 10) as sock:
            sock.sendall(data)
    assert await try_token(room, guest.token)


@falls_without(
    "the first message is short",
    Removal("pod/listener.py", "            if len(line) > limit:\n", "            if False:\n"),
)
async def test_an_endless_first_message_is_cut(room: PodRoom) -> None:
    def flood() -> bool:
        with call(room) as caller:
            caller.tls.settimeout(30)
            try:
                caller.tls.sendall(b"x" * 65536)
                return caller.tls.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

    assert await anyio.to_thread.run_sync(flood)


@falls_without(
    "a pod must read the replies it causes",
    Removal("pod/streams.py", "            if len(self.mux.carrier.out) > HIGH:\n", "            if False:\n"),
    Removal("pod/streams.py", "            if len(self.mux.carrier.out) > MAX_WAITING:\n", "            if False:\n"),
)
async def test_a_pod_that_opens_streams_and_never_reads_is_cut(room: PodRoom) -> None:
    guest = room.expect()
    guest.locate(OWN)

    def flood() -> bool:
        with call(room) as caller:
            assert caller.present(guest.token)
            caller.tls.settimeout(20)
            batch = b"".join(encode_frame(OPEN, number, b"?") for number in range(1, 5000))
            try:
                for _ in range(200):
                    caller.tls.sendall(batch)
            except OSError:
                return True
        return False

    assert await anyio.to_thread.run_sync(flood)
    assert "does not read" in guest.streams.failure if guest.streams is not None else False


@contextmanager
def listen_without_reading(folder: Path) -> Iterator[Path]:
    """Be a door that accepts connections and reads nothing, as one does whose upstream is slow."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(folder / "gate.sock"))
        door.listen(1024)
        yield folder / "gate.sock"


async def watch_waiting(streams: DeskStreams, most: list[int]) -> None:
    """Note the most bytes of a pod that waited in the agent at a time."""
    while True:
        most[0] = max(most[0], sum(len(each.end.out) for each in streams.mux.by_number.values()))
        await anyio.sleep(0.01)


MAX_HELD = MAX_WIDENED + MAX_STREAMS * POD_WINDOW


@falls_without(
    "windows of a pod's streams share what is spare",
    Removal(
        "hotdesk_guest/mux.py",
        "        more = min(stream.window, WINDOW - stream.window, self.spare)\n",
        "        more = WINDOW - stream.window\n",
    ),
)
async def test_programs_that_fill_many_connections_use_little_memory_of_the_agent(tmp_path: Path) -> None:
    fill = (
        "import socket, time\n"
        "socks = [socket.create_connection(('127.0.0.1', %d), 5) for _ in range(128)]\n"
        "for s in socks: s.setblocking(False)\n"
        "end = time.monotonic() + 6\n"
        "while time.monotonic() < end:\n"
        "    for s in socks:\n"
        "        try: s.send(bytes(65536))\n"
        "        except BlockingIOError: pass\n"
        "    time.sleep(0.01)\n"
        "print('filled')"
    )
    with listen_without_reading(tmp_path) as gate:
        async with open_pod_room() as room:
            guest = room.expect()
            guest.locate(OWN)
            most = [0]
            with run_pod(room.build_order(guest)):
                desk = await room.link(guest, gate)
                assert guest.streams is not None
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(watch_waiting, guest.streams, most)
                    done = await desk.run(["/usr/bin/python3", "-c", fill % room.gate[1]])
                    assert (await desk.run(["echo", "alive"])).text == "alive\n"
                    tasks.cancel_scope.cancel()
            assert done.text == "filled\n"
            assert 1 << 20 < most[0] <= MAX_HELD


@falls_without(
    "a pod sends no more than it was granted",
    Removal(
        "hotdesk_guest/mux.py",
        "            if len(stream.end.out) + len(payload) > stream.window:",
        "            if False:",
    ),
)
async def test_a_pod_that_sends_more_than_it_was_granted_is_cut(room: PodRoom, tmp_path: Path) -> None:
    guest = room.expect()
    guest.locate(OWN)
    most = [0]

    def flood() -> bool:
        with call(room) as caller:
            assert caller.present(guest.token)
            caller.tls.settimeout(20)
            try:
                for number in range(1, 100):
                    part = encode_frame(DATA, number, bytes(VM_LIMIT - 100))
                    caller.tls.sendall(encode_frame(OPEN, number, b"gate") + part * 8)
            except OSError:
                return True
        return False

    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            streams = await room.listener.wait(guest, 10)
            streams.gate = str(tmp_path / "gate.sock")
            await watch_waiting(streams, most)

        with listen_without_reading(tmp_path):
            tasks.start_soon(watch)
            await anyio.to_thread.run_sync(flood)
            tasks.cancel_scope.cancel()
    assert guest.streams is not None
    assert "more data than its flow-control credit allows" in guest.streams.failure
    assert most[0] <= MAX_HELD


@pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")
@falls_without(
    "the stored pod is compared",
    Removal("pod/fleet.py", "if differences := find_differences(pod.sent, stored):", "if differences := []:"),
)
async def test_a_pod_that_the_cluster_loosened_is_no_desk(tmp_path: Path) -> None:
    async with open_agent(tmp_path) as agent:

        def loosen(pod: dict[str, object]) -> None:
            pod["spec"]["containers"][0]["securityContext"].pop("readOnlyRootFilesystem")  # type: ignore[index]

        agent.pods.admit = loosen
        with pytest.raises(WallError, match="readOnlyRootFilesystem is missing"):
            await agent.runtime.open(SMALL)
        assert agent.pods.stored == {}
        assert list_desks(agent.runtime.config.run) == []


HOSTILE_IMAGE = """
import json, os, socket, ssl, sys, time
host, _, port = os.environ["HOTDESK_AGENT"].rpartition(":")
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.load_verify_locations(cadata=os.environ["HOTDESK_CERTIFICATE"])
tls = context.wrap_socket(socket.create_connection((host, int(port)), 10))
hello = json.dumps({"token": os.environ["HOTDESK_TOKEN"], "python": "00"}).encode() + b"\\n"
tls.sendall(hello + bytes.fromhex(sys.argv[1]))
received = 0
while data := tls.recv(65536):
    received += len(data)
    print(received, file=sys.stderr, flush=True)
time.sleep(60)
"""
"""What a pod runs whose image has a program of its own for Python: it presents its token, and more at once."""


def build_hostile_program(behind: bytes = b"") -> list[str]:
    return ["/usr/bin/python3", "-I", "-B", "-c", HOSTILE_IMAGE, behind.hex()]


@pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")
@falls_without(
    "a pod whose connection has ended is no desk",
    Removal("pod/fleet.py", "            if pod.failure or pod.streams.is_over:", "            if False:"),
    Removal("owner/pool.py", "        except (HotdeskError, OSError) as e:", "        except HotdeskError as e:"),
)
async def test_a_pod_that_breaks_the_protocol_at_once_ends_no_other_desk(tmp_path: Path) -> None:
    async with open_agent(tmp_path) as agent:
        other = await agent.runtime.open(SMALL)
        agent.pods.program = build_hostile_program(b"\xff" * 64)
        agent.runtime.pool.keep(SMALL, 1)
        with pytest.raises(HotdeskError, match="the connection to the desk's pod failed"), anyio.fail_after(30):
            await agent.runtime.pool.wait_until_full()
        assert (await other.run(["echo", "alive"])).text == "alive\n"
        agent.runtime.pool.keep(SMALL, 0)
        with pytest.raises(DeskGone, match="did not start: the connection to the desk's pod failed"):
            await agent.runtime.open(SMALL)
        assert list(agent.pods.stored) == [other.id]


REFUSED = PreflightReport((), (f"{NODE}: the network policy is not enforced: a pod reaches the API server",))


@falls_without(
    "no pod is created in a pool that is not trusted",
    Removal("pod/fleet.py", "        self.trust.require()\n        is_sentry", "        is_sentry"),
)
@pytest.mark.parametrize("kind", ["requested", "kept ready"])
async def test_a_network_without_enforcement_gets_no_pod(tmp_path: Path, kind: str) -> None:
    async with open_agent(tmp_path, await make_trust(REFUSED)) as agent:
        if kind == "requested":
            with pytest.raises(HostError, match="is not enforced: a pod reaches the API server"):
                await agent.runtime.open(SMALL)
        else:
            agent.runtime.pool.keep(SMALL, 1)
            await anyio.sleep(2)
        assert "create" not in agent.pods.calls


@falls_without(
    "a ready pod is not claimed in a pool that is no longer trusted",
    Removal(
        "pod/fleet.py",
        "        self.trust.require()  # the preflight may have failed since the pod was created\n"
        "        self.trust.require_node(pod.node)\n",
        "",
    ),
)
async def test_a_pod_kept_ready_is_not_handed_over_once_the_network_is_open(tmp_path: Path) -> None:
    trust = await make_trust()
    async with open_agent(tmp_path, trust) as agent:
        agent.runtime.pool.keep(SMALL, 1)
        with anyio.fail_after(30):
            await agent.runtime.pool.wait_until_full()
        trust.refuse("the network policy is not enforced any more")
        with pytest.raises(HotdeskError, match="not enforced any more"):
            await agent.runtime.open(replace(SMALL, env={"A": "b"}))
        assert "claim" not in agent.pods.calls


REACHED = ProbeRow(NODE, ProbeTarget("the API server", "10.0.0.9", 6443), OPEN_OUTCOME, OPEN_OUTCOME)
GOOD, WIDE = PreflightReport((TESTED,), ()), PreflightReport((TESTED, REACHED), ("a pod reaches the API server",))


@pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")
@falls_without(
    "open desks end when their network stays open",
    Removal(
        "pod/pool_trust.py",
        "            if self.open_count >= MAX_OPEN and not self.accepts_open:",
        "            if False:",
    ),
)
async def test_a_desk_does_not_keep_a_network_that_was_opened(tmp_path: Path) -> None:
    results = [GOOD, WIDE, WIDE]

    async def run() -> PreflightReport:
        return results.pop(0)

    trust = PoolTrust(run, print)
    await trust.check()
    async with open_agent(tmp_path, trust) as agent:
        desk = await agent.runtime.open(SMALL)
        await trust.check()
        assert (await desk.run(["echo", "once"])).text == "once\n"
        await trust.check()
        with pytest.raises(HotdeskError), anyio.fail_after(10):
            await desk.run(["sleep", "9"])
        with anyio.fail_after(10):
            while agent.pods.stored:
                await anyio.sleep(0.05)
        assert "its network is open: a pod reaches the API server" in agent.runtime.keeper.ended[desk.id]


@falls_without(
    "a pod on a node that was not tested is no desk",
    Removal(
        "pod/fleet.py", "            self.trust.require_node(pod.node)  # nothing of a caller goes", "            # "
    ),
)
@pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")
async def test_a_pod_on_a_node_that_was_not_tested_is_no_desk(tmp_path: Path) -> None:
    async with open_agent(tmp_path) as agent:
        agent.pods.node = "node2"
        agent.pods.program = build_hostile_program()
        with pytest.raises(HostError, match="the network of node 'node2' has not been tested yet"):
            await agent.runtime.open(replace(SMALL, env={"SECRET": "x"}))
        assert agent.pods.stored == {}
        assert agent.pods.printed == [b""]  # the pod got no byte
