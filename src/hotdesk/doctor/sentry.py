"""Measures of a desk behind gVisor, judged from the host's view of its sandbox and from probes inside.

They have their own names, because the promises for a sandbox differ from those for programs on the host's kernel.
`LEFT_OUT` has the reason why each of the other measures does not apply.
"""

from __future__ import annotations

import os
from dataclasses import replace

from hotdesk.config import MIB
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Done, Spec
from hotdesk.doctor import inside
from hotdesk.doctor.life import judge_burn
from hotdesk.doctor.measure import Finding, JudgedMeasure, Measure, report_failure, report_flaws, report_pass
from hotdesk.doctor.probes import ProbeResult, read_result
from hotdesk.doctor.sentry_view import SandboxProcess, SandboxView
from hotdesk.linux import uids

_NAMESPACES = ("pid", "mnt", "ipc", "uts", "net", "user")
"""Namespaces that sentry and gofer have of their own."""
_CAPABILITIES = 0x1F | 1 << 18 | 1 << 19
"""Capabilities of sentry and gofer in their user namespace: for files, CHROOT and PTRACE. Repeated here on purpose."""
_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_SENTRY_FILES = frozenset(("proc", "etc"))
_VARIABLES = frozenset(("PATH",))
TIGHT = Spec(memory=128 * MIB, disk=16 * MIB, cpus=1.0, pids=16, deadline=60, idle=60)
"""The spec of a desk that exceeds its limits."""
OVER = 3


@dataclass(frozen=True, slots=True)
class SandboxFreeze:
    """Processor seconds of a desk in which a program spins: before, during and after it was frozen."""

    before: float
    frozen: bool
    during: float
    after: float


@dataclass(frozen=True, slots=True)
class Exhausted:
    """How a desk that exceeded a limit ended."""

    end: str
    """The keeper's reason for its end; empty if it continued."""
    expected: str


@dataclass(frozen=True, slots=True)
class FilledDisk:
    """The result of a program that filled its desk's disk."""

    done: Done
    size: int
    """Bytes of the file, as seen from the host."""


# -- judgements ------------------------------------------------------------------------------------------------


def _list_confined(view: SandboxView) -> list[SandboxProcess]:
    """Return the sandbox's processes except its supervisor, which processes no data of the desk."""
    return [each for each in view.processes if not each.is_supervisor]


def judge_ids(view: SandboxView) -> Finding:
    flaws = [] if view.claimed else [f"the user ids from {view.base} are not reserved for this desk"]
    for each in view.processes:
        user = str(view.base + (uids.SUPERVISOR if each.is_supervisor else 0))
        for kind in ("Uid", "Gid"):
            if set(each.status[kind].split()) != {user}:
                flaws.append(
                    f"process {each.pid} has {kind.lower()}s {', '.join(each.status[kind].split())} instead of {user}"
                )
        if each.status["Groups"].split():
            flaws.append(f"process {each.pid} has the groups {', '.join(each.status['Groups'].split())}")
    return report_flaws(
        flaws,
        f"{len(view.processes)} processes have user id {view.base}, or "
        f"{view.base + uids.SUPERVISOR} (the supervisor) only",
    )


def judge_capabilities(view: SandboxView) -> Finding:
    flaws = []
    for each in view.processes:
        allowed = 0 if each.is_supervisor else _CAPABILITIES
        sets = [name for name in _SETS if not (each.is_supervisor and name == "CapBnd")]
        flaws += [f"process {each.pid} has {name} {each.status[name]}" for name in sets
                  if int(each.status[name], 16) & ~allowed]  # fmt: skip
    return report_flaws(
        flaws, "only capabilities on files, chroot and ptrace, in the desk's user namespace; the supervisor has none"
    )


def judge_filter(view: SandboxView) -> Finding:
    flaws = [
        f"process {each.pid} has no system call filter"
        for each in _list_confined(view)
        if each.status["Seccomp"] != "2"
    ]
    flaws += [
        f"process {each.pid} could gain privileges by exec"
        for each in view.processes
        if each.status["NoNewPrivs"] != "1"
    ]
    return report_flaws(flaws, f"the system call filter is active in all {len(_list_confined(view))} processes")


def judge_namespaces(view: SandboxView) -> Finding:
    flaws = [
        f"process {each.pid} is in the host's {kind} namespace"
        for each in view.processes
        for kind in (("pid", "mnt", "net") if each.is_supervisor else _NAMESPACES)
        if each.namespaces[kind] == view.host_namespaces[kind]
    ]
    return report_flaws(flaws, f"none of the namespaces {', '.join(_NAMESPACES)} is the host's")


def judge_network(view: SandboxView) -> Finding:
    flaws = [
        f"process {each.pid} has the network interface {name}"
        for each in view.processes
        for name in sorted(each.interfaces - {"lo"})
    ]
    flaws += [f"process {each.pid} has {each.routes} routes" for each in view.processes if each.routes]
    return report_flaws(flaws, "loopback is the only interface, and there is no route")


def judge_files(view: SandboxView) -> Finding:
    flaws = [
        f"process {each.pid} sees the files {', '.join(sorted(each.files - _SENTRY_FILES)[:4])}"
        for each in _list_confined(view)
        if each.files is not None and not each.files <= _SENTRY_FILES
    ]
    gofers = [each for each in _list_confined(view) if each.files is None]
    if len(gofers) != 1:
        flaws.append(f"{len(gofers)} processes see the desk's file system instead of 1")
    return report_flaws(flaws, "one process sees the desk's file system, the others see no file")


def judge_environment(view: SandboxView) -> Finding:
    extra = {name for each in view.processes for name in each.variables} - _VARIABLES
    return report_flaws(
        [f"the environment variable {name} is set" for name in sorted(extra)],
        "no environment variable of the process that opened the desk was passed on",
    )


def judge_kernel(result: ProbeResult) -> Finding:
    release = result.get_word("release")
    if release == os.uname().release:
        return report_failure(f"programs see the host's kernel {release}, which serves their system calls")
    return report_pass(f"programs see kernel {release[:40]!r}; the host runs kernel {os.uname().release}")


def judge_freeze(outcome: SandboxFreeze) -> Finding:
    if outcome.before <= 0:
        return report_failure("the test program did not run before the freeze")
    flaws = [] if outcome.frozen else ["the cgroup of the desk did not freeze"]
    flaws += [f"the program used {outcome.during * 1000:.0f} ms of CPU time while frozen"] if outcome.during > 0 else []
    flaws += ["the program did not continue after the thaw"] if outcome.after <= 0 else []
    return report_flaws(
        flaws, f"the program used {outcome.before * 1000:.0f} ms of CPU time before, none while frozen, then more"
    )


def judge_end(outcome: Exhausted) -> Finding:
    """Judge how a desk that exceeded a limit ended. The sentry is under the same limit, so that the desk ends."""
    if outcome.expected in outcome.end:
        return report_pass(f"the desk ended as expected: {outcome.expected}")
    return report_failure(
        f"the desk ended for another reason: {outcome.end}" if outcome.end else "the desk kept running"
    )


def judge_disk(outcome: FilledDisk) -> Finding:
    why = read_result(outcome.done).get_word("why")
    size = f"a file could grow to {outcome.size / MIB:.0f} MiB on a disk of {TIGHT.disk // MIB} MiB"
    if why in ("EDQUOT", "ENOSPC") and outcome.size <= TIGHT.disk + MIB:
        return report_pass(f"{size}, then {why}")
    return report_failure(f"{size}: {why}")


_STALE = "reinstall hotdesk, and runsc with `sudo hotdesk setup --wall gvisor`"
_CGROUP = "enable the cgroup controllers memory, pids and cpu in the kernel; /proc/cgroups lists them"
_STATUS = "tested from the host: read /proc/PID/status of every process in the desk's cgroup"
VIEW_CHECKS: tuple[JudgedMeasure[SandboxView], ...] = (
    JudgedMeasure(
        Measure(
            "sentry-ids",
            "user",
            "gVisor's processes (sentry, gofer) have host user ids that no other account has",
            _STATUS,
            _STALE,
        ),
        judge_ids,
    ),
    JudgedMeasure(
        Measure(
            "sentry-capabilities",
            "user",
            "gVisor's processes (sentry, gofer) have no capability on the host",
            _STATUS,
            _STALE,
        ),
        judge_capabilities,
    ),
    JudgedMeasure(
        Measure(
            "sentry-namespaces",
            "user",
            "gVisor's processes (sentry, gofer) share no namespace with the host",
            "tested from the host: read inodes in /proc/PID/ns of every process in the desk's cgroup",
            _STALE,
        ),
        judge_namespaces,
    ),
    JudgedMeasure(
        Measure(
            "sentry-environment",
            "user",
            "gVisor's processes (sentry, gofer) get no environment variable of the process that opened the desk",
            "tested from the host: read /proc/PID/environ of every process in the desk's cgroup",
            _STALE,
        ),
        judge_environment,
    ),
    JudgedMeasure(
        Measure(
            "sentry-filter",
            "calls",
            "a system call filter is active in gVisor's processes (sentry, gofer)",
            _STATUS,
            _STALE,
        ),
        judge_filter,
    ),
    JudgedMeasure(
        Measure(
            "sentry-network",
            "network",
            "gVisor's processes (sentry, gofer) have a loopback interface and no other",
            "tested from the host: read dev and route in /proc/PID/net",
            "end the program that moved an interface into the desk's network namespace, and burn the desk",
        ),
        judge_network,
    ),
    JudgedMeasure(
        Measure(
            "sentry-files",
            "files",
            "gVisor's sentry sees no file of the host, and its gofer only the files of the desk",
            "tested from the host: read /proc/PID/root of every process in the desk's cgroup",
            _STALE,
        ),
        judge_files,
    ),
)
PROBE_CHECKS: tuple[JudgedMeasure[ProbeResult], ...] = (
    JudgedMeasure(
        Measure(
            "sentry-kernel",
            "calls",
            "gVisor's kernel, not the host's, serves the system calls of programs",
            "tested from inside: compare `uname -r` with this machine's",
            "reinstall runsc: `hotdesk setup --wall gvisor`",
        ),
        judge_kernel,
    ),
    JudgedMeasure(
        Measure(
            "sentry-no-way-out",
            "network",
            "no address beyond the desk can be reached",
            "tested from inside: connect UDP sockets to outside addresses, which looks up a route and sends nothing",
            "gVisor's sentry has a network interface or route: reinstall hotdesk",
        ),
        lambda result: inside.judge_beyond(result, ("EHOSTUNREACH", "ENETUNREACH")),
    ),
    *(
        JudgedMeasure(replace(each.measure, name=f"sentry-{each.measure.name}"), each.judge)
        for each in inside.CHECKS
        if each.measure.name in ("host-sockets", "gate-refuses", "gate-stays", "host-name", "one-caller")
    ),
)
FREEZE = JudgedMeasure(
    Measure(
        "sentry-freeze",
        "life",
        "a desk behind gVisor can be frozen at any time",
        "tested from the host: read the CPU time of the desk's cgroup, with a busy program in it: before, while frozen "
        "and after",
        "boot a kernel with CONFIG_CGROUP_FREEZER; /proc/cgroups lists the freezer",
    ),
    judge_freeze,
)
MEMORY = JudgedMeasure(
    Measure(
        "sentry-memory",
        "limits",
        "programs and gVisor's sentry together cannot use more than the memory limit of the desk",
        "tested from the host: read from the keeper process why the desk ends, after a program in it allocates too "
        "much",
        _CGROUP,
    ),
    judge_end,
)
PROCESSES = JudgedMeasure(
    Measure(
        "sentry-processes",
        "limits",
        "programs and gVisor's sentry together cannot have more processes than the limit of the desk",
        "tested from the host: read from the keeper process why the desk ends, after a program in it forks without end",
        _CGROUP,
    ),
    judge_end,
)
DISK = JudgedMeasure(
    Measure(
        "sentry-disk",
        "limits",
        "a desk cannot write more than the size of its disk",
        "tested from the host: read the size of a file that a program in the desk writes until refused",
        "disk quotas are off: when no desk is open, remove pool.btrfs from the state folder, or "
        'set disk = "ext4" in config.toml',
    ),
    judge_disk,
)
BURNT = JudgedMeasure(
    Measure(
        "sentry-burnt",
        "life",
        "a burn of a desk behind gVisor leaves nothing behind",
        "tested from the host: search /proc, cgroups, state folders, mounts, the disk pool and reservations of user "
        "ids",
        "run `sudo hotdesk gc`, then see `sudo hotdesk ps`",
    ),
    judge_burn,
)
_SENTRYS = (
    "gVisor's sentry serves the system calls of programs, not the host's kernel; sentry-filter tests its own filter"
)
_OWN_VIEW = "the sentry has its own /proc, /sys and /dev, which show nothing of the host"
LEFT_OUT: dict[str, str] = {
    "first-process": "a program that ends hotdesk's process in the desk ends its own desk only",
    "core-dumps": "gVisor's sentry dumps no core for programs; its own core size limit is set when it starts",
    "own-charges": "inotify instances and signals only use memory of gVisor's sentry",
    **dict.fromkeys(
        ("namespace-calls", "unneeded-calls", "call-arguments", "socket-families", "socket-options", "page-cache-flaws",
         "32-bit-calls", "x32-calls", "unseen-calls"),
        _SENTRYS,
    ),
    **dict.fromkeys(
        ("device-nodes", "mount-flags", "read-only", "proc-masks", "own-sys", "own-identity", "host-paths",
         "open-files", "device-cgroup"),
        _OWN_VIEW,
    ),
    "layer-flags": "the same code as for the wall container mounts image layers",
    "loopback-stays": "the loopback interface is emulated by gVisor's sentry; a program that changes "
        "it reaches nothing else",
    "gate-inside": "the egress proxy's port is a unix socket, to which hotdesk's process in the "
        "desk forwards connections",
    "terminals": "terminals only use memory of gVisor's sentry",
    "resource-limits": "gVisor's sentry enforces resource limits of programs",
    "signals": "queued signals only use memory of gVisor's sentry",
    "socket-buffers": "unread socket buffers only use memory of gVisor's sentry",
    "root-inside": "root in the desk exists only within gVisor's sentry, and has no rights on the host",
    "cpu": "the cgroup enforces the CPU quota, as for the wall container",
    "deadline": "the keeper process enforces deadlines, as for the wall container",
    "own-superblock": "the same code as for the wall container mounts image layers",
}  # fmt: skip
"""Measures of desks on the host's kernel that do not apply here, and why."""
MEASURES: tuple[Measure, ...] = (
    *(check.measure for check in VIEW_CHECKS),
    *(check.measure for check in PROBE_CHECKS),
    *(check.measure for check in (FREEZE, MEMORY, PROCESSES, DISK, BURNT)),
)
