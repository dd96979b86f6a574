"""hotdesk's peers, each on the same root file system and as hardened as possible.

Remaining differences: bubblewrap has no writable layer, no limits and no filter; systemd-nspawn has its own filter and
no limits; podman has no user namespace, because a plain root file system has no shifted owners; crun and runc have one
that maps every id to itself. All of these make peers faster, none slower.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.book import Book, seconds

from hotdesk.desk.wall.container import seccomp
from hotdesk.linux import syscalls

UNIFIED = "/sys/fs/cgroup/unified"
PODMAN = ["podman", "--cgroup-manager=cgroupfs"]
PROPAGATE = Path("/run/systemd/nspawn/propagate")
NAMESPACES = ("pid", "ipc", "uts", "mount", "cgroup", "network", "user")
LIMITS = {"memory": {"limit": 2 << 30}, "pids": {"limit": 1024}, "cpu": {"quota": 200_000, "period": 100_000}}
Program = Literal["crun", "runc"]


@contextmanager
def secluded(folder: str) -> Iterator[None]:
    """Run peers in a separate mount namespace until the block ends, so that they work and do no harm.

    crun 1.8 refuses to start if it sees a hybrid cgroup hierarchy, and gives the host's /dev/null to a container's user
    if that is its standard input: so it sees another one.
    """
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_SLAVE)
    if os.path.ismount(UNIFIED):
        syscalls.umount(UNIFIED)
    syscalls.mount("bench", folder, "tmpfs")
    os.mknod(f"{folder}/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.chmod(f"{folder}/null", 0o666)  # noqa: S103 - as /dev/null is everywhere
    syscalls.mount(f"{folder}/null", "/dev/null", None, syscalls.MS_BIND)
    try:
        yield
    finally:
        clear_cgroups()
        syscalls.umount("/dev/null")
        syscalls.umount(folder)


def clear_cgroups() -> None:
    """Remove the empty cgroups that podman leaves."""
    for parent in Path("/sys/fs/cgroup").glob("*/libpod_parent"):
        for folder, _, _ in os.walk(parent, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)  # one in use belongs to another run


@dataclass(frozen=True, slots=True)
class Peers:
    """The peers of one run."""

    rootfs: Path
    folder: Path
    """A folder in memory for bundles, profiles and state."""

    @property
    def profile(self) -> Path:
        """Return the file with the system call filter of a desk; it is written once."""
        file = self.folder / "seccomp.json"
        if not file.exists():
            file.write_text(json.dumps(seccomp.build_profile(platform.machine())))
        return file

    def podman(self, *more: str) -> list[str]:
        """Return podman's command with a desk's hardening."""
        return [
            *PODMAN, "run", *more, "--network=none", "--cap-drop=all", "--user=1000:1000",
            "--security-opt=no-new-privileges", f"--security-opt=seccomp={self.profile}",
            "--pids-limit=1024", "--memory=2g", "--cpus=2", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096",
            "--rm", "--rootfs", f"{self.rootfs}:O",
        ]  # fmt: skip

    def bubblewrap(self) -> list[str]:
        """Return bubblewrap's command with every namespace."""
        binds = ["--ro-bind", str(self.rootfs), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        return ["bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", *binds]

    def nspawn(self) -> list[str]:
        """Return systemd-nspawn's command with the options it needs to work without systemd."""
        return [
            "systemd-nspawn", "--quiet", f"--directory={self.rootfs}", f"--machine=bench-{os.getpid()}",
            "--register=no", "--keep-unit", "--volatile=overlay", "--private-network", "--private-users=identity",
            "--no-new-privileges=yes", "--drop-capability=all", "--settings=no", "--link-journal=no",
            "--resolv-conf=off", "--timezone=off", "--console=pipe",
        ]  # fmt: skip

    def clear_nspawn(self) -> None:
        """Remove the folder that systemd-nspawn leaves."""
        with suppress(OSError):
            (PROPAGATE / f"bench-{os.getpid()}").rmdir()

    def runtime(self, program: Program) -> list[str]:
        """Return the command of an OCI runtime with a separate state folder."""
        more = ["--cgroup-manager=cgroupfs"] if program == "crun" else []
        return [program, f"--root={self.folder}/state-{program}", *more]

    @contextmanager
    def bundle(self, name: str, *argv: str) -> Iterator[Path]:
        """Yield a bundle on a separate overlay; it is unmounted and deleted after the block."""
        bundle = self.folder / name
        for part in ("upper", "work", "root"):
            (bundle / part).mkdir(parents=True)
        options = f"lowerdir={self.rootfs},upperdir={bundle}/upper,workdir={bundle}/work"
        syscalls.mount("bench", str(bundle / "root"), "overlay", syscalls.MS_NODEV | syscalls.MS_NOSUID, options)
        try:
            (bundle / "config.json").write_text(json.dumps(configuration(str(bundle / "root"), argv)))
            yield bundle
        finally:
            with suppress(OSError):
                syscalls.umount(str(bundle / "root"))  # unmounted already if that was measured
            shutil.rmtree(bundle)

    def run(self, program: Program) -> float:
        """Time a runtime from the mount of its overlay to its end."""
        start = time.perf_counter()
        name = f"bench-{os.getpid()}-{program}"
        with self.bundle(name, "true") as bundle:
            seconds([*self.runtime(program), "run", f"--bundle={bundle}", name])
            return time.perf_counter() - start

    @contextmanager
    def held(self, name: str) -> Iterator[Path]:
        """Yield the bundle of a crun container that sleeps until the block ends."""
        crun = self.runtime("crun")
        with self.bundle(name, "sleep", "3600") as bundle:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            with subprocess.Popen([*crun, "run", "-d", f"--bundle={bundle}", name], **pipes) as starting:  # type: ignore[call-overload]
                assert starting.wait() == 0, starting.stderr.read()
            try:
                yield bundle
            finally:
                subprocess.run([*crun, "delete", "-f", name], check=False, input=b"", capture_output=True)

    @contextmanager
    def held_by_podman(self) -> Iterator[str]:
        """Yield the id of a podman container that sleeps until the block ends."""
        argv = [*self.podman("-d"), "sleep", "3600"]
        held = subprocess.run(argv, check=True, input="", capture_output=True, text=True).stdout.strip()
        try:
            yield held
        finally:
            subprocess.run([*PODMAN, "rm", "-f", "-t0", held], check=False, input=b"", capture_output=True)

    def starts(self, book: Book) -> dict[str, Callable[[], float]]:
        """Return a start function for each peer that works here; the output of the others is recorded as the reason."""
        every: dict[str, tuple[str, Callable[[], float]]] = {
            "crun run": ("crun", lambda: self.run("crun")),
            "runc run": ("runc", lambda: self.run("runc")),
            "bubblewrap": ("bwrap", lambda: seconds([*self.bubblewrap(), "true"])),
            "systemd-nspawn": ("systemd-nspawn", lambda: seconds([*self.nspawn(), "true"])),
            "podman run": ("podman", lambda: seconds([*self.podman(), "true"])),
        }
        return {name: start for name, (program, start) in every.items() if works(book, name, program, start)}


def works(book: Book, name: str, program: str, start: Callable[[], float]) -> bool:
    """Try a peer once; record why it is left out if it does not work."""
    if shutil.which(program) is None:
        book.lack([name], f"{program} is not installed: make bench PEERS=1")
        return False
    try:
        start()
    except (RuntimeError, OSError, AssertionError) as e:
        book.lack([name], e)
        return False
    return True


def configuration(root: str, argv: tuple[str, ...]) -> dict[str, object]:
    """Return an OCI configuration that is as hardened as a desk's."""
    everyone = [{"containerID": 0, "hostID": 0, "size": 65536}]
    return {
        "ociVersion": "1.0.2",
        "root": {"path": root},
        "hostname": "bench",
        "process": process(argv),
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "nodev", "noexec"]},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in NAMESPACES],
            "uidMappings": everyone,
            "gidMappings": everyone,
            "resources": LIMITS,
            "seccomp": seccomp.build_profile(platform.machine()),
            "readonlyPaths": ["/proc/sys"],
        },
    }


def process(argv: tuple[str, ...]) -> dict[str, object]:
    """Return a process of uid 1000 without privileges."""
    return {
        "cwd": "/",
        "args": list(argv),
        "env": ["PATH=/usr/bin:/bin"],
        "user": {"uid": 1000, "gid": 1000},
        "noNewPrivileges": True,
        "capabilities": {kind: [] for kind in ("bounding", "effective", "permitted")},
    }
