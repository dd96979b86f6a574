"""Finds the state directory, and the holder in it that fits this command.

A holder opens desks with the settings, code and environment it was started with. A difference in any of them results in
another holder name, so nothing has to be compared and an outdated holder is not found.
"""

from __future__ import annotations

import os
import sys
from _blake2 import blake2b

from hotdesk import __version__

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
"""Folder that has hotdesk's packages."""
OF_ONE_CALL = frozenset({"HOTDESK_HOLDER", "HOTDESK_REQUESTER"})
"""Variables that are passed to a holder with each call, or not at all."""
IDENTITY = ("SUDO_UID", "SUDO_GID", "HOTDESK_REQUESTER")
"""Variables that name the user for whom root acts, for the journal."""
NAMESPACES = ("mnt", "net", "pid", "user", "cgroup", "ipc", "uts", "time")
MAX_PATH_BYTES = 107
"""Maximum bytes of a Unix socket's path."""
DEFAULT_TENANT = "default"
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


class Place:
    """Paths of this command's state directory, as for root."""

    def __init__(self) -> None:
        home = os.environ.get("HOTDESK_HOME")
        base = os.path.abspath(home) if home else ""
        self.run = f"{base}/run" if home else "/run/hotdesk"
        self.lib = f"{base}/lib" if home else "/var/lib/hotdesk"
        self.settings = f"{base}/etc/config.toml" if home else "/etc/hotdesk/config.toml"
        tenant = os.environ.get("HOTDESK_TENANT", DEFAULT_TENANT)
        self.is_known = is_tenant(tenant)
        """Whether the tenant's name is valid."""
        if tenant != DEFAULT_TENANT:
            self.run, self.lib = f"{self.run}/tenants/{tenant}", f"{self.lib}/tenants/{tenant}"

    @property
    def control(self) -> str:
        return f"{self.run}/control"


def is_tenant(name: str) -> bool:
    return 0 < len(name) <= 32 and name[0] != "-" and _NAME_CHARACTERS.issuperset(name)


def get_holder_environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if name.startswith("HOTDESK_") and name not in OF_ONE_CALL
    }


def read_settings(place: Place) -> bytes:
    """Return the content of the settings file, or nothing if there is none."""
    try:
        with open(place.settings, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def name_holder(settings: bytes) -> str:
    """Compute the holder's name from code, settings, variables and inherited process attributes."""
    digest = blake2b(digest_size=8)
    root = os.stat("/")
    facts = (
        __version__, SOURCE, sys.executable, sys.version, settings, sorted(get_holder_environment().items()),
        os.geteuid(), os.getegid(), root.st_dev, root.st_ino, [_read_namespace(kind) for kind in NAMESPACES],
        _read("/proc/self/cgroup"), _read("/proc/self/limits"), sorted(os.sched_getaffinity(0)),
        os.getpriority(os.PRIO_PROCESS, 0),
    )  # fmt: skip
    digest.update(repr(facts).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def get_socket_path(place: Place, name: str) -> str:
    return f"{place.control}/holder-{name}.sock"


def list_holders(place: Place) -> list[int]:
    """Return the process ids of the holders here, which have a second name for their control socket."""
    owners: dict[int, int] = {}
    holders: set[int] = set()
    try:
        for name in os.listdir(place.control):
            inode = os.lstat(f"{place.control}/{name}").st_ino
            if name.endswith(".sock") and name[:-5].isdigit():
                owners[inode] = int(name[:-5])
            elif name.endswith(".sock") and name.startswith("holder-"):
                holders.add(inode)
    except OSError:
        return []  # there are none, or one ended meanwhile
    return sorted(pid for inode, pid in owners.items() if inode in holders and os.path.exists(f"/proc/{pid}"))


def _read_namespace(kind: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return ""


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
