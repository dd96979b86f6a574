"""The machines of the lab: a control plane and two nodes, each in separate namespaces and cgroups."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools import oci

HERE = Path(__file__).parent
PACKAGES = """
btrfs-progs ca-certificates conntrack containerd containernetworking-plugins crun curl etcd-server ethtool iproute2
iptables kmod mount nftables procps python3 socat util-linux
""".split()
"""Packages of a node in the lab."""
CGROUPS = "cpu cpuacct cpuset memory devices freezer blkio pids systemd".split()
NODES = ("node1", "node2")
MACHINES = ("cp", *NODES)
POOL_PACKAGE = "kubernetes-client"
"""A package of Kubernetes; the package source has the source package in the same folder."""


def make_binaries(cache: Path) -> Path:
    """Return the folder of Kubernetes' programs; they are built once for each version of their sources."""
    script, cache = HERE / "build.sh", cache.absolute()
    key = hashlib.sha256(script.read_bytes() + platform.machine().encode()).hexdigest()[:16]
    found = cache / f"kubernetes-{key}"
    if not found.exists():
        work, partial = cache / "build", cache / f"partial-{key}"
        for folder in (work, partial):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        printed = subprocess.run(
            ["apt-get", "download", "--print-uris", POOL_PACKAGE], capture_output=True, text=True, check=True
        ).stdout
        pool = printed.split("'")[1].rpartition("/")[0]
        subprocess.run(["nice", "-n", "15", str(script), str(work), str(partial), pool], check=True)
        shutil.rmtree(work)
        partial.rename(found)
    return found


def make_root(cache: Path) -> Path:
    """Return the root file system of the machines."""
    key = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:16]
    found = cache / f"root-{key}"
    if not found.exists():
        partial = cache / f"partial-root-{key}"
        shutil.rmtree(partial, ignore_errors=True)
        argv = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}", oci.RELEASE]
        subprocess.run([*argv, str(partial)], check=True)
        partial.rename(found)
    return found


def make_pause(binaries: Path, target: Path) -> None:
    """Write the image of the program that keeps a pod's namespaces open."""
    layer = target.with_suffix(".layer")
    with tarfile.open(layer, "w") as tar:
        tar.add(binaries / "pause", "pause")
    oci.write_layout([layer], target, "k8s.gcr.io/pause:3.2", {"Entrypoint": ["/pause"]})
    layer.unlink()


class Lab:
    """A running cluster, in a folder."""

    def __init__(self, folder: Path, binaries: Path, root: Path, images: list[Path]) -> None:
        self.folder = folder
        self.starters: dict[str, subprocess.Popen[bytes]] = {}
        self.world: subprocess.Popen[bytes] | None = None
        for name in ("img", "log", "m"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        shutil.copytree(HERE / "inside", folder / "inside", dirs_exist_ok=True)
        shutil.copytree(binaries, folder / "bin", dirs_exist_ok=True)
        (folder / "root").symlink_to(root.absolute())
        make_pause(binaries, folder / "img/pause.tar")
        for image in images:
            os.link(image, folder / "img" / image.name)
        subprocess.run([str(HERE / "inside/pki.sh"), str(folder / "pki")], check=True)

    def start(self, machine: str) -> None:
        """Start a machine; a node also gets a network interface."""
        (self.folder / f"{machine}.pid").unlink(missing_ok=True)
        log = (self.folder / f"log/{machine}.txt").open("wb")
        argv = [str(self.folder / "inside/up.sh"), str(self.folder), machine]
        with log:
            self.starters[machine] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait_for(lambda: self.pid(machine), 20, f"machine {machine}")
        if machine != "cp":
            inside = ["nsenter", "-t", str(self.pid("cp")), "-n", "ip", "link"]
            wait_for(
                lambda: subprocess.run([*inside, "show", "br0"], capture_output=True, check=False).returncode == 0,
                20,
                "bridge",
            )
            subprocess.run([*inside, "add", f"v-{machine}", "type", "veth", "peer", "name", "eth0x"], check=True)
            subprocess.run([*inside, "set", f"v-{machine}", "master", "br0", "up"], check=True)
            subprocess.run([*inside, "set", "eth0x", "netns", str(self.pid(machine)), "name", "eth0"], check=True)

    def start_world(self, password: str) -> None:
        """Start what the cluster has around it, in the network of the control plane."""
        place = self.folder / "world"
        place.mkdir()
        argv = ["nsenter", "-t", str(self.pid("cp")), "-n", sys.executable, "-m", "tools.cluster.world"]
        with (self.folder / "log/world.txt").open("wb") as log:
            self.world = subprocess.Popen(
                [*argv, str(place), password], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=HERE.parents[1]
            )
        wait_for(lambda: "ready" in (self.folder / "log/world.txt").read_text(), 60, "the world around the cluster")

    def pid(self, machine: str) -> int:
        """Return the id of a machine's first process, or 0 if it is not running."""
        with suppress(OSError, ValueError):
            return int((self.folder / f"{machine}.pid").read_text())
        return 0

    def stop(self, machine: str) -> None:
        """End a machine like one that loses power: processes, mounts and interfaces end with its first process."""
        starter = self.starters.pop(machine, None)
        if starter is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid(machine) or starter.pid, signal.SIGKILL)
        thaw(Path(f"/sys/fs/cgroup/freezer/lab-{machine}"))
        with suppress(subprocess.TimeoutExpired):
            starter.wait(20)
        if starter.poll() is None:
            starter.kill()
            starter.wait()
        for name in CGROUPS:
            remove_cgroup(Path(f"/sys/fs/cgroup/{name}/lab-{machine}"))

    def close(self) -> None:
        """End every machine, and remove its files."""
        if self.world is not None:
            self.world.kill()
            self.world.wait()
        for machine in reversed(MACHINES):
            self.stop(machine)
        shutil.rmtree(self.folder, ignore_errors=True)

    def find_process(self, machine: str, *words: bytes, place: int = 0) -> int:
        """Return the host's id of a machine's process that has these words among its first arguments: the oldest."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                cgroups, argv = (folder / "cgroup").read_text(), (folder / "cmdline").read_bytes().split(b"\0")
                names = [each.rpartition(b"/")[2] for each in argv]
                if f"/lab-{machine}/" in cgroups.replace("\n", "/\n") and _contains(names, words):
                    found.append(int(folder.name))
        if len(found) <= place:
            raise RuntimeError(f"no process of {machine} is {b' '.join(words).decode()}")
        return sorted(found)[place]

    def run_inside(
        self, machine: str, *argv: str, stdin: str | bytes = "", check: bool = True, timeout: float = 120
    ) -> str:
        """Run a program in a machine's namespaces."""
        enter = ["nsenter", "-t", str(self.pid(machine)), "-a", "--root", "--wd=/"]
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run([*enter, *argv], input=data, capture_output=True, check=False, timeout=timeout)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(argv)}: {done.stdout.decode()}{done.stderr.decode()}")
        return done.stdout.decode()

    def kubectl(self, *argv: str, stdin: str | bytes = "", check: bool = True) -> str:
        """Run kubectl as the cluster's administrator."""
        return self.run_inside(
            "cp", "/lab/bin/kubectl", "--kubeconfig", "/lab/pki/admin.kubeconfig", *argv, stdin=stdin, check=check
        )

    def can_open_desks(self) -> bool:
        """Return whether the server in the cluster answers that desks can be opened."""
        command = ("exec", "-n", "hotdesk", "hotdesk-server-0", "--", "sh", "-c", "hotdesk-ready && echo yes")
        return "yes" in self.kubectl(*command, check=False)

    def list_objects(self, kind: str, *argv: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", kind, "-o", "json", *argv))["items"]
        return found


def _contains(names: list[bytes], words: tuple[bytes, ...]) -> bool:
    """Return whether these words follow each other among the first arguments."""
    return any(tuple(names[place : place + len(words)]) == words for place in range(4))


def thaw(folder: Path) -> None:
    """Thaw the processes below a cgroup so that they can end: ready desks are frozen, and killed only once thawed."""
    for where, _, _ in os.walk(folder):
        with suppress(OSError):
            Path(where, "freezer.state").write_text("THAWED")


def remove_cgroup(folder: Path) -> None:
    end = time.monotonic() + 10
    while folder.exists() and time.monotonic() < end:
        for each in sorted((Path(where) for where, _, _ in os.walk(folder)), reverse=True):
            with suppress(OSError):
                each.rmdir()
        time.sleep(0.1)


def wait_for(test: Any, seconds: float, what: str) -> Any:
    """Wait until `test` returns a true value; return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := test():
            return found
        time.sleep(0.2)
    raise RuntimeError(f"{what}: not within {seconds:.0f} s")
