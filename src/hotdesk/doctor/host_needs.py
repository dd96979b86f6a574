"""Host features that desks need: find the missing ones, and the option of a container engine that provides each."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.doctor import host_trial
from hotdesk.doctor.host_trial import HostTrial, TrialFailure
from hotdesk.doctor.measure import Measure, Result, report_failure, report_pass, report_untested
from hotdesk.doctor.view import read, read_mounts
from hotdesk.errors import HostError
from hotdesk.linux import host_kind, uids
from hotdesk.linux.host_kind import HostKind, Kind
from hotdesk.linux.landlock import find_existing

_REFUSED = (errno.EPERM, errno.EACCES)
_ENGINES: Mapping[Kind, str] = {"docker": "docker run", "podman": "podman run"}
_COMMON = {
    "capability": "--cap-add={}",
    "seccomp": "--security-opt=seccomp=unconfined",
    "apparmor": "--security-opt=apparmor=unconfined",
    "selinux": "--security-opt=label=disable",
    "loop": "--device-cgroup-rule='c 10:237 rwm' --device-cgroup-rule='b 7:* rwm'",
    "cgroup-v1": "--volume=/sys/fs/cgroup:/sys/fs/cgroup",
    "storage": "--volume=hotdesk:{}",
}
_OPTIONS: Mapping[Kind, Mapping[str, str]] = {
    "podman": {**_COMMON, "cgroup-v2": "--security-opt=unmask=/sys/fs/cgroup"},
    "docker": {**_COMMON, "cgroup-v2": "--security-opt=writable-cgroups=true"},
}
"""The engine's option that removes each cause of a failure. Docker supports the last one since Engine 28."""
_NEEDS = {
    "space": (),
    "mount": ("SYS_ADMIN",),
    "cgroup": (),
    "loop": ("MKNOD",),
    "network": ("SYS_ADMIN", "NET_ADMIN"),
    "nodes": ("MKNOD",),
    "users": ("SETUID", "SETGID", "SYS_ADMIN", "SYS_PTRACE"),
    "storage": ("SYS_ADMIN",),
    "proc": ("SYS_ADMIN",),
}
"""The capabilities that each trial needs."""
_UNSHIFTABLE = ("overlay", "9p")
"""File systems that no kernel can mount with mapped ids; known even where nothing can be mounted for a trial."""
HOST_MEASURES = {
    "rights": Measure(
        "host-rights",
        "machine",
        "root has the capabilities that are needed to open desks",
        "tested from the host: read CapEff of this process",
        "start hotdesk as root, outside of the container or service that drops these capabilities",
    ),
    "space": Measure(
        "host-space",
        "machine",
        "hotdesk can write its state directory and temporary files",
        "tested from the host: write a file in a new folder of each",
        "free disk space, or set HOTDESK_HOME and TMPDIR to writable folders on a larger disk",
    ),
    "mount": Measure(
        "host-mounts",
        "machine",
        "a keeper can mount file systems in its own namespace",
        "tested from the host: mount a file system in a new mount namespace",
        "start hotdesk as root, outside of the container or service that refuses mounts",
    ),
    "network": Measure(
        "host-networks",
        "machine",
        "a keeper can create network namespaces",
        "tested from the host: create a network namespace",
        "start hotdesk as root",
    ),
    "users": Measure(
        "host-users",
        "machine",
        "the user ids of desks exist in this user namespace",
        "tested from the host: create a user namespace with these user ids",
        "start hotdesk in the machine's own user namespace: in a container, without `--userns` and not rootless",
    ),
    "proc": Measure(
        "host-proc",
        "machine",
        "a desk can have its own /proc",
        "tested from the host: mount /proc in a new user namespace",
        "start the container so that nothing is mounted over parts of its /proc",
    ),
    "nodes": Measure(
        "host-devices",
        "machine",
        "a keeper can create device nodes",
        "tested from the host: create a device node and open it",
        "allow devices for the container, such as `c 1:3 rwm`",
    ),
    "loop": Measure(
        "host-loop",
        "machine",
        "disks of desks can be attached as loop devices",
        "tested from the host: attach a file to a loop device",
        "run `sudo modprobe loop`",
    ),
    "cgroup": Measure(
        "host-cgroup",
        "machine",
        "resource limits can be set for desks",
        "tested from the host: create a cgroup with limits",
        "mount the cgroup file systems writable below /sys/fs/cgroup",
    ),
    "storage": Measure(
        "host-storage",
        "machine",
        "image layers can be mounted with the user ids of a desk",
        "tested from the host: mount a folder of the state directory with mapped ids",
        "set HOTDESK_HOME to a folder on ext4, btrfs, xfs or (from Linux 6.3) tmpfs",
    ),
}
"""Measures by trial."""


@dataclass(frozen=True, slots=True)
class HostGap:
    """A requirement of desks that this host lacks."""

    trial: str
    symptom: str
    remedy: str
    options: tuple[str, ...] = ()
    """Options of `docker run` or `podman run` that provide it."""


@dataclass(frozen=True, slots=True)
class HostReport:
    """A host, and the results of the trials on it."""

    host: HostKind
    trial: HostTrial | None
    """The results of the trials, or `None` without root."""
    has_ids: bool
    """Whether this user namespace has the user ids of desks."""
    cgroup_version: int
    storage: Path
    storage_kind: str
    """The file system of the state directory."""

    def list_gaps(self) -> list[HostGap]:
        if self.trial is None:
            return []
        found = []
        if missing := self.host.list_missing_capabilities():
            found.append(self._explain_rights(missing))
        failures = dict(self.trial.failures)
        if "mount" in failures and self.storage_kind in _UNSHIFTABLE:
            failures["storage"] = TrialFailure(0, "not tried")
        return found + [self._explain(name, failure) for name, failure in failures.items()]

    def list_options(self) -> list[str]:
        """List the engine's options that provide everything that is missing, without duplicates."""
        return list(dict.fromkeys(option for gap in self.list_gaps() for option in gap.options))

    def describe_start(self) -> str:
        """Return the command that starts this container correctly; empty if no option helps or nothing is missing."""
        options = self.list_options()
        return f"{_ENGINES[self.host.kind]} {' '.join(options)} …" if options and self.host.kind in _ENGINES else ""

    def _explain_rights(self, missing: list[str]) -> HostGap:
        names = ", ".join(f"CAP_{name}" for name in missing)
        options = tuple(option for name in missing for option in self._find_option("capability", name))
        return HostGap("rights", f"root lacks {names}", self._advise("rights", options), options)

    def _explain(self, name: str, failure: TrialFailure) -> HostGap:
        options: tuple[str, ...] = ()
        symptom = failure.text
        for cause, value in self._find_causes(name, failure):
            options += self._find_option(cause, value)
        if name == "users" and not self.has_ids:
            symptom = f"this user namespace does not have the user ids from {uids.FIRST} for desks: {failure.text}"
        if name == "storage":
            symptom = f"{self.storage} is on {self.storage_kind}, which cannot be mounted with mapped ids: {symptom}"
        return HostGap(name, symptom, self._advise(name, options), options)

    def _find_causes(self, name: str, failure: TrialFailure) -> Iterator[tuple[str, str]]:
        if name == "storage" or (name == "space" and failure.errno == errno.EROFS):
            yield "storage", str(self.storage)
        elif name == "cgroup" and failure.errno == errno.EROFS:
            yield f"cgroup-v{self.cgroup_version}", ""
        elif name == "users" and not self.has_ids:
            return
        elif failure.errno in _REFUSED or (name == "users" and failure.errno == 0):
            yield from self._find_refusals(name)
        elif name == "loop":
            yield "loop", ""

    def _find_refusals(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield possible reasons of a refusal: a missing capability, a device rule, a profile, and last a filter."""
        lacking = [each for each in _NEEDS[name] if each in self.host.list_missing_capabilities()]
        yield from (("capability", each) for each in lacking)
        if name == "loop":
            yield "loop", ""
        elif self.host.profile:
            yield "selinux" if self.host.profile.endswith("_t") else "apparmor", ""
        elif self.host.is_filtered and not lacking:  # engines' filters permit calls whose capability is given
            yield "seccomp", ""

    def _find_option(self, cause: str, value: str = "") -> tuple[str, ...]:
        option = _OPTIONS.get(self.host.kind, {}).get(cause) if self.has_ids else None
        return (option.format(value),) if option else ()

    def _advise(self, name: str, options: tuple[str, ...]) -> str:
        host = self.host
        if options:
            return f"start the container with `{' '.join(options)}`"
        if not self.has_ids:
            return HOST_MEASURES["users"].remedy
        if host.kind == "kubernetes":
            volume = (
                f"a volume at {self.storage}"
                if name in ("storage", "space")
                else "`privileged: true` in its securityContext"
            )
            return f"give the container {volume}"
        if name == "space":
            return HOST_MEASURES[name].remedy
        if host.kind == "lxc":
            return "set `security.privileged=true`, `security.nesting=true` and device rules for loop devices in LXC"
        if host.kind == "wsl2" and name == "cgroup":
            return "set `kernelCommandLine = cgroup_no_v1=all` in [wsl2] of .wslconfig, then run `wsl --shutdown`"
        return HOST_MEASURES[name].remedy


def look(settings: Config) -> HostReport:
    facts = host_kind.gather(os.environ)
    storage = find_existing(settings.lib)
    return HostReport(
        host=host_kind.recognise(facts),
        trial=host_trial.attempt(settings) if os.geteuid() == 0 else None,
        has_ids=host_kind.covers_ids(facts.uid_map, uids.FIRST, uids.WIDTH * uids.SLOTS),
        cgroup_version=2 if Path("/sys/fs/cgroup/cgroup.controllers").exists() else 1,
        storage=settings.lib,
        storage_kind=find_kind(read(Path("/proc/self/mountinfo")), storage),
    )


def find_kind(mountinfo: str, folder: Path) -> str:
    mounts = {each.at: each.kind for each in read_mounts(mountinfo)}  # a later mount at a place hides earlier ones
    return next((mounts[str(above)] for above in (folder, *folder.parents) if str(above) in mounts), "unknown")


def judge_host(report: HostReport) -> Iterator[Result]:
    gaps = {gap.trial: gap for gap in report.list_gaps()}
    for name, measure in HOST_MEASURES.items():
        if report.trial is None:
            yield Result(measure, report_untested("only root can test this; run `sudo hotdesk doctor`"))
        elif gap := gaps.get(name):
            yield Result(replace(measure, remedy=gap.remedy), report_failure(gap.symptom))
        elif name != "rights" and name not in report.trial.tried:
            yield Result(measure, report_untested("not tested, because an earlier test that it depends on failed"))
        elif name == "storage":
            yield Result(measure, report_pass(f"{report.storage} on {report.storage_kind}"))
        elif name == "rights":
            yield Result(measure, report_pass("all of them"))
        else:
            yield Result(measure, report_pass("it worked"))


def require(settings: Config) -> HostReport:
    """Refuse a host on which no desk can open, with a list of everything it lacks."""
    report = look(settings)
    gaps = report.list_gaps()
    if not gaps:
        return report
    reasons = "; ".join(f"{HOST_MEASURES[gap.trial].name.removeprefix('host-')}: {gap.symptom}" for gap in gaps)
    start = report.describe_start()
    remedy = f"start it with `{start}`" if start else "; ".join(dict.fromkeys(gap.remedy for gap in gaps))
    raise HostError(
        f"Desks cannot open on {report.host.describe()}: {reasons}. Remedy: {remedy}. `hotdesk doctor` has details."
    )


def as_json(report: HostReport) -> dict[str, object]:
    host = report.host
    return {
        "kind": host.kind,
        "description": host.describe(),
        "hypervisor": host.machine,
        "runner": host.runner,
        "privileged": host.is_privileged if host.is_container else None,
        "missing": [gap.trial for gap in report.list_gaps()],
        "options": report.list_options(),
    }
