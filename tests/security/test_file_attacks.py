"""Attacks through files: no path, link, attribute or kernel file leads out of a desk's root."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.desk.image import image
from hotdesk.desk.seam import Desk, Spec
from tests.security.conftest import Attack, Open, Rows
from tests.security.guards import WALLS_UNPROVEN, Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

CLIMB = """
told = {}
with open("/proc/self/mountinfo") as file:
    mounts = {line.split()[4] for line in file}
for at in ("/", "/proc", "/dev", "/sys", "/run/hotdesk", "/proc/bus", "/proc/self/cwd", "/dev/shm", "/proc/self/root"):
    fd = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(20):
        fd = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
    told[at] = [os.fstat(fd).st_ino == os.stat("/").st_ino, sorted(os.listdir(fd)) == sorted(os.listdir("/"))]
for at in mounts:
    told["below " + at] = [not os.path.exists(at + given["marker"]), True]
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
NAMES: Rows = {
    "a link to a file of the host": ("through(link_to(M))", "ENOENT"),
    "a link with many dots": ("through(link_to('../' * 40 + M[1:]))", "ENOENT"),
    "a link through the first process": ("through(link_to('/proc/1/root' + M))", "EACCES"),
    "a link through one's own root": ("through(link_to('/proc/self/root' + M))", "ENOENT"),
    "a link through one's own folder": ("through(link_to('/proc/self/cwd/' + '../' * 20 + M[1:]))", "ENOENT"),
    "the roots of all processes": ("sorted({peek('/proc/%s/root%s' % (n, M)) for n in pids()})", ["EACCES", "ENOENT"]),
    "a folder moved while one stands in it": ("moved()", ["ENOENT", True]),
    "openat2 without limits": ("openat2(M, 0)", "ENOENT"),
    "openat2 from an open folder": ("openat2('../' * 20 + M[1:], 0, os.open('/dev', os.O_RDONLY))", "ENOENT"),
    "a hard link to a file of the image": ("link('/etc/shadow')", "EPERM"),
    "a hard link to a device": ("link('/dev/null') in ('EXDEV', 'EROFS')", True),
    "a hard link to the link's socket": ("link('/run/hotdesk/link.sock') in ('EXDEV', 'EROFS')", True),
    "a hard link to a kernel file": ("link('/proc/self/status')", "EXDEV"),
    "a hard link by descriptor": ("link_fd(os.open('/etc/passwd', os.O_RDONLY))", "EPERM"),
    "a hard link to nobody's file": ("link_fd(os.memfd_create('x')) in ('EXDEV', 'ENOENT')", True),
    "shadow": ("peek('/etc/shadow')", "EACCES"),
}
MARKS: Rows = {
    "a redirect of overlay's": ("mark('trusted.overlay.redirect', b'/root')", "EPERM"),
    "an opaque mark of overlay's": ("mark('trusted.overlay.opaque', b'y')", "EPERM"),
    "a redirect of a user's overlay": ("(mark('user.overlay.redirect', b'/root'), os.listdir(AT))[1]", []),
    "an opaque mark on a folder of the image": ("attempt(os.setxattr, '/usr', 'user.overlay.opaque', b'y')", "EACCES"),
    "a capability on a program": ("mark('security.capability', CAPABLE)", "EPERM"),
    "a whiteout left by a rename": ("rename('a', 'b', 4) in ('EINVAL', 'EPERM')", True),
    "a file nobody can remove": ("flags(0x10)", "EPERM"),
    "a file that only grows": ("flags(0x20)", "EPERM"),
    "a subvolume": ("ioctl(0x5000940e, bytes(4096))", "ENOTTY"),
    "a snapshot removed": ("ioctl(0x5000940f, bytes(4096))", "ENOTTY"),
    "a quota lifted": ("ioctl(0x8030942b, bytes(48))", "ENOTTY"),
    "a file system frozen": ("ioctl(0xc0045877, bytes(4))", "EPERM"),
    "a file system trimmed": ("ioctl(0xc0185879, bytes(24)) in ('ENOTTY', 'EPERM', 'EOPNOTSUPP')", True),
}
ROWS: Rows = NAMES | MARKS
TOOLS = """
M = given["marker"]
AT = "/tmp/over%d" % os.getpid()
CAPABLE = struct.pack("<5I", 0x02000001, 1, 0, 1, 0)

def peek(path):
    return attempt(lambda: os.close(os.open(path, os.O_RDONLY)))

def pids():
    return [n for n in os.listdir("/proc") if n.isdigit()]

def fresh():
    return "/tmp/fresh%d-%d" % (os.getpid(), time.monotonic_ns())

def link_to(target):
    path = fresh()
    os.symlink(target, path)
    return path

def through(path):
    return peek(path)

def moved():
    inner, outer = fresh() + "/a/b", fresh()
    os.makedirs(inner)
    fd = os.open(inner, os.O_RDONLY)
    os.rename(inner, outer)
    for _ in range(30):
        fd = os.open("..", os.O_RDONLY, dir_fd=fd)
    return [attempt(os.stat, M[1:], dir_fd=fd), os.fstat(fd).st_ino == os.stat("/").st_ino]

def openat2(path, resolve, fd=-100):
    return call("openat2", fd, path.encode(), struct.pack("QQQ", os.O_RDONLY, 0, resolve), 24)

def link(source):
    return attempt(os.link, source, fresh())

def link_fd(fd):
    return call("linkat", -100, b"/proc/self/fd/%d" % fd, -100, fresh().encode(), 0x400)

def mark(key, value):
    os.makedirs(AT, exist_ok=True)
    return attempt(os.setxattr, AT, key, value)

def rename(a, b, how):
    os.makedirs(AT, exist_ok=True)
    os.chdir(AT)
    open(a, "w").close()
    return call("renameat2", -100, a.encode(), -100, b.encode(), how)

def flags(bits):
    fd = os.open(fresh(), os.O_CREAT | os.O_RDWR)
    return attempt(fcntl.ioctl, fd, 0x40086602, struct.pack("l", bits))

def ioctl(number, value):
    return attempt(fcntl.ioctl, os.open("/tmp", os.O_RDONLY), number, bytearray(value))
"""
READ_ONLY = """
tell({at: attempt(lambda: os.close(os.open(at + "/new", os.O_CREAT | os.O_WRONLY))) for at in
      ("/run/hotdesk", "/run/hotdesk/lib", "/dev", "/sys", "/proc", "/proc/bus", "/", "/usr/bin", "/etc",
       "/root", "/run")})
"""


@falls_without(
    "no folder of the host among the mounts",
    Removal("container/bundle.py", 'mount("/sys", "bind", room.sys, "bind",', 'mount("/sys", "bind", "/", "bind",'),
)
async def test_no_path_climbs_out_of_a_desk(desk: Desk, attack: Attack, home: Path) -> None:
    told = await attack(desk, CLIMB, marker=str(home))
    assert home.exists()
    assert {at: answer for at, answer in told.items() if answer != [True, True]} == {}


@falls_without(
    "an ordinary user",
    Removal("linux/uids.py", "USER = 1000\n", "USER = 0\n"),
    Removal("linux/uids.py", 'f"0 {base} {USER + 1}\\n{added}', 'f"0 {base} 1001\\n{added}'),
)
async def test_no_program_outside_the_desk_can_be_overwritten(desk: Desk, attack: Attack, settings: Config) -> None:
    watched = [
        Path(str(shutil.which(settings.runtime))),
        image.find(settings.images, "base").layers[-1] / "usr/bin/env",
    ]
    before = [hashlib.sha256(path.read_bytes()).digest() for path in watched]
    told = await attack(desk, OVERWRITE)
    assert set(told.values()) <= {"EACCES", "EROFS", "ETXTBSY"}, told
    assert [hashlib.sha256(path.read_bytes()).digest() for path in watched] == before


@falls_without(
    "a read-only proc/sys", Removal("container/bundle.py", '"readonlyPaths": ["/proc/sys"],', '"readonlyPaths": [],')
)
async def test_no_kernel_file_can_be_written(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, KERNEL_FILES)
    assert set(told.values()) <= {"EROFS", "EACCES", "EPERM", "ENOENT"}, told
    assert told["/proc/sysrq-trigger"] in ("EACCES", "ENOENT")
    assert told["/proc/sys/kernel/core_pattern"] in ("EROFS", "EACCES")


@falls_without("a read-only proc/sys")
async def test_proc_sys_is_read_only_for_every_user(desk: Desk, attack: Attack) -> None:
    flags = await attack(
        desk, "tell([l.split()[5] for l in open('/proc/self/mountinfo') if l.split()[4] == '/proc/sys'][0].split(','))"
    )
    assert "ro" in flags


@falls_without(
    "a cgroup namespace",
    WALLS_UNPROVEN,
    Removal(
        "container/bundle.py",
        'for kind in ("pid", "ipc", "uts", "mount", "cgroup"))',
        'for kind in ("pid", "ipc", "uts", "mount"))',
    ),
)
@falls_without(
    "a sys of its own",
    Removal("container/bundle.py", 'mount("/sys", "bind", room.sys, "bind",', 'mount("/sys", "bind", "/sys", "bind",'),
)
async def test_there_is_no_cgroup_to_set_a_release_agent_in(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, CGROUPS)
    assert not {"cgroup", "cgroup2", "sysfs", "devtmpfs", "securityfs", "debugfs", "bpf"} & set(told["kinds"])
    assert told["places"] == ["/"]
    assert (told["make"], told["mount"]) == ("EROFS", "EPERM")
    assert told["found"] == []


@falls_without("an ordinary user", cases="a hard link to a file of the image | a hard link by descriptor | shadow")
@falls_without("a first process that hides", cases="a link through the first process | the roots of all processes")
@no_guard(
    "the runtime pivots into the desk's root, and the kernel resolves every name there: no text of ours to remove",
    cases="""
    a link to a file of the host | a link with many dots | a link through one's own root |
    a link through one's own folder | a folder moved while one stands in it | openat2 without limits |
    openat2 from an open folder
    """,
)
@no_guard(
    "the kernel links nothing across mounts, and every one of these is a mount of its own",
    cases="""
    a hard link to a device | a hard link to the link's socket | a hard link to a kernel file |
    a hard link to nobody's file
    """,
)
@pytest.mark.parametrize("what", NAMES)
async def test_no_name_or_link_reaches_a_file_outside(answers: dict[str, object], what: str) -> None:
    assert answers[what] == NAMES[what][1]


@falls_without("no capability", cases="a capability on a program")
@falls_without("an ordinary user", cases="an opaque mark on a folder of the image")
@no_guard(
    "the kernel wants a capability over the host's own user namespace before it looks at anything",
    cases="""
    a redirect of overlay's | an opaque mark of overlay's | a file nobody can remove | a file that only grows |
    a file system frozen
    """,
)
@no_guard(
    "overlayfs itself refuses it, or passes no such order on to the disk below",
    cases="""
    a redirect of a user's overlay | a whiteout left by a rename | a subvolume | a snapshot removed |
    a quota lifted | a file system trimmed
    """,
)
@pytest.mark.parametrize("what", MARKS)
async def test_no_attribute_or_ioctl_changes_the_file_system(answers: dict[str, object], what: str) -> None:
    assert answers[what] == MARKS[what][1]


@falls_without(
    "a layer each",
    Removal(
        "room/btrfs.py",
        "            fcntl.ioctl(root, SUBVOL_CREATE, bytearray(struct.pack",
        '            if (self.mounted / "shared").exists():\n'
        '                return self.mounted / "shared"\n'
        '            desk = "shared"\n'
        "            fcntl.ioctl(root, SUBVOL_CREATE, bytearray(struct.pack",
    ),
    Removal(
        "room/rootfs.py",
        "            upper.mkdir(mode=0o755)\n",
        "            upper.mkdir(mode=0o755, exist_ok=True)\n",
    ),
    Removal("room/rootfs.py", '            remove(fd, b"work")', "            pass"),
    Removal("room/rootfs.py", "        work.mkdir(mode=0o700)\n", "        work.mkdir(mode=0o700, exist_ok=True)\n"),
)
async def test_changes_to_image_files_are_gone_with_the_desk(fresh: Open, neighbour: Desk) -> None:
    async with fresh(Spec()) as desk:
        await desk.run(
            ["sh", "-c", "echo 66 >>~/.profile; rm -f ~/.bashrc; mkdir -p ~/.local/bin; echo mine >/tmp/left"]
        )
        left = ["sh", "-c", "grep -q 66 ~/.profile || test -e /tmp/left -o ! -e ~/.bashrc"]
        assert not (await neighbour.run(left)).ok
    async with fresh(Spec()) as again:
        assert not (await again.run(left)).ok


@falls_without("an ordinary user")
@falls_without("a read-only folder for the link")
async def test_the_folders_made_by_the_keeper_are_read_only(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, READ_ONLY)
    assert {told[at] for at in ("/run/hotdesk", "/run/hotdesk/lib", "/dev", "/sys")} == {"EROFS"}
    assert set(told.values()) <= {"EROFS", "EACCES", "ENOENT"}


@falls_without(
    "closed folders",
    Removal("keeper/state.py", '(config.run / "runtime", 0o700)', '(config.run / "runtime", 0o755)'),
    Removal("keeper/state.py", "fresh.mkdir(mode=0o700)", "fresh.mkdir(mode=0o755)"),
)
async def test_other_users_of_the_host_cannot_enter_desk_folders_or_stores(desk: Desk, settings: Config) -> None:
    closed = [settings.images, settings.run / "desks" / desk.id, settings.run / "runtime", settings.run / "pool"]
    assert [str(at) for at in closed if at.exists() and at.stat().st_mode & 0o077] == []
    assert desk.id not in Path("/proc/self/mountinfo").read_text()
    assert list((settings.run / "private").iterdir()) == []
    assert oct((settings.run).stat().st_mode & 0o777) == oct(0o711)
    assert os.stat(settings.run).st_uid == 0
