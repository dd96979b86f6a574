"""Prove, before a desk is handed over, that its first process is behind every requested part of the wall.

Everything is read from the host's /proc by pid: neither the runtime nor the guest is trusted.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection

from hotdesk.desk.room.volume_store import FILES
from hotdesk.desk.wall.seam import PROOF_TIMEOUT_S
from hotdesk.errors import KeeperError
from hotdesk.linux.pace import scale_seconds
from hotdesk.linux.processes import read_status

VOLUME_ROOT = f"/{FILES}"
"""The directory of a volume's file system that is mounted in a desk."""
OWN = ("pid", "mnt", "ipc", "uts", "cgroup", "net", "user")


def check(pid: int, uid: int, capabilities: int, netns: int, userns: int) -> None:
    """Raise `KeeperError` unless a process has this user, exactly these capabilities, a filter and own namespaces.

    A runtime may return just before its child has finished its setup, so a flaw is checked again until a time limit.
    """
    end, pause = time.monotonic() + scale_seconds(PROOF_TIMEOUT_S), 0.0005
    while wrong := list_flaws(pid, uid, capabilities, netns, userns):
        if time.monotonic() > end:
            raise KeeperError(f"the wall failed its test: {'; '.join(wrong)}; the desk was not opened")
        time.sleep(pause)
        pause = min(2 * pause, 0.01)


def list_flaws(pid: int, uid: int, capabilities: int, netns: int, userns: int) -> list[str]:
    status = read_status(pid)
    expected = {
        "Uid": "\t".join([str(uid)] * 4),
        "Gid": "\t".join([str(uid)] * 4),
        "Groups": "",
        "NoNewPrivs": "1",
        "Seccomp": "2",
        **{f"Cap{kind}": f"{capabilities:016x}" for kind in ("Prm", "Eff", "Bnd")},
        **{f"Cap{kind}": "0" * 16 for kind in ("Inh", "Amb")},
    }
    wrong = [f"{name} is {status.get(name)!r}" for name, value in expected.items() if status.get(name) != value]
    spaces = {kind: os.stat(f"/proc/{pid}/ns/{kind}").st_ino for kind in OWN}
    wrong += [
        f"the {kind} namespace of its process is the host's"
        for kind in OWN
        if spaces[kind] in (HOST[kind], _stat_namespace(kind))
    ]
    if spaces["net"] != os.fstat(netns).st_ino or spaces["user"] != os.fstat(userns).st_ino:
        wrong.append("the network or user namespace of its process is not the one that the keeper created")
    return wrong


def check_mounts(pid: int, paths: Collection[str]) -> None:
    """Raise `KeeperError` unless a volume is mounted at each of these paths of the desk, and nowhere else."""
    if not paths:
        return
    with open(f"/proc/{pid}/mountinfo", "rb") as file:
        rows = [line.split() for line in file]
    there = sorted(_unescape(row[4]) for row in rows if _unescape(row[3]) == VOLUME_ROOT)
    if there != sorted(paths):
        raise KeeperError("the wall failed its test: a volume is mounted at the wrong path; the desk was not opened")


def _unescape(text: bytes) -> str:
    """Decode a path of mountinfo, where the kernel writes blanks in octal."""
    return re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), text).decode(errors="replace")


def list_foreign_namespaces(pid: int, first: int) -> list[str]:
    """List the namespaces that a process does not share with its desk's first process."""
    return [
        f"the {kind} namespace of its process is not the desk's"
        for kind in OWN
        if os.stat(f"/proc/{pid}/ns/{kind}").st_ino != os.stat(f"/proc/{first}/ns/{kind}").st_ino
    ]


def _stat_namespace(kind: str) -> int:
    return os.stat(f"/proc/self/ns/{kind}").st_ino


HOST = {kind: _stat_namespace(kind) for kind in OWN}
"""The host's namespaces: this process's when the module was loaded, before the keeper made its own mount namespace."""
