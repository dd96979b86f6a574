"""A desk on a sentry as seen from the host: the processes of its sandbox, read from /proc. The desk is not asked."""

from __future__ import annotations

import os
from pathlib import Path

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.doctor.view import is_claimed, read_namespaces
from hotdesk.linux.cgroup import Cgroup
from hotdesk.linux.processes import read_status


@dataclass(frozen=True, slots=True)
class SandboxProcess:
    """A process of a sandbox: its supervisor, its sentry or one that runs programs for it, or its gofer."""

    pid: int
    is_supervisor: bool
    status: dict[str, str]
    namespaces: dict[str, int]
    interfaces: frozenset[str]
    routes: int
    files: frozenset[str] | None
    """Names in its root directory, or `None` if that is the desk's own file system."""
    variables: frozenset[str]


@dataclass(frozen=True, slots=True)
class SandboxView:
    """Everything the host can see of a sandbox."""

    base: int
    """The first of the host user ids reserved for the desk."""
    claimed: bool
    processes: tuple[SandboxProcess, ...]
    host_namespaces: dict[str, int]


def look_at_sandbox(settings: Config, desk: str, facts: dict[str, object], cgroup: Cgroup) -> SandboxView:
    supervisor, base = int(str(facts["pid"])), int(str(facts["base"]))
    root = os.stat(get_desk_root(settings, facts))
    return SandboxView(
        base=base,
        claimed=is_claimed(base, settings.run / "desks" / desk),
        processes=tuple(_look_at(pid, supervisor, root) for pid in sorted(cgroup.list_pids())),
        host_namespaces=read_namespaces(os.getpid()),
    )


def get_desk_root(settings: Config, facts: dict[str, object]) -> Path:
    """Return the path of a desk's file system through its keeper's mounts, where links of the desk are not resolved."""
    return Path(f"/proc/{facts['keeper']}/root{settings.run}/private/{facts['id']}/root")


def _look_at(pid: int, supervisor: int, root: os.stat_result) -> SandboxProcess:
    place = os.stat(f"/proc/{pid}/root")
    is_gofer = (place.st_dev, place.st_ino) == (root.st_dev, root.st_ino)
    network = Path(f"/proc/{pid}/net")
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return SandboxProcess(
        pid=pid,
        is_supervisor=pid == supervisor,
        status=read_status(pid),
        namespaces=read_namespaces(pid),
        interfaces=frozenset(
            line.partition(":")[0].strip() for line in (network / "dev").read_text().splitlines() if ":" in line
        ),
        routes=len((network / "route").read_text().splitlines()[1:]),
        files=None if is_gofer else frozenset(os.listdir(f"/proc/{pid}/root")),
        variables=frozenset(os.fsdecode(pair.partition(b"=")[0]) for pair in variables if pair),
    )
