"""A desk's files end at its own root: no path, link, attribute or kernel file leads out of it."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hotdesk.config import Config
from hotdesk.desk import image
from hotdesk.desk.seam import Desk

Attack = Callable[..., Awaitable[Any]]
Init = Callable[[Config, Desk], int]

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

CLIMB = """
home = os.open("/run/hotdesk", os.O_RDONLY)
told = {}
for at in ("/", "/proc", "/dev", "/sys", "/run/hotdesk", "/proc/bus", "/proc/self/cwd", "/dev/shm", "/proc/self/root"):
    fd = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(20):
        fd = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
    told[at] = [os.fstat(fd).st_ino == os.stat("/").st_ino, sorted(os.listdir(fd)) == sorted(os.listdir("/"))]
told["marker"] = [not os.path.exists(given["marker"]), not os.path.exists("/proc/1/root" + given["marker"])]
for pid in [n for n in os.listdir("/proc") if n.isdigit()]:
    told["root of " + pid] = [not os.path.exists("/proc/%s/root%s" % (pid, given["marker"])), True]
tell(told)
"""
OVERWRITE = """
def grab(path):
    return attempt(lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)))

told = {path: grab(path) for path in ("/proc/1/exe", "/proc/self/exe", os.path.realpath(sys.executable), "/etc/passwd",
        "/usr/bin/env", "/run/hotdesk/lib/hotdesk_guest/agent.py", "/run/hotdesk/lib/hotdesk_guest/agent.pyc")}
told = {path: answer for path, answer in told.items() if answer != "ENOENT"}
fd = os.open("/proc/self/exe", os.O_RDONLY)
told["again"] = grab("/proc/self/fd/%d" % fd)
tell(told)
"""
KERNEL_FILES = """
def write(path):
    return attempt(lambda: os.close(os.open(path, os.O_WRONLY)))

paths = ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
         "/proc/sys/kernel/hostname",
         "/proc/sys/kernel/randomize_va_space", "/proc/sys/vm/drop_caches", "/proc/sys/vm/panic_on_oom",
         "/proc/sys/fs/protected_hardlinks", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/ping_group_range",
         "/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/random/boot_id", "/proc/loadavg", "/proc/cmdline",
         "/proc/kcore", "/proc/kmsg", "/proc/kpageflags", "/sys/class/net/lo/mtu",
         "/proc/self/ns/net"]
told = {path: write(path) for path in paths}
told["proc/sys/fs/binfmt_misc"] = write("/proc/sys/fs/binfmt_misc/register")
tell(told)
"""
CGROUPS = """
with open("/proc/self/mountinfo") as file:
    kinds = {line.split(" - ")[1].split()[0] for line in file}
with open("/proc/self/cgroup") as file:
    places = {line.rstrip().split(":", 2)[2] for line in file}
found = os.popen("find / -name release_agent -o -name cgroup.procs 2>/dev/null").read().split()
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
ctypes.set_errno(0)
tell({"kinds": sorted(kinds), "places": sorted(places), "make": attempt(os.mkdir, "/sys/cgroup"),
      "mount": attempt(lambda: check(libc.mount(b"x", b"/tmp", b"cgroup", 0, b"memory"))), "found": found})
"""
ATTRIBUTES = """
os.makedirs("/tmp/over/lay", exist_ok=True)
told = {}
for key, value in (("user.overlay.redirect", b"/root"), ("user.overlay.opaque", b"y"), ("user.overlay.metacopy", b""),
                   ("trusted.overlay.redirect", b"/root"), ("trusted.overlay.opaque", b"y"),
                   ("security.capability", struct.pack("<5I", 0x02000001, 1, 0, 1, 0)), ("security.ima", b"x")):
    told[key] = attempt(os.setxattr, "/tmp/over/lay", key, value)
told["listed"] = os.listdir("/tmp/over/lay")
tell(told)
"""
LINKS = """
def link(source):
    return attempt(os.link, source, "/tmp/link%d" % time.monotonic_ns())

os.symlink("/etc/shadow", "/tmp/shadow%d" % os.getpid())
tell({"shadow": link("/etc/shadow"), "setuid": link("/etc/passwd"), "node": link("/dev/null"),
      "socket": link("/run/hotdesk/link.sock"), "proc": link("/proc/self/status"),
      "into": attempt(os.link, "/tmp/shadow%d" % os.getpid(), "/run/hotdesk/x"),
      "read": attempt(lambda: os.close(os.open("/etc/shadow", os.O_RDONLY)))})
"""
READ_ONLY = """
tell({at: attempt(lambda: os.close(os.open(at + "/new", os.O_CREAT | os.O_WRONLY))) for at in
      ("/run/hotdesk", "/run/hotdesk/lib", "/dev", "/sys", "/proc", "/proc/bus", "/", "/usr/bin", "/etc",
       "/root", "/run")})
"""


async def test_no_path_climbs_out_of_a_desk(desk: Desk, attack: Attack, home: Path) -> None:
    told = await attack(desk, CLIMB, marker=str(home))
    assert home.exists()
    assert {at: answer for at, answer in told.items() if answer != [True, True]} == {}


async def test_no_program_that_runs_outside_or_in_another_desk_can_be_overwritten(
    desk: Desk, neighbour: Desk, attack: Attack, settings: Config
) -> None:
    watched = [
        Path(str(shutil.which(settings.runtime))),
        image.find(settings.images, "base").layers[-1] / "usr/bin/env",
    ]
    before = [hashlib.sha256(path.read_bytes()).digest() for path in watched]
    told = await attack(desk, OVERWRITE)
    assert set(told.values()) <= {"EACCES", "EROFS", "ETXTBSY"}, told
    assert [hashlib.sha256(path.read_bytes()).digest() for path in watched] == before
    await desk.write("/home/user/.profile", b"exit 66\n")
    await desk.write("/tmp/shared", b"mine")
    assert (await neighbour.run(["sh", "-c", "! grep -q 66 ~/.profile && test ! -e /tmp/shared"])).ok


async def test_no_kernel_file_can_be_written(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, KERNEL_FILES)
    assert set(told.values()) <= {"EROFS", "EACCES", "EPERM", "ENOENT"}, told
    assert told["/proc/sysrq-trigger"] in ("EACCES", "ENOENT")
    assert told["/proc/sys/kernel/core_pattern"] in ("EROFS", "EACCES")


async def test_proc_sys_is_read_only_for_every_user(desk: Desk, attack: Attack) -> None:
    flags = await attack(
        desk, "tell([l.split()[5] for l in open('/proc/self/mountinfo') if l.split()[4] == '/proc/sys'][0].split(','))"
    )
    assert "ro" in flags


async def test_there_is_no_cgroup_to_set_a_release_agent_in(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, CGROUPS)
    assert not {"cgroup", "cgroup2", "sysfs", "devtmpfs", "securityfs", "debugfs", "bpf"} & set(told["kinds"])
    assert told["places"] == ["/"]
    assert (told["make"], told["mount"]) == ("EROFS", "EPERM")
    assert told["found"] == []


async def test_overlay_attributes_do_nothing(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, ATTRIBUTES)
    assert told.pop("listed") == []
    kernels_own = {key: answer for key, answer in told.items() if not key.startswith("user.")}
    assert kernels_own == dict.fromkeys(kernels_own, "EPERM")


async def test_links_reach_nothing_new(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, LINKS)
    assert {told["shadow"], told["setuid"]} == {"EPERM"}
    assert {told["node"], told["socket"], told["proc"], told["into"]} <= {"EXDEV", "EROFS"}
    assert told["read"] == "EACCES"


async def test_what_the_keeper_made_cannot_be_added_to(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, READ_ONLY)
    assert {told[at] for at in ("/run/hotdesk", "/run/hotdesk/lib", "/dev", "/sys")} == {"EROFS"}
    assert set(told.values()) <= {"EROFS", "EACCES", "ENOENT"}


async def test_other_users_of_the_host_cannot_enter_rooms_or_stores(desk: Desk, settings: Config) -> None:
    closed = [settings.images, settings.run / "desks" / desk.id, settings.run / "runtime", settings.run / "pool"]
    assert [str(at) for at in closed if at.exists() and at.stat().st_mode & 0o077] == []
    assert desk.id not in Path("/proc/self/mountinfo").read_text()
    assert list((settings.run / "private").iterdir()) == []
    assert oct((settings.run).stat().st_mode & 0o777) == oct(0o711)
    assert os.stat(settings.run).st_uid == 0
