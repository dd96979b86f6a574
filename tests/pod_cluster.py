"""A cluster without Kubernetes: each pod is a process in namespaces of its own, with an address on a bridge.

Root, a bridge and network namespaces are real, and so is the program of the manifest. The API server is this object.
"""

from __future__ import annotations

import copy
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import anyio

from hotdesk.desk.pod.cluster import PodReport, StaleError, parse_pod
from hotdesk.desk.pod.manifest import HOME, STATE, Document
from hotdesk.desk.pod.pool_trust import PoolTrust
from hotdesk.desk.pod.preflight import PreflightReport, ProbeRow, ProbeTarget
from hotdesk.desk.pod.probe import OPEN
from hotdesk.errors import DeskGone

BRIDGE, AGENT_ADDRESS = "hdpods0", "10.222.0.1"
NODE = "node1"
"""The node of every pod."""
TESTED = ProbeRow(NODE, ProbeTarget("the door", AGENT_ADDRESS, 1, is_allowed=True), OPEN, OPEN)
USER = "1000"
START = f"""
mount -t proc proc /proc && mount -t tmpfs run /run && mount -t tmpfs home /home
mkdir -p /run/hotdesk {HOME} && chown {USER} /run/hotdesk {HOME}
read go && cd {HOME}
exec setpriv --reuid {USER} --regid {USER} --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs "$@"
"""
_numbers = count(2)


def run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.decode()}")


@contextmanager
def make_bridge() -> Iterator[str]:
    """Make the network of the pods; yield the agent's address in it."""
    subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    try:
        run("ip", "addr", "add", f"{AGENT_ADDRESS}/16", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        yield AGENT_ADDRESS
    finally:
        run("ip", "link", "del", BRIDGE)


async def make_trust(report: PreflightReport | None = None) -> PoolTrust:
    """Return the trust in a pool after a preflight with this result, or one that passed on the only node."""

    async def run() -> PreflightReport:
        return report or PreflightReport((TESTED,), ())

    trust = PoolTrust(run, print)
    await trust.check()
    return trust


class NamespacePods:
    """The pods, and what an API server stores of them."""

    def __init__(self) -> None:
        self.stored: dict[str, Document] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.changed = anyio.Event()
        self.version = 0
        self.calls: list[str] = []
        self.admit: Callable[[Document], None] = lambda pod: None
        """An admission webhook: changes a pod before it is stored."""
        self.node = NODE
        self.program: list[str] = []
        """What runs in place of the manifest's program, as in a hostile image; its environment is the pod's."""
        self.printed: list[bytes] = []
        """What the programs of pods that are gone wrote to their standard error."""
        self.stray_address = ""
        """The address to report for pods instead of their own."""

    async def create(self, pod: Document) -> Document:
        self.calls.append("create")
        stored = copy.deepcopy(pod)
        self.admit(stored)
        name = stored["metadata"]["name"]
        stored["metadata"]["uid"] = os.urandom(8).hex()
        stored["status"] = {"phase": "Pending"}
        self.store(name, stored)
        answer = copy.deepcopy(stored)
        await anyio.to_thread.run_sync(self.launch, name, stored)
        return answer

    def store(self, name: str, pod: Document) -> None:
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        self.stored[name] = pod
        self.changed.set()
        self.changed = anyio.Event()

    def launch(self, name: str, pod: Document) -> None:
        """Start the program of a pod, with an address of its own."""
        number = next(_numbers)
        address, host_end = f"10.222.{number // 250}.{number % 250 + 2}", f"hd{os.getpid() % 100000}p{number}"
        container = pod["spec"]["containers"][0]
        env = {each["name"]: each["value"] for each in container["env"]}
        argv = [
            "unshare",
            "--net",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child=KILL",
            "--propagation",
            "private",
        ]
        argv += ["sh", "-ec", START, "pod"]
        process = subprocess.Popen(
            [*argv, *(self.program or container["command"])],
            env=env,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.processes[name] = process
        inside = ["nsenter", "-t", str(process.pid), "-n", "ip"]
        while os.readlink(f"/proc/{process.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            pass
        run("ip", "link", "add", host_end, "type", "veth", "peer", "name", "eth0", "netns", str(process.pid))
        run("ip", "link", "set", host_end, "master", BRIDGE, "up")
        run(*inside, "addr", "add", f"{address}/16", "dev", "eth0")
        run(*inside, "link", "set", "eth0", "up")
        run(*inside, "link", "set", "lo", "up")
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        pod["spec"]["nodeName"] = self.node
        pod["status"] = {"phase": "Running", "podIP": self.stray_address or address}

    async def claim(self, name: str, version: str, seconds: int) -> Document:
        self.calls.append("claim")
        pod = self.stored.get(name)
        if pod is None:
            raise DeskGone(f"pod {name} is gone")
        if pod["metadata"]["resourceVersion"] != version or pod["metadata"]["labels"][STATE] != "ready":
            raise StaleError("the test of the resource version failed")
        pod["metadata"]["labels"][STATE] = "claimed"
        pod["spec"]["activeDeadlineSeconds"] = seconds
        self.store(name, pod)
        return copy.deepcopy(pod)

    async def read(self, name: str) -> Document:
        self.calls.append("read")
        if name not in self.stored:
            raise DeskGone(f"pod {name} is gone")
        return copy.deepcopy(self.stored[name])

    async def delete(self, name: str, uid: str) -> None:
        self.calls.append("delete")
        pod = self.stored.get(name)
        if pod is not None and uid in ("", pod["metadata"]["uid"]):
            self.kill(name)
            self.changed.set()
            self.changed = anyio.Event()

    async def delete_all(self) -> None:
        for name in list(self.stored):
            self.kill(name)

    def kill(self, name: str) -> None:
        del self.stored[name]
        process = self.processes.pop(name)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        self.printed.append(process.communicate()[1])

    async def follow(self, note: Callable[[PodReport], None]) -> None:
        """Report changes like a kubelet: once more after each start and each end of a process."""
        known: dict[str, Any] = {}
        while True:
            for name, pod in list(self.stored.items()):
                process = self.processes.get(name)
                if process is not None and process.poll() is not None:
                    pod["status"] = {**pod["status"], "phase": "Failed"}
                if known.get(name) != (facts := copy.deepcopy(pod)):
                    known[name] = facts
                    note(parse_pod(pod))
            for name in known.keys() - self.stored.keys():
                del known[name]
                note(PodReport(name, is_deleted=True))
            with anyio.move_on_after(0.05):
                await self.changed.wait()
