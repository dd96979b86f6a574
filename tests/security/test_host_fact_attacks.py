"""Tests of what a desk learns about its host and other desks: as little as the kernel lets us show."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk import door_files
from hotdesk.desk.seam import Desk, Spec
from tests.security.conftest import Attack, Init, Open
from tests.security.guards import WALLS_UNPROVEN, Removal, falls_without

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

EMPTY = "cmdline config.gz diskstats iomem ioports interrupts softirqs keys key-users locks partitions".split()
EMPTY += "zoneinfo buddyinfo timer_list modules schedstat".split()
EMPTY_FOLDERS = "pressure bus driver fs irq acpi asound scsi".split()
PROC = """
told = {"files": {}, "folders": {}}
for n in given["files"]:
    try:
        with open("/proc/" + n, "rb") as file:
            told["files"][n] = len(file.read())
    except FileNotFoundError:
        pass
for n in given["folders"]:
    if os.path.isdir("/proc/" + n):
        told["folders"][n] = os.listdir("/proc/" + n)
for n, path in (("boot", "/proc/sys/kernel/random/boot_id"), ("machine", "/etc/machine-id"), ("load", "/proc/loadavg"),
                ("host", "/proc/sys/kernel/hostname"), ("mounts", "/proc/self/mountinfo"), ("unix", "/proc/net/unix"),
                ("tcp", "/proc/net/tcp"), ("cgroup", "/proc/self/cgroup")):
    with open(path) as file:
        told[n] = file.read()
told["environ"] = dict(os.environ)
tell(told)
"""
SECRETS = """
told = {}
for path in ("/proc/kcore", "/proc/kmsg", "/dev/kmsg", "/dev/mem", "/proc/kpagecount", "/proc/slabinfo",
             "/proc/vmallocinfo",
             "/proc/pagetypeinfo", "/proc/device-tree", "/proc/sched_debug", "/sys/kernel/debug", "/sys/kernel/tracing",
             "/sys/firmware", "/sys/block", "/sys/class/dmi", "/proc/acpi/dsdt"):
    told[path] = attempt(lambda: os.close(os.open(path, os.O_RDONLY)))
with open("/proc/kallsyms") as file:
    told["addresses"] = sorted({line.split()[0] for line in file})[-1]
tell(told)
"""
SYS = """
found = []
for at, folders, files in os.walk("/sys"):
    found += [os.path.join(at, n) for n in files]
with open("/proc/self/mountinfo") as file:
    mount = [line for line in file if line.split()[4].startswith("/sys")]
tell({"files": sorted(found), "cards": os.listdir("/sys/class/net"), "mounts": mount,
      "write": attempt(lambda: os.close(os.open("/sys/class/net/lo/mtu", os.O_WRONLY)))})
"""
SIZES = """
told = {}
for n in ("meminfo", "stat", "cpuinfo", "swaps"):
    with open("/proc/" + n) as file:
        told[n] = file.read()
    told["write " + n] = attempt(lambda: os.close(os.open("/proc/" + n, os.O_WRONLY)))
    told["lease " + n] = attempt(lambda: lease("/proc/" + n))
tell(told)
"""
LEASE = """
import fcntl
def lease(path):
    with open(path) as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
"""


@falls_without(
    "sizes of its own in proc",
    Removal("room/procfs.py", 'OWN_FILES = ("meminfo", "cpuinfo", "stat", "swaps")', "OWN_FILES = ()"),
)
async def test_memory_and_cpu_time_of_the_host_are_hidden(fresh: Open, attack: Attack) -> None:
    async with fresh(Spec(memory=64 * MIB, cpus=0.5, root=True)) as desk:
        for user in ("user", "root"):
            told = await attack(desk, LEASE + SIZES, user=user)
            assert told["meminfo"].split()[1] == str(64 << 10)
            assert (told["stat"].count("cpu"), told["cpuinfo"].count("processor")) == (2, 1)
            assert int(told["stat"].split()[1]) < 60 * os.sysconf("SC_CLK_TCK") < host_cpu_time()
            assert told["swaps"].count("\n") == 1
            refused = {value for name, value in told.items() if " " in name}
            assert refused <= {"EROFS", "EACCES", "EAGAIN"}, "no desk holds up whoever writes these files"


def host_cpu_time() -> int:
    return sum(map(int, Path("/proc/stat").read_text().split()[1:9]))


@falls_without(
    "masks over proc",
    Removal("container/bundle.py", "if name in room.hidden or name in STEADY_FILES:", 'if name == "cmdline":'),
)
async def test_proc_tells_nothing_of_the_host(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, PROC, files=EMPTY, folders=EMPTY_FOLDERS)
    assert {name: size for name, size in told["files"].items() if size} == {}
    assert {"cmdline", "diskstats", "iomem", "locks"} <= set(told["files"])


@falls_without("masks over proc")
async def test_folders_of_proc_that_describe_the_host_are_empty(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, PROC, files=[], folders=EMPTY_FOLDERS)
    assert {name: found for name, found in told["folders"].items() if found} == {}
    assert "pressure" in told["folders"] or not Path("/proc/pressure").exists()


@falls_without("masks over proc")
async def test_the_hosts_load_is_hidden(desk: Desk, attack: Attack) -> None:
    assert (await attack(desk, PROC, files=[], folders=[]))["load"] == "0.00 0.00 0.00 1/1 1\n"


@falls_without(
    "a boot id of its own",
    Removal(
        "container/bundle.py",
        'mount("/proc/sys/kernel/random/boot_id", "bind", f"{room.proc}/boot_id",',
        'mount("/proc/sys/kernel/random/uuid", "bind", f"{room.proc}/boot_id",',
    ),
)
async def test_each_desk_has_its_own_boot_id(desk: Desk, neighbour: Desk, attack: Attack) -> None:
    told, other = [await attack(each, PROC, files=[], folders=[]) for each in (desk, neighbour)]
    assert len({told["boot"], other["boot"], Path("/proc/sys/kernel/random/boot_id").read_text()}) == 3
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n", told["boot"])


@falls_without(
    "a name of its own",
    WALLS_UNPROVEN,
    Removal(
        "container/bundle.py",
        'for kind in ("pid", "ipc", "uts", "mount", "cgroup"))',
        'for kind in ("pid", "ipc", "mount", "cgroup"))',
    ),
    Removal("container/bundle.py", '        "hostname": room.desk[:12],\n', ""),
)
@falls_without(
    "a machine id of its own",
    Removal("room/identity.py", 'f"{os.urandom(16).hex()}\\n".encode()', 'f"{bytes(16).hex()}\\n".encode()'),
)
async def test_each_desk_has_its_own_machine_id_and_host_name(desk: Desk, neighbour: Desk, attack: Attack) -> None:
    told, other = [await attack(each, PROC, files=[], folders=[]) for each in (desk, neighbour)]
    assert len({told["machine"], other["machine"]}) == 2
    assert len({told["host"], other["host"], os.uname().nodename + "\n"}) == 3


@falls_without("a cgroup namespace")
@falls_without(
    "relative names of layers", Removal("room/rootfs.py", "lowers.append(at.name)", "lowers.append(str(at))")
)
async def test_mounts_and_cgroups_show_no_path_of_the_host(desk: Desk, attack: Attack, settings: Config) -> None:
    told = await attack(desk, PROC, files=[], folders=[])
    paths = [str(settings.run), str(settings.lib), str(settings.images), desk.id, "/tmp", "/var", "hotdesk-", "btrfs"]
    shown = told["mounts"] + told["cgroup"]
    assert [path for path in paths if path in shown] == []


@falls_without(
    "an empty environment",
    Removal("keeper/program.py", '            {"PATH": os.defpath},\n', "            dict(os.environ),\n"),
)
async def test_no_environment_variable_of_the_host_is_in_a_desk(
    desk: Desk, attack: Attack, settings: Config, init: Init
) -> None:
    told = await attack(desk, PROC, files=[], folders=[])
    standard = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "SHELL", *door_files.build_closed_environment()}
    assert set(told["environ"]) - standard <= {"HOTDESK_PROCESS", "PWD", "LC_CTYPE"}
    assert door_files.build_closed_environment().items() <= told["environ"].items()
    first = Path(f"/proc/{init(settings, desk)}/environ").read_bytes().split(b"\0")
    assert {pair.partition(b"=")[0].decode() for pair in first if pair} == standard
    keeper = parent(init(settings, desk))
    kept = Path(f"/proc/{keeper}/environ").read_bytes().split(b"\0")
    assert {pair.partition(b"=")[0] for pair in kept if pair} == {b"PATH"}


def parent(pid: int) -> int:
    """Return a process's parent; for a desk's first process this is its keeper."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@falls_without("a sys of its own")
async def test_files_with_kernel_secrets_cannot_be_read(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, SECRETS)
    assert set(told.pop("addresses")) == {"0"}
    assert set(told.values()) <= {"EACCES", "EPERM", "ENOENT"}, told


@falls_without("a sys of its own")
async def test_sys_is_a_desks_own_and_lists_only_loopback(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, SYS)
    assert told["cards"] == ["lo"]
    assert told["files"] == [
        "/sys/class/net/lo/mtu",
        "/sys/class/net/lo/operstate",
        "/sys/devices/system/cpu/online",
        "/sys/devices/system/cpu/possible",
        "/sys/devices/system/cpu/present",
    ]
    assert told["write"] in ("EROFS", "EACCES")
    assert len(told["mounts"]) == 1
    assert " - tmpfs " in told["mounts"][0]
    assert "ro" in told["mounts"][0].split()[5].split(",")
