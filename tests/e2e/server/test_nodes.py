"""Tests of sandboxes on nodes: E2B's own SDK, an unprivileged server, two agents; the death of one affects no other."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from e2b import PtySize, Sandbox
from e2b.exceptions import NotFoundException, SandboxException

from hotdesk.api.e2b.live import SETTLE_SECONDS
from hotdesk.cluster.names import compute_node_code, get_node_code
from tests.cluster_room import ClusterRoom, NodeProcess, ServerProcess
from tests.conftest import state_directory

pytestmark = [pytest.mark.container, pytest.mark.timeout(240), pytest.mark.long]


@pytest.fixture
def room() -> Iterator[ClusterRoom]:
    with state_directory() as folder:
        found = ClusterRoom(folder)
        try:
            yield found
        finally:
            found.close()


@pytest.fixture
def nodes(room: ClusterRoom) -> list[NodeProcess]:
    return [room.start_node("n1"), room.start_node("n2", pool=True)]


@pytest.fixture
def server(room: ClusterRoom, nodes: list[NodeProcess]) -> Iterator[ServerProcess]:
    with room.serve(*(each.address for each in nodes)) as found:
        found.wait_for_nodes(len(nodes))
        yield found


def node_names(*sandboxes: Sandbox) -> set[str]:
    return {
        name for each in sandboxes for name in ("n1", "n2") if compute_node_code(name) == get_node_code(each.sandbox_id)
    }


def test_every_operation_of_a_sandbox_works_on_a_node(server: ServerProcess) -> None:
    with Sandbox.create("base", timeout=120, **server.e2b) as sandbox:
        assert node_names(sandbox)
        done = sandbox.commands.run("echo $((6 * 7)); id -un; echo no >&2", timeout=30)
        assert (done.stdout, done.stderr) == ("42\nuser\n", "no\n")
        sandbox.files.write("/home/user/a/b.txt", "x" * 300_000)
        assert len(sandbox.files.read("/home/user/a/b.txt")) == 300_000
        assert [each.name for each in sandbox.files.list("/home/user/a")] == ["b.txt"]
        assert sandbox.commands.run("id -u", user="root").stdout == "0\n"
        heard: list[bytes] = []
        pty = sandbox.pty.create(PtySize(24, 80))
        sandbox.pty.send_stdin(pty.pid, b"stty size; exit\n")
        pty.wait(on_pty=heard.append)
        assert b"24 80" in b"".join(heard)
        sandbox.commands.run("python3 -m http.server 8000 -d /home/user/a", background=True)
        served = "curl -s --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:8000/b.txt | wc -c"
        assert sandbox.commands.run(served, timeout=60).stdout.strip() == "300000"


def test_sandboxes_are_spread_and_paused(server: ServerProcess) -> None:
    one = Sandbox.create("base", timeout=120, **server.e2b)
    other = Sandbox.create("base", timeout=120, **server.e2b)
    assert node_names(one, other) == {"n1", "n2"}
    one.files.write("/home/user/kept", "yes")
    one.pause()
    again = Sandbox.connect(one.sandbox_id, timeout=120, **server.e2b)
    assert again.files.read("/home/user/kept") == "yes"
    again.kill()
    with pytest.raises((NotFoundException, SandboxException)):
        again.commands.run("true")
    assert other.commands.run("echo on").stdout == "on\n"
    other.kill()
    assert not Sandbox.list(**server.e2b).next_items()


def test_a_node_that_dies_loses_only_its_own_sandboxes_and_causes_no_delay(
    server: ServerProcess, nodes: list[NodeProcess]
) -> None:
    begun = time.monotonic()
    here = [Sandbox.create("base", timeout=120, **server.e2b) for _ in range(2)]
    usual = time.monotonic() - begun
    [lost] = [each for each in here if node_names(each) == {"n1"}]
    [safe] = [each for each in here if each is not lost]
    nodes[0].kill()
    begun = time.monotonic()
    fresh = Sandbox.create("base", timeout=120, **server.e2b)
    assert time.monotonic() - begun < usual + 2.5  # the time limit of a connection is 3 s
    assert node_names(fresh) == {"n2"}
    assert safe.commands.run("echo on").stdout == "on\n"
    end = time.monotonic() + 10
    while lost.sandbox_id in {each.sandbox_id for each in Sandbox.list(**server.e2b).next_items()}:
        assert time.monotonic() < end
        time.sleep(0.1)
    with pytest.raises((NotFoundException, SandboxException)):
        lost.commands.run("true", request_timeout=20)
    fresh.kill()
    safe.kill()


def test_a_server_that_was_killed_finds_its_sandboxes(room: ClusterRoom, nodes: list[NodeProcess]) -> None:
    addresses = [each.address for each in nodes]
    with room.serve(*addresses) as first:
        there = [Sandbox.create("base", timeout=300, metadata={"n": str(n)}, **first.e2b) for n in range(3)]
        for each in there:
            each.files.write("/home/user/name", each.sandbox_id)
            each.commands.run("sleep 1000", background=True)
        gone = there.pop()
        gone.kill()
        first.process.kill()
    with room.serve(*addresses) as second:
        listed = {each.sandbox_id: each for each in Sandbox.list(**second.e2b).next_items()}
        assert set(listed) == {each.sandbox_id for each in there}
        for number, each in enumerate(there):
            assert listed[each.sandbox_id].metadata == {"n": str(number)}
            found = Sandbox.connect(each.sandbox_id, **second.e2b)
            assert found.files.read("/home/user/name") == each.sandbox_id
            assert found.commands.run("pgrep -c sleep").stdout == "1\n"
            found.kill()


class Forwarder:
    """An address that refuses connections until it is opened, and then leads to a node."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.sockets = [self.listener]

    def open(self) -> None:
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                near = self.listener.accept()[0]
                self.sockets.append(near)
                far = socket.create_connection(self.target)
                self.sockets.append(far)
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    def pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in self.sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for it
            each.close()


def test_a_restarted_server_finds_sandboxes_of_a_node_that_answers_late(
    room: ClusterRoom, nodes: list[NodeProcess]
) -> None:
    with room.serve(*(each.address for each in nodes)) as first:
        first.wait_for_nodes(2)
        there = [Sandbox.create("base", timeout=300, **first.e2b) for _ in range(2)]
        assert node_names(*there) == {"n1", "n2"}
        first.process.kill()
    [late] = [each for each in there if node_names(each) == {"n2"}]
    forwarder = Forwarder(nodes[1].address)
    with room.serve(nodes[0].address, forwarder.address) as second:
        time.sleep(2 * SETTLE_SECONDS)
        assert [each.sandbox_id for each in Sandbox.list(**second.e2b).next_items()] != []
        forwarder.open()
        second.wait_for_nodes(2)
        time.sleep(8)  # by then strays are burnt
        for each in there:
            assert Sandbox.connect(each.sandbox_id, **second.e2b).commands.run("echo on").stdout == "on\n"
        assert Sandbox.connect(late.sandbox_id, **second.e2b).kill()
    forwarder.close()


def test_desks_of_a_server_that_stays_away_are_burnt(room: ClusterRoom) -> None:
    node = room.start_node("n1", "--orphan-after", "2s")
    with room.serve(node.address) as server:
        sandbox = Sandbox.create("base", timeout=300, **server.e2b)
        server.process.kill()
    desks = list(Path(room.folder / "n1/run/tenants").glob(f"*/desks/{sandbox.sandbox_id}"))
    assert desks
    end = time.monotonic() + 20
    while desks[0].exists():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_drained_node_opens_no_more_desks_and_lets_those_end_that_are_open(
    room: ClusterRoom, server: ServerProcess, nodes: list[NodeProcess]
) -> None:
    here = [Sandbox.create("base", timeout=120, **server.e2b) for _ in range(2)]
    [first] = [each for each in here if node_names(each) == {"n1"}]
    nodes[0].process.terminate()
    time.sleep(1.5)
    fresh = Sandbox.create("base", timeout=120, **server.e2b)
    assert node_names(fresh) == {"n2"}
    assert first.commands.run("echo on").stdout == "on\n"
    first.kill()
    assert nodes[0].process.wait(20) == 0
    for each in (fresh, *(one for one in here if one is not first)):
        each.kill()


def test_events_of_nodes_reach_the_servers_journal(room: ClusterRoom, server: ServerProcess) -> None:
    sandbox = Sandbox.create("base", timeout=120, **server.e2b)
    sandbox.commands.run("id -u", user="root")
    sandbox.kill()
    end = time.monotonic() + 20
    while not any(
        sandbox.sandbox_id in each.read_text() for each in room.folder.glob("home/lib/serve/nodes/*/*.jsonl")
    ):
        assert time.monotonic() < end
        time.sleep(0.1)
