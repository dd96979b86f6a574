"""Judge an open desk from the host: each check is a function of one `DeskView`."""

from __future__ import annotations

from pathlib import Path

from hotdesk.doctor.measure import (
    Finding,
    JudgedMeasure,
    Measure,
    report_failure,
    report_flaws,
    report_pass,
    report_untested,
)
from hotdesk.doctor.view import NAMESPACES, NODES, OPENED, DeskView, Rooted
from hotdesk.linux import uids

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy")
NO_EGRESS = """
PIP_INDEX_URL PIP_RETRIES PIP_DISABLE_PIP_VERSION_CHECK UV_HTTP_RETRIES CARGO_NET_RETRY npm_config_fetch_retries
APT_CONFIG
""".split()
"""Variables that make programs fail at once in a desk without egress."""
_STANDARD = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "SHELL")
VARIABLES = frozenset((*_STANDARD, *_PROXIES, *map(str.upper, _PROXIES), *NO_EGRESS))
_ID_MAP = "0 {0} 1001 1001 {1} 12 65534 {2} 1"
"""The id map of a desk: system users, its own, twelve more, nobody. Repeated here so that a change there is noticed."""
CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_ROOT_CAPABILITIES = 0xFB
"""CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID: those that installing packages needs."""
DEVICES = frozenset(("c 1:3", "c 1:5", "c 1:7", "c 1:8", "c 1:9", "c 5:0", "c 5:2", "c 136:*"))
"""null, zero, full, random, urandom, tty, ptmx, and the desk's own terminals."""
LIMITS = {"Max core file size": 1, "Max pending signals": 1024, "Max open files": 20000, "Max locked memory": 8 << 20}
_DEVICE_MOUNTS = ("/dev", "/dev/pts")
SAFE = frozenset(("nosuid", "nodev"))
READ_ONLY = ("/dev", "/sys", "/run/hotdesk", "/proc/sys")


def _join(words: str) -> str:
    return ", ".join(words.split()) or "none"


def _judge_ids(view: DeskView) -> Finding:
    user = str(view.base + uids.USER)
    flaws = [
        f"process {each.pid} has {kind.lower()}s {_join(each.status[kind])}, groups {_join(each.status['Groups'])}"
        for each in view.processes
        for kind in ("Uid", "Gid")
        if set(each.status[kind].split()) != {user} or each.status["Groups"].split()
    ]
    expected = _ID_MAP.format(view.base, view.base + 1004, view.base + 1001).split()
    flaws += [f"a process has the id map {_join(text)}" for text in view.maps if text.split() != expected]
    if not view.claimed:
        flaws.append(f"the user ids from {view.base} are not reserved for this desk")
    return report_flaws(
        flaws, f"{len(view.processes)} processes have user ids from {view.base} to {view.base + uids.WIDTH - 1} only"
    )


def _judge_charges(view: DeskView) -> Finding:
    expected = view.base + uids.ANCHOR
    return report_flaws(
        [] if view.owner == expected else [f"inotify instances and signals are charged to user id {view.owner}"],
        f"inotify instances and signals are charged to user id {view.owner}, which runs no process",
    )


def _judge_capabilities(view: DeskView) -> Finding:
    flaws = [
        f"process {each.pid} has {name} {each.status[name]}"
        for each in view.processes
        for name in CAPABILITIES
        if int(each.status[name], 16)
    ]
    return report_flaws(flaws, f"none of {len(view.processes)} processes has a capability or can gain one")


def _judge_new_privileges(view: DeskView) -> Finding:
    flaws = [
        f"process {each.pid} could gain privileges by exec"
        for each in view.processes
        if each.status["NoNewPrivs"] != "1"
    ]
    return report_flaws(flaws, f"no_new_privs is set in {len(view.processes)} processes")


def judge_filter(view: DeskView) -> Finding:
    flaws = [
        f"process {each.pid} has no system call filter" for each in view.processes if each.status["Seccomp"] != "2"
    ]
    return report_flaws(flaws, f"the system call filter is active in all {len(view.processes)} processes")


def _judge_namespaces(view: DeskView) -> Finding:
    flaws = [
        f"a process is in the host's {kind} namespace"
        for each in view.processes
        for kind in NAMESPACES
        if each.namespaces[kind] == view.host_namespaces[kind]
    ]
    return report_flaws(sorted(set(flaws)), f"none of the namespaces {', '.join(NAMESPACES)} is the host's")


def _judge_environment(view: DeskView) -> Finding:
    extra = view.processes[0].variables - VARIABLES
    return report_flaws(
        [f"the environment variable {name} is set" for name in sorted(extra)],
        f"the first process has {len(view.processes[0].variables)} environment variables, all set by hotdesk",
    )


def _judge_limits(view: DeskView) -> Finding:
    """Judge resource limits; a host may set lower ones."""
    flaws, parts = [], []
    for name, most in LIMITS.items():
        soft, hard = view.processes[0].limits[name]
        if not hard.isdigit() or int(hard) > most or soft != hard:
            flaws.append(
                f"{name.lower()} has soft limit {soft} and hard limit {hard}; both must be the same and at most {most}"
            )
        parts.append(f"{name.removeprefix('Max ')} {hard}")
    core = view.processes[0].limits["Max core file size"]
    if core != ("1", "1") and not flaws:
        flaws.append(
            f"max core file size is {core[0]}: only a limit of 1 byte stops core dumps to a program in core_pattern"
        )
    return report_flaws(flaws, ", ".join(parts))


def _judge_network(view: DeskView) -> Finding:
    cards = [line.split(":")[0].strip() for line in view.network["dev"].splitlines()[2:]]
    routes = view.network["route"].splitlines()[1:]
    six = {line.split()[-1] for line in view.network["ipv6_route"].splitlines() if line.strip()}
    flaws = [f"there is the interface {name}" for name in cards if name != "lo"]
    flaws += [f"there are {len(routes)} routes"] if routes else []
    flaws += [f"there is an IPv6 route by {name}" for name in sorted(six - {"lo"})]
    return (
        report_failure("there is no loopback interface")
        if not cards
        else report_flaws(flaws, "loopback is the only interface, and there is no route")
    )


def _gate_inside(view: DeskView) -> Finding:
    rows = [line.split() for line in view.network["tcp"].splitlines()[1:]]
    there = [row for row in rows if row[1] == "0100007F:0C38" and row[3] == "0A"]
    apart = view.processes[0].namespaces["net"] != view.host_namespaces["net"]
    if not there:
        return report_failure("nothing listens on 127.0.0.1:3128 in the desk's network namespace")
    return (
        report_pass("the egress proxy's port 127.0.0.1:3128 is in the desk's network namespace")
        if apart
        else report_failure("the egress proxy's port is in the host's network namespace")
    )


def _judge_nodes(view: DeskView) -> Finding:
    flaws = [f"/dev/{name} is missing" for name in NODES if view.nodes[name] is None]
    flaws += [f"/dev/{name} is the host's device node" for name in NODES if view.nodes[name] == view.host_nodes[name]]
    return report_flaws(flaws, f"none of {', '.join(NODES)} in /dev is the host's device node")


def _mount_flags(view: DeskView) -> Finding:
    """Judge the mounts a desk sees, except those crun makes below /proc/sys, where no programs and devices are."""
    mounts = [each for each in view.mounts if not each.at.startswith("/proc/sys")]
    flaws = [
        f"the mount at {each.at} lacks nosuid, so setuid programs on it gain privileges"
        for each in mounts
        if "nosuid" not in each.flags
    ]
    flaws += [
        f"the mount at {each.at} lacks nodev, so device nodes on it can be opened"
        for each in mounts
        if not {"nodev"} & each.flags and each.at not in _DEVICE_MOUNTS
    ]
    return report_flaws(
        flaws, f"all {len(mounts)} mounts have nosuid, and all but {' and '.join(_DEVICE_MOUNTS)} have nodev"
    )


def _judge_layer_flags(view: DeskView) -> Finding:
    layers = [each for each in view.room if each.at.rpartition("/")[2].startswith("l")]
    whole = [each for each in view.room if each.at.endswith(("/root", "/disk"))]
    flaws = [
        f"the mount of {each.at.rpartition('/')[2]} lacks nosuid or nodev"
        for each in (*layers, *whole)
        if not each.flags >= SAFE
    ]
    flaws += [
        f"the mount of layer {each.at.rpartition('/')[2]} is writable" for each in layers if "ro" not in each.flags
    ]
    return (
        report_failure("no image layer is mounted")
        if not layers
        else report_flaws(
            flaws, f"the overlay and {len(layers)} image layers have nosuid and nodev, and the layers are read-only"
        )
    )


def read_only(view: DeskView) -> Finding:
    covers = [each for each in view.mounts if each.at.startswith("/proc/") and not each.at.startswith("/proc/sys")]
    found = {each.at: each for each in view.mounts if each.at in READ_ONLY}
    flaws = [f"{at} is not a separate mount" for at in READ_ONLY if at not in found]
    flaws += [f"the mount at {each.at} is writable" for each in (*found.values(), *covers) if "ro" not in each.flags]
    return report_flaws(flaws, f"{', '.join(READ_ONLY)} and {len(covers)} mounts in /proc are read-only")


def _judge_masks(view: DeskView) -> Finding:
    covered = {each.at.removeprefix("/proc/") for each in view.mounts if each.at.startswith("/proc/")}
    there = {name: empty for name, empty in view.masked.items() if empty is not None}
    flaws = [
        f"/proc/{name} shows data of the host" for name, empty in there.items() if not empty or name not in covered
    ]
    if "loadavg" not in covered:
        flaws.append("/proc/loadavg shows data of the host")
    return report_flaws(flaws, f"{len(there) + 1} files of /proc are covered and show nothing of the host")


def _judge_sys(view: DeskView) -> Finding:
    top, cards = view.sys
    kinds = [each.kind for each in view.mounts if each.at == "/sys"]
    flaws = [f"/sys is a {kinds[-1] if kinds else 'folder'}, not a tmpfs"] if kinds[-1:] != ["tmpfs"] else []
    flaws += [f"/sys has the entry {name}" for name in sorted(top - {"class", "devices"})]
    flaws += [f"/sys shows the network interface {name}" for name in sorted(cards - {"lo"})]
    return report_flaws(
        flaws, "/sys is the desk's own file system, which shows the loopback interface and processors only"
    )


def _judge_machine_ids(view: DeskView) -> Finding:
    flaws = []
    if view.boot_id in ("", Path("/proc/sys/kernel/random/boot_id").read_text().strip()):
        flaws.append("the boot id is the same as the host's")
    host = Path("/etc/machine-id")
    if view.machine_id == "" or (host.exists() and view.machine_id == host.read_text().strip()):
        flaws.append("the machine id is missing, or is the host's")
    return report_flaws(flaws, f"boot id {view.boot_id[:8]}…, machine id {view.machine_id[:8]}…")


def _judge_host_paths(view: DeskView) -> Finding:
    """Judge whether mounts reveal host paths by their roots, sources or options."""
    flaws = [
        f"the mount at {each.at} shows the host's path {path}"
        for each in view.mounts
        for path in view.paths
        if path in each.options
    ]
    return report_flaws(flaws, f"none of {len(view.mounts)} mounts shows a path of the host")


def _judge_open_files(view: DeskView) -> Finding:
    flaws = [f"process {each.pid} has {name} open" for each in view.processes for name in each.foreign]
    return report_flaws(flaws, f"{len(view.processes)} processes have only pipes, sockets and files of the desk open")


def _judge_devices(view: DeskView) -> Finding:
    if view.cgroup_version == 2:
        return _judge_opened(view.opened)
    allowed = {line.rpartition(" ")[0] for line in view.cgroup["devices.list"].splitlines()}
    flaws = [f"device {device} is allowed" for device in sorted(allowed - DEVICES)]
    return (
        report_flaws(flaws, f"{len(allowed)} kinds of devices are allowed, all harmless")
        if allowed
        else report_failure("devices.list of the desk's cgroup is empty")
    )


def _judge_opened(opened: dict[str, str]) -> Finding:
    """Judge the device rules of cgroup v2, which cannot be read, by the results of opening devices."""
    own, *others = OPENED
    tried = {path: answer for path, answer in opened.items() if path in others}
    if opened.get(own) != "opened":
        return report_failure(
            f"opening {own} returned {opened[own]}"
            if own in opened
            else "the test program in the cgroup did not report"
        )
    if not tried:
        return report_untested("this machine has none of the devices to test")
    flaws = [f"opening {path} returned {answer}" for path, answer in tried.items() if answer != "EPERM"]
    return report_flaws(flaws, f"{len(tried)} devices of the host could not be opened: {', '.join(tried)}")


def judge_root(rooted: Rooted) -> Finding:
    roots = [each for each in rooted.processes if each.status["Uid"].split()[0] != str(rooted.base + uids.USER)]
    flaws = []
    for each in roots:
        beyond = [name for name in CAPABILITIES if int(each.status[name], 16) & ~_ROOT_CAPABILITIES]
        if set(each.status["Uid"].split()) != {str(rooted.base)}:
            flaws.append(
                f"process {each.pid} of root has host uids {_join(each.status['Uid'])} instead of {rooted.base}"
            )
        flaws += [f"process {each.pid} of root has the capabilities {name}={each.status[name]}" for name in beyond]
        if each.status["NoNewPrivs"] != "1" or each.status["Seccomp"] != "2":
            flaws.append(f"process {each.pid} of root has no system call filter, or could gain privileges")
        flaws += [
            f"a process of root is in the host's {kind} namespace"
            for kind in NAMESPACES
            if each.namespaces[kind] == rooted.host_namespaces[kind]
        ]
    if not roots:
        return report_failure("no program of the test runs as root")
    return report_flaws(
        flaws,
        f"root inside has host user id {rooted.base}, capabilities "
        f"{roots[-1].status['CapEff'].lstrip('0') or '0'} and a system call filter",
    )


_STALE = "reinstall hotdesk, and crun 1.8.1 or newer (`sudo hotdesk setup`)"
ROOTED: JudgedMeasure[Rooted] = JudgedMeasure(
    Measure(
        "root-inside",
        "user",
        "root inside a desk is an unprivileged user outside, and has few capabilities inside",
        "tested from the host: read /proc/PID/status and the namespaces of a program that the desk runs as root",
        _STALE,
    ),
    judge_root,
)
CHECKS: tuple[JudgedMeasure[DeskView], ...] = (
    JudgedMeasure(
        Measure(
            "own-ids",
            "user",
            "a desk's processes have host user ids that no other account has",
            "tested from the host: read /proc/PID/status and id maps of every process, and the reservation of user ids",
            "run `sudo hotdesk setup`, then `sudo hotdesk gc`",
        ),
        _judge_ids,
    ),
    JudgedMeasure(
        Measure(
            "own-charges",
            "user",
            "inotify instances and signals are charged to the desk, not to the host's root",
            "tested from the host: read the owner of the desk's user namespace",
            _STALE,
        ),
        _judge_charges,
    ),
    JudgedMeasure(
        Measure(
            "capabilities",
            "user",
            "a desk's processes have no capabilities",
            "tested from the host: read /proc/PID/status of every process",
            _STALE,
        ),
        _judge_capabilities,
    ),
    JudgedMeasure(
        Measure(
            "no-new-privileges",
            "user",
            "no program in a desk gains privileges by exec",
            "tested from the host: read /proc/PID/status of every process",
            _STALE,
        ),
        _judge_new_privileges,
    ),
    JudgedMeasure(
        Measure(
            "namespaces",
            "user",
            "a desk shares no namespace with the host",
            "tested from the host: read inodes in /proc/PID/ns of every process",
            _STALE,
        ),
        _judge_namespaces,
    ),
    JudgedMeasure(
        Measure(
            "environment",
            "user",
            "a desk gets no environment variable of the process that opened it",
            "tested from the host: read /proc/PID/environ of the first process",
            _STALE,
        ),
        _judge_environment,
    ),
    JudgedMeasure(
        Measure(
            "filter",
            "calls",
            "a system call filter is active in a desk",
            "tested from the host: read /proc/PID/status of every process",
            _STALE,
        ),
        judge_filter,
    ),
    JudgedMeasure(
        Measure(
            "loopback-only",
            "network",
            "a desk has a loopback interface and no other",
            "tested from the host: read dev, route and ipv6_route in /proc/PID/net",
            "end the program that moved an interface into the desk's network namespace, and burn the desk",
        ),
        _judge_network,
    ),
    JudgedMeasure(
        Measure(
            "gate-inside",
            "network",
            "the egress proxy's port is in the desk's own network namespace",
            "tested from the host: read /proc/PID/net/tcp",
            _STALE,
        ),
        _gate_inside,
    ),
    JudgedMeasure(
        Measure(
            "device-nodes",
            "files",
            "a desk has device nodes of its own",
            "tested from the host: compare device and inode of /dev/* in the desk with the host's",
            _STALE,
        ),
        _judge_nodes,
    ),
    JudgedMeasure(
        Measure(
            "mount-flags",
            "files",
            "setuid bits have no effect on any mount of a desk, and device nodes only in /dev",
            "tested from the host: read /proc/PID/mountinfo",
            "the runtime dropped mount options: use a newer crun",
        ),
        _mount_flags,
    ),
    JudgedMeasure(
        Measure(
            "layer-flags",
            "files",
            "device nodes and setuid bits in an image have no effect, and images are read-only",
            "tested from the host: read mountinfo of the desk's keeper process",
            "move the images to a folder on ext4, btrfs or xfs: set `images` in config.toml",
        ),
        _judge_layer_flags,
    ),
    JudgedMeasure(
        Measure(
            "read-only",
            "files",
            "/dev, /sys, /proc/sys and hotdesk's code in the desk (/run/hotdesk) are read-only",
            "tested from the host: read /proc/PID/mountinfo",
            "the runtime dropped mount options: use a newer crun",
        ),
        read_only,
    ),
    JudgedMeasure(
        Measure(
            "proc-masks",
            "files",
            "/proc shows nothing about the host's devices, boot or load",
            "tested from the host: read mountinfo, and each file below the desk's root",
            _STALE,
        ),
        _judge_masks,
    ),
    JudgedMeasure(
        Measure(
            "own-sys",
            "files",
            "a desk has a /sys of its own",
            "tested from the host: read mountinfo, and list /sys below the desk's root",
            _STALE,
        ),
        _judge_sys,
    ),
    JudgedMeasure(
        Measure(
            "own-identity",
            "files",
            "a desk has a boot id and machine id of its own",
            "tested from the host: compare both with this machine's",
            _STALE,
        ),
        _judge_machine_ids,
    ),
    JudgedMeasure(
        Measure(
            "host-paths",
            "files",
            "the mounts of a desk show no path of the host",
            "tested from the host: read /proc/PID/mountinfo",
            _STALE,
        ),
        _judge_host_paths,
    ),
    JudgedMeasure(
        Measure(
            "open-files",
            "files",
            "a desk's processes have no file of the host open",
            "tested from the host: compare /proc/PID/fd and fdinfo of every process with the desk's mounts",
            _STALE,
        ),
        _judge_open_files,
    ),
    JudgedMeasure(
        Measure(
            "device-cgroup",
            "files",
            "a desk can open only its own devices",
            "tested from the host: read devices.list of the desk's cgroup; on cgroup v2, open devices as root in that "
            "cgroup",
            "in a container, allow hotdesk to load BPF programs (CAP_BPF, and bpf() in the "
            "seccomp profile); else reinstall it",
        ),
        _judge_devices,
    ),
    JudgedMeasure(
        Measure(
            "resource-limits",
            "limits",
            "core size, queued signals, open files and locked memory of a desk are limited",
            "tested from the host: read /proc/PID/limits",
            "start hotdesk from a shell with a core size limit of at least 1 block: `ulimit -Hc 1`",
        ),
        _judge_limits,
    ),
)
