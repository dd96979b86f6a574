"""Attacks by root inside a desk: unprivileged outside, it changes no wall and harms only its own desk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.owner import root as roots
from hotdesk.desk.owner.runtime import KeeperRuntime, container_runtime
from hotdesk.desk.seam import Desk, Done, Process, Spec
from hotdesk.errors import DeskError, DeskGone, HotdeskError, KeeperError, LinkError
from hotdesk.event import Event, RootActEnded, to_json
from hotdesk.linux import uids
from hotdesk.linux.cgroup import Cgroup, find_hierarchies
from tests.origins import WALLED, Origin
from tests.security.guards import CALLS_ALLOWED, FIRST_PROCESS_SHOWN, Removal, falls_without, no_guard

Program = Callable[..., list[str]]
Launch = Callable[..., Awaitable[tuple[Process, Any]]]
Init = Callable[[Config, Desk], int]
Open = Callable[[Spec], AbstractAsyncContextManager[Desk]]

pytestmark = [pytest.mark.container, pytest.mark.timeout(90)]

REFUSED = {"EPERM", "EACCES", "EROFS", "ENOSYS", "EINVAL", "EBUSY", "ENOENT"}
MORE_CALLS = {
    "aarch64": {"init_module": 105, "finit_module": 273, "kexec_load": 104, "swapon": 224, "settimeofday": 170,
                "sethostname": 161, "setdomainname": 162, "acct": 89, "quotactl": 60, "fanotify_init": 262,
                "process_madvise": 440, "pidfd_open": 434, "capset": 91, "renameat2": 276, "mount_setattr": 442},
    "x86_64": {"init_module": 175, "finit_module": 313, "kexec_load": 246, "swapon": 167, "settimeofday": 164,
               "sethostname": 170, "setdomainname": 171, "acct": 163, "quotactl": 179, "fanotify_init": 300,
               "process_madvise": 440, "pidfd_open": 434, "capset": 126, "renameat2": 316, "mount_setattr": 442},
}  # fmt: skip
CALLS = """
given["syscalls"].update(given["more"])
def text(value):
    return ctypes.c_char_p(value)
zero = ctypes.c_char_p(b"\\0" * 64)
told = {
    "mount": call("mount", text(b"none"), text(b"/mnt"), text(b"tmpfs"), 0, text(b"")),
    "mount proc": call("mount", text(b"proc"), text(b"/mnt"), text(b"proc"), 0, text(b"")),
    "bind": call("mount", text(b"/etc"), text(b"/mnt"), text(b""), 4096, text(b"")),
    "remount": call("mount", text(b""), text(b"/run/hotdesk"), text(b""), 4096 | 32, text(b"")),
    "shared": call("mount", text(b""), text(b"/"), text(b""), 1 << 20, text(b"")),
    "umount": call("umount2", text(b"/proc/loadavg"), 2),
    "umount proc": call("umount2", text(b"/proc"), 2),
    "pivot_root": call("pivot_root", text(b"/tmp"), text(b"/tmp")),
    "chroot": call("chroot", text(b"/tmp")),
    "fsopen": call("fsopen", text(b"tmpfs"), 0),
    "open_tree": call("open_tree", -100, text(b"/"), 1),
    "move_mount": call("move_mount", -100, text(b"/proc"), -100, text(b"/mnt"), 0),
    "mount_setattr": call("mount_setattr", -100, text(b"/sys"), 0, zero, 32),
    "unshare user": apart(lambda: call("unshare", 0x10000000)),
    "unshare mount": apart(lambda: call("unshare", 0x20000)),
    "unshare net": apart(lambda: call("unshare", 0x40000000)),
    "clone user": call("clone", 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": call("clone3", zero, 64),
    "bpf": call("bpf", 0, zero, 64),
    "perf": call("perf_event_open", zero, 0, -1, -1, 0),
    "keyctl": call("keyctl", 0, -1, 0),
    "init_module": call("init_module", zero, 64, text(b"")),
    "finit_module": call("finit_module", 0, text(b""), 0),
    "kexec": call("kexec_load", 0, 0, zero, 0),
    "reboot": call("reboot", 0xfee1dead, 672274793, 0, 0),
    "swapon": call("swapon", text(b"/etc/passwd"), 0),
    "clock": call("settimeofday", zero, 0),
    "adjtimex": call("adjtimex", zero),
    "hostname": call("sethostname", text(b"other"), 5),
    "domain": call("setdomainname", text(b"other"), 5),
    "acct": call("acct", text(b"/tmp/acct")),
    "quotactl": call("quotactl", 0, text(b"/"), 0, zero),
    "fanotify": call("fanotify_init", 0, 0),
    "kernel log": call("syslog", 3, zero, 64),
    "clear log": call("syslog", 5, 0, 0),
    "by handle": call("open_by_handle_at", -100, zero, 0),
    "to handle": call("name_to_handle_at", -100, text(b"/"), zero, zero, 0),
    "io_uring": call("io_uring_setup", 8, zero),
    "userfaultfd": call("userfaultfd", 0),
    "trace 1": call("ptrace", 16, 1, 0, 0),
    "seize 1": call("ptrace", 0x4206, 1, 0, 0),
    "read 1": call("process_vm_readv", 1, zero, 1, zero, 1, 0),
    "kcmp 1": call("kcmp", 1, os.getpid(), 0, 0, 0),
    "mlockall": call("mlockall", 1),
}
fd = call("pidfd_open", 1, 0)
told["fd of 1"] = call("pidfd_getfd", fd, 0, 0) if isinstance(fd, int) else fd
for kind in ("mnt", "user", "net", "pid", "ipc", "uts", "cgroup"):
    told["open 1's " + kind] = attempt(lambda: os.close(os.open("/proc/1/ns/" + kind, os.O_RDONLY)))
    own = attempt(os.open, "/proc/self/ns/" + kind, os.O_RDONLY)
    told["enter own " + kind] = apart(lambda: call("setns", own, 0)) if isinstance(own, int) else own
raised = (ctypes.c_uint32 * 6)(*[0xffffffff] * 6)
told["all capabilities"] = apart(lambda: call("capset", (ctypes.c_uint32 * 2)(0x20080522, 0), raised))
tell(told)
"""
KERNEL_FILES = """
def write(path):
    return attempt(lambda: os.close(os.open(path, os.O_WRONLY)))

paths = ["/proc/sysrq-trigger", "/proc/kmsg", "/proc/kcore", "/proc/kpageflags", "/proc/loadavg", "/proc/cmdline",
         "/sys/class/net/lo/mtu", "/dev/kmsg", "/dev/mem", "/proc/timer_list", "/proc/1/mem"]
for folder, _, files in os.walk("/proc/sys"):
    paths += [os.path.join(folder, file) for file in files]
told = {path: write(path) for path in paths}
for path in ("/proc/1/environ", "/proc/1/mem", "/proc/1/maps", "/proc/1/auxv", "/proc/kmsg", "/proc/kcore",
             "/proc/1/stack", "/proc/1/syscall"):
    told["read " + path] = attempt(lambda: open(path, "rb").read(1) and None)
for path in ("/proc/1/root", "/proc/1/cwd", "/proc/1/map_files"):
    told["list " + path] = attempt(os.listdir, path)
for fd in os.listdir("/proc/1/fd"):  # how many there are is no secret
    told["open 1's " + fd] = attempt(lambda: os.close(os.open("/proc/1/fd/" + fd, os.O_RDONLY)))
    told["follow 1's " + fd] = attempt(os.readlink, "/proc/1/fd/" + fd)
for path, text in (("/proc/self/uid_map", "0 0 4294967295"), ("/proc/self/gid_map", "0 0 4294967295"),
                   ("/proc/1/uid_map", "0 0 4294967295"), ("/proc/1/comm", "x"), ("/proc/1/oom_score_adj", "-1000")):
    told[path] = attempt(put, path, text)  # they may be opened
told["devices"] = [name for name in os.listdir("/dev") if stat.S_ISBLK(os.stat("/dev/" + name).st_mode)]
tell(told)
"""
OWN_FOLDER = """
told = {}
for base, folders, files in os.walk("/run/hotdesk"):
    for one in folders + files:
        path = os.path.join(base, one)
        told["unlink " + path] = attempt(os.rmdir if one in folders else os.unlink, path)
        told["chmod " + path] = attempt(os.chmod, path, 0o777)
        told["chown " + path] = attempt(os.chown, path, 0, 0)
        told["rename " + path] = attempt(os.rename, path, path + "x")
        if one in files and not one.endswith(".sock"):
            told["write " + path] = attempt(lambda: os.close(os.open(path, os.O_WRONLY)))
told["create"] = attempt(lambda: os.close(os.open("/run/hotdesk/new", os.O_CREAT | os.O_WRONLY)))
told["move aside"] = attempt(os.rename, "/run/hotdesk", "/run/aside")
told["link over"] = attempt(os.symlink, "/tmp", "/run/hotdesk/lib/x")
dialled = {}
for one in ("link.sock", "root.sock"):
    s = socket.socket(socket.AF_UNIX)
    dialled[one] = attempt(s.connect, "/run/hotdesk/" + one)
tell({"changed": told, "dialled": dialled})
"""
RISE = """
import shutil
told = {}
shutil.copy("/usr/bin/id", "/usr/local/bin/rootid")
os.chown("/usr/local/bin/rootid", 0, 0)
os.chmod("/usr/local/bin/rootid", 0o6755)
told["mode"] = os.stat("/usr/local/bin/rootid").st_mode & 0o7777
caps = struct.pack("<5I", 0x02000001, 0xffffffff, 0, 0xffffffff, 0)
told["file capability"] = attempt(os.setxattr, "/usr/local/bin/rootid", "security.capability", caps)
for key in ("trusted.overlay.redirect", "trusted.overlay.opaque", "trusted.x", "security.ima"):
    told[key] = attempt(os.setxattr, "/usr/local/bin/rootid", key, b"x")
for kind, number in (("c", stat.S_IFCHR), ("b", stat.S_IFBLK)):
    told["mknod " + kind] = attempt(os.mknod, "/tmp/node" + kind, number | 0o666, os.makedev(1, 1))
    told["mknod shm " + kind] = attempt(os.mknod, "/dev/shm/node" + kind, number | 0o666, os.makedev(7, 0))
told["whiteout"] = attempt(os.mknod, "/etc/white", stat.S_IFCHR | 0o666, 0)
open("/etc/moving", "w").close()
given["syscalls"].update(given["more"])
told["rename leaving a whiteout"] = call("renameat2", -100, ctypes.c_char_p(b"/etc/moving"), -100,
                                         ctypes.c_char_p(b"/etc/moved"), 4)
told["real time"] = attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
told["nice"] = attempt(os.setpriority, os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - 5)
told["spared"] = attempt(put, "/proc/self/oom_score_adj", "-1000")
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
def raised(kind, value):
    try:
        resource.setrlimit(kind, (value, value))
    except (ValueError, OSError) as e:
        return "EPERM"
    return "done"
told["files"] = apart(lambda: raised(resource.RLIMIT_NOFILE, hard + 1))
told["locked"] = apart(lambda: raised(resource.RLIMIT_MEMLOCK, resource.RLIM_INFINITY))
told["signals"] = apart(lambda: raised(resource.RLIMIT_SIGPENDING, 1 << 20))
told["core"] = apart(lambda: raised(resource.RLIMIT_CORE, 0))
left = "/etc/moving" if os.path.exists("/etc/moving") else "/etc/moved"
told["immutable"] = attempt(lambda: fcntl.ioctl(os.open(left, os.O_RDONLY), 0x40086602, struct.pack("l", 0x10)))
tell(told)
"""
FOREIGN_IDS = """
path = "/tmp/foreign-of-root"
open(path, "w").close()
told = {}
for number in (1013, 1023, 1024, 65533, 65535, 100000, 0x70000000, 2**32 - 2):
    told["chown %d" % number] = attempt(os.chown, path, number, number)
    told["setuid %d" % number] = apart(lambda: attempt(os.setresuid, number, number, number))
    told["setgid %d" % number] = apart(lambda: attempt(os.setresgid, number, number, number))
    told["groups %d" % number] = apart(lambda: attempt(os.setgroups, [number]))
tell(told)
"""
CGROUPS = """
with open("/proc/self/mountinfo") as file:
    kinds = {line.split(" - ")[1].split()[0] for line in file}
found = os.popen("find / -name release_agent -o -name cgroup.procs 2>/dev/null").read().split()
tell({"kinds": sorted(kinds), "found": found, "mount": call("mount", ctypes.c_char_p(b"x"), ctypes.c_char_p(b"/mnt"),
      ctypes.c_char_p(b"cgroup2"), 0, 0), "make": attempt(os.mkdir, "/sys/cgroup")})
"""
FILL = """
ids = (0, 33, 999, 1000, 65534, 0, 5, 6)
total, answer = 0, ""
for number in range(200):
    path = "/var/fill%d" % number
    try:
        with open(path, "wb", buffering=0) as file:
            os.fchown(file.fileno(), ids[number % len(ids)], ids[number % len(ids)])
            for _ in range(4):
                total += file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
    except OSError as e:
        answer = name(e.errno)
        break
tell({"total": total, "answer": answer})
"""
ROOTS_GUEST = """
guests = []
for number in filter(str.isdigit, os.listdir("/proc")):
    with open("/proc/%s/cmdline" % number, "rb") as file:
        if file.read().endswith((b"/run/hotdesk\\0root\\0", b"/run/hotdesk\\0root\\0sentry\\0")):
            guests.append(int(number))
(guest,) = guests
def peek(path, flags=os.O_RDONLY):
    return attempt(lambda: os.close(os.open(path, flags)))
at = "/proc/%d/" % guest
tell({"trace": call("ptrace", 16, guest, 0, 0), "seize": call("ptrace", 0x4206, guest, 0, 0),
      "mem": peek(at + "mem", os.O_RDWR), "environ": attempt(lambda: open(at + "environ").read(1) and None),
      "fd": peek(at + "fd/3"), "maps": attempt(lambda: open(at + "maps").read(1) and None),
      "root": attempt(os.listdir, at + "root"), "kill": attempt(os.kill, guest, 0)})
"""
FLOOD = """
import array
def dial():
    s = socket.socket(socket.AF_UNIX)
    s.connect(SUDO)
    return s
def give(s, data, fds):
    try:
        s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
    except OSError:
        pass
count = 0
for turn in range(given["turns"]):
    kept = []
    for number in range(40):
        s = dial()
        kept.append(s)
        kind = (turn + number) % 8
        if kind == 0:
            give(s, b"\\xff" * 60000, [])
        elif kind == 1:
            give(s, b"x", [0, 1, 2])
        elif kind == 2:
            give(s, b"\\0\\0\\0\\1x", [0, 1, 2])
        elif kind == 3:
            for _ in range(5):
                give(s, b"\\0", [0, 1, 2])
        elif kind == 4:
            give(s, b"\\0\\0\\0\\2de", [0] * 200)
        elif kind == 5:
            give(s, b"\\0\\0\\0\\2de", [s.fileno()])
        elif kind == 6:
            give(s, b"\\0\\0\\0", [0, 1])
        count += 1
    for s in kept:
        s.close()
tell(count)
"""
SPY = """
seen, touched = 0, []
tell("watching")
end = time.monotonic() + given["seconds"]
known = {n for n in os.listdir("/proc") if n.isdigit()}

def foreign(at):
    exe, maps = attempt(os.readlink, at + "exe"), attempt(lambda: open(at + "maps").read())
    fds = [attempt(os.readlink, at + "fd/" + fd) for fd in attempt(os.listdir, at + "fd")]
    ours = ("E", "pipe:", "socket:", "/usr/", "/run/hotdesk", "/dev/null", "anon_inode:", "/etc/ld.so.cache")
    ours += ("/proc/sys/vm/overcommit_memory",)  # the C library asks it before it frees a thread's heap
    found = [exe] if exe.startswith("/") and "python" not in exe else []
    found += [line for line in maps.splitlines() if "crun" in line or "memfd" in line][:1]
    return found + [fd for fd in fds if not fd.startswith(ours)]

while time.monotonic() < end:
    for number in os.listdir("/proc"):
        if not number.isdigit() or number in known:
            continue
        at = "/proc/%s/" % number
        comm = attempt(lambda: open(at + "comm").read().strip())
        if comm in ("sh", "sleep", "cat") or "python" in comm:
            known.add(number)
        elif comm not in ("ENOENT", "ESRCH"):
            seen += 1
            touched += foreign(at)
            if call("ptrace", 0x4206, int(number), 0, 0) == 0:
                touched += foreign(at)
                call("ptrace", 0x4207, int(number), 0, 0)
                attempt(os.waitpid, int(number), 0x40000000)
                call("ptrace", 17, int(number), 0, 0)
with open("/tmp/spy", "w") as file:
    json.dump({"seen": seen, "touched": touched[:50]}, file)
"""
LIAR = """#!PYTHON -IS
import os, socket, sys, time
if "root" not in sys.argv[-2:] or os.path.exists("/home/user/lied"):
    os.execv("PYTHON", ["PYTHON", *sys.argv[1:]])
sys.path.insert(0, "/run/hotdesk/lib")
from hotdesk_guest import wire
s = socket.socket(socket.AF_UNIX)
s.connect("/run/hotdesk/root.sock")
s.sendall(wire.encode_frame(wire.HELLO, 0, wire.encode({"version": wire.VERSION, "pid": 2, "home": "/root"})))
reader = wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT)
credit = 0
def told():
    global credit
    data = s.recv(65536)
    if not data:
        sys.exit()
    frames = reader.feed(data)
    credit += sum(int.from_bytes(payload, "big") for kind, _, payload in frames if kind == wire.CREDIT)
    return frames
open("/home/user/lied", "w").close()
acts = 0
while not acts:
    for kind, number, payload in told():
        if kind == wire.OPEN and wire.decode(payload).get("op") == "acts":
            acts = number
credit += wire.WINDOW
def say(value):
    global credit
    payload = value if isinstance(value, bytes) else wire.encode(value)
    while credit < wire.compute_cost(payload):
        told()
    credit -= wire.compute_cost(payload)
    s.sendall(wire.encode_frame(wire.EVENT, acts, payload))
try:
    LIE
except OSError:
    pass
time.sleep(60)
"""
LIES = {
    "a number too large to answer": "say(b'd3:act'.replace(b'3:act', b's3:act') + b'i99999999999999999999;' "
    "+ b's4:argvles3:cwds1:/e')",
    "a number that is none": "say({'act': -1, 'argv': [], 'cwd': '/'})",
    "an end of what never began": "say({'act': 7, 'code': 0})",
    "an end told twice": "say({'act': 1, 'argv': ['x'], 'cwd': '/'}); say({'act': 1, 'code': 0}); "
    "say({'act': 1, 'code': 0})",
    "an end with a strange code": "say({'act': 1, 'argv': ['x'], 'cwd': '/'}); say({'act': 1, 'code': 10 ** 17})",
    "a word of its own": "say({'hello': [1, 2, 3]})",
    "no value at all": "say(b'zzz')",
    "a frame nobody opened": "s.sendall(wire.encode_frame(wire.EVENT, 99, b'n'))",
    "an act that is a list of lists": "say({'act': 1, 'argv': [[[['x']]], {}, None, 5], 'cwd': '/'}); say({'x': 1})",
}
FILL_JOURNAL = """[say({'act': n, 'argv': ['\\x01' * 20000], 'cwd': '/'}) for n in range(1, 400)]"""


ENDED = "ended|did not start|did not connect|No such"
ANOTHER_USER = "#!/usr/bin/setpriv --reuid=1000\n"
"""Executes itself forever, as another user."""


CARELESS = """#!/bin/sh
for word; do case "$word" in --process=*) file=${word#--process=};; esac; done
[ -z "$file" ] || sed -i 's/OLD/NEW/g' "$file"
exec crun "$@"
"""
"""A runtime that ignores its instructions when it starts root's guest."""


def argv(program: Program, code: str, how: str, **given: object) -> tuple[list[str], str | None]:
    """Return the command line of attack code as root, started by the owner or by `sudo`."""
    whole = program(code, more=MORE_CALLS[os.uname().machine], **given)
    return (["sudo", *whole], None) if how == "sudo" else (whole, "root")


async def attack(desk: Desk, program: Program, code: str, how: str = "owner", **given: object) -> Any:
    """Run attack code as root to its end; return its verdict."""
    command, user = argv(program, code, how, **given)
    done = await desk.run(command, user=user, timeout=60)
    assert done.exit_code == 0, f"exit {done.exit_code} {done.signal}: {done.stderr[-2000:].decode()}"
    return json.loads(done.stdout.splitlines()[-1])


async def as_root(desk: Desk, script: str) -> Done:
    return await desk.run(["sh", "-c", script], user="root", timeout=30)


def members(desk: Desk) -> list[int]:
    return sorted(Cgroup(find_hierarchies(), desk.id).list_pids())


def status(pid: int) -> dict[str, list[str]]:
    with open(f"/proc/{pid}/status") as file:
        return {name: value.split() for name, _, value in (text.partition(":") for text in file)}


def owners(desk: Desk) -> set[int]:
    found = set()
    for pid in members(desk):
        with suppress(OSError):
            found |= {int(number) for number in status(pid)["Uid"]}
    return found


def roots_guest(desk: Desk) -> int:
    found = [pid for pid in members(desk) if Path(f"/proc/{pid}/cmdline").read_bytes().endswith(b"hotdesk\0root\0")]
    assert len(found) == 1
    return found[0]


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return []


@pytest.fixture(scope="module")
async def runtime(settings: Config, events: list[Event], origin: Origin) -> AsyncIterator[KeeperRuntime]:
    async with container_runtime(settings, note=events.append) as opened:
        yield origin(opened)
    opened.keeper.sock.close()


@pytest.fixture(scope="module")
async def desk(runtime: KeeperRuntime) -> AsyncIterator[Desk]:
    opened = await runtime.open(Spec(root=True))
    await opened.run(["true"], user="root")
    yield opened
    await runtime.burn(opened.id)


# -- walls --------------------------------------------------------------------------------------------------------


@falls_without("calls that root is refused", CALLS_ALLOWED, cases="owner | sudo")
@pytest.mark.parametrize("how", ["owner", "sudo"])
async def test_no_call_changes_a_wall_or_the_kernel(desk: Desk, program: Program, how: str) -> None:
    told = await attack(desk, program, CALLS, how)
    held = {name: answer for name, answer in told.items() if answer not in ("EPERM", "EACCES")}
    assert held.pop("clone3") == "ENOSYS"
    assert held == {}


@falls_without(
    "a /proc/sys that root cannot write",
    Removal("container/bundle.py", '"readonlyPaths": ["/proc/sys"],', '"readonlyPaths": [],'),
    cases="owner | sudo",
)
@pytest.mark.parametrize("how", ["owner", "sudo"])
async def test_root_can_neither_write_kernel_files_nor_inspect_the_first_process(
    desk: Desk, program: Program, how: str
) -> None:
    told = await attack(desk, program, KERNEL_FILES, how)
    assert told.pop("devices") == []
    assert len(told) > 300
    assert {name: answer for name, answer in told.items() if answer not in REFUSED} == {}


@falls_without(
    "a folder of the keeper's that root cannot write",
    Removal(
        "container/bundle.py",
        'mount(LINK, "bind", room.link, "bind", "ro", *plain, "noexec")',
        'mount(LINK, "bind", room.link, "bind", *plain, "noexec")',
    ),
    cases="owner | sudo",
)
@pytest.mark.parametrize("how", ["owner", "sudo"])
async def test_root_cannot_change_files_the_keeper_put_into_the_desk(desk: Desk, program: Program, how: str) -> None:
    told = await attack(desk, program, OWN_FOLDER, how)
    assert len(told["changed"]) > 30
    assert set(told["changed"].values()) <= {"EROFS", "EBUSY", "EACCES"}
    assert told["dialled"] == {"link.sock": "ECONNREFUSED", "root.sock": "ECONNREFUSED"}


@falls_without(
    "no capability to give capabilities",
    Removal("container/bundle.py", '"SETUID": 7}', '"SETUID": 7, "SETFCAP": 31}'),
    cases="owner | sudo",
)
@pytest.mark.parametrize("how", ["owner", "sudo"])
async def test_files_root_creates_give_no_user_more_rights(desk: Desk, program: Program, how: str) -> None:
    told = await attack(desk, program, RISE, how)
    assert told.pop("mode") == 0o6755
    assert told.pop("rename leaving a whiteout") in ("EINVAL", "EPERM")
    assert {told.pop("nice"), told.pop("spared")} == {"EACCES"}
    assert {name: answer for name, answer in told.items() if answer not in ("EPERM", "EOPNOTSUPP")} == {}
    assert (await desk.run(["rootid", "-u"])).text == "1000\n"
    assert (await desk.run(["rootid", "-g"])).text == "1000\n"


@falls_without(
    "no id but the desk's own",
    Removal(
        "linux/uids.py",
        'f"0 {base} {USER + 1}\\n{added}\\n65534 {base + NOBODY} 1\\n"',
        'f"0 {base} {WIDTH}\\n"',
    ),
    cases="owner | sudo",
)
@pytest.mark.parametrize("how", ["owner", "sudo"])
async def test_ids_beyond_the_desks_own_do_not_exist(desk: Desk, program: Program, how: str) -> None:
    told = await attack(desk, program, FOREIGN_IDS, how)
    assert set(told.values()) == {"EINVAL"}


@no_guard("nothing mounts one; calls that would are attacked elsewhere")
async def test_root_reaches_no_cgroup(desk: Desk, program: Program) -> None:
    told = await attack(desk, program, CGROUPS)
    assert not {"cgroup", "cgroup2"} & set(told["kinds"])
    assert (told["found"], told["mount"], told["make"]) == ([], "EPERM", "EROFS")


@falls_without("seven capabilities", Removal("container/bundle.py", '"SETUID": 7}', '"SETUID": 7, "MKNOD": 27}'))
async def test_roots_programs_are_unprivileged_on_the_host(settings: Config, desk: Desk, init: Init) -> None:
    first = init(settings, desk)
    base = int(status(first)["Uid"][0]) - uids.USER
    kept = [await desk.start(["sleep", "3500"], user="root"), await desk.start(["sudo", "sleep", "3500"])]
    drop = "import os, time; os.setresuid(33, 33, 33); print('x', flush=True); time.sleep(3500)"
    kept.append(await desk.start(["python3", "-c", drop], user="root"))
    await anext(kept[-1].output())
    with anyio.fail_after(10):
        while True:
            if len(members(desk)) >= 6:
                break
            await anyio.sleep(0.02)
    spaces = {kind: os.stat(f"/proc/{first}/ns/{kind}").st_ino for kind in ("mnt", "user", "net", "pid", "ipc", "uts")}
    found = set()
    for pid in members(desk):
        facts = status(pid)
        assert all(base <= int(number) < base + uids.WIDTH for number in facts["Uid"] + facts["Gid"])
        assert (facts["Groups"], facts["NoNewPrivs"], facts["Seccomp"]) == ([], ["1"], ["2"])
        for kind in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"):
            assert int(facts[kind][0], 16) & ~0xFB == 0
        if int(facts["Uid"][0]) == base:
            assert [facts[f"Cap{kind}"][0] for kind in ("Prm", "Eff", "Bnd")] == [f"{0xFB:016x}"] * 3
        found.add(int(facts["Uid"][0]) - base)
        assert {kind: os.stat(f"/proc/{pid}/ns/{kind}").st_ino for kind in spaces} == spaces
    assert found == {0, 33, 1000}
    for process in kept:
        await process.kill()


@falls_without(
    "one size for the files of every owner",
    Removal("room/btrfs.py", "LIMIT_MAX_REFERENCED, most, 0, 0, 0)", "LIMIT_MAX_REFERENCED, most * 5, 0, 0, 0)"),
)
async def test_files_of_every_owner_count_against_the_disk(fresh: Open, program: Program) -> None:
    async with fresh(Spec(root=True, disk=64 * MIB)) as desk:
        told = await attack(desk, program, FILL)
        assert told["answer"] in ("ENOSPC", "EDQUOT")
        assert 16 * MIB < told["total"] <= 64 * MIB


# -- root's guest -------------------------------------------------------------------------------------------------


@falls_without("a guest of root's that its programs cannot read", FIRST_PROCESS_SHOWN, cases="root")
@no_guard("the kernel keeps other users out", cases="None")
@pytest.mark.parametrize("user", ["root", None])
async def test_programs_cannot_read_or_trace_roots_guest(desk: Desk, program: Program, user: str | None) -> None:
    await desk.run(["true"], user="root")
    done = await desk.run(program(ROOTS_GUEST), user=user, timeout=30)
    told = json.loads(done.stdout)
    assert told.pop("kill") == ("done" if user else "EPERM")
    assert set(told.values()) <= {"EPERM", "EACCES"}, told


@no_guard("the runtime's own guard: undumpable")
async def test_the_runtime_cannot_be_attacked_while_it_starts_root(fresh: Open, program: Program) -> None:
    async with fresh(Spec(root=True)) as desk:
        spy = await desk.start(program(SPY, seconds=4), user="root")
        await anext(spy.output())
        end = anyio.current_time() + 3
        turns = 0
        while anyio.current_time() < end:
            with suppress(LinkError):
                await desk.run(["sh", "-c", "kill -9 $PPID"], user="root")
            turns += 1
        with anyio.fail_after(20):
            while True:
                if b"touched" in (await desk.run(["cat", "/tmp/spy"])).stdout:
                    break
                await anyio.sleep(0.1)
        told = json.loads(await desk.read("/tmp/spy"))
        assert turns > 5
        assert told["seen"] > 0, "the runtime was never seen: the attack shows nothing"
        assert told["touched"] == []


@no_guard("without its pid namespace it would end this machine's")
async def test_killing_everything_ends_at_most_the_desk(fresh: Open, program: Program) -> None:
    async with fresh(Spec(root=True)) as desk, fresh(Spec()) as other:
        code = "os.kill(1, 9); os.kill(1, 19); os.kill(1, 11); time.sleep(0.2); tell(1)"
        with suppress(DeskError):
            await attack(desk, program, code)
        with suppress(DeskError):
            await desk.run(["sh", "-c", "kill -9 -1; kill -STOP -1"], user="root", timeout=10)
        with anyio.fail_after(20):
            try:
                assert (await desk.run(["echo", "here"])).text == "here\n"
                assert (await desk.run(["id", "-u"], user="root")).text == "0\n"
            except DeskGone:
                pass  # allowed: a program can end the desk it runs in
        assert (await other.run(["true"])).ok


@no_guard("what root puts into its own desk runs behind that desk's walls, whatever it is; there is no other guard")
@pytest.mark.parametrize(
    ("impostor", "why"),
    [
        ("#!/bin/sh\nexit 0\n", ENDED),
        pytest.param("#!/bin/sh\nexec sleep 100\n", "did not connect", marks=pytest.mark.long),
        pytest.param("#!/bin/sh\nkill -9 $$\n", ENDED, marks=pytest.mark.long),
        pytest.param("#!/proc/self/exe\n", ENDED, marks=pytest.mark.long),
        pytest.param("#!/nowhere\n", ENDED, marks=pytest.mark.long),
        pytest.param(ANOTHER_USER, "failed its test|did not connect", marks=pytest.mark.long),
        pytest.param("not a program", ENDED, marks=pytest.mark.long),
    ],
)
async def test_a_python_that_root_replaced_gains_nothing(fresh: Open, impostor: str, why: str) -> None:
    runtime = shutil.which("crun")
    assert runtime is not None
    before = hashlib.sha256(Path(runtime).read_bytes()).hexdigest()
    async with fresh(Spec(root=True)) as desk, fresh(Spec()) as other:
        await replace_python(desk, impostor)
        with pytest.raises(HotdeskError, match=why), anyio.fail_after(30):
            await desk.run(["true"], user="root")
        with anyio.fail_after(10):  # the runtime that started it may still be exiting, and is the host's root
            while 0 in (users := owners(desk)):
                await anyio.sleep(0.02)
        assert users
        assert max(users) - min(users) < uids.WIDTH
        assert (await desk.run(["echo", "here"])).text == "here\n"
        assert (await other.run(["true"])).ok
    assert hashlib.sha256(Path(runtime).read_bytes()).hexdigest() == before


@falls_without(
    "the proof before root is handed over",
    Removal(
        "keeper/root.py", "        if wrong and root.hard <= read_clock():\n", "        wrong = []\n        if wrong:\n"
    ),
)
@pytest.mark.parametrize(
    ("old", "new", "flaw"),
    [
        ('"CAP_CHOWN"', '"CAP_SYS_ADMIN", "CAP_CHOWN"', "Cap"),
        pytest.param('"noNewPrivileges": true', '"noNewPrivileges": false', "NoNewPrivs", marks=pytest.mark.long),
        pytest.param('"uid": 0', '"uid": 5', "Uid", marks=pytest.mark.long),
    ],
)
async def test_root_is_not_available_if_its_walls_are_not_proven(
    settings: Config, tmp_path: Path, old: str, new: str, flaw: str
) -> None:
    careless = tmp_path / "runtime"
    careless.write_text(CARELESS.replace("OLD", old).replace("NEW", new))
    careless.chmod(0o755)
    async with container_runtime(replace(settings, runtime=str(careless))) as runtime:
        desk = await runtime.open(Spec(root=True))
        with anyio.fail_after(20), pytest.raises(KeeperError, match=f"failed its test.*{flaw}"):
            await desk.run(["true"], user="root")
        with anyio.fail_after(30):  # it is about to end
            while True:
                if len(members(desk)) == 1:
                    break
                await anyio.sleep(0.02)
        assert (await desk.run(["true"])).ok
        await runtime.burn(desk.id)
    runtime.keeper.sock.close()


async def replace_python(desk: Desk, text: str) -> None:
    """Replace the interpreter of root's guest and end that guest; /tmp/sudo keeps working."""
    python = (await desk.run(["readlink", "-f", "/usr/bin/python3"])).text.strip()
    await desk.write("/tmp/impostor", text.replace("PYTHON", python).encode(), mode=0o755)
    own_sudo = (await desk.read("/usr/local/bin/sudo")).replace(b"/usr/bin/python3 ", f"{python} ".encode())
    await desk.write("/tmp/sudo", own_sudo, mode=0o755)
    done = await as_root(desk, "cp /tmp/impostor /usr/bin/new && mv /usr/bin/new /usr/bin/python3 && echo done")
    assert done.text == "done\n"
    with pytest.raises(LinkError):
        await as_root(desk, "kill -9 $PPID; sleep 10")


@falls_without(
    "a proof that keeps nobody waiting",
    Removal(
        "keeper/root.py",
        "        try:\n            wrong = tracked.wall.list_root_flaws(",
        '        try:\n            __import__("time").sleep(5)\n            wrong = tracked.wall.list_root_flaws(',
    ),
)
async def test_a_root_guest_that_never_passes_the_proof_delays_no_other_desk(
    fresh: Open, runtime: KeeperRuntime
) -> None:
    async with fresh(Spec(root=True)) as desk, fresh(Spec()) as other:
        await replace_python(desk, ANOTHER_USER)
        await desk.start(["/tmp/sudo", "true"])
        used = keeper_seconds(runtime)
        longest = 0.0
        for _ in range(60):
            start = time.monotonic()
            await other.usage()
            longest = max(longest, time.monotonic() - start)
            await anyio.sleep(0.05)
        assert longest < 3, "the keeper waited for a hostile root"
        assert keeper_seconds(runtime) - used < 2


def keeper_seconds(runtime: KeeperRuntime) -> float:
    fields = Path(f"/proc/{runtime.keeper.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.long
@falls_without(
    "a rest between two roots", Removal("keeper/root.py", "RESTART_INTERVAL_S = 1.0", "RESTART_INTERVAL_S = 0.0")
)
async def test_a_root_guest_that_ends_at_once_is_not_restarted_forever(fresh: Open, runtime: KeeperRuntime) -> None:
    async with fresh(Spec(root=True)) as desk:
        await desk.write("/tmp/count", b"")
        await desk.run(["chmod", "666", "/tmp/count"])
        await replace_python(desk, "#!/bin/sh\necho x >>/tmp/count\n")
        await desk.start(["/tmp/sudo", "true"])
        await anyio.sleep(4)
        assert 1 <= (await desk.read("/tmp/count")).count(b"x") <= 6


@falls_without(
    "a keeper that reads any name of a process",
    Removal("linux/processes.py", 'line.decode(errors="replace")', "line.decode()"),
    Removal("keeper/burn.py", "Exception as e:  # noqa: BLE001 - outer boundary: one", "KeyError as e:  # noqa: one"),
)
async def test_no_name_of_a_process_ends_the_keeper_and_other_desks(fresh: Open, launch: Launch) -> None:
    async with fresh(Spec(root=True)) as desk, fresh(Spec()) as other:
        await launch(desk, 'libc.prctl(15, b"\\xff\\xfe\\rPPid:\\t", 0, 0, 0); tell(1); time.sleep(100)')
        await replace_python(desk, "#!/bin/sh\nexit 0\n")
        for _ in range(6):  # the keeper reads names only where it still finds the guest that ended
            with pytest.raises(HotdeskError, match=ENDED), anyio.fail_after(30):
                await desk.run(["true"], user="root")
        assert (await desk.run(["echo", "here"])).text == "here\n"
        assert (await other.run(["true"])).ok


ERRORS_ESCAPE = Removal("owner/root.py", "    with suppress(HotdeskError):\n", "    with suppress(KeyError):\n")


@pytest.mark.sample(4)
@falls_without("an owner that outlives a frame nobody opened", ERRORS_ESCAPE, cases="a-frame-nobody-opened")
@falls_without("an owner that outlives a number that is none", ERRORS_ESCAPE, cases="a-number-that-is-none")
@falls_without("an owner that outlives a word of its own", ERRORS_ESCAPE, cases="a-word-of-its-own")
@falls_without(
    "an owner that outlives an act that is a list of lists", ERRORS_ESCAPE, cases="an-act-that-is-a-list-of-lists"
)
@falls_without("an owner that outlives an end with a strange code", ERRORS_ESCAPE, cases="an-end-with-a-strange-code")
@falls_without("an owner that outlives no value at all", ERRORS_ESCAPE, cases="no-value-at-all")
@falls_without(
    "numbers that can be answered",
    Removal("owner/root.py", " if 0 < number < MAX_ACTS:", ":"),
    Removal(
        "hotdesk_guest/wire.py",
        "int(digits)\n    if not -MAX_NUMBER <= number <= MAX_NUMBER:",
        "int(digits)\n    if not end:",
    ),
    cases="a-number-too-large-to-answer",
)
@falls_without(
    "ends of what began",
    Removal("owner/root.py", " if number in running and 0 <= code < 256:", ":"),
    cases="an-end-of-what-never-began | an-end-told-twice",
)
@pytest.mark.parametrize("lie", list(LIES), ids=[name.replace(" ", "-") for name in LIES])
async def test_a_lying_root_guest_harms_only_itself(
    fresh: Open, runtime: KeeperRuntime, events: list[Event], lie: str
) -> None:
    async with fresh(Spec(root=True)) as desk, fresh(Spec()) as other:
        await replace_python(desk, LIAR.replace("LIE", LIES[lie]))
        start = len(events)
        with anyio.fail_after(20), pytest.raises(LinkError, match=r"malformed|protocol|not open"):
            await desk.run(["true"], user="root", timeout=5)
        assert len([event for event in events[start:] if isinstance(event, RootActEnded)]) <= 1
        assert (await desk.run(["echo", "here"])).text == "here\n"
        assert (await other.run(["true"])).ok
        assert runtime.keeper.failure is None
        with anyio.fail_after(10):
            assert (await desk.run(["id", "-u"], user="root")).text == "0\n"


@pytest.mark.long
@falls_without(
    "a share of the journal", Removal("owner/root.py", "        if size > self.room:\n", "        if size < 0:\n")
)
async def test_the_journal_entries_of_one_desk_are_limited(fresh: Open, events: list[Event]) -> None:
    async with fresh(Spec(root=True)) as desk:
        await replace_python(desk, LIAR.replace("LIE", FILL_JOURNAL))
        start = len(events)
        for _ in range(2):
            for _ in range(2):  # the first call may still reach the guest that was killed
                with anyio.move_on_after(3), suppress(LinkError):
                    await desk.run(["true"], user="root")
            size = sum(len(to_json(event)) for event in events[start:])
            if not 8 * MIB < size <= roots.MAX_NOTED_BYTES + MIB:
                pytest.fail(f"{size} bytes were noted")
            await desk.remove("/home/user/lied")
            os.kill(roots_guest(desk), 9)
        del events[start:]


# -- sudo's socket ------------------------------------------------------------------------------------------------


@falls_without(
    "streams that are closed",
    Removal("hotdesk_guest/acts.py", "        for fd in self.streams:\n            os.close(fd)\n", ""),
)
async def test_garbage_at_the_sudo_socket_leaks_no_resources(desk: Desk, program: Program) -> None:
    await desk.run(["true"], user="root")
    guest = roots_guest(desk)
    before = len(os.listdir(f"/proc/{guest}/fd"))
    owner = len(os.listdir("/proc/self/fd"))
    done = await desk.run(program(FLOOD, turns=30), timeout=60)
    assert json.loads(done.stdout) == 1200, done.stderr
    assert (await desk.run(["sudo", "id", "-u"], timeout=20)).text == "0\n"
    assert roots_guest(desk) == guest
    assert len(os.listdir(f"/proc/{guest}/fd")) <= before + 2
    assert len(os.listdir("/proc/self/fd")) <= owner + 2


@falls_without("three streams a call", Removal("hotdesk_guest/acts.py", " or len(caller.streams) > 3:", ":"))
async def test_a_caller_cannot_make_root_hold_many_file_descriptors(desk: Desk, launch: Launch) -> None:
    code = """
import array
s = socket.socket(socket.AF_UNIX)
s.connect(SUDO)
s.send(b"\\0\\0\\x50\\0")
sent = 0
try:
    for sent in range(1000):
        s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
        time.sleep(0.0005)
except OSError:
    pass
tell(sent)
time.sleep(100)
"""
    await desk.run(["true"], user="root")
    before = len(os.listdir(f"/proc/{roots_guest(desk)}/fd"))
    process, _ = await launch(desk, code)
    assert len(os.listdir(f"/proc/{roots_guest(desk)}/fd")) <= before + 8
    await process.kill()


@pytest.mark.sample(1)
@falls_without(
    "callers that end",
    Removal(
        "hotdesk_guest/acts.py",
        "        del self.callers[caller.sock.fileno()]\n",
        "        self.callers.pop(-2, None)\n",
    ),
)
async def test_silent_callers_of_sudo_hold_nothing_once_they_exit(desk: Desk, program: Program) -> None:
    code = """
kept = []
for _ in range(200):
    s = socket.socket(socket.AF_UNIX)
    s.setblocking(False)
    for _ in range(20):
        if attempt(s.connect, SUDO) != "EAGAIN":
            kept.append(s)
            break
        time.sleep(0.02)
    else:
        break
tell(len(kept))
time.sleep(1)
"""
    done = await desk.run(program(code), timeout=30)
    assert 64 <= json.loads(done.stdout) < 200
    assert (await desk.run(["sudo", "id", "-u"], timeout=20)).text == "0\n"


@falls_without(
    "streams that are closed to others", Removal("hotdesk_guest/acts.py", ", _socket.MSG_CMSG_CLOEXEC)", ")")
)
async def test_descriptors_of_a_waiting_call_do_not_leak_to_others(desk: Desk, program: Program) -> None:
    code = """
import array, subprocess
s = socket.socket(socket.AF_UNIX)
s.connect(SUDO)
fds = [os.open("/etc/hostname", os.O_RDONLY) for _ in range(3)]
s.sendmsg([b"\\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
time.sleep(0.2)
tell(subprocess.run(["sudo", "sh", "-c", "ls -l /proc/$$/fd"], capture_output=True, text=True).stdout)
"""
    done = await desk.run(program(code), timeout=30)
    told = json.loads(done.stdout)
    assert "-> " in told
    assert "hostname" not in told
    assert "socket" not in told


@pytest.mark.long
@pytest.mark.timeout(300)
@falls_without(
    "a turn for every caller",
    Removal("hotdesk_guest/acts.py", "        if full:\n            self.listen()\n", ""),
    Removal("hotdesk_guest/acts.py", "MAX_CALLERS = 64", "MAX_CALLERS = 4"),
)
async def test_two_hundred_concurrent_sudo_calls_work(fresh: Open, origin: Origin) -> None:
    async with fresh(Spec(root=True)) as desk:
        script = "for n in $(seq 200); do sudo echo $n >>said & done; wait; sort -n said | tail -n 1; wc -l <said"
        done = await desk.run(["bash", "-c", script], timeout=280)
        assert done.text.split() == ["200", "200"], done.stderr[-500:]
        if origin is not WALLED["gvisor"]:  # the host does not see processes of a sentry
            assert len(os.listdir(f"/proc/{roots_guest(desk)}/fd")) < 30


@no_guard("what root puts into its own desk runs behind that desk's walls, whatever it is; there is no other guard")
async def test_a_sudo_that_root_replaced_gains_nothing(fresh: Open) -> None:
    async with fresh(Spec(root=True)) as desk:
        await as_root(desk, "cp /usr/bin/id /usr/local/bin/sudo; chmod 6755 /usr/local/bin/sudo")
        assert (await desk.run(["sudo", "-u"])).text == "1000\n"


@falls_without(
    "root where it was allowed",
    Removal(
        "room/room.py",
        "if spec.root:\n            self.await_sudo()\n        self.ca = ca",
        "if spec:\n            self.await_sudo()\n        self.ca = ca",
    ),
)
async def test_a_desk_without_root_cannot_start_it_from_inside(fresh: Open, program: Program) -> None:
    async with fresh(Spec()) as desk:
        code = "tell([attempt(os.setuid, 0), os.path.exists('/run/hotdesk/sudo.sock'), attempt(os.setgroups, [])])"
        done = await desk.run(program(code))
        assert json.loads(done.stdout) == ["EPERM", False, "EPERM"]
