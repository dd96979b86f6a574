"""The OCI configuration of a desk behind gVisor. Pure functions.

Paths are relative to the room: its folder is the root directory of the runtime (`runsc.py`). System calls are not
filtered here: the sentry implements all of them, and has a filter of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.desk.room.layout import HOME, LINK, ROOT_HOME, build_environment, compute_shm_size
from hotdesk.linux import uids
from hotdesk.linux.rlimits import CORE_LIMIT

_Json: TypeAlias = dict[str, object]

LIMITS = {"NOFILE": 20000, "CORE": CORE_LIMIT, "MEMLOCK": 8 << 20}
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
"""Capabilities of root inside: those that installing packages needs."""
COVERS = ("meminfo", "cpuinfo", "stat", "loadavg")
"""Files of /proc with the desk's own figures: the sentry would show the whole machine's memory."""
_INET, _INET6, _PACKET, _RAW = 2, 10, 17, 3
"""Socket families and a socket type."""


def _match(argument: int, value: int, mask: int) -> _Json:
    return {"index": argument, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _refuse_socket(family: int, *more: _Json) -> _Json:
    """Return a rule that refuses sockets of a family; an int argument has 32 bits."""
    args = [_match(0, family, 0xFFFFFFFF), *more]
    return {"names": ["socket"], "action": "SCMP_ACT_ERRNO", "args": args}


WRONG_CALLS = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [
        {"names": ["close_range"], "action": "SCMP_ACT_TRACE"},
        *(_refuse_socket(family, _match(1, _RAW, 0xF)) for family in (_INET, _INET6)),
        _refuse_socket(_PACKET),
    ],
}
"""Calls that this sentry gets wrong. Its close_range refuses the highest descriptor number, so that programs that use
GLib could not start others: it is answered as by a kernel without it (TRACE without a tracer is ENOSYS; ERRNO is EPERM
in runsc). A raw socket crashes the sentry, and with it the desk, whichever user opens it.
"""
ROOT, COVERED, SHARED = "/root", "/covers", "/link"
"""Paths in the runtime of the desk's file system, the files over /proc, and the folder with the guest's code."""


@dataclass(frozen=True, slots=True)
class GvisorBundle:
    """The paths that the keeper prepared for a desk."""

    desk: str
    memory: int
    python: str
    guest: str
    """The name of the file that starts the guest, in the folder with its code."""
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Paths of volumes in the room, by their mount points in the desk."""


def build_config(room: GvisorBundle) -> _Json:
    return {
        "ociVersion": "1.0.2",
        "hostname": room.desk[:12],
        "root": {"path": ROOT, "readonly": False},
        "process": build_process(room),
        "mounts": build_mounts(room),
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
            "seccomp": WRONG_CALLS,
        },
    }


def build_process(room: GvisorBundle) -> _Json:
    """Return process 1: the guest, as an ordinary user without any privilege."""
    return build_guest_process(room, uids.USER, [], build_environment(room.env), HOME, [])


def build_root_process(room: GvisorBundle) -> _Json:
    """Return the second guest: root of the desk."""
    env = {**build_environment(room.env), "HOME": ROOT_HOME, "USER": "root", "LOGNAME": "root"}
    return build_guest_process(room, 0, [f"CAP_{name}" for name in CAPABILITIES], env, ROOT_HOME, ["root"])


def build_guest_process(
    room: GvisorBundle, uid: int, capabilities: list[str], env: Mapping[str, str], cwd: str, arguments: list[str]
) -> _Json:
    """Return a guest's process. `sentry` makes it forward ports and signals, because its kernel is gVisor's."""
    sets = dict.fromkeys(("bounding", "effective", "permitted"), capabilities)
    return {
        "terminal": False,
        "user": {"uid": uid, "gid": uid, "umask": 0o022},
        "args": [room.python, "-I", "-S", "-B", f"{LINK}/lib/hotdesk_guest/{room.guest}", LINK, *arguments, "sentry"],
        "env": [f"{key}={value}" for key, value in env.items()],
        "cwd": cwd,
        "noNewPrivileges": True,
        "capabilities": {**sets, "inheritable": [], "ambient": []},
        "rlimits": [{"type": f"RLIMIT_{name}", "hard": value, "soft": value} for name, value in LIMITS.items()],
    }


def build_mounts(room: GvisorBundle) -> list[_Json]:
    """Return the mounts, in order. /dev, /sys and most of /proc are the sentry's own."""
    plain = ["nosuid", "nodev"]
    return [
        *(mount(path, "bind", source, "bind", "rw", *plain) for path, source in room.volumes.items()),
        mount("/proc", "proc", "proc", *plain, "noexec"),
        mount("/dev/shm", "tmpfs", "shm", *plain, "mode=1777", f"size={compute_shm_size(room.memory)}"),  # noqa: S108
        mount("/run", "tmpfs", "run", *plain, "mode=755", "size=16m"),
        mount(LINK, "bind", SHARED, "bind", "ro", *plain),  # executable for `rename.py`, which runs a program there
        *(mount(f"/proc/{name}", "bind", f"{COVERED}/{name}", "bind", "ro", *plain, "noexec") for name in COVERS),
    ]


def mount(destination: str, kind: str, source: str, *options: str) -> _Json:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}
