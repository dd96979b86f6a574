"""Requirements of desks on this machine: supported releases, Debian packages, kernel features."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.errors import HostError, make_printable
from hotdesk.linux import cgroup

_SUPPORTED = {("debian", "12"): "Debian 12", ("debian", "13"): "Debian 13", ("ubuntu", "24.04"): "Ubuntu 24.04"}
ARCHITECTURES = ("aarch64", "x86_64")
TESTED = {
    ("debian", "12", "aarch64", 1),
    ("debian", "12", "x86_64", 1),
    ("debian", "13", "x86_64", 2),
}
"""Release, architecture and cgroup version that the tests or the host lab passed on; README.md lists the same."""
ANY_HOST = "HOTDESK_ANY_HOST"
"""Set to 1, it lets set-up continue on an unsupported machine."""
PACKAGES = ("crun", "btrfs-progs", "e2fsprogs", "erofs-utils", "mmdebstrap", "mount", "util-linux")
"""The packages of the programs that hotdesk runs: the runtime, mkfs.btrfs, mkfs.ext4, mkfs.erofs, image building tools.
"""
_KEYRINGS = {"debian": "debian-archive-keyring", "ubuntu": "ubuntu-keyring"}
_OLDEST_KERNEL = (5, 19)
"""The first kernel whose overlay accepts idmapped layers."""
_APT_LISTS = Path("/var/lib/apt/lists")


@dataclass(frozen=True, slots=True)
class HostMachine:
    """The facts about a machine that matter for hotdesk."""

    distro: str
    """`ID` of /etc/os-release."""
    release: str
    """`VERSION_ID`; empty on a rolling release."""
    codename: str
    name: str
    """The system's name as shown to people."""
    arch: str
    """As in `uname -m`."""


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """The facts about a kernel that matter for hotdesk, as text."""

    release: str
    filesystems: str = ""
    """/proc/filesystems: file systems that are loaded or built in."""
    modules: str = ""
    """modules.dep and modules.builtin: modules that could be loaded."""
    max_user_namespaces: str | None = None
    """`None` if the kernel has no user namespaces."""
    has_loop: bool = True


def look() -> HostMachine:
    texts = (read(Path(path)) for path in ("/etc/os-release", "/usr/lib/os-release"))
    return describe(next((text for text in texts if text), ""), os.uname().machine)


def describe(os_release: str, arch: str) -> HostMachine:
    facts = {}
    for line in os_release.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            facts[key.strip()] = unquote(value)
    distro, release = facts.get("ID", "").lower(), facts.get("VERSION_ID", "")
    name = facts.get("PRETTY_NAME") or f"{distro} {release}".strip() or "a system without /etc/os-release"
    return HostMachine(distro, release, facts.get("VERSION_CODENAME", ""), make_printable(name[:80]), arch)


def unquote(value: str) -> str:
    """Remove a shell word's quotes; return malformed text unchanged."""
    try:
        return " ".join(shlex.split(value))
    except ValueError:
        return value.strip()


def explain_refusal(machine: HostMachine) -> str | None:
    """Return why a machine is not supported, or `None` if it is."""
    if (machine.distro, machine.release) in _SUPPORTED and machine.arch in ARCHITECTURES:
        return None
    return (
        f"this machine is {machine.name} on {machine.arch}; hotdesk supports {', '.join(_SUPPORTED.values())} "
        f"on {' and '.join(ARCHITECTURES)}; use a `hotdesk serve` on another machine, "
        f"or set {ANY_HOST}=1 to try here anyway"
    )


def describe_caveat(machine: HostMachine, cgroup_version: int) -> str | None:
    """Return a warning if hotdesk was not tested on this kind of machine, else `None`."""
    if (machine.distro, machine.release, machine.arch, cgroup_version) in TESTED:
        return None
    where = f"{machine.name}, {machine.arch}, with cgroup v{cgroup_version}"
    return f"hotdesk was not tested on {where}; run `hotdesk doctor`"


def require_supported(machine: HostMachine, environ: Mapping[str, str]) -> str | None:
    """Refuse an unsupported machine; return a warning instead if the operator insists, `None` if it is supported."""
    why = explain_refusal(machine)
    if why is None:
        return None
    if environ.get(ANY_HOST) != "1":
        raise HostError(why)
    return f"{machine.name} on {machine.arch} is not supported; continuing because {ANY_HOST}=1"


def list_packages(machine: HostMachine) -> tuple[str, ...]:
    return (*PACKAGES, _KEYRINGS.get(machine.distro, _KEYRINGS["debian"]))


def list_missing_packages(packages: Sequence[str]) -> list[str]:
    try:
        argv = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages]
        output = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60).stdout
    except FileNotFoundError as e:
        raise HostError(
            "dpkg is missing, so hotdesk cannot see which packages are installed; use Debian or Ubuntu"
        ) from e
    installed = parse_installed(output)
    return [name for name in packages if name not in installed]


def parse_installed(output: str) -> set[str]:
    """Parse the output of dpkg-query; half removed or half configured packages do not count as installed."""
    pairs = [line.split() for line in output.splitlines()]
    return {pair[0] for pair in pairs if pair[1:] == ["installed"]}


def has_apt_lists(folder: Path = _APT_LISTS) -> bool:
    try:
        return any("_Packages" in name for name in os.listdir(folder))
    except OSError:
        return False


def look_at_kernel() -> KernelConfig:
    release = os.uname().release
    modules = Path("/lib/modules") / release
    limit = Path("/proc/sys/user/max_user_namespaces")
    return KernelConfig(
        release=release,
        filesystems=read(Path("/proc/filesystems")),
        modules=read(modules / "modules.dep") + read(modules / "modules.builtin"),
        max_user_namespaces=read(limit) if limit.exists() else None,
        has_loop=Path("/dev/loop-control").exists() or has_loop_driver(read(Path("/proc/devices"))),
    )


def list_kernel_flaws(kernel: KernelConfig) -> list[str]:
    found = []
    if parse_version(kernel.release) < _OLDEST_KERNEL:
        how = "run `wsl --update`" if "microsoft" in kernel.release.lower() else "boot Linux 5.19 or newer"
        found.append(f"kernel {kernel.release} has no idmapped mounts of overlays: {how}")
    if not offers(kernel, "overlay"):
        found.append("the kernel has no overlay file system: boot a kernel with CONFIG_OVERLAY_FS")
    if not kernel.max_user_namespaces or not int(kernel.max_user_namespaces):
        found.append("user namespaces are disabled: run `sudo sysctl user.max_user_namespaces=16384`")
    if not kernel.has_loop:
        found.append("there are no loop devices for desks' disks: run `sudo modprobe loop`")
    return found


def offers(kernel: KernelConfig, filesystem: str) -> bool:
    loaded = {line.split()[-1] for line in kernel.filesystems.splitlines() if line.strip()}
    return filesystem in loaded or f"/{filesystem}.ko" in kernel.modules


def has_loop_driver(devices: str) -> bool:
    """Return whether the kernel has loop devices, even where no device node exists, as in a container."""
    return any(line.split() == ["7", "loop"] for line in devices.partition("Block devices:")[2].splitlines())


def name_fallbacks(kernel: KernelConfig) -> list[str]:
    found = []
    if not offers(kernel, "btrfs"):
        found.append(
            "the kernel has no btrfs: desks' disks are ext4 files, so opening one takes longer and a snapshot is a copy"
        )
    if not offers(kernel, "erofs"):
        found.append(
            "the kernel has no erofs: the copies of images for desks that verify files are ext4 files, which are larger"
        )
    return found


def parse_version(release: str) -> tuple[int, ...]:
    numbers = "".join(c if c.isdigit() else " " for c in release).split()
    return tuple(int(number) for number in numbers[:2])


def list_host_flaws() -> list[str]:
    found = list_kernel_flaws(look_at_kernel())
    try:
        cgroup.find_hierarchies()
    except (HostError, OSError) as e:
        found.append(str(e))
    return found


def read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
