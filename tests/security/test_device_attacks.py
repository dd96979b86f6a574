"""Attacks with devices and descriptors: nothing done to a desk's reaches the host's or another desk's."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.image import image
from hotdesk.desk.seam import Desk, Spec
from hotdesk.linux.cgroup import Cgroup, find_hierarchies
from tests.security.conftest import Attack, Craft, Init, Launch, Open, Owning
from tests.security.guards import ALL_CAPABILITIES, Removal, falls_without

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

NODES = ("null", "zero", "full", "random", "urandom", "tty")
OWN_CAPABILITIES = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0)
"""A `security.capability` attribute of version 2: all capabilities, effective."""
CHANGE = """
told = {}
for n in given["nodes"]:
    path = "/dev/" + n
    told[n] = [attempt(os.chmod, path, 0o777), attempt(os.chown, path, 1000, 1000), attempt(os.utime, path),
               attempt(os.unlink, path), attempt(os.rename, path, "/dev/x")]
fd = os.open("/dev/null", os.O_RDWR)
told["open"] = [attempt(os.fchmod, fd, 0), attempt(os.fchown, fd, 1000, 1000)]
for fd in range(3):
    told[str(fd)] = [attempt(os.fchmod, fd, 0o777), attempt(os.fchown, fd, 1000, 1000)]
told["make"] = attempt(os.mknod, "/dev/mine", 0o644)
tell(told)
"""
NUMBERS = """
tell({n: [os.stat("/dev/" + n).st_dev, os.stat("/dev/" + n).st_ino] for n in given["nodes"]})
"""
LOCK = """
for n in given["nodes"]:
    fd = os.open("/dev/" + n, os.O_RDONLY | os.O_NONBLOCK) if n != "tty" else os.open("/dev/tty", os.O_PATH)
    if n != "tty":
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
tell("locked")
time.sleep(30)
"""
TRY_LOCK = """
told = {}
for n in given["nodes"]:
    if n != "tty":
        told[n] = attempt(fcntl.flock, os.open("/dev/" + n, os.O_RDONLY | os.O_NONBLOCK), fcntl.LOCK_EX | fcntl.LOCK_NB)
tell(told)
"""
WATCH = """
fd = libc.inotify_init1(os.O_NONBLOCK)
for n in given["nodes"]:
    assert libc.inotify_add_watch(fd, ("/dev/" + n).encode(), 0x3b) >= 0
time.sleep(1.5)
try:
    foreign = len(os.read(fd, 65536)) // 16
except BlockingIOError:
    foreign = 0
open("/dev/null").close()
tell({"foreign": foreign, "own": len(os.read(fd, 65536)) // 16})
"""
TERMINALS = """
kept, why = [], ""
while len(kept) < 300:
    try:
        kept.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    except OSError as e:
        why = name(e.errno)
        break
tell([len(kept), why])
time.sleep(given["seconds"])
"""
MOUNTS = """
with open("/proc/self/mountinfo") as file:
    tell([[line.split()[4], line.split()[5].split(",")] for line in file])
"""
EVIL_LAYER = """
told = {n: attempt(lambda: os.close(os.open("/evil/" + n, os.O_RDWR | os.O_NONBLOCK))) for n in given["nodes"]}
for n in ("setuid", "capable"):
    told[n] = os.popen("/evil/%s /proc/self/status | grep -E '^(Uid|CapEff)'" % n).read().split()
tell(told)
"""


def host_nodes() -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name in NODES:
        info = os.stat(f"/dev/{name}")
        found[name] = (info.st_mode, info.st_uid, info.st_gid, info.st_ino, info.st_dev)
    return found


@falls_without(
    "read-only devices",
    Removal(
        "container/bundle.py", 'room.dev, "bind", "ro", "nosuid", "noexec")', 'room.dev, "bind", "nosuid", "noexec")'
    ),
)
@falls_without(
    "pipes for the runtime",
    Removal(
        "container/crun.py",
        "(console_r, console_w) = syscalls.make_two_pipes()\n",
        '(console_r, console_w) = syscalls.make_two_pipes()\n    console_w = os.open("/tmp", os.O_TMPFILE | '
        "os.O_RDWR)\n",
    ),
)
async def test_changing_devices_or_descriptors_does_not_reach_the_hosts(
    fresh: Open, attack: Attack, settings: Config, init: Init
) -> None:
    before = host_nodes()
    async with fresh(Spec()) as desk:  # crun itself gives away its standard streams when it starts one
        told = await attack(desk, CHANGE, nodes=NODES)
        streams = [os.readlink(f"/proc/{init(settings, desk)}/fd/{number}") for number in range(3)]
    assert host_nodes() == before
    assert [name for name in streams if not name.startswith("pipe:")] == []
    assert {answer for name in NODES for answer in told[name]} <= {"EROFS", "EPERM"}
    assert set(told["open"]) <= {"EROFS", "EPERM"}
    assert told["make"] == "EROFS"


@falls_without(
    "device nodes of its own",
    Removal("container/bundle.py", 'mount("/dev", "bind", room.dev, "bind",', 'mount("/dev", "bind", "/dev", "bind",'),
)
async def test_device_nodes_are_another_inode_in_every_desk(desk: Desk, neighbour: Desk, attack: Attack) -> None:
    mine, theirs = [await attack(each, NUMBERS, nodes=NODES) for each in (desk, neighbour)]
    for name, (*_, inode, device) in host_nodes().items():
        places = {tuple(mine[name]), tuple(theirs[name]), (device, inode)}
        assert len(places) == 3, name


@falls_without("device nodes of its own")
async def test_a_lock_on_a_device_does_not_affect_other_desks(
    desk: Desk, neighbour: Desk, attack: Attack, launch: Launch
) -> None:
    process, _ = await launch(desk, LOCK, nodes=NODES)
    try:
        assert set((await attack(desk, TRY_LOCK, nodes=NODES)).values()) == {"EAGAIN"}
        assert set((await attack(neighbour, TRY_LOCK, nodes=NODES)).values()) == {"done"}
        for name in NODES[:-1]:
            fd = os.open(f"/dev/{name}", os.O_RDONLY)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(fd)
    finally:
        await process.kill()


@falls_without("device nodes of its own")
async def test_a_watch_on_a_device_sees_no_other_desk(desk: Desk, neighbour: Desk, attack: Attack) -> None:
    told: dict[str, int] = {}

    async def watch() -> None:
        told.update(await attack(desk, WATCH, nodes=NODES))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await anyio.sleep(0.5)
        for name in NODES[:-1]:
            fd = os.open(f"/dev/{name}", os.O_RDONLY)
            os.read(fd, 1)
            os.close(fd)
        await neighbour.run(["sh", "-c", "cat /dev/null; head -c1 /dev/urandom; head -c1 /dev/zero"])
    assert told["foreign"] == 0
    assert told["own"] > 0


@falls_without(
    "so many terminals", Removal("container/bundle.py", '            "max=64",\n', '            "max=128",\n')
)
async def test_a_desk_cannot_use_up_the_hosts_terminals_or_aio_slots(
    desk: Desk, neighbour: Desk, attack: Attack, launch: Launch
) -> None:
    before = [int(Path(f"/proc/sys/{name}").read_text()) for name in ("kernel/pty/nr", "fs/aio-nr")]
    process, told = await launch(desk, TERMINALS, seconds=30)
    try:
        after = [int(Path(f"/proc/sys/{name}").read_text()) for name in ("kernel/pty/nr", "fs/aio-nr")]
        assert told == [64, "ENOSPC"]
        assert after[0] - before[0] <= 64 + 8
        assert after[1] <= before[1]
        assert await attack(neighbour, TERMINALS, seconds=0) == [64, "ENOSPC"]
        master, slave = os.openpty()
        os.close(master)
        os.close(slave)
    finally:
        await process.kill()


@falls_without("pipes for the runtime")
async def test_no_descriptor_in_a_desk_is_a_file_of_the_host(
    desk: Desk, launch: Launch, settings: Config, init: Init
) -> None:
    process, _ = await launch(desk, "open('/tmp/mine', 'w')\ntell(1)\ntime.sleep(30)")
    try:
        first = init(settings, desk)
        mounts = {line.split()[0] for line in Path(f"/proc/{first}/mountinfo").read_text().splitlines()}
        procs = [str(pid) for pid in Cgroup(find_hierarchies(), desk.id).list_pids()]
        assert len(procs) > 1
        foreign = [what for pid in procs for what in foreign_files(pid, mounts)]
        assert foreign == []
    finally:
        await process.kill()


def foreign_files(pid: str, mounts: set[str]) -> list[str]:
    """List the files a process has open, executes or has as a directory that are not on a mount of its desk."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        kind = stat.S_IFMT(os.stat(f"/proc/{pid}/fd/{name}").st_mode)
        target = os.readlink(f"/proc/{pid}/fd/{name}")
        if kind in (stat.S_IFIFO, stat.S_IFSOCK) or target.startswith("anon_inode:"):
            continue
        info = Path(f"/proc/{pid}/fdinfo/{name}").read_text()
        if info.partition("mnt_id:")[2].split()[0] not in mounts:
            found.append(f"{pid}/{name} {target}")
    root = os.stat(f"/proc/{pid}/root")
    if (root.st_dev, root.st_ino) == (os.stat("/").st_dev, os.stat("/").st_ino):
        found.append(f"{pid} stands in the host's root")
    return found


@falls_without(
    "no new privileges, by any mount",
    *ALL_CAPABILITIES,
    Removal("container/bundle.py", '"noNewPrivileges": True,', '"noNewPrivileges": False,'),
    Removal("linux/syscalls.py", "attributes | ATTR_NOSUID | ATTR_NODEV | ATTR_IDMAP, 0", "attributes | ATTR_IDMAP, 0"),
    Removal("room/rootfs.py", '"overlay", syscalls.MS_NODEV | syscalls.MS_NOSUID, options)', '"overlay", 0, options)'),
)
@falls_without("read-only devices")
@falls_without(
    "mounts without devices and setuid",
    Removal("container/bundle.py", 'plain = ["nosuid", "nodev"]', "plain = list[str]()"),
)
async def test_only_dev_may_hold_devices_and_no_mount_honours_setuid(desk: Desk, attack: Attack) -> None:
    mounts = [(at, flags) for at, flags in await attack(desk, MOUNTS) if not at.startswith("/proc/")]
    assert [at for at, flags in mounts if "nosuid" not in flags] == []
    assert sorted(at for at, flags in mounts if "nodev" not in flags) == ["/dev", "/dev/pts"]
    assert {at for at, flags in mounts if "ro" in flags} == {"/dev", "/sys", "/run/hotdesk"}


@falls_without("mounts without devices and setuid")
@falls_without("masks over proc")
async def test_the_covers_of_proc_are_read_only_without_devices_or_setuid(desk: Desk, attack: Attack) -> None:
    covers = [(at, flags) for at, flags in await attack(desk, MOUNTS) if at.startswith("/proc/")]
    assert len(covers) > 10
    wanted = {"ro", "nosuid", "nodev", "noexec"}
    # crun binds /proc/sys, and the cover in it, once more to make it read-only: proc holds no program and no device
    beneath = [at for at, _ in covers if at.startswith("/proc/sys")]
    assert [at for at, flags in covers if at not in beneath and not wanted <= set(flags)] == []
    for name in ("kernel/hostname", "kernel/random/boot_id", "net/ipv4/ip_forward"):
        assert not (await desk.run(["sh", "-c", f"echo 1 > /proc/sys/{name}"])).ok


@pytest.fixture
async def evil(settings: Config, crafted: Craft, owning: Owning) -> AsyncIterator[Desk]:
    base = image.find(settings.images, "base")

    def fill(layer: Path) -> None:
        (layer / "evil").mkdir()
        for name, number in {"null": (1, 3), "mem": (1, 1), "fuse": (10, 229), "kmsg": (1, 11)}.items():
            os.mknod(layer / "evil" / name, stat.S_IFCHR | 0o666, os.makedev(*number))
            os.chmod(layer / "evil" / name, 0o666)  # noqa: S103 - an attack
        os.mknod(layer / "evil/disk", stat.S_IFBLK | 0o666, os.stat("/").st_dev)
        os.chmod(layer / "evil/disk", 0o666)  # noqa: S103 - an attack
        for name in ("setuid", "capable"):
            shutil.copy(base.layers[-1] / "usr/bin/cat", layer / "evil" / name)
        os.chmod(layer / "evil/setuid", 0o6755)  # noqa: S103 - an attack
        os.setxattr(layer / "evil/capable", "security.capability", OWN_CAPABILITIES)

    async with owning(crafted("evil", fill)) as runtime:
        yield await runtime.open(Spec(image="evil"))


@falls_without("no new privileges, by any mount")
async def test_devices_in_an_image_cannot_be_opened(evil: Desk, attack: Attack) -> None:
    nodes = ["null", "mem", "fuse", "kmsg", "disk"]
    told = await attack(evil, EVIL_LAYER, nodes=nodes)
    assert {name: told[name] for name in nodes} == dict.fromkeys(nodes, "EACCES")


@falls_without("no new privileges, by any mount")
async def test_a_setuid_or_capable_program_in_an_image_gains_no_rights(evil: Desk, attack: Attack) -> None:
    told = await attack(evil, EVIL_LAYER, nodes=[])
    plain = ["Uid:", *["1000"] * 4, "CapEff:", "0" * 16]
    assert told == {"setuid": plain, "capable": plain}


@falls_without("a device cgroup", Removal("linux/cgroup.py", '        self.put("devices", "devices.deny", "a")\n', ""))
async def test_only_the_desks_own_devices_are_allowed(desk: Desk) -> None:
    cgroup = Cgroup(find_hierarchies(), desk.id)
    if cgroup.version == 2:  # the rules cannot be read, so root itself tries from within the cgroup
        assert open_devices(cgroup) == {path: "opened" if path == "/dev/null" else "EPERM" for path in existing()}
        return
    allowed = {
        line.rpartition(" ")[0] for line in (cgroup.get_folder("devices") / "devices.list").read_text().splitlines()
    }
    assert allowed == {"c 1:3", "c 1:5", "c 1:7", "c 1:8", "c 1:9", "c 5:0", "c 5:2", "c 136:*"}


def existing() -> list[str]:
    """List devices of this machine that root may open; there are some besides the first."""
    found = [path for path in ("/dev/null", "/dev/kmsg", "/dev/loop-control", "/dev/fuse") if Path(path).exists()]
    assert len(found) > 1
    return found


def open_devices(cgroup: Cgroup) -> dict[str, str]:
    """Open devices from a process of root's in a cgroup; return the outcome of each."""
    program = (
        "import errno, os, sys\n"
        "for path in sys.argv[1:]:\n"
        "    try: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)); print('opened')\n"
        "    except OSError as e: print(errno.errorcode[e.errno])\n"
    )
    argv = [sys.executable, "-I", "-c", program, *existing()]
    done = subprocess.run(argv, preexec_fn=cgroup.join, capture_output=True, text=True, check=True, timeout=60)
    return dict(zip(existing(), done.stdout.split(), strict=True))
