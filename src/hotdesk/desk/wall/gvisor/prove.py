"""Prove, before a desk is handed over, that its sentry and gofer are confined.

Everything is read from the host's /proc: neither runsc nor the desk is trusted. Every process in the desk's cgroup is
checked, so that none has to be identified by its own claims.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable

from hotdesk.desk.room.room import Room
from hotdesk.desk.wall.seam import PROOF_TIMEOUT_S
from hotdesk.errors import KeeperError
from hotdesk.linux import uids
from hotdesk.linux.pace import scale_seconds
from hotdesk.linux.processes import read_status

OWN = ("pid", "mnt", "ipc", "uts", "net", "user")
"""Namespaces that sentry and gofer have of their own. They share the host's cgroup namespace, but see no file of it."""
NS_GET_PARENT = 0xB702
ALLOWED = 0x1F | 1 << 18 | 1 << 19
"""Capabilities in the desk's own user namespace: those for files, CHROOT for the gofer, PTRACE for the sentry."""
SENTRY_ROOT = frozenset(("proc", "etc"))
"""The only entries of a sentry's root directory; both folders are empty except for the time zone."""
HOST = {kind: os.stat(f"/proc/self/ns/{kind}").st_ino for kind in OWN}
"""The host's namespaces: this process's when the module was loaded, before the keeper made its own mount namespace."""


def check(room: Room, supervisor: int) -> None:
    """Raise `KeeperError` unless every process in the cgroup is confined; flaws are checked again for a while."""
    end, pause = time.monotonic() + scale_seconds(PROOF_TIMEOUT_S), 0.001
    while wrong := list_flaws(room, supervisor):
        if time.monotonic() > end:
            raise KeeperError(f"the wall failed its test: {'; '.join(wrong)}; the desk was not opened")
        time.sleep(pause)
        pause = min(2 * pause, 0.01)


def list_flaws(room: Room, supervisor: int) -> list[str]:
    try:
        wrong = _list_supervisor_flaws(room, supervisor)
        pids = room.cgroup.list_pids() - {supervisor}
        for pid in pids:
            wrong += [f"process {pid}: {each}" for each in _list_process_flaws(room, pid)]
        gofers = [pid for pid in pids if is_gofer(room, pid)]
        sentries = [pid for pid in pids if frozenset(os.listdir(f"/proc/{pid}/root")) <= SENTRY_ROOT]
        wrong += [f"process {pid} has an unexpected root directory" for pid in pids - {*gofers, *sentries}]
    except OSError as e:
        return [f"the processes of the desk changed during the test: {e}"]
    if len(gofers) != 1 or not sentries:
        wrong.append(
            f"gVisor runs {len(gofers)} gofer (file server) and {len(sentries)} sentry (kernel) processes for the desk "
            "instead of 1 gofer and at least 1 sentry"
        )
    return wrong


def _list_supervisor_flaws(room: Room, pid: int) -> list[str]:
    user = room.base + uids.SUPERVISOR
    return [*_list_status_flaws(pid, user, 0, seccomp=False), *_list_namespace_flaws(pid, ("pid", "net"))]


def _list_process_flaws(room: Room, pid: int) -> list[str]:
    wrong = [*_list_status_flaws(pid, room.base, ALLOWED, seccomp=True), *_list_namespace_flaws(pid, OWN)]
    if _read_parent_userns(pid) != os.fstat(room.userns).st_ino:
        wrong.append("the user namespace of the process is not inside the one that the keeper created")
    if cards := [name for name in _list_interfaces(pid) if name != "lo"]:
        wrong.append(f"the process has the network interfaces {', '.join(cards)}")
    return wrong


def _list_status_flaws(pid: int, user: int, allowed: int, *, seccomp: bool) -> list[str]:
    status = read_status(pid)
    expected = {
        "Uid": "\t".join([str(user)] * 4),
        "Gid": "\t".join([str(user)] * 4),
        "Groups": "",
        "NoNewPrivs": "1",
        **({"Seccomp": "2"} if seccomp else {}),
    }
    wrong = [f"{name} is {status.get(name)!r}" for name, value in expected.items() if status.get(name) != value]
    names = ("CapPrm", "CapEff", "CapInh", "CapAmb", *(("CapBnd",) if seccomp else ()))
    return wrong + [f"{name} is {status.get(name)!r}" for name in names if int(status.get(name, "-1"), 16) & ~allowed]


def _list_namespace_flaws(pid: int, kinds: Iterable[str]) -> list[str]:
    return [
        f"the {kind} namespace of the process is the host's"
        for kind in kinds
        if os.stat(f"/proc/{pid}/ns/{kind}").st_ino in (HOST[kind], os.stat(f"/proc/self/ns/{kind}").st_ino)
    ]


def _read_parent_userns(pid: int) -> int:
    """Return the inode of the parent of a process's user namespace, or 0 if that is the host's."""
    fd = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    try:
        parent = fcntl.ioctl(fd, NS_GET_PARENT)
    except PermissionError:
        return 0
    finally:
        os.close(fd)
    try:
        return os.fstat(parent).st_ino
    finally:
        os.close(parent)


def _list_interfaces(pid: int) -> list[str]:
    with open(f"/proc/{pid}/net/dev", errors="replace") as file:
        return [line.partition(":")[0].strip() for line in file if ":" in line]


def is_gofer(room: Room, pid: int) -> bool:
    ours, root = os.stat(room.folder / "root"), os.stat(f"/proc/{pid}/root")
    return (ours.st_dev, ours.st_ino) == (root.st_dev, root.st_ino)


def find_gofer(room: Room, supervisor: int) -> int:
    for pid in room.cgroup.list_pids() - {supervisor}:
        try:
            if is_gofer(room, pid):
                return pid
        except OSError:
            continue
    raise KeeperError("the desk's file server of gVisor (gofer) is not running")


def list_root_flaws(room: Room, pid: int, supervisor: int) -> list[str]:
    """List the flaws of the runsc process of the guest for root. The sentry decides who is root inside."""
    wrong = [
        *_list_status_flaws(pid, room.base, 0, seccomp=False),
        *_list_namespace_flaws(pid, ("pid", "mnt", "net", "user")),
    ]
    if os.stat(f"/proc/{pid}/ns/user").st_ino != os.fstat(room.userns).st_ino:
        wrong.append("the user namespace of the process is not the one that the keeper created")
    if os.stat(f"/proc/{pid}/ns/pid").st_ino != os.stat(f"/proc/{supervisor}/ns/pid").st_ino:
        wrong.append("the pid namespace of the process is not the desk's")
    ours, root = os.stat(room.folder), os.stat(f"/proc/{pid}/root")
    if (ours.st_dev, ours.st_ino) != (root.st_dev, root.st_ino):
        wrong.append("the root directory of the process is not the desk's")
    return wrong
