"""Run hotdesk on a real Kubernetes cluster of two nodes: `make test-cluster`. Every step must pass; nothing is left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tools.cluster.lab import MACHINES, Lab, make_binaries, make_root, wait_for

from hotdesk.cluster.certificates import ANY_NODE, enroll
from hotdesk.cluster.names import compute_node_code, get_node_code
from hotdesk.config import load

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "out/cluster/cache"
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

    def start(self) -> None:
        """Start the machines, and wait until the nodes are ready."""
        for machine in MACHINES:
            self.lab.start(machine)
            if machine == "cp":
                wait_for(
                    lambda: "ok" in self.lab.kubectl("get", "--raw", "/readyz", check=False), 120, "the API server"
                )
        wait_for(lambda: self.count_ready() == 2, 180, "two ready nodes")

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
        self.lab.kubectl("create", "namespace", "hotdesk")
        for secret, place in (("hotdesk-pool", "pool"), ("hotdesk-server", "home")):
            self.lab.kubectl("create", "secret", "generic", secret, "-n", "hotdesk", f"--from-file=/lab/{place}")
        self.lab.kubectl("apply", "-k", "/lab/deploy/lab")
        self.wait_server()
        command = ("exec", "-n", "hotdesk", "hotdesk-server-0", "--", "hotdesk", "key", "new", "--name", "lab")
        self.key = self.lab.kubectl(*command).strip()

    def wait_server(self) -> None:
        """Wait until the server reports that desks can be opened."""
        wait_for(lambda: self.is_ready("hotdesk-server-0"), 180, "a ready server")

    def is_ready(self, pod: str) -> bool:
        path = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
        return self.lab.kubectl("get", "pod", pod, "-n", "hotdesk", "-o", path, check=False) == "True"

    def server_pid(self) -> int:
        """Return the host's process id of the server, which is found by the cgroup of its lab."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words, cgroups = (folder / "cmdline").read_bytes().split(b"\0"), (folder / "cgroup").read_text()
            except OSError:
                continue
            if b"serve" in words and any("/lab-node" in each and "/kubepods" in each for each in cgroups.splitlines()):
                return int(folder.name)
        raise RuntimeError("the server's process is not found")

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

    def kill_node(self) -> str:
        """Kill a node: its sandbox is gone, the other continues, the next opens at once."""
        [gone] = [each for each in self.ids if get_node_code(each) == compute_node_code("node2")]
        [safe] = [each for each in self.ids if each != gone]
        self.lab.stop("node2")
        fresh = self.program("create")
        if get_node_code(fresh["id"]) != compute_node_code("node1") or self.program("read", safe) != [safe]:
            raise RuntimeError("the node that lives does not serve")
        wait_for(lambda: gone not in self.program("list"), 30, "the end of the lost sandbox")
        self.program("kill", safe, fresh["id"])
        return f"next open {fresh['seconds'] * 1000:.0f} ms"


def copy_images(lab: Lab) -> None:
    """Give each node the image `base`, in the volume an operator would provide."""
    images = load().images
    record = json.loads((images / "images/base.json").read_text())
    for node in ("node1", "node2"):
        target = lab.folder / f"m/{node}.var/var/lib/hotdesk/images"
        target.mkdir(parents=True)
        for name in ("images/base.json", *(f"layers/{each}" for each in record["layers"])):
            (target / name).parent.mkdir(exist_ok=True)
            subprocess.run(["cp", "-a", "--reflink=auto", str(images / name), str(target / name)], check=True)


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
        copy_images(lab)
        for step in (steps.start, steps.open_in_pod, steps.deploy, steps.create, steps.kill_server, steps.kill_node):
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
