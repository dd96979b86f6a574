"""Measures of a desk behind gVisor, judged from the host's view of its sandbox and from probes inside.

They have names of their own: what is promised of a sandbox is not what is promised of programs on the host's kernel.
`LEFT_OUT` says of every other measure why it means nothing here.
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
"""Those that sentry and gofer have of their own."""
_CAPABILITIES = 0x1F | 1 << 18 | 1 << 19
"""On files, CHROOT and PTRACE: what sentry and gofer have in a user namespace of their own. A list of our own."""
_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_SENTRY_FILES = frozenset(("proc", "etc"))
_VARIABLES = frozenset(("PATH",))
TIGHT = Spec(memory=128 * MIB, disk=16 * MIB, cpus=1.0, pids=16, deadline=60, idle=60)
"""A desk that takes more than it may."""
OVER = 3


@dataclass(frozen=True, slots=True)
class SandboxFreeze:
    """Processor seconds of a desk in which a program spins: before, while and after it was frozen."""

    before: float
    frozen: bool
    during: float
    after: float


@dataclass(frozen=True, slots=True)
class Exhausted:
    """How a desk ended that exceeded a limit."""

    end: str
    """The keeper's reason for its end; empty: it continued."""
    expected: str


@dataclass(frozen=True, slots=True)
class FilledDisk:
    """How a program ended that filled its desk's disk."""

    done: Done
    size: int
    """Bytes of the file, as the host sees it."""


# -- judgements ------------------------------------------------------------------------------------------------


def _list_confined(view: SandboxView) -> list[SandboxProcess]:
    """List the sandbox's processes but its supervisor, which runs no byte of the desk."""
    return [each for each in view.processes if not each.is_supervisor]


def judge_ids(view: SandboxView) -> Finding:
    flaws = [] if view.claimed else [f"ids from {view.base} are not registered for this desk"]
    for each in view.processes:
        user = str(view.base + (uids.SUPERVISOR if each.is_supervisor else 0))
        for kind in ("Uid", "Gid"):
            if set(each.status[kind].split()) != {user}:
                flaws.append(f"process {each.pid} has {kind.lower()} {each.status[kind].split()}")
        if each.status["Groups"].split():
            flaws.append(f"process {each.pid} has groups {each.status['Groups'].split()}")
    return report_flaws(flaws, f"{view.base} and its supervisor's, in {len(view.processes)} processes")


def judge_capabilities(view: SandboxView) -> Finding:
    flaws = []
    for each in view.processes:
        allowed = 0 if each.is_supervisor else _CAPABILITIES
        sets = [name for name in _SETS if not (each.is_supervisor and name == "CapBnd")]
        flaws += [f"process {each.pid} has {name} {each.status[name]}" for name in sets
                  if int(each.status[name], 16) & ~allowed]  # fmt: skip
    return report_flaws(flaws, "on files, chroot and ptrace, in a user namespace of its own; none for the supervisor")


def judge_filter(view: SandboxView) -> Finding:
    flaws = [f"process {each.pid} has no filter" for each in _list_confined(view) if each.status["Seccomp"] != "2"]
    flaws += [f"process {each.pid} may gain privileges" for each in view.processes if each.status["NoNewPrivs"] != "1"]
    return report_flaws(flaws, f"in force in {len(_list_confined(view))} processes")


def judge_namespaces(view: SandboxView) -> Finding:
    flaws = [
        f"process {each.pid}: {kind} is the host's"
        for each in view.processes
        for kind in (("pid", "mnt", "net") if each.is_supervisor else _NAMESPACES)
        if each.namespaces[kind] == view.host_namespaces[kind]
    ]
    return report_flaws(flaws, f"{', '.join(_NAMESPACES)}: other inodes than the host's")


def judge_network(view: SandboxView) -> Finding:
    flaws = [f"process {each.pid} has {name}" for each in view.processes for name in sorted(each.interfaces - {"lo"})]
    flaws += [f"process {each.pid} has {each.routes} routes" for each in view.processes if each.routes]
    return report_flaws(flaws, "loopback, and no route")


def judge_files(view: SandboxView) -> Finding:
    flaws = [
        f"process {each.pid} sees {', '.join(sorted(each.files - _SENTRY_FILES)[:4])}"
        for each in _list_confined(view)
        if each.files is not None and not each.files <= _SENTRY_FILES
    ]
    gofers = [each for each in _list_confined(view) if each.files is None]
    if len(gofers) != 1:
        flaws.append(f"{len(gofers)} processes have the desk's file system")
    return report_flaws(flaws, "nothing, and one process the desk's own file system")


def judge_environment(view: SandboxView) -> Finding:
    extra = {name for each in view.processes for name in each.variables} - _VARIABLES
    return report_flaws([f"{name} is set" for name in sorted(extra)], "no variable of the owner")


def judge_kernel(result: ProbeResult) -> Finding:
    release = result.get_word("release")
    if release == os.uname().release:
        return report_failure(f"{release}: the host's kernel serves its system calls")
    return report_pass(f"programs see {release[:40]!r}, the host runs {os.uname().release}")


def judge_freeze(outcome: SandboxFreeze) -> Finding:
    if outcome.before <= 0:
        return report_failure("the program did not run before")
    flaws = [] if outcome.frozen else ["its cgroup does not become frozen"]
    flaws += [f"it used {outcome.during * 1000:.0f} ms while frozen"] if outcome.during > 0 else []
    flaws += ["it did not continue when thawed"] if outcome.after <= 0 else []
    return report_flaws(flaws, f"{outcome.before * 1000:.0f} ms of processor time, none while frozen, then more")


def judge_end(outcome: Exhausted) -> Finding:
    """Judge how a desk ended that took more than it may: the sentry is within the limit, so that the desk ends."""
    if outcome.expected in outcome.end:
        return report_pass(f"the desk ended: {outcome.expected}")
    return report_failure(f"it ended for another reason: {outcome.end}" if outcome.end else "it kept running")


def judge_disk(outcome: FilledDisk) -> Finding:
    why = read_result(outcome.done).get_word("why")
    size = f"{outcome.size / MIB:.0f} MiB on a disk of {TIGHT.disk // MIB}"
    if why in ("EDQUOT", "ENOSPC") and outcome.size <= TIGHT.disk + MIB:
        return report_pass(f"{size}, then {why}")
    return report_failure(f"{size}: {why}")


_STALE = "reinstall hotdesk; check whether runsc's release is supported"
_CGROUP = "check that the cgroup controller is enabled: /proc/cgroups and `hotdesk doctor --json`"
_STATUS = "host: /proc/PID/status of every process in its cgroup"
VIEW_CHECKS: tuple[JudgedMeasure[SandboxView], ...] = (
    JudgedMeasure(
        Measure("sentry-ids", "user", "sentry and gofer have host user ids that no other account has", _STATUS, _STALE),
        judge_ids,
    ),
    JudgedMeasure(
        Measure("sentry-capabilities", "user", "sentry and gofer have no capability on the host", _STATUS, _STALE),
        judge_capabilities,
    ),
    JudgedMeasure(
        Measure(
            "sentry-namespaces",
            "user",
            "sentry and gofer have namespaces of their own",
            "host: inodes in /proc/PID/ns of every process in its cgroup",
            _STALE,
        ),
        judge_namespaces,
    ),
    JudgedMeasure(
        Measure(
            "sentry-environment",
            "user",
            "no environment variable of the owner is passed in",
            "host: /proc/PID/environ of every process in its cgroup",
            _STALE,
        ),
        judge_environment,
    ),
    JudgedMeasure(
        Measure("sentry-filter", "calls", "sentry and gofer have a system call filter", _STATUS, _STALE), judge_filter
    ),
    JudgedMeasure(
        Measure(
            "sentry-network",
            "network",
            "sentry and gofer have loopback and nothing else",
            "host: /proc/PID/net: dev, route",
            "end the program that moved an interface into the desk's network, burn the desk",
        ),
        judge_network,
    ),
    JudgedMeasure(
        Measure(
            "sentry-files",
            "files",
            "a sentry sees no file, and a gofer the desk's alone",
            "host: /proc/PID/root of every process in its cgroup",
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
            "a kernel other than the host's serves its system calls",
            "inside: uname, compared with this machine's",
            "reinstall runsc: `hotdesk setup --wall gvisor`",
        ),
        judge_kernel,
    ),
    JudgedMeasure(
        Measure(
            "sentry-no-way-out",
            "network",
            "no address beyond the desk can be reached",
            "inside: routes looked up by connecting UDP, which sends nothing",
            "the sentry has a network: reinstall hotdesk",
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
        "a desk on a sentry can be frozen at any time",
        "host: processor time of its cgroup while a program spins inside, before, while and after",
        "check that the cgroup freezer is enabled: /proc/cgroups",
    ),
    judge_freeze,
)
MEMORY = JudgedMeasure(
    Measure(
        "sentry-memory",
        "limits",
        "its memory limit holds for programs and sentry together",
        "host: how the keeper saw it end, after an allocation bomb inside",
        _CGROUP,
    ),
    judge_end,
)
PROCESSES = JudgedMeasure(
    Measure(
        "sentry-processes",
        "limits",
        "its limit of processes holds for programs and sentry together",
        "host: how the keeper saw it end, after a fork bomb inside",
        _CGROUP,
    ),
    judge_end,
)
DISK = JudgedMeasure(
    Measure(
        "sentry-disk",
        "limits",
        "its disk is full at its size",
        "host: the size of a file that grew inside until refused",
        'quotas of the pool are off: remove pool.btrfs when no desk is open, or set disk = "ext4"',
    ),
    judge_disk,
)
BURNT = JudgedMeasure(
    Measure(
        "sentry-burnt",
        "life",
        "nothing is left of a burnt desk on a sentry",
        "host: /proc, cgroups, state folders, its keeper's mounts and pool, claims",
        "run `hotdesk gc`, then see `hotdesk ps`",
    ),
    judge_burn,
)
_SENTRYS = "programs make no call to the host's kernel: the sentry serves them, and has its own filter (sentry-filter)"
_OWN_VIEW = "the sentry has its own /proc, /sys and /dev, which show nothing of the host"
LEFT_OUT: dict[str, str] = {
    "first-process": "a program that ends its guest ends its desk and nothing else",
    "core-dumps": "a sentry dumps no core for programs; its own limit is in resource-limits of its bundle",
    "own-charges": "inotify instances and signals are the sentry's memory",
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
    "layer-flags": "layers are mounted as for a container, by the same code",
    "loopback-stays": "a program that changes its loopback changes the sentry's, and reaches nothing by it",
    "gate-inside": "the gate is a unix socket, and the guest forwards to it",
    "terminals": "terminals are the sentry's memory",
    "resource-limits": "the sentry enforces resource limits of programs",
    "signals": "queued signals are the sentry's memory",
    "socket-buffers": "unread socket buffers are the sentry's memory",
    "root-inside": "root inside exists only within the sentry, and has no rights on the host",
    "cpu": "the quota is the cgroup's, by the same code",
    "deadline": "the keeper enforces deadlines, by the same code",
    "own-superblock": "layers are mounted as for a container, by the same code",
}  # fmt: skip
"""Measures of desks on the host's kernel that mean nothing here, and why."""
MEASURES: tuple[Measure, ...] = (
    *(check.measure for check in VIEW_CHECKS),
    *(check.measure for check in PROBE_CHECKS),
    *(check.measure for check in (FREEZE, MEMORY, PROCESSES, DISK, BURNT)),
)
