"""The machines of the lab: one row each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Release = Literal["bookworm", "trixie"]
FileSystem = Literal["ext4", "btrfs", "xfs"]

_HYBRID = ("systemd.unified_cgroup_hierarchy=0",)
"""For Debian 12 alone: Debian 13's kernel has no memory controller for cgroup v1, which desks need there."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of host. Everything its row does not name is Debian's default."""

    name: str
    release: Release = "trixie"
    filesystem: FileSystem = "ext4"
    memory_mib: int = 2048
    disk_gib: int = 12
    kernel_options: tuple[str, ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()
    packages: tuple[str, ...] = ()
    """Additional Debian packages."""
    without_modules: tuple[str, ...] = ()
    """Kernel modules that are deleted."""
    is_usr_read_only: bool = False
    """Whether `/usr` is mounted read-only, except `/usr/local`."""


MACHINES = (
    Machine("debian-13"),
    Machine("debian-12", release="bookworm"),
    Machine("debian-12-hybrid", release="bookworm", kernel_options=_HYBRID),
    Machine("debian-13-apparmor", packages=("apparmor", "apparmor-profiles")),
    Machine("debian-13-userns-root-only", sysctls=(("kernel.unprivileged_userns_clone", "0"),)),
    Machine("debian-13-small", memory_mib=768, disk_gib=4),
    Machine("debian-13-large", memory_mib=8192, disk_gib=40),
    Machine("debian-13-btrfs", filesystem="btrfs"),
    Machine("debian-13-xfs", filesystem="xfs"),
    Machine("debian-13-no-btrfs", without_modules=("btrfs",)),
    Machine("debian-13-no-erofs", without_modules=("erofs",)),
    Machine("debian-13-usr-read-only", is_usr_read_only=True),
)


def find(names: list[str]) -> list[Machine]:
    """Return the machines of these names, in the order of the table; all of them if `names` is empty."""
    known = {machine.name for machine in MACHINES}
    if unknown := sorted(set(names) - known):
        raise SystemExit(f"There is no machine {', '.join(unknown)}. There are: {', '.join(sorted(known))}.")
    return [machine for machine in MACHINES if not names or machine.name in names]
