"""Measures of the host: kernel, runtime, cgroups, ids, stores, and the confinement of hotdesk's own commands."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

from hotdesk.config import GIB, MIB, Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.image import requirements
from hotdesk.desk.keeper import state
from hotdesk.desk.room.layout import PATH
from hotdesk.desk.wall.container.status import list_flaws
from hotdesk.doctor.measure import (
    Finding,
    JudgedMeasure,
    Measure,
    report_failure,
    report_flaws,
    report_pass,
    report_untested,
)
from hotdesk.doctor.view import read
from hotdesk.errors import HostError, make_printable
from hotdesk.ipc.child import SOURCE
from hotdesk.linux import cgroup, uids
from hotdesk.linux.pace import scale_seconds

YEAR = 365.25 * 86400
FILE_TABLE = 1 << 40
"""A number of entries for which memory limits are reached first; systemd and keepers set the maximum."""
ABI_WRITES, ABI_TCP, ABI_SIGNALS = 1, 4, 6
"""The first Landlock version that supports each rule."""
_UNSTARTED = "the confined test process could not be started"

_CONFINE = """
import ctypes, json, os, socket, sys
sys.path.insert(0, sys.argv[1])
from hotdesk.linux import landlock, syscalls
abi = syscalls.libc.syscall(landlock.SYS_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))

def attempt(work, *args):
    try:
        work(*args)
        return "done"
    except OSError as e:
        return type(e).__name__

def bind():
    socket.create_server(("127.0.0.1", 0)).close()

landlock.confine([])
with open("/proc/self/status") as file:
    status = dict(line.split(":", 1) for line in file)
data = {"abi": max(abi, 0), "write": attempt(os.open, sys.argv[2], os.O_TMPFILE | os.O_WRONLY), "bind": attempt(bind),
        "signal": attempt(os.kill, os.getppid(), 0),
        "capabilities": int(status["CapEff"], 16) | int(status["CapBnd"], 16) if os.geteuid() == 0 else 0}
print(json.dumps(data))
"""


@dataclass(frozen=True, slots=True)
class Confined:
    """The rights that a command still has after confinement."""

    abi: int
    """The version of Landlock, or 0 without it."""
    write: str
    bind: str
    signal: str
    capabilities: int


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Facts about this machine that every user can read."""

    name: str
    arch: str
    kernel: str
    unsupported: str | None
    untested: str | None
    lacking: tuple[str, ...]
    runtime: str
    version: tuple[int, ...]
    """Empty if the runtime is missing, or prints no version."""
    built: float
    """When the runtime's program was built, in seconds since 1970."""
    cgroups: str
    cgroup_error: str
    reserved: bool
    restricted: str
    """AppArmor's restriction of ordinary users' namespaces; empty if there is none."""
    confined: Confined | None
    fallbacks: tuple[str, ...] = ()
    """Features the kernel lacks, and what is used instead."""


@dataclass(frozen=True, slots=True)
class Stores:
    """State folders and free resources; only root can read them, once a keeper has created the folders."""

    settings: Config
    free: int
    available: int
    file_table: int
    modes: dict[Path, tuple[int, int]]
    """Permission bits and owner of existing paths."""


def look(settings: Config) -> MachineFacts:
    here, config = requirements.look(), requirements.look_at_kernel()
    program = shutil.which(settings.runtime, path=PATH)
    try:
        hierarchies, error = cgroup.find_hierarchies(), ""
    except (HostError, OSError) as e:
        hierarchies, error = None, str(e)
    hybrid = " (a v2 hierarchy beside it is not used)" if Path("/sys/fs/cgroup/unified").is_dir() else ""
    return MachineFacts(
        name=here.name,
        arch=here.arch,
        kernel=os.uname().release,
        unsupported=requirements.explain_refusal(here),
        untested=requirements.describe_caveat(here, hierarchies.version) if hierarchies else None,
        lacking=tuple(requirements.list_kernel_flaws(config)),
        fallbacks=tuple(requirements.name_fallbacks(config)),
        runtime=settings.runtime,
        version=read_version(program) if program else (),
        built=os.stat(program).st_mtime if program else 0.0,
        cgroups=f"v{hierarchies.version}{hybrid}" if hierarchies else "",
        cgroup_error=error,
        reserved=uids.is_reserved(),
        restricted=read(Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")),
        confined=_try_confinement(),
    )


def read_version(program: str) -> tuple[int, ...]:
    try:
        argv = [program, "--version"]
        output = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", check=False, timeout=scale_seconds(10)
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"version (\d+(?:\.\d+)+)", output)
    return tuple(int(number) for number in found[1].split(".")) if found else ()


def _try_confinement() -> Confined | None:
    """Confine a process like a command, and test it; return `None` if this user cannot start one."""
    source = str(SOURCE)
    folder = "/run" if os.geteuid() == 0 else str(Path.home())
    argv = [sys.executable, "-I", "-c", _CONFINE, source, folder]
    try:
        output = subprocess.run(argv, capture_output=True, check=False, timeout=scale_seconds(20)).stdout
        return Confined(**json.loads(output))
    except OSError:
        return None
    except (ValueError, TypeError, subprocess.SubprocessError):
        return Confined(0, "silence", "silence", "silence", -1)


def look_at_stores(settings: Config) -> Stores:
    run, lib = settings.run, settings.lib
    places = (run, run / "desks", run / "runtime", run / "private", lib, lib / "cache", lib / "pool.btrfs")
    modes = {}
    sockets = (run / "control").glob("*.sock")
    for place in (*places, settings.images, uids.CLAIMS, run / "control", *sockets):
        if place.exists():
            info = place.stat()
            modes[place] = (stat.S_IMODE(info.st_mode), info.st_uid)
    return Stores(
        settings=settings,
        free=shutil.disk_usage(lib if lib.exists() else "/").free,
        available=state.measure_available_memory(),
        file_table=int(read(Path("/proc/sys/fs/file-max"))),
        modes=modes,
    )


# -- judgements ------------------------------------------------------------------------------------------------


def judge_kernel(facts: MachineFacts) -> Finding:
    note = facts.unsupported or facts.untested or ""
    if facts.restricted == "1":
        note = note or "AppArmor restricts user namespaces of ordinary users, which has no effect on desks"
    note = "; ".join(filter(None, (note, *facts.fallbacks)))
    return report_flaws(facts.lacking, f"{facts.kernel} on {facts.arch}", note)


def judge_runtime(facts: MachineFacts) -> Finding:
    if not facts.version:
        return report_failure(f"{facts.runtime} is missing, or does not report its version")
    version = ".".join(map(str, facts.version))
    age = max(0.0, time.time() - facts.built) / YEAR
    text = f"{facts.runtime} {version}, built {time.strftime('%B %Y', time.gmtime(facts.built))}, {age:.1f} years ago"
    flaws = list_flaws(version)
    return (
        report_pass(text, "; ".join(flaws))
        if os.path.basename(facts.runtime) == "crun"
        else report_pass(f"{text}; hotdesk is tested with crun only")
    )


def _judge_cgroups(facts: MachineFacts) -> Finding:
    return report_failure(facts.cgroup_error) if facts.cgroup_error else report_pass(facts.cgroups)


def _judge_reservation(facts: MachineFacts) -> Finding:
    entry = f"{uids.OWNER}:{uids.FIRST}:{uids.WIDTH * uids.SLOTS}"
    return (
        report_pass(entry)
        if facts.reserved
        else report_failure(f"{entry} is not a line of /etc/subuid and /etc/subgid")
    )


def _judge_capabilities(facts: MachineFacts) -> Finding:
    if facts.confined is None:
        return report_untested(_UNSTARTED)
    return report_flaws(
        [f"the confined process still has the capabilities (mask) {facts.confined.capabilities:#x}"]
        if facts.confined.capabilities
        else [],
        "the confined process has no capabilities",
    )


def _build_landlock_check(abi: int, what: str, answer: str) -> JudgedMeasure[MachineFacts]:
    def judge(facts: MachineFacts) -> Finding:
        if facts.confined is None:
            return report_untested(_UNSTARTED)
        result = getattr(facts.confined, what)
        if facts.confined.abi < abi and result != "silence":
            return report_untested(
                f"Landlock version {facts.confined.abi or '0 (off)'} cannot prevent that the "
                f"command can {answer}; version {abi} can"
            )
        return (
            report_pass(f"Landlock version {facts.confined.abi} refused it")
            if result == "PermissionError"
            else report_failure(f"trying to {answer} returned {result}")
        )

    return JudgedMeasure(
        Measure(
            f"command-{what}",
            "machine",
            f"a hotdesk command, even if a desk compromised it, cannot {answer}",
            f"tested from the host: try to {answer} from a confined process",
            "boot a newer kernel, with `landlock` in its `lsm=` list",
        ),
        judge,
    )


def _judge_floors(stores: Stores) -> Finding:
    flaws = []
    if stores.free < stores.settings.disk_floor:
        flaws.append(
            f"only {stores.free / GIB:.1f} GiB of disk are free; the minimum is "
            f"{stores.settings.disk_floor / GIB:.1f} GiB (disk_floor)"
        )
    if stores.available < stores.settings.memory_floor:
        flaws.append(
            f"only {stores.available // MIB} MiB of memory are available; the minimum is "
            f"{stores.settings.memory_floor // MIB} MiB (memory_floor)"
        )
    return report_flaws(
        flaws, f"{stores.free / GIB:.0f} GiB of disk and {stores.available / GIB:.1f} GiB of memory are free"
    )


def _judge_file_table(stores: Stores) -> Finding:
    enough = stores.file_table >= FILE_TABLE
    return (
        report_pass("fs.file-max is at its maximum")
        if enough
        else report_failure(f"fs.file-max is {stores.file_table}, less than {FILE_TABLE}")
    )


def _judge_folders(stores: Stores) -> Finding:
    run, lib = stores.settings.run, stores.settings.lib
    passable = (run, run / "desks", run / "private", run / "control", lib, uids.CLAIMS)
    flaws = []
    for place, (mode, owner) in stores.modes.items():
        wrong = mode & (0o022 if place in passable else 0o077)
        if wrong or owner != 0:
            expected = 0o755 if place in passable else 0o700
            flaws.append(f"{place} has mode {mode:o} and uid {owner} instead of {expected:o} (or stricter) and uid 0")
    return report_flaws(flaws, f"only root can write the {len(stores.modes)} folders and files of hotdesk's state")


def format_line(facts: MachineFacts) -> str:
    version = ".".join(map(str, facts.version)) or "missing"
    parts = (facts.name, facts.arch, f"kernel {facts.kernel}", f"{facts.runtime} {version}")
    return make_printable(", ".join((*parts, f"cgroup {facts.cgroups[:2] or 'missing'}")))


SETUP = "run `hotdesk setup`"
CHECKS: tuple[JudgedMeasure[MachineFacts], ...] = (
    JudgedMeasure(
        Measure(
            "kernel",
            "machine",
            "the kernel has the features that desks need",
            "tested from the host: read the kernel's version, and look for overlay, user namespaces and loop devices",
            "boot Linux 5.19 or newer; `hotdesk setup` names other requirements",
        ),
        judge_kernel,
    ),
    JudgedMeasure(
        Measure(
            "runtime",
            "machine",
            "the OCI runtime is installed, and its version is known",
            "tested from the host: read the runtime's version and build date",
            SETUP,
        ),
        judge_runtime,
    ),
    JudgedMeasure(
        Measure(
            "cgroups",
            "machine",
            "the cgroup controllers that desks need are mounted",
            "tested from the host: read /proc/self/mountinfo",
            "enable the controllers on the kernel's command line, and mount them below /sys/fs/cgroup",
        ),
        _judge_cgroups,
    ),
    JudgedMeasure(
        Measure(
            "ids-reserved",
            "machine",
            "user ids are reserved for desks",
            "tested from the host: read /etc/subuid and /etc/subgid",
            SETUP,
        ),
        _judge_reservation,
    ),
    JudgedMeasure(
        Measure(
            "command-rights",
            "machine",
            "a hotdesk command has no capabilities once its keeper process runs",
            "tested from the host: read the capabilities of a confined process",
            "reinstall hotdesk",
        ),
        _judge_capabilities,
    ),
    _build_landlock_check(ABI_WRITES, "write", "write files"),
    _build_landlock_check(ABI_TCP, "bind", "use TCP"),
    _build_landlock_check(ABI_SIGNALS, "signal", "signal others"),
)
STORES: tuple[JudgedMeasure[Stores], ...] = (
    JudgedMeasure(
        Measure(
            "floors",
            "machine",
            "there is enough disk and memory for another desk",
            "tested from the host: compare free disk and memory with disk_floor and memory_floor",
            "burn desks, free some space, or lower disk_floor and memory_floor in config.toml",
        ),
        _judge_floors,
    ),
    JudgedMeasure(
        Measure(
            "file-table",
            "machine",
            "no desk can fill the host's table of open files",
            "tested from the host: read fs.file-max, which hotdesk raises",
            "run `sudo sysctl fs.file-max=9223372036854775807`",
        ),
        _judge_file_table,
    ),
    JudgedMeasure(
        Measure(
            "folders",
            "machine",
            "only root can write hotdesk's state and images",
            "tested from the host: read owners and modes of these folders and files",
            "run `chmod go-w` for the named path, or `chmod 700` for the folders images, runtime and cache",
        ),
        _judge_folders,
    ),
)
