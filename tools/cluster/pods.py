"""Run desks as pods on the lab's cluster: `make test-pods`. Every step must pass; nothing is left.

A cluster that ignores network policies is refused; once they are enforced, E2B programs get pods, cold and kept ready.
The agent is killed, and a desk's pod is deleted by force.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tools.cluster.__main__ import CACHE, ROOT, find_leftovers
from tools.cluster.lab import MACHINES, NODES, Lab, make_binaries, make_root, wait_for

from hotdesk.cluster.certificates import ANY_NODE, enroll

PODS, SERVER = "hotdesk-pods", "hotdesk"
"""Namespaces."""
PROCESSORS = 16
"""Processors that a node reports: each desk requests two."""
ROUNDS = 3
_TAINT = "hotdesk=pods:NoSchedule"


class PodSteps:
    """The steps, in order."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.key = ""
        self.plain = 0.0
        """Seconds from the creation of a plain pod to its readiness."""

    def iterate_steps(self) -> Iterator[Callable[[], str | None]]:
        yield from (self.start, self.deploy, self.refuse_open_network, self.trust_enforced_network)
        yield from (self.time_plain_pods, self.open_cold, self.open_ready, self.delete_pod, self.kill_agent)

    def start(self) -> None:
        """Start the machines; both nodes are for desks as pods."""
        for machine in MACHINES:
            self.lab.start(machine)
            if machine == "cp":
                wait_for(
                    lambda: "ok" in self.lab.kubectl("get", "--raw", "/readyz", check=False), 120, "the API server"
                )
        wait_for(lambda: self.count_ready() == len(NODES), 300, "ready nodes")
        self.lab.kubectl("label", "nodes", "--all", "hotdesk=pods", "--overwrite")
        for node in NODES:
            self.lab.kubectl("taint", "node", node, _TAINT, "--overwrite")

    def count_ready(self) -> int:
        conditions = [each for node in self.lab.list_objects("nodes") for each in node["status"]["conditions"]]
        return sum(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def deploy(self) -> str:
        """Apply the manifests. Nothing enforces their policies yet."""
        folder = self.lab.folder
        enroll(folder / "authority", "node", ANY_NODE, folder / "pool", 30)
        enroll(folder / "authority", "server", "home", folder / "home", 30)
        shutil.copytree(ROOT / "deploy", folder / "deploy")
        for space in (SERVER, PODS):
            self.lab.kubectl("create", "namespace", space)
        for space, secret, place in ((PODS, "hotdesk-pool", "pool"), (SERVER, "hotdesk-server", "home")):
            self.lab.kubectl("create", "secret", "generic", secret, "-n", space, f"--from-file=/lab/{place}")
        self.lab.kubectl("apply", "-k", "/lab/deploy/lab-pods")
        for space in (SERVER, PODS):  # as servers since 1.21 do
            self.lab.kubectl("label", "namespace", space, f"kubernetes.io/metadata.name={space}", "--overwrite")
        begun = time.monotonic()
        wait_for(lambda: self.is_ready("-l", "app=hotdesk-pods", space=PODS), 180, "a ready agent")
        return f"agent listens after {time.monotonic() - begun:.1f} s"

    def is_ready(self, *selection: str, space: str) -> bool:
        path = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
        return self.lab.kubectl("get", "pod", *selection, "-n", space, "-o", path, check=False) == "True"

    def read_agent_log(self) -> str:
        return self.lab.kubectl("logs", "-n", PODS, "-l", "app=hotdesk-pods", "--tail=500", check=False)

    def refuse_open_network(self) -> str:
        """Wait until the agent has found out that nothing enforces policies; no desk may exist."""
        wait_for(lambda: "is not enforced" in self.read_agent_log(), 240, "the refusal of an open network")
        wait_for(lambda: self.is_ready("-l", "app=hotdesk-server", space=SERVER), 180, "a server that answers")
        if self.list_desks() or self.lab.can_open_desks():
            raise RuntimeError("desks were opened in a pool that is not trusted")
        return "no desk, and the server answers that it opens none"

    def list_desks(self, state: str = "") -> list[dict[str, Any]]:
        selector = f"app=hotdesk-desk,hotdesk/desk{f',hotdesk/state={state}' if state else ''}"
        return self.lab.list_objects("pods", "-n", PODS, "-l", selector)

    def trust_enforced_network(self) -> str:
        """Enforce the policies: the agent trusts the pool after its next preflight."""
        begun = time.monotonic()
        (self.lab.folder / "enforce").touch()
        self.wait_server(240)
        return f"{time.monotonic() - begun:.0f} s"

    def wait_server(self, seconds: float) -> None:
        """Wait until the server reports that desks can be opened; make a key."""
        wait_for(self.lab.can_open_desks, seconds, "a node that opens desks")
        self.key = self.lab.kubectl(
            "exec", "-n", SERVER, "hotdesk-server-0", "--", "hotdesk", "key", "new", "--name", "lab"
        ).strip()

    def program(self, act: str, *ids: str, check: bool = True) -> Any:
        """Run an E2B program in the server's network."""
        server = str(self.lab.find_process("node1", b"hotdesk", b"serve"))
        argv = ["nsenter", "-t", server, "-n", sys.executable, str(Path(__file__).parent / "e2b_program.py")]
        argv += ["http://127.0.0.1:3700", self.key, act, *ids]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=180)
        if done.returncode and check:
            raise RuntimeError(f"e2b {act}: {done.stderr[-2000:]}")
        return json.loads(done.stdout) if not done.returncode else None

    def create(self) -> dict[str, Any]:
        """Open a sandbox, and compare what its programs see."""
        made: dict[str, Any] = self.program("create")
        if made["said"] != f"{made['id']}user\neth0\nlo\n":
            raise RuntimeError(f"the sandbox said {made}")
        return made

    def measure(self, count: int, prepare: Callable[[], object] = lambda: None) -> tuple[list[float], float]:
        """Open and burn sandboxes; return the seconds that each took to open, and the agent's requests for each."""
        seconds, before = [], self.count_requests()
        for _ in range(count):
            prepare()
            made = self.create()
            seconds.append(made["seconds"])
            self.program("kill", made["id"])
        return seconds, (self.count_requests() - before).total() / count

    def count_requests(self) -> Counter[str]:
        """Count the agent's requests about pods of desks, without the watch, and without those of preflights."""
        lines = (self.lab.folder / "log/audit.json").read_text().splitlines()
        found: Counter[str] = Counter()
        for line in lines:
            event = json.loads(line)
            target = event.get("objectRef", {})
            if event["verb"] not in ("list", "watch") and not target.get("name", "").startswith("hotdesk-preflight"):
                found[event["verb"]] += target.get("resource") == "pods"
        return found

    def time_plain_pods(self) -> str:
        """Time pods of the same image and size, without hotdesk, from their creation to their readiness."""
        argv = ["nsenter", "-t", str(self.lab.pid("cp")), "-n", sys.executable, "-m", "tools.cluster.plain_pods"]
        argv += [str(self.lab.folder / "pki/admin.kubeconfig"), str(ROUNDS)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)
        if done.returncode:
            raise RuntimeError(f"plain pods: {done.stderr[-2000:]}")
        seconds = json.loads(done.stdout)
        self.plain = statistics.median(seconds)
        return describe(seconds)

    def open_cold(self) -> str:
        """Open sandboxes while no pod is kept ready."""
        seconds, requests = self.measure(ROUNDS)
        share = statistics.median(seconds) / self.plain
        return f"{describe(seconds)}; {share:.2f} times a plain pod; {requests:.1f} requests for each"

    def open_ready(self) -> str:
        """Have the server keep a pod ready, and open sandboxes from it."""
        file = self.lab.folder / "deploy/lab-pods/server.yaml"
        file.write_text(file.read_text().replace("ready = {base = 0}", "ready = {base = 1}"))
        self.lab.kubectl("apply", "-k", "/lab/deploy/lab-pods")
        self.lab.kubectl("delete", "pod", "hotdesk-server-0", "-n", SERVER, "--grace-period=2")
        self.wait_server(120)
        self.program("kill", self.create()["id"])  # the first sandbox of a tenant has pods kept ready
        seconds, requests = self.measure(ROUNDS, self.wait_ready_pod)
        return f"{describe(seconds)}; {requests:.1f} requests for each"

    def wait_ready_pod(self) -> None:
        def has_ready() -> bool:
            return any(each["status"].get("phase") == "Running" for each in self.list_desks("ready"))

        wait_for(has_ready, 120, "a pod that is kept ready")
        time.sleep(3)  # its guest connects, and runs a first program

    def delete_pod(self) -> str:
        """Delete a sandbox's pod by force: it is gone for its program, too."""
        made = self.create()
        begun = time.monotonic()
        self.lab.kubectl("delete", "pod", made["id"], "-n", PODS, "--force", "--grace-period=0")
        wait_for(lambda: made["id"] not in self.program("list"), 60, "the end of the sandbox")
        return f"the sandbox is gone after {time.monotonic() - begun:.1f} s"

    def kill_agent(self) -> str:
        """Kill the agent: its pods end, the next one tests the network again, and opens sandboxes."""
        made = self.create()
        left = {each["metadata"]["name"] for each in self.list_desks()}
        begun = time.monotonic()
        os.kill(self.lab.find_process("node1", b"hotdesk", b"node"), 9)
        wait_for(lambda: not left & self.list_running(), 60, "the end of the killed agent's pods")
        ended = time.monotonic() - begun
        wait_for(lambda: made["id"] not in self.program("list"), 60, "the end of the sandbox")
        wait_for(lambda: self.program("create", check=False), 240, "a sandbox of the next agent")
        return f"{len(left)} pods ended within {ended:.1f} s; the next sandbox after {time.monotonic() - begun:.0f} s"

    def list_running(self) -> set[str]:
        phases = ("Succeeded", "Failed")
        return {each["metadata"]["name"] for each in self.list_desks() if each["status"]["phase"] not in phases}


def describe(seconds: list[float]) -> str:
    middle, low, high = (each * 1000 for each in (statistics.median(seconds), min(seconds), max(seconds)))
    return f"{middle:.0f} ms (median of {len(seconds)}; {low:.0f} to {high:.0f})"


def main() -> int:
    """Run every step."""
    CACHE.mkdir(parents=True, exist_ok=True)
    binaries, root = make_binaries(CACHE), make_root(CACHE)
    folder = Path(tempfile.mkdtemp(prefix="pods-", dir=ROOT / "out/cluster"))
    folder.chmod(0o755)
    lab = Lab(folder, binaries, root, [ROOT / "out/oci/hotdesk.tar", ROOT / "out/oci/desk.tar"])
    (folder / "images").touch()
    (folder / "cpus").write_text(f"{PROCESSORS}\n")
    try:
        for step in PodSteps(lab).iterate_steps():
            begun = time.monotonic()
            result = step() or ""
            print(f"{step.__name__:22} {time.monotonic() - begun:6.1f} s  {result}", flush=True)
    finally:
        if "KEEP_LAB" in os.environ and sys.exc_info()[0]:
            print(f"the lab stays in {folder}", flush=True)
        else:
            lab.close()
    if leftovers := find_leftovers(folder):
        sys.exit(f"left behind: {leftovers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
