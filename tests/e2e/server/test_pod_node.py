"""Tests of sandboxes that are pods: E2B's SDK, an unprivileged server, an agent for pods, and a real API server."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from e2b import Sandbox
from e2b.exceptions import SandboxException

from tests.cluster_room import ClusterRoom, NodeProcess, ServerProcess
from tests.conftest import state_directory
from tests.kube_server import BINARIES, NAMESPACE, ApiServer, StandInKubelet, apply_deployment, run_api_server
from tests.pod_cluster import make_bridge

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.long,
    pytest.mark.skipif(not BINARIES or os.geteuid() != 0, reason="HOTDESK_KUBE_BINARIES is not set, or no root"),
]
POD_CONFIG = """
[pods]
namespace = "{namespace}"
images = {{base = "base:1"}}
kubeconfig = "{kubeconfig}"
address = "{address}"
port = 0
accept_open_network = true
"""


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with run_api_server(tmp_path_factory.mktemp("kube")) as server:
        anyio.run(apply_deployment, server.write_kubeconfig("admin"))
        with StandInKubelet(server.write_kubeconfig("admin")).in_background():
            yield server


@pytest.fixture
def room() -> Iterator[ClusterRoom]:
    with state_directory() as folder:
        found = ClusterRoom(folder)
        try:
            yield found
        finally:
            found.close()


@pytest.fixture
def agent(room: ClusterRoom, kubernetes: ApiServer) -> Iterator[NodeProcess]:
    with make_bridge() as address:
        place = room.folder / "p1/etc"
        place.mkdir(parents=True)
        facts = {"namespace": NAMESPACE, "kubeconfig": kubernetes.write_kubeconfig("agent"), "address": address}
        (place / "config.toml").write_text(POD_CONFIG.format(**facts))
        yield room.start_node("p1", "--drain", "1s")


@pytest.fixture
def server(room: ClusterRoom, agent: NodeProcess) -> Iterator[ServerProcess]:
    with room.serve(agent.address) as found:
        found.wait_for_nodes(1)
        yield found


def test_a_sandbox_is_a_pod(server: ServerProcess, agent: NodeProcess) -> None:
    with Sandbox.create("base", timeout=120, **server.e2b) as sandbox:
        done = sandbox.commands.run("echo $((6 * 7)); id -u; echo no >&2", timeout=30)
        assert (done.stdout, done.stderr) == ("42\n1000\n", "no\n")
        sandbox.files.write("/home/user/a/b.txt", "x" * 300_000)
        assert len(sandbox.files.read("/home/user/a/b.txt")) == 300_000
        assert [each.name for each in sandbox.files.list("/home/user/a")] == ["b.txt"]
        sandbox.commands.run("python3 -m http.server 8000 -d /home/user/a", background=True)
        code = "import urllib.request as u;print(len(u.urlopen('http://127.0.0.1:8000/b.txt').read()))"
        time.sleep(1)
        assert sandbox.commands.run(f'env -i python3 -c "{code}"', timeout=60).stdout.strip() == "300000"
        with pytest.raises(SandboxException, match="root"):
            sandbox.commands.run("id -u", user="root")
        with pytest.raises(SandboxException, match="paused"):
            sandbox.pause()
        assert sandbox.commands.run("echo on").stdout == "on\n"


def test_ready_pods_are_claimed_and_a_killed_agent_leaves_none(
    room: ClusterRoom, agent: NodeProcess, kubernetes: ApiServer
) -> None:
    with room.serve(agent.address, config="ready = {base = 1}") as server:
        server.wait_for_nodes(1)
        (ready,) = wait_for_pods(kubernetes, "ready")
        with Sandbox.create("base", timeout=120, **server.e2b) as sandbox:
            assert sandbox.sandbox_id.startswith(ready) or ready in sandbox.sandbox_id
            assert sandbox.commands.run("echo $((6 * 7))").stdout == "42\n"
        left = wait_for_pods(kubernetes, "ready")
        agent.kill()
        again = room.start_node("p1", "--drain", "1s", "--port", agent.address.rpartition(":")[2])
        assert not left & {each["metadata"]["name"] for each in anyio.run(list_pods, kubernetes)}
        server.wait_for_nodes(1)
        assert again.process.poll() is None
        with Sandbox.create("base", timeout=120, **server.e2b) as sandbox:
            assert sandbox.commands.run("echo again").stdout == "again\n"


def wait_for_pods(kubernetes: ApiServer, state: str) -> set[str]:
    """Wait until there are pods of a state whose programs run; return their names."""
    end = time.monotonic() + 90
    while True:
        pods = anyio.run(list_pods, kubernetes)
        found = {
            each["metadata"]["name"]
            for each in pods
            if each["metadata"]["labels"]["hotdesk/state"] == state and each["status"].get("podIP")
        }
        if found:
            time.sleep(3)  # its guest connects, and runs a first program
            return found
        assert time.monotonic() < end, pods
        time.sleep(0.3)


async def list_pods(kubernetes: ApiServer) -> list[dict[str, Any]]:
    from hotdesk.desk.pod.kubernetes_api import open_namespace

    async with open_namespace(NAMESPACE, "p1", print, kubernetes.write_kubeconfig("agent")) as cluster:
        listed = await cluster.call(cluster.pods.list_namespaced_pod_without_preload_content)
    await anyio.sleep(0.2)  # aiohttp closes its connections in a later turn
    return list(listed[1]["items"])
