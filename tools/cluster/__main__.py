"""Run hotdesk on a real Kubernetes cluster of two nodes: `make test-cluster`. Every step must pass; nothing is left."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tools.cluster.jobs import SMALL, JobSteps, Swarm, install_templates
from tools.cluster.lab import MACHINES, NODES, Lab, make_binaries, make_root, wait_for

from hotdesk.cluster.certificates import ANY_NODE, enroll
from hotdesk.cluster.names import compute_node_code, get_node_code
from hotdesk.config import load

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "out/cluster/cache"
DESKS = Path(__file__).with_name("desks.yaml")
SERVER_NODE = "node1"
"""Where the lab's server is (`deploy/lab`)."""
PROBE = """
apiVersion: v1
kind: Pod
metadata: {name: probe}
spec:
  restartPolicy: Never
  nodeName: node1
  tolerations: [{operator: Exists}]
  automountServiceAccountToken: false
  containers:
    - name: probe
      image: localhost/hotdesk:dev
      imagePullPolicy: Never
      command: [/usr/local/bin/hotdesk, run, --no-holder, --, cat, /proc/self/status]
      securityContext: {privileged: true}
      volumeMounts:
        - {name: state, mountPath: /var/lib/hotdesk}
        - {name: run, mountPath: /run/hotdesk}
  volumes:
    - {name: state, hostPath: {path: /var/lib/hotdesk}}
    - {name: run, emptyDir: {medium: Memory}}
"""
"""A privileged pod that opens one desk."""


class ClusterSteps:
    """The steps, in order."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.key = ""
        self.password = secrets.token_urlsafe(32)
        self.ids: list[str] = []

    def start(self) -> None:
        """Start the machines, and wait until the nodes are ready."""
        for machine in MACHINES:
            self.lab.start(machine)
            if machine == "cp":
                wait_for(
                    lambda: "ok" in self.lab.kubectl("get", "--raw", "/readyz", check=False), 120, "the API server"
                )
        wait_for(lambda: self.count_ready() == 2, 300, "two ready nodes")
        self.lab.start_world(self.password)

    def list_steps(self) -> Iterator[Callable[[], str | None]]:
        """Yield the steps; LAB_SKIP names some to leave out, while the lab itself is developed."""
        skipped = os.environ.get("LAB_SKIP", "").split()
        for step in self.iterate_steps():
            if step.__name__ not in skipped:
                yield step

    def iterate_steps(self) -> Iterator[Callable[[], str | None]]:
        yield from (self.start, self.open_in_pod, self.deploy, self.create, self.kill_server)
        yield self.run_preflight
        yield from (self.jobs.run_invoices, self.jobs.kill_during_swarm, self.kill_node)

    def count_ready(self) -> int:
        conditions = [each for node in self.lab.list_objects("nodes") for each in node["status"]["conditions"]]
        return sum(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def open_in_pod(self) -> str:
        """Check that a privileged pod opens a desk."""
        self.lab.kubectl("apply", "-f", "-", stdin=PROBE)
        phases = ("Succeeded", "Failed")
        wait_for(lambda: self.phase("pod", "probe") in phases, 120, "the probe pod")
        text = self.lab.kubectl("logs", "probe")
        if self.phase("pod", "probe") != "Succeeded" or "CapEff:\t0000000000000000" not in text:
            raise RuntimeError(f"the desk in the pod: {text}")
        self.lab.kubectl("delete", "pod", "probe", "--grace-period=1")
        return "a desk without capabilities"

    def phase(self, kind: str, name: str, namespace: str = "default") -> str:
        return self.lab.kubectl("get", kind, name, "-n", namespace, "-o", "jsonpath={.status.phase}", check=False)

    def deploy(self) -> None:
        """Apply the manifests, with identities and a key, and wait until the server is ready."""
        folder = self.lab.folder
        enroll(folder / "authority", "node", ANY_NODE, folder / "pool", 30)
        enroll(folder / "authority", "server", "home", folder / "home", 30)
        shutil.copytree(ROOT / "deploy", folder / "deploy")
        (folder / "etc").mkdir()
        (folder / "etc/config.toml").write_text('[door]\nca = "/etc/hotdesk/erp-ca.pem"\n')
        shutil.copy(folder / "world/erp-ca.pem", folder / "etc")
        self.lab.kubectl("create", "namespace", "hotdesk")
        self.lab.kubectl("create", "configmap", "hotdesk-node", "-n", "hotdesk", "--from-file=/lab/etc")
        for secret, place in (("hotdesk-pool", "pool"), ("hotdesk-server", "home")):
            self.lab.kubectl("create", "secret", "generic", secret, "-n", "hotdesk", f"--from-file=/lab/{place}")
        self.lab.kubectl("apply", "-k", "/lab/deploy/lab")
        self.wait_server()
        command = ("exec", "-n", "hotdesk", "hotdesk-server-0", "--", "hotdesk", "key", "new", "--name", "lab")
        self.key = self.lab.kubectl(*command).strip()
        install_templates(self.lab)
        self.jobs = JobSteps(self.lab, self.key, self.server_pid)
        self.jobs.store_password(self.password)

    def wait_server(self) -> None:
        """Wait until the server reports that desks can be opened."""
        wait_for(lambda: self.is_ready("hotdesk-server-0"), 180, "a ready server")
        wait_for(self.lab.can_open_desks, 60, "a node that opens desks")

    def is_ready(self, pod: str) -> bool:
        path = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
        return self.lab.kubectl("get", "pod", pod, "-n", "hotdesk", "-o", path, check=False) == "True"

    def server_pid(self) -> int:
        return self.lab.find_process(SERVER_NODE, b"hotdesk", b"serve")

    def program(self, act: str, *ids: str) -> Any:
        """Run an E2B program in the server's network."""
        argv = [
            "nsenter",
            "-t",
            str(self.server_pid()),
            "-n",
            sys.executable,
            str(Path(__file__).parent / "e2b_program.py"),
        ]
        argv += ["http://127.0.0.1:3700", self.key, act, *ids]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            raise RuntimeError(f"e2b {act}: {done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def create(self) -> str:
        """Open sandboxes on both nodes."""
        made = [self.program("create") for _ in range(2)]
        if {get_node_code(each["id"]) for each in made} != {compute_node_code("node1"), compute_node_code("node2")}:
            raise RuntimeError(f"sandboxes are not on both nodes: {made}")
        if any(each["said"] != f"{each['id']}user\nlo\n" for each in made):
            raise RuntimeError(f"sandboxes said {made}")
        self.ids = [each["id"] for each in made]
        return ", ".join(f"{each['seconds'] * 1000:.0f} ms" for each in made)

    def kill_server(self) -> str:
        """Kill the server: Kubernetes starts another one, which has its sandboxes."""
        begun = time.monotonic()
        os.kill(self.server_pid(), 9)
        wait_for(lambda: not self.is_ready("hotdesk-server-0"), 30, "the end of the server")
        self.wait_server()
        if self.program("read", *self.ids) != self.ids:
            raise RuntimeError("sandboxes are not what they were")
        return f"{time.monotonic() - begun:.0f} s"

    def run_preflight(self) -> str:
        """Test the policy of desks as pods: the pool is refused while nothing enforces it, then trusted."""
        self.lab.kubectl("apply", "-f", "-", stdin=DESKS.read_text())
        found = []
        for is_enforced in (False, True):
            if is_enforced:
                (self.lab.folder / "enforce").touch()
                time.sleep(2)
            argv = ["nsenter", "-t", str(self.lab.pid("cp")), "-n", sys.executable, "-m", "tools.cluster.preflight"]
            done = subprocess.run(
                [*argv, str(self.lab.folder / "pki/admin.kubeconfig")], capture_output=True, text=True, check=False,
                timeout=300, cwd=ROOT,
            )  # fmt: skip
            if done.returncode:
                raise RuntimeError(f"the preflight: {done.stderr[-3000:]}")
            found.append(json.loads(done.stdout))
            print(found[-1]["table"], flush=True)
        open_, closed = (each["faults"] for each in found)
        if closed or len(open_) != 2 or not all("is not enforced" in each for each in open_):
            raise RuntimeError(f"without enforcement: {open_}; with it: {closed}")
        return "refused without enforcement, trusted with it"

    def kill_node(self) -> str:
        """Kill a node during a swarm: its sandbox is gone, the other and the swarm continue, the next opens at once."""
        self.create()
        swarm = Swarm(self.jobs.api, SMALL)
        swarm.wait_done(SMALL // 4)
        [gone] = [each for each in self.ids if get_node_code(each) == compute_node_code("node2")]
        [safe] = [each for each in self.ids if each != gone]
        self.lab.stop("node2")
        fresh = self.program("create")
        if get_node_code(fresh["id"]) != compute_node_code("node1") or self.program("read", safe) != [safe]:
            raise RuntimeError("the node that lives does not serve")
        wait_for(lambda: gone not in self.program("list"), 30, "the end of the lost sandbox")
        self.program("kill", safe, fresh["id"])
        swarm.finish()
        return f"next open {fresh['seconds'] * 1000:.0f} ms; {SMALL} items, resumed {swarm.resumed} times"


IMAGES = ("base", "desktop", "office")


def show_images(lab: Lab) -> None:
    """Give each node images of this machine, in the volume an operator would provide: read-only mounts, and records."""
    store = load().images
    lines = []
    for image in IMAGES:
        for layer in json.loads((store / f"images/{image}.json").read_text())["layers"]:
            copies = sorted((store / "sterile").glob(f"{layer}.*"))
            lines += [f"{each} {each.relative_to(store)}" for each in (store / "layers" / layer, *copies)]
    (lab.folder / "images").write_text("".join(f"{line}\n" for line in dict.fromkeys(lines)))
    for node in NODES:
        records = lab.folder / f"m/{node}.var/var/lib/hotdesk/images/images"
        records.mkdir(parents=True)
        for image in IMAGES:
            shutil.copy(store / f"images/{image}.json", records)


def find_leftovers(folder: Path) -> list[str]:
    """List everything of a lab that is left on this machine."""
    loops = subprocess.run(["losetup", "--list", "--noheadings"], capture_output=True, text=True, check=True).stdout
    lines = [*Path("/proc/self/mountinfo").read_text().splitlines(), *loops.splitlines()]
    cgroups = [str(each) for name in MACHINES for each in Path("/sys/fs/cgroup").glob(f"*/lab-{name}")]
    return [each for each in lines if str(folder) in each] + cgroups + [str(folder)] * folder.exists()


def main() -> int:
    """Build what is missing, and run every step."""
    CACHE.mkdir(parents=True, exist_ok=True)
    binaries, root = make_binaries(CACHE), make_root(CACHE)
    folder = Path(tempfile.mkdtemp(prefix="lab-", dir=ROOT / "out/cluster"))
    folder.chmod(0o755)
    lab = Lab(folder, binaries, root, [ROOT / "out/oci/hotdesk.tar"])
    steps = ClusterSteps(lab)
    try:
        show_images(lab)
        for step in steps.list_steps():
            begun = time.monotonic()
            result = step() or ""
            print(f"{step.__name__:12} {time.monotonic() - begun:6.1f} s  {result}", flush=True)
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
