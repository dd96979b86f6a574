"""Try the keeper's preparations for a desk in a separate process; its namespaces and mounts end with it.

Each trial makes the same call as a keeper instead of guessing from versions or capabilities: a container may have a
capability and a filter that refuses its use.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from hotdesk.config import MIB, Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper.namespace import uncover_proc
from hotdesk.errors import HostError, make_printable
from hotdesk.ipc.child import SOURCE, START
from hotdesk.linux import cgroup, loopdev, syscalls, uids, user_namespace
from hotdesk.linux.cgroup import Cgroup, CgroupLimits
from hotdesk.linux.landlock import find_existing
from hotdesk.linux.pace import scale_seconds

_TIMEOUT_S = 60.0
_TRIALS = frozenset({"space", "mount", "cgroup", "loop", "network", "nodes", "users", "storage", "proc"})
_LIMITS = CgroupLimits(memory=64 * MIB, pids=32, cpus=1.0)
_WRITTEN_BYTES = 64 * 1024
"""Less room than this is a full disk: no desk could be recorded."""
_MODULE = "hotdesk.doctor.host_trial"


@dataclass(frozen=True, slots=True)
class TrialFailure:
    """Why one trial failed."""

    errno: int
    """The error number, or 0 if no system call failed."""
    text: str


@dataclass(frozen=True, slots=True)
class HostTrial:
    """The trials that were carried out, and the failures."""

    tried: frozenset[str] = _TRIALS
    failures: dict[str, TrialFailure] = field(default_factory=dict)


def attempt(settings: Config) -> HostTrial:
    """Carry out all trials as root. If the process does not answer, mounting counts as failed."""
    argv = [sys.executable, "-I", "-c", START, str(SOURCE), _MODULE, str(find_existing(settings.lib))]
    try:
        done = subprocess.run(argv, capture_output=True, check=False, timeout=scale_seconds(_TIMEOUT_S), cwd="/")
    except (OSError, subprocess.TimeoutExpired) as e:
        return _fail(str(e))
    if done.returncode:
        last_line = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return _fail(f"exit code {done.returncode} {last_line}")
    return parse(done.stdout)


def parse(output: bytes) -> HostTrial:
    try:
        found = json.loads(output)
        failures = {name: TrialFailure(*failure) for name, failure in found["failures"].items()}
        return HostTrial(frozenset(found["tried"]), failures)
    except (ValueError, TypeError, AttributeError, KeyError) as e:
        return _fail(str(e))


def _fail(why: str) -> HostTrial:
    failure = TrialFailure(0, f"the test process did not respond: {make_printable(why)}")
    return HostTrial(frozenset({"mount"}), {"mount": failure})


def main() -> None:
    try:
        scratch = tempfile.TemporaryDirectory(prefix="hotdesk-trial-")
    except OSError as e:  # the disk is full or read-only; the number may be that of a missing file
        print(json.dumps({"tried": ["space"], "failures": {"space": (e.errno or 0, str(e))}}))
        return
    with scratch:
        trials = _Trials(Path(scratch.name), Path(sys.argv[3]))
        try:
            trials.run()
        finally:
            trials.clean_up()
        print(json.dumps({"tried": trials.tried, "failures": trials.failures}))


class _Trials:
    """The trials, in an order in which each can use the results of earlier ones."""

    def __init__(self, scratch: Path, lib: Path) -> None:
        self.scratch = scratch
        self.lib = lib
        self.userns = -1
        self.tried: list[str] = []
        self.failures: dict[str, tuple[int, str]] = {}

    def run(self) -> None:
        """Carry out the trials. If nothing can be written or mounted, those that need it are skipped."""
        self.take("space", self.write_file)
        self.take("mount", self.mount)
        self.take("cgroup", self.make_cgroup)
        if "space" not in self.failures:
            self.take("loop", self.attach_loop)
        if "mount" in self.failures:
            return
        self.take("network", lambda: os.close(syscalls.run_in_new_netns(syscalls.raise_loopback)[0]))
        self.take("nodes", self.make_node)
        self.take("users", self.map_users)
        if self.userns >= 0:
            if "space" not in self.failures:
                self.take("storage", self.shift_owners)
            self.take("proc", self.mount_proc)

    def clean_up(self) -> None:
        """Detach what is mounted on the scratch folder, which can be removed then."""
        with contextlib.suppress(OSError):
            syscalls.umount(str(self.scratch))

    def take(self, name: str, trial: Callable[[], None]) -> None:
        self.tried.append(name)
        try:
            trial()
        except OSError as e:
            self.failures[name] = (e.errno or 0, str(e))
        except HostError as e:
            self.failures[name] = (0, str(e))

    def write_file(self) -> None:
        try:
            with tempfile.TemporaryDirectory(dir=self.lib) as folder:
                Path(folder, "file").write_bytes(bytes(_WRITTEN_BYTES))
        except OSError as e:
            raise OSError(e.errno, f"{self.lib} cannot be written: {os.strerror(e.errno or 0)}") from e

    def mount(self) -> None:
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
        syscalls.mount("trial", str(self.scratch), "tmpfs", syscalls.MS_NOSUID, "size=1m,mode=755")

    def make_cgroup(self) -> None:
        trial = Cgroup(cgroup.find_hierarchies(), f"trial{os.getpid()}")
        try:
            trial.make(_LIMITS)
        finally:
            trial.remove()

    def attach_loop(self) -> None:
        with tempfile.TemporaryFile(dir=self.lib) as file:
            file.truncate(MIB)
            os.close(loopdev.attach(file.fileno(), "hotdesk-trial")[1])

    def make_node(self) -> None:
        node = self.scratch / "null"
        os.mknod(node, 0o20666, os.makedev(1, 3))
        os.close(os.open(node, os.O_RDWR | os.O_CLOEXEC))

    def map_users(self) -> None:
        self.userns = user_namespace.make(uids.FIRST + uids.ANCHOR, uids.format_id_map(uids.FIRST))

    def shift_owners(self) -> None:
        target = self.scratch / "layer"
        target.mkdir()
        with tempfile.TemporaryDirectory(dir=self.lib) as folder:
            syscalls.mount_idmapped(folder, str(target), self.userns)
            syscalls.umount(str(target))

    def mount_proc(self) -> None:
        """Mount /proc like a desk: in its own user and pid namespace."""
        uncover_proc()
        target = self.scratch / "proc"
        target.mkdir()
        child = os.fork()
        if child == 0:
            os._exit(_mount_proc_as_desk(self.userns, str(target)))
        if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise OSError(status, f"mounting /proc in a new user namespace failed: {os.strerror(status)}")


def _mount_proc_as_desk(userns: int, target: str) -> int:
    """Mount /proc in new namespaces; return the error number. Runs in a child that ends afterwards."""
    try:
        syscalls.setns(userns, syscalls.CLONE_NEWUSER)
        syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID)
        first = os.fork()
        if first == 0:
            try:
                syscalls.mount("proc", target, "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
            except OSError as e:
                os._exit(e.errno or 255)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    except OSError as e:
        return e.errno or 255
