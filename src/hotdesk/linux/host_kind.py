"""Detects the kind of host (bare machine, virtual machine, container, pod, WSL2, Lima) and the CI system.

Kernel facts decide: namespaces, mounts, capabilities. Marker files only name a container's engine, if the namespaces
show that there is a container: root file systems made from container images carry `/.dockerenv` into virtual machines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal

from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable

Kind = Literal["bare", "vm", "docker", "podman", "kubernetes", "lxc", "nspawn", "container", "wsl2", "lima"]
_CONTAINERS: frozenset[Kind] = frozenset({"docker", "podman", "kubernetes", "lxc", "nspawn", "container"})

_INITIAL = {"pid": 0xEFFFFFFC, "user": 0xEFFFFFFD, "uts": 0xEFFFFFFE, "ipc": 0xEFFFFFFF, "cgroup": 0xEFFFFFFB}
"""The inodes of the namespaces that the kernel boots with (`include/uapi/linux/nsfs.h`)."""
_DOCKER, _PODMAN, _MANAGER = "/.dockerenv", "/run/.containerenv", "/run/systemd/container"
_MARKERS = (_DOCKER, _PODMAN)
_ENGINES: dict[str, Kind] = {
    "docker": "docker",
    "podman": "podman",
    "oci": "container",
    "lxc": "lxc",
    "lxc-libvirt": "lxc",
    "systemd-nspawn": "nspawn",
}
"""Engines by the value of the variable `container` of the first process."""
_NAMES: dict[Kind, str] = {
    "bare": "a physical machine",
    "vm": "a virtual machine",
    "docker": "a Docker container",
    "podman": "a Podman container",
    "kubernetes": "a Kubernetes pod",
    "lxc": "an LXC container",
    "nspawn": "a systemd-nspawn container",
    "container": "a container",
    "wsl2": "WSL2",
    "lima": "a Lima virtual machine",
}
_RUNNERS = {
    "GITHUB_ACTIONS": "GitHub Actions",
    "GITLAB_CI": "GitLab CI",
    "CIRCLECI": "CircleCI",
    "BUILDKITE": "Buildkite",
    "JENKINS_URL": "Jenkins",
    "TF_BUILD": "Azure Pipelines",
    "CI": "a CI system",
}
"""CI systems by a variable that they set; the first match counts."""
_HYPERVISORS = (
    ("qemu", "QEMU"),
    ("kvm", "KVM"),
    ("amazon ec2", "Amazon EC2"),
    ("google", "Google Compute Engine"),
    ("microsoft corporation", "Hyper-V"),
    ("vmware", "VMware"),
    ("innotek", "VirtualBox"),
    ("virtualbox", "VirtualBox"),
    ("parallels", "Parallels"),
    ("apple virtualization", "Apple Virtualization"),
    ("xen", "Xen"),
    ("bochs", "Bochs"),
    ("openstack", "OpenStack"),
)
"""Hypervisors by a part of the text from firmware or device tree."""
CAPABILITIES = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_ADMIN": 12,
    "SYS_CHROOT": 18,
    "SYS_PTRACE": 19,
    "SYS_ADMIN": 21,
    "MKNOD": 27,
}
"""The capabilities that a keeper needs, by number."""
_UNCONFINED_TYPES = ("container_runtime_t", "container_unconfined_t")
_PRIVILEGED = 1 << 16 | 1 << 17 | 1 << 21
"""SYS_MODULE, SYS_RAWIO and SYS_ADMIN, all of which engines grant only with `--privileged`."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts about a host, as read."""

    namespaces: Mapping[str, int] = field(default_factory=dict)
    """Inodes of this process's namespaces, by kind."""
    kernel: str = ""
    """The kernel's release."""
    mounts: str = ""
    """/proc/self/mountinfo."""
    cgroups: str = ""
    """/proc/self/cgroup."""
    engine: str = ""
    """The variable `container` of the first process, or systemd's record of it."""
    markers: frozenset[str] = frozenset()
    """The engines' marker files that exist."""
    firmware: str = ""
    """The description of the machine by DMI, the device tree and the Xen interface."""
    has_hypervisor: bool = False
    """Whether the processor reports a hypervisor, or there are virtio devices."""
    capabilities: int = 0
    """Bits of the effective capabilities (CapEff)."""
    seccomp: int = 0
    uid_map: str = ""
    profile: str = ""
    """The AppArmor or SELinux label of this process."""
    variables: frozenset[str] = frozenset()
    """Names of the environment variables that are set and not empty."""


@dataclass(frozen=True, slots=True)
class HostKind:
    """The kind of this host, and its restrictions for this process."""

    kind: Kind
    machine: str = ""
    """The hypervisor; empty if there is none."""
    runner: str = ""
    """The CI system whose runner this is; empty if it is none."""
    capabilities: int = 0
    is_filtered: bool = False
    """Whether this process is under a seccomp filter."""
    profile: str = ""
    """The AppArmor profile or SELinux type that confines this process; empty if there is none."""
    has_own_users: bool = False
    """Whether this is a user namespace other than the initial one."""

    @property
    def is_container(self) -> bool:
        return self.kind in _CONTAINERS

    @property
    def is_privileged(self) -> bool:
        whole = self.capabilities & _PRIVILEGED == _PRIVILEGED
        return whole and not (self.is_filtered or self.profile or self.has_own_users)

    def list_missing_capabilities(self) -> list[str]:
        return [name for name, number in CAPABILITIES.items() if not self.capabilities >> number & 1]

    def describe(self) -> str:
        text = _NAMES[self.kind]
        if self.is_container:
            how = "rootless" if self.has_own_users else "privileged" if self.is_privileged else "restricted"
            text = f"{text} ({how})"
        if self.machine and self.kind not in ("wsl2", "lima"):
            text += f" ({self.machine})" if self.kind == "vm" else f", in a virtual machine ({self.machine})"
        return make_printable(f"{text}, a runner of {self.runner}" if self.runner else text)


def look() -> HostKind:
    return recognise(gather(os.environ))


def gather(environ: Mapping[str, str]) -> HostFacts:
    status = dict(line.split(":", 1) for line in _read("/proc/self/status").splitlines() if ":" in line)
    dmi = (_read(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name", "bios_vendor"))
    tree = (_read(f"/proc/device-tree/{name}") for name in ("hypervisor/compatible", "compatible", "model"))
    firmware = " ".join(part.replace("\0", " ").strip() for part in (*dmi, *tree, _read("/sys/hypervisor/type")))
    named = re.search(r"(?:^|\0)container=([^\0]*)", _read("/proc/1/environ"))
    return HostFacts(
        namespaces={kind: _read_inode(kind) for kind in _INITIAL},
        kernel=os.uname().release,
        mounts=_read("/proc/self/mountinfo"),
        cgroups=_read("/proc/self/cgroup"),
        engine=named[1] if named else _read(_MANAGER).strip(),
        markers=frozenset(path for path in _MARKERS if os.path.exists(path)),
        firmware=firmware.strip(),
        has_hypervisor=bool(re.search(r"(?m)^flags\s*:.* hypervisor( |$)", _read("/proc/cpuinfo"))) or _has_virtio(),
        capabilities=int(status.get("CapEff", "0"), 16),
        seccomp=int(status.get("Seccomp", "0")),
        uid_map=_read("/proc/self/uid_map"),
        profile=_read("/proc/self/attr/current").rstrip("\0\n"),
        variables=frozenset(name for name, value in environ.items() if value),
    )


def recognise(facts: HostFacts) -> HostKind:
    return HostKind(
        kind=_recognise_kind(facts),
        machine=_name_hypervisor(facts),
        runner=next((name for variable, name in _RUNNERS.items() if variable in facts.variables), ""),
        capabilities=facts.capabilities,
        is_filtered=facts.seccomp == 2,
        profile=_parse_confinement(facts.profile),
        has_own_users=_is_foreign(facts, "user"),
    )


def _recognise_kind(facts: HostFacts) -> Kind:
    engine = _name_engine(facts)
    is_wsl = "microsoft" in facts.kernel.lower()
    if engine is not None and any(_is_foreign(facts, kind) for kind in _INITIAL):
        return engine
    if is_wsl:
        return "wsl2"  # its distributions have pid namespaces of their own, without an engine
    if _is_foreign(facts, "pid"):
        return "container"
    if " /mnt/lima-cidata " in facts.mounts:
        return "lima"
    return "vm" if _name_hypervisor(facts) else "bare"


def _name_engine(facts: HostFacts) -> Kind | None:
    """Return the container engine by mounts, cgroups, first process or marker files; `None`: no sign of one."""
    if "/kubelet/pods/" in facts.mounts or "/kubepods" in facts.cgroups:
        return "kubernetes"
    if facts.engine in _ENGINES and facts.engine != "oci":
        return _ENGINES[facts.engine]
    if _PODMAN in facts.markers:
        return "podman"
    if _DOCKER in facts.markers or "/docker/containers/" in facts.mounts or "/docker" in facts.cgroups:
        return "docker"
    return _ENGINES.get(facts.engine)


def _name_hypervisor(facts: HostFacts) -> str:
    """Return the hypervisor's name, or an empty string on a bare machine."""
    text = facts.firmware.lower()
    if ".metal" in text:
        return ""
    named = next((name for part, name in _HYPERVISORS if part in text), "")
    if facts.has_hypervisor or named == "Xen":
        return named or "unknown hypervisor"
    return ""


def _parse_confinement(profile: str) -> str:
    """Return the restricting part of a label: an enforced AppArmor profile, or an SELinux type of containers."""
    if profile.count(":") >= 2:
        kind = profile.split(":")[2]
        return kind if kind.startswith("container_") and kind not in _UNCONFINED_TYPES else ""
    name, _, mode = profile.partition(" (")
    return "" if name in ("", "unconfined") or mode in ("complain)", "unconfined)") else name


def _is_foreign(facts: HostFacts, kind: str) -> bool:
    """Return whether a namespace is not the initial one; False if it could not be read."""
    return facts.namespaces.get(kind, 0) not in (0, _INITIAL[kind])


def covers_ids(uid_map: str, first: int, count: int) -> bool:
    rows = sorted(tuple(map(int, line.split())) for line in uid_map.splitlines() if line.strip())
    at = first
    for start, _, width in rows:
        if start <= at < start + width:
            at = start + width
    return at >= first + count


def _has_virtio() -> bool:
    try:
        return bool(os.listdir("/sys/bus/virtio/devices"))
    except OSError:
        return False


def _read_inode(kind: str) -> int:
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino
    except OSError:
        return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
