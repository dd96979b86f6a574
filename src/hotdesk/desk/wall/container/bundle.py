"""The OCI configuration of a desk: all hardening in one pure function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.desk.room.layout import HOME, LINK, ROOT_HOME, build_environment, compute_shm_size
from hotdesk.desk.room.procfs import EMPTY_FILES, EMPTY_FOLDERS, OWN_FILES, STEADY_FILES
from hotdesk.desk.wall.container import seccomp
from hotdesk.linux import uids
from hotdesk.linux.rlimits import CORE_LIMIT

_Json: TypeAlias = dict[str, object]

LIMITS = {"NOFILE": 20000, "CORE": CORE_LIMIT, "SIGPENDING": 1024, "MEMLOCK": 8 << 20}

CAPABILITIES = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7}
"""Capabilities of root inside, by number: those that installing packages needs. None is effective outside the desk."""
CAPABILITY_BITS = sum(1 << number for number in CAPABILITIES.values())


@dataclass(frozen=True, slots=True)
class BundleInput:
    """The paths that the keeper prepared for a desk's runtime."""

    desk: str
    root: str
    """The merged file system."""
    dev: str
    sys: str
    proc: str
    """The folder with the files that are mounted over /proc."""
    link: str
    userns: str
    netns: str
    memory: int
    python: str
    machine: str
    hidden: frozenset[str]
    """The names of `EMPTY_FILES`, `EMPTY_FOLDERS` and `OWN_FILES` that this kernel has."""
    guest: str
    """The name of the file that starts the guest, in the folder with its code."""
    annotation: str
    filter: str | None
    limits: Mapping[str, int] = field(default_factory=dict)
    """The keeper's own hard limits: without CAP_SYS_RESOURCE a runtime cannot exceed them."""
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Host paths of volumes, by their mount points in the desk."""
    requests: seccomp.IoctlRequests | None = None
    """The only ioctls of the desk's processes; `None` admits all."""


def build_config(room: BundleInput) -> _Json:
    """Return the OCI configuration. A compiled filter replaces the seccomp profile it was compiled from."""
    whole: _Json = {"annotations": {room.annotation: room.filter}} if room.filter else {}
    return whole | {
        "ociVersion": "1.0.2",
        "hostname": room.desk[:12],
        "root": {"path": room.root, "readonly": False},
        "process": build_process(room),
        "mounts": build_mounts(room),
        "linux": {
            "namespaces": [
                *({"type": kind} for kind in ("pid", "ipc", "uts", "mount", "cgroup")),
                {"type": "user", "path": room.userns},
                {"type": "network", "path": room.netns},
            ],
            **({} if room.filter else {"seccomp": seccomp.build_profile(room.machine, room.requests)}),
            "readonlyPaths": ["/proc/sys"],
        },
    }


def build_process(room: BundleInput) -> _Json:
    """Return process 1: the guest, as an ordinary user without any privilege."""
    return build_guest_process(room, uids.USER, [], build_environment(room.env), HOME, [LINK])


def build_root_process(room: BundleInput) -> _Json:
    """Return the second guest: root of the desk's user namespace, with the same wall and filter as the first."""
    env = {**build_environment(room.env), "HOME": ROOT_HOME, "USER": "root", "LOGNAME": "root"}
    return build_guest_process(room, 0, [f"CAP_{name}" for name in CAPABILITIES], env, ROOT_HOME, [LINK, "root"])


def build_guest_process(
    room: BundleInput, uid: int, capabilities: list[str], env: Mapping[str, str], cwd: str, arguments: list[str]
) -> _Json:
    sets = dict.fromkeys(("bounding", "effective", "permitted"), capabilities)
    return {
        "terminal": False,
        "user": {"uid": uid, "gid": uid, "umask": 0o022},
        "args": [room.python, "-I", "-S", "-B", f"{LINK}/lib/hotdesk_guest/{room.guest}", *arguments],
        "env": [f"{key}={value}" for key, value in env.items()],
        "cwd": cwd,
        "noNewPrivileges": True,
        "capabilities": {**sets, "inheritable": [], "ambient": []},
        "rlimits": [
            {"type": f"RLIMIT_{name}", "hard": value, "soft": value}
            for name, most in LIMITS.items()
            for value in [min(most, room.limits.get(name, most))]
        ],
        "oomScoreAdj": 200,
    }


def build_mounts(room: BundleInput) -> list[_Json]:
    """Return the mounts, in order. /dev, /sys and the files over /proc are the keeper's own, never the host's.

    Volumes come first, so that no mount of the wall is ever below one.
    """
    plain = ["nosuid", "nodev"]
    shown = [
        *(mount(path, "bind", source, "bind", "rw", *plain) for path, source in room.volumes.items()),
        mount("/proc", "proc", "proc", *plain, "noexec"),
        mount("/dev", "bind", room.dev, "bind", "ro", "nosuid", "noexec"),
        mount(
            "/dev/pts",
            "devpts",
            "devpts",
            "nosuid",
            "noexec",
            "newinstance",
            "ptmxmode=0666",
            "mode=0620",
            "gid=5",
            "max=64",
        ),
        mount("/dev/shm", "tmpfs", "shm", *plain, "mode=1777", f"size={compute_shm_size(room.memory)}"),  # noqa: S108
        mount("/sys", "bind", room.sys, "bind", "ro", *plain, "noexec"),
        mount("/run", "tmpfs", "run", *plain, "mode=755", "size=16m"),
        mount(LINK, "bind", room.link, "bind", "ro", *plain, "noexec"),
        mount("/proc/sys/kernel/random/boot_id", "bind", f"{room.proc}/boot_id", "bind", "ro", *plain, "noexec"),
    ]
    for name in (*STEADY_FILES, *OWN_FILES, *EMPTY_FILES, *EMPTY_FOLDERS):
        if name in room.hidden or name in STEADY_FILES:
            shows = name in STEADY_FILES or name in OWN_FILES
            cover = name if shows else "none" if name in EMPTY_FOLDERS else "empty"
            shown.append(mount(f"/proc/{name}", "bind", f"{room.proc}/{cover}", "bind", "ro", *plain, "noexec"))
    return shown


def mount(destination: str, kind: str, source: str, *options: str) -> _Json:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}
