"""A network of pods for tests: namespaces behind a router that enforces the policy of desks, or not.

A pod is a process in a network namespace of its own. The router's rules are the policy: what a desk's pod sends is
discarded, unless it goes to the door. All other addresses of a cluster answer in one more namespace. `PodNetwork` is a
client of Kubernetes that starts such pods.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hotdesk.desk.pod.preflight import Addresses
from hotdesk.desk.pod.probe import PORT
from hotdesk.desk.pod.probe_pods import ProbedPool

DOOR = "10.250.0.1"
ADDRESSES = Addresses(
    (DOOR, 3128), 3710, ("10.250.0.2", 6443), {"n1": "10.250.0.11", "n2": "10.250.0.12"}, dns="10.250.0.53",
)  # fmt: skip
DESK = {"app": "desk"}
POOL = ProbedPool("desks", "none", ["n1", "n2"], ADDRESSES, DESK, {"app": "control"}, python=sys.executable)
WORLD = (DOOR, "10.250.0.2", "10.250.0.11", "10.250.0.12", "10.250.0.53", ADDRESSES.public, ADDRESSES.metadata)
ANSWER = """
import socket, threading
def serve(sock):
    while True:
        sock.accept()[0].close()
for port in (53, 80, 443, 3128, 3710, 6443, 10250):
    threading.Thread(target=serve, args=(socket.create_server(("0.0.0.0", port)),)).start()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("10.250.0.53", 53))
print("up", flush=True)
while True:
    udp.sendto(*udp.recvfrom(512))
"""


@dataclass(slots=True)
class PodNetwork:
    """A client of Kubernetes for pods that are processes here."""

    folder: Path
    enforces: bool
    admits: bool = False
    """Whether the policy that is enforced admits connections into desks."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ips: dict[str, str] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)

    def start(self, name: str, *argv: str) -> None:
        """Start a program in a network namespace of its own, once it has a network."""
        log = (self.folder / name).open("wb")
        waiting = ["unshare", "-n", "sh", "-c", 'read x; exec "$@"', "sh", *argv]
        with log:
            self.processes[name] = subprocess.Popen(waiting, stdin=subprocess.PIPE, stdout=log)
        there = Path(f"/proc/{self.processes[name].pid}/ns/net")
        end = time.monotonic() + 20
        while there.readlink() == Path("/proc/self/ns/net").readlink():
            assert time.monotonic() < end
            time.sleep(0.01)

    def configure(self, name: str, *lines: str) -> None:
        """Run commands of ip(8) in a namespace."""
        enter = ["nsenter", "-t", str(self.processes[name].pid), "-n", "ip", "-batch", "-"]
        subprocess.run(enter, input="\n".join(lines).encode(), check=True)

    def connect(self, name: str, place: str, address: str) -> None:
        """Connect a namespace to the router, and let its program begin."""
        number = len(self.made)
        self.made.append(name)
        pid = self.processes[name].pid
        gateway = f"10.249.{number}.1"
        self.configure(
            "router", f"link add r{number} type veth peer name eth0 netns {pid}",
            f"addr add {gateway}/32 dev r{number}", f"link set r{number} up", f"route add {place} dev r{number}",
        )  # fmt: skip
        self.configure(
            name, "link set lo up", f"addr add {address}/32 dev eth0", "link set eth0 up",
            f"route add {gateway} dev eth0", f"route add default via {gateway} src {address}",
        )  # fmt: skip
        self.go(name)

    def go(self, name: str) -> None:
        process = self.processes[name]
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()

    async def create_namespaced_pod(self, namespace: str, body: Any) -> None:
        """Start a pod's program; where the policy is enforced, it is before the program begins."""
        name, node = body["metadata"]["name"], body["spec"]["nodeName"]
        ip = self.ips[name] = f"10.251.{node[1:]}.{len(self.ips) + 1}"
        self.start(name, *body["spec"]["containers"][0]["command"])
        if self.enforces and DESK.items() <= body["metadata"]["labels"].items():
            door = f"rule add pref 100 from {ip} to {DOOR} ipproto tcp dport 3128 lookup main"
            self.configure("router", door, f"rule add pref 101 from {ip} blackhole")
            if self.admits:
                self.configure("router", f"rule add pref 99 from {ip} ipproto tcp sport {PORT} lookup main")
        self.connect(name, ip, ip)

    async def read_namespaced_pod(self, name: str, namespace: str) -> Any:
        code = self.processes[name].poll()
        phase = "Running" if code is None else "Failed" if code else "Succeeded"
        ip = self.ips[name]
        return SimpleNamespace(status=SimpleNamespace(phase=phase, pod_ip=ip, pod_ips=[SimpleNamespace(ip=ip)]))

    async def read_namespaced_pod_log(self, name: str, namespace: str, *, limit_bytes: int) -> str:
        return (self.folder / name).read_text()[:limit_bytes]

    async def list_namespaced_pod(self, namespace: str, *, label_selector: str) -> Any:
        created = datetime.now(UTC)
        metas = [SimpleNamespace(name=name, creation_timestamp=created) for name in self.processes]
        return SimpleNamespace(items=[SimpleNamespace(metadata=each) for each in metas])

    async def delete_namespaced_pod(self, name: str, namespace: str, *, grace_period_seconds: int) -> None:
        self.end(name)

    def end(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


@contextmanager
def pod_network(folder: Path, *, enforces: bool, admits: bool = False) -> Iterator[PodNetwork]:
    """Yield a network with a router and a world; all pods must be gone at the end."""
    network = PodNetwork(folder, enforces, admits)
    try:
        network.start("router", "sleep", "600")
        network.start("world", sys.executable, "-I", "-B", "-c", ANSWER)
        enter = ["nsenter", "-t", str(network.processes["router"].pid), "-n", "sysctl", "-qw", "net.ipv4.ip_forward=1"]
        subprocess.run(enter, check=True)
        network.connect("world", "10.250.0.0/24", WORLD[0])
        network.configure("world", *(f"addr add {each}/32 dev lo" for each in WORLD[1:]))
        network.configure("router", *(f"route add {each}/32 via {DOOR}" for each in WORLD[-2:]))
        network.go("router")
        end = time.monotonic() + 20
        while "up" not in (folder / "world").read_text():
            assert time.monotonic() < end
            time.sleep(0.05)
        yield network
        assert set(network.processes) == {"router", "world"}
    finally:
        for name in list(network.processes):
            network.end(name)
