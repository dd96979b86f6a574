"""Attacks by processes of a desk: on privileges, on other processes, and on limits."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Awaitable
from pathlib import Path

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import DeskError
from hotdesk.linux import uids
from tests.security.conftest import Attack, Init, Launch, Open, Rows
from tests.security.guards import (
    ALL_CAPABILITIES,
    CALLS_ALLOWED,
    FIRST_PROCESS_SHOWN,
    FIRST_PROCESS_TRACED,
    WALLS_UNPROVEN,
    Removal,
    falls_without,
    no_guard,
)

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

STATUS = """
with open("/proc/self/status") as file:
    lines = {key: value.strip() for key, _, value in (line.partition(":") for line in file)}
tell({"status": lines, "pids": [int(n) for n in os.listdir("/proc") if n.isdigit()],
      "core": resource.getrlimit(resource.RLIMIT_CORE),
      "uid_map": open("/proc/self/uid_map").read().split(), "gid_map": open("/proc/self/gid_map").read().split()})
"""
RISE: Rows = {
    "become root": ("attempt(os.setuid, 0)", "EPERM"),
    "become root for files": ("(libc.setfsuid(0), libc.setfsuid(-1))[1]", 1000),
    "become root by halves": ("attempt(os.setresuid, 1000, 0, 0)", "EPERM"),
    "become another user": ("attempt(os.setuid, 999)", "EPERM"),
    "become root's group": ("attempt(os.setgid, 0)", "EPERM"),
    "join a group": ("attempt(os.setgroups, [0])", "EPERM"),
    "take a capability": ("capset(1 << 21)", "EPERM"),
    "take a capability for programs to come": ("prctl(47, 2, 21)", "EPERM"),
    "leave no_new_privs": ("prctl(38, 0)", "EINVAL"),
    "leave the filter": ("prctl(22, 0)", "EINVAL"),
    "change one's memory map": ("prctl(35, 1, 1 << 20)", "EPERM"),
    "real time": ("attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))", "EPERM"),
    "a better priority": ("attempt(os.setpriority, 0, 0, os.getpriority(0, 0) - 1)", "EACCES"),
    "never be killed for memory": ("attempt(put, '/proc/self/oom_score_adj', '-1000')", "EACCES"),
    "map other users": ("attempt(put, '/proc/self/uid_map', '0 0 1')", "EPERM"),
    "give a file away": ("attempt(os.chown, '/proc/self/cwd', 0, 0)", "EPERM"),
    "raise a hard limit": ("attempt(raise_limit, resource.RLIMIT_NOFILE)", "EPERM"),
    "lock memory without end": ("call_mlock(64 << 20)", "ENOMEM"),
    "a setuid program of one's own": ("own_setuid('/tmp/rise%d' % os.getpid())", "1000 1000 1000 1000"),
    "a setuid program in memory": ("memory_setuid()", "1000 1000 1000 1000"),
    "setuid programs of the image": ("sh('find / -xdev -perm /6000 -type f 2>/dev/null | grep -v ^/tmp/rise')", ""),
    "su, sudo and newgrp": ("'uid=0' in sh('su -c id; sudo -n id; newgrp root')", False),
}
HOST: Rows = {
    "see a process": ("os.path.exists('/proc/%d' % V)", False),
    "see any process but the desk's": ("max(int(n) for n in os.listdir('/proc') if n.isdigit()) < 2000", True),
    "its root": ("attempt(os.listdir, '/proc/%d/root' % V)", "ENOENT"),
    "signal it": ("attempt(os.kill, V, 0)", "ESRCH"),
    "kill it": ("attempt(os.kill, V, 9)", "ESRCH"),
    "kill a thread of it": ("tgkill(V, 9)", "ESRCH"),
    "queue a signal for it": ("sigqueue(V, 34)", "ESRCH"),
    "a pidfd of it": ("call('pidfd_open', V, 0)", "ESRCH"),
    "trace it": ("call('ptrace', 16, V, 0, 0)", "ESRCH"),
    "ask its limits": ("call('prlimit64', V, 7, 0, ctypes.create_string_buffer(16))", "ESRCH"),
    "pin it to a processor": ("attempt(os.sched_setaffinity, V, {0})", "ESRCH"),
    "make it wait": ("attempt(os.setpriority, os.PRIO_PROCESS, V, 19)", "ESRCH"),
    "ask its session": ("attempt(os.getsid, V)", "ESRCH"),
    "claim to be it": ("forge(V, 1000)", "EPERM"),
}
FIRST: Rows = {
    "seize": ("call('ptrace', 0x4206, 1, 0, 0)", "EPERM"),
    "memory": ("peek('/proc/1/mem', os.O_RDWR)", "EACCES"),
    "descriptors": ("attempt(os.listdir, '/proc/1/fd')", "EACCES"),
    "the socket at a descriptor": ("[attempt(os.readlink, '/proc/1/fd/%d' % n) for n in range(3, 10)]", ["EACCES"] * 7),
    "root": ("attempt(os.listdir, '/proc/1/root')", "EACCES"),
    "working folder": ("attempt(os.listdir, '/proc/1/cwd')", "EACCES"),
    "program": ("peek('/proc/1/exe')", "EACCES"),
    "environment": ("attempt(lambda: open('/proc/1/environ', 'rb').read(1) and None)", "EACCES"),
    "mapped files": ("attempt(os.listdir, '/proc/1/map_files')", "EACCES"),
    "map": ("attempt(lambda: open('/proc/1/maps', 'rb').read(1) and None)", "EACCES"),
    "namespaces": ("attempt(os.readlink, '/proc/1/ns/mnt')", "EACCES"),
    "a namespace by its pidfd": ("attempt(fcntl.ioctl, call('pidfd_open', 1, 0), 0xff03)", "EACCES"),
    "a descriptor by its pidfd": ("call('pidfd_getfd', call('pidfd_open', 1, 0), 3, 0)", "EPERM"),
    "its end by its pidfd": ("call('pidfd_send_signal', call('pidfd_open', 1, 0), 9, 0, 0) or state() in 'SR'", True),
    "its stop": ("(os.kill(1, signal.SIGSTOP), time.sleep(0.2), state())[2] in 'SR'", True),
    "its end": ("[os.kill(1, n) for n in (9, 15, 11, 10)] and (time.sleep(0.2), state())[1] in 'SR'", True),
    "its memory for the killer": ("attempt(put, '/proc/1/oom_score_adj', '1000')", "EACCES"),
    "claim to be it": ("forge(1, 1000)", "EPERM"),
    "claim to be root": ("forge(os.getpid(), 0)", "EPERM"),
}
SPACES: Rows = {
    "the parent of its user namespace": ("attempt(fcntl.ioctl, ns('user'), 0xb702)", "EPERM"),
    "the parent of its pid namespace": ("attempt(fcntl.ioctl, ns('pid'), 0xb702)", "EPERM"),
    "the owner of its network": ("attempt(fcntl.ioctl, ns('net'), 0xb701)", "EPERM"),
    "another namespace by opening one to write": ("attempt(put, '/proc/self/ns/net', '1')", "EPERM"),
}
ROWS = {
    f"{group}: {what}": row
    for group, rows in {"rise": RISE, "host": HOST, "first": FIRST, "spaces": SPACES}.items()
    for what, row in rows.items()
}
TOOLS = """
V = given.get("victim", 0)

def prctl(*words):
    ctypes.set_errno(0)
    result = libc.prctl(*[ctypes.c_ulong(word) for word in words], *[0] * (5 - len(words)))
    return name(ctypes.get_errno()) if result < 0 else result

def capset(bits):
    ctypes.set_errno(0)
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(bits, bits, 0, 0, 0, 0)
    return name(ctypes.get_errno()) if libc.capset(header, data) < 0 else 0

def raise_limit(kind):
    hard = resource.getrlimit(kind)[1]
    try:
        resource.setrlimit(kind, (hard, hard + 1))
    except ValueError:
        raise PermissionError(errno.EPERM, "")

def call_mlock(size):
    import mmap
    room = mmap.mmap(-1, size)
    ctypes.set_errno(0)
    result = libc.mlock(ctypes.byref(ctypes.c_char.from_buffer(room)), ctypes.c_size_t(size))
    return name(ctypes.get_errno()) if result < 0 else 0

def sh(line):
    return os.popen("(%s) 2>&1 </dev/null" % line).read()

def own_setuid(path):
    with open("/bin/cat", "rb") as source, open(path, "wb") as copy:
        copy.write(source.read())
    os.chmod(path, 0o6755)
    return " ".join(sh(path + " /proc/self/status | grep ^Uid").split()[1:])

def memory_setuid():
    fd = os.memfd_create("x", 0)
    with open("/bin/cat", "rb") as source:
        os.write(fd, source.read())
    os.fchmod(fd, 0o6755)
    os.fchown(fd, -1, 1000)
    r, w = os.pipe()
    if not os.fork():
        os.dup2(w, 1)
        os.execve(fd, ["cat", "/proc/self/status"], {})
    os.close(w)
    lines = os.fdopen(r).read().splitlines()
    return " ".join([line for line in lines if line.startswith("Uid")][0].split()[1:])

def tgkill(pid, number):
    ctypes.set_errno(0)
    return name(ctypes.get_errno()) if libc.tgkill(pid, pid, number) < 0 else 0

def sigqueue(pid, number):
    ctypes.set_errno(0)
    return name(ctypes.get_errno()) if libc.sigqueue(pid, number, None) < 0 else 0

def forge(pid, uid):
    a, b = socket.socketpair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    told = [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("iII", pid, uid, 1000))]
    return attempt(a.sendmsg, [b"x"], told)

def peek(path, flags=os.O_RDONLY):
    return attempt(lambda: os.close(os.open(path, flags)))

def state():
    with open("/proc/1/stat") as file:
        return file.read().rpartition(")")[2].split()[0]

def ns(kind):
    return os.open("/proc/self/ns/" + kind, os.O_RDONLY)
"""
WATCHES = """
kept = []
while len(kept) < 10000:
    fd = libc.inotify_init1(0)
    if fd < 0:
        break
    kept.append(fd)
tell(len(kept))
time.sleep(given["seconds"])
"""
SIGNALS = """
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
sent, info = 0, ctypes.create_string_buffer(struct.pack("iii", 40, 0, -1), 128)
libc.sigqueue.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
while sent < 20000 and libc.sigqueue(os.getpid(), 40, None) == 0:
    sent += 1
with open("/proc/self/status") as file:
    queue = [line.split()[1] for line in file if line.startswith("SigQ")][0]
tell({"sent": sent, "queue": queue})
time.sleep(given["seconds"])
"""
CRASH = """
child = os.fork()
if not child:
    os.chdir("/tmp")
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)
status = os.waitpid(child, 0)[1]
tell({"signal": os.WTERMSIG(status), "dumped": os.WCOREDUMP(status),
      "cores": [n for n in os.listdir("/tmp") if "core" in n and os.path.getsize("/tmp/" + n)]})
"""
FOREIGN_IDS = """
path = "/tmp/foreign"
open(path, "w").close()
tell({str(number): attempt(os.chown, path, number, number) for number in (0, 999, 1012, 1013, 65533, 65534, 100000)})
"""


def signals_of_root() -> int:
    return int(Path("/proc/self/status").read_text().partition("SigQ:")[2].split("/")[0])


@falls_without("no capability", *ALL_CAPABILITIES)
async def test_a_process_has_no_privilege(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, STATUS)
    status = told["status"]
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["Uid"].split() == status["Gid"].split() == ["1000"] * 4
    assert status["Groups"].strip() == ""
    assert max(told["pids"]) < 1000, "the host's processes can be seen"


@falls_without(
    "no capability",
    cases="""
    become root | become root for files | become root by halves | become another user | become root's group |
    join a group | take a capability | take a capability for programs to come | give a file away
    """,
)
@falls_without("an ordinary user", cases="a setuid program of one's own | a setuid program in memory")
@no_guard(
    "the kernel never lets a process undo this, or wants a capability over the host's own user namespace",
    cases="""
    leave no_new_privs | leave the filter | change one's memory map | real time | a better priority |
    never be killed for memory | map other users | raise a hard limit
    """,
)
@no_guard("this machine's own hard limit is as low, and its root may not raise it", cases="lock memory without end")
@no_guard(
    "no program of an image keeps a setuid bit: tests/unit/desk/image/test_importer.py removes it and looks",
    cases="setuid programs of the image | su, sudo and newgrp",
)
@pytest.mark.parametrize("what", RISE)
async def test_a_process_cannot_gain_privileges(answers: dict[str, object], what: str) -> None:
    assert answers[f"rise: {what}"] == RISE[what][1]


@falls_without("no capability", cases="claim to be it")
@falls_without(
    "a pid namespace, and a proc of its own",
    WALLS_UNPROVEN,
    Removal(
        "container/bundle.py",
        'for kind in ("pid", "ipc", "uts", "mount", "cgroup"))',
        'for kind in ("ipc", "uts", "mount", "cgroup"))',
    ),
    Removal(
        "container/bundle.py",
        'mount("/proc", "proc", "proc", *plain, "noexec")',
        'mount("/proc", "bind", "/proc", "rbind")',
    ),
    cases="""
    see a process | see any process but the desk's | its root | signal it | kill it | kill a thread of it |
    queue a signal for it | a pidfd of it | trace it | ask its limits | pin it to a processor | make it wait |
    ask its session
    """,
)
@pytest.mark.parametrize("what", HOST)
async def test_no_process_of_the_host_is_visible(answers: dict[str, object], what: str) -> None:
    assert answers[f"host: {what}"] == HOST[what][1]


@falls_without("no capability", cases="claim to be it | claim to be root")
@falls_without(
    "a first process that hides",
    FIRST_PROCESS_SHOWN,
    cases="""
    memory | descriptors | the socket at a descriptor | root | working folder | program | environment |
    mapped files | map | namespaces | a namespace by its pidfd | its memory for the killer
    """,
)
@falls_without(
    "a first process that hides, and is not traced",
    FIRST_PROCESS_SHOWN,
    FIRST_PROCESS_TRACED,
    CALLS_ALLOWED,
    cases="seize | a descriptor by its pidfd",
)
@falls_without("a pid namespace, and a proc of its own", cases="its stop | its end | its end by its pidfd")
@pytest.mark.parametrize("what", FIRST)
async def test_the_first_process_cannot_be_read_traced_or_stopped(answers: dict[str, object], what: str) -> None:
    assert answers[f"first: {what}"] == FIRST[what][1]


@falls_without("a network the host owns, and no capability", cases="the owner of its network")
@no_guard(
    "the kernel shows nobody a namespace above his own",
    cases="""
    the parent of its user namespace | the parent of its pid namespace | another namespace by opening one to write
    """,
)
@pytest.mark.parametrize("what", SPACES)
async def test_no_namespace_handle_leads_out(answers: dict[str, object], what: str) -> None:
    assert answers[f"spaces: {what}"] == SPACES[what][1]


@falls_without("a first process that hides, and is not traced")
async def test_the_first_process_cannot_be_attached_to(fresh: Open, attack: Attack) -> None:
    async with fresh(Spec()) as desk:
        assert await attack(desk, "tell(call('ptrace', 16, 1, 0, 0))", timeout=20) == "EPERM"
        assert (await desk.run(["true"], timeout=10)).ok


@falls_without(
    "a first process that ignores interrupts",
    Removal("hotdesk_guest/agent.py", "        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)\n", ""),
)
async def test_an_interrupt_does_not_end_the_first_process(fresh: Open, attack: Attack) -> None:
    async with fresh(Spec()) as desk:
        await attack(desk, "for number in range(1, 65):\n    attempt(os.kill, 1, number)\ntime.sleep(0.5)\ntell(1)")
        assert (await desk.run(["true"], timeout=10)).ok


@falls_without(
    "a user namespace that is not root's",
    Removal("room/room.py", "user_namespace.make(self.base + uids.ANCHOR,", "user_namespace.make(0,"),
)
async def test_inotify_instances_are_counted_for_each_desk(
    desk: Desk, neighbour: Desk, attack: Attack, launch: Launch
) -> None:
    process, taken = await launch(desk, WATCHES, seconds=30)
    try:
        assert taken < 10000
        libc = ctypes.CDLL(None)
        ours = [fd for _ in range(20) if (fd := libc.inotify_init1(0)) >= 0]
        for fd in ours:
            os.close(fd)
        assert len(ours) == 20, "the desk's watches were charged to this machine's root"
        assert await attack(neighbour, WATCHES, seconds=0) >= taken - 1
    finally:
        await process.kill()


@falls_without("a user namespace that is not root's")
@falls_without(
    "resource limits",
    Removal("container/bundle.py", '"CORE": CORE_LIMIT, "SIGPENDING": 1024,', '"CORE": 0, "SIGPENDING": 4096,'),
)
async def test_queued_signals_are_limited_and_not_charged_to_the_hosts_root(desk: Desk, launch: Launch) -> None:
    before = signals_of_root()
    process, told = await launch(desk, SIGNALS, seconds=30)
    try:
        assert told["sent"] <= 1024
        assert told["queue"] == f"{told['sent']}/1024"
        assert signals_of_root() - before < 100
    finally:
        await process.kill()


@falls_without("resource limits")
async def test_no_core_file_is_ever_written(desk: Desk, attack: Attack, settings: Config, init: Init) -> None:
    told = await attack(desk, STATUS)
    assert told["core"] == [1, 1]
    limits = Path(f"/proc/{init(settings, desk)}/limits").read_text()
    assert limits.partition("Max core file size")[2].split()[:2] == ["1", "1"]
    assert await attack(desk, CRASH) == {"signal": signal.SIGSEGV, "dumped": False, "cores": []}


@falls_without(
    "a narrow map of ids",
    Removal(
        "linux/uids.py",
        'f"0 {base} {USER + 1}\\n{added}\\n65534 {base + NOBODY} 1\\n"',
        'f"0 {base} {WIDTH}\\n"',
    ),
)
async def test_a_desk_has_only_its_own_user_ids_and_shares_none(
    desk: Desk, neighbour: Desk, attack: Attack, settings: Config, init: Init
) -> None:
    bases = set()
    for each in (desk, neighbour):
        told = await attack(each, STATUS)
        base = os.stat(f"/proc/{init(settings, each)}").st_uid
        status = Path(f"/proc/{init(settings, each)}/status").read_text()
        uid = int(status.partition("Uid:")[2].split()[0])
        first = uid - uids.USER
        added = ["1001", str(first + 1004), "12"]
        assert told["uid_map"] == ["0", str(first), "1001", *added, "65534", str(first + uids.NOBODY), "1"]
        assert told["gid_map"] == told["uid_map"]
        assert base in (0, uid)
        bases.add(first)
    assert len(bases) == 2
    entries = [line.split(":") for file in ("passwd", "subuid") for line in Path("/etc", file).read_text().splitlines()]
    for first in bases:
        assert (first - uids.FIRST) % uids.WIDTH == 0
        taken = [e for e in entries if e[0] != "hotdesk" and e[2 if len(e) > 3 else 1].isdigit()]
        clashes = [e for e in taken if first <= int(e[2 if len(e) > 3 else 1]) < first + uids.WIDTH]
        assert clashes == []
    assert await attack(desk, FOREIGN_IDS) == {
        "0": "EPERM",
        "999": "EPERM",
        "1012": "EPERM",
        "1013": "EINVAL",
        "65533": "EINVAL",
        "65534": "EPERM",
        "100000": "EINVAL",
    }


@falls_without(
    "a deadline for every program",
    Removal("link/process.py", "        if self.deadline == math.inf:\n", "        if self.deadline:\n"),
)
async def test_host_calls_to_a_stalled_guest_end_and_it_burns(
    fresh: Open, runtime: KeeperRuntime, settings: Config, init: Init
) -> None:
    async with fresh(Spec()) as desk:
        process = await desk.start(["sleep", "60"], timeout=0.5, stdin=False)
        os.kill(init(settings, desk), signal.SIGSTOP)
        with anyio.fail_after(20):
            done = await process.wait()
        assert done.timed_out
        begun = time.monotonic()
        with anyio.fail_after(10):
            await runtime.burn(desk.id)
        assert time.monotonic() - begun < 10
        with pytest.raises(DeskError):
            await desk.run(["true"])


@falls_without(
    "an end to every wait",
    Removal("link/channel.py", "SILENCE_TIMEOUT_S = 60.0", "SILENCE_TIMEOUT_S = 600.0"),
    Removal("link/link.py", "SILENT_SECONDS = 60.0", "SILENT_SECONDS = 600.0"),
)
@pytest.mark.long
@pytest.mark.timeout(150)
async def test_every_wait_for_a_stalled_guest_has_a_timeout(fresh: Open, settings: Config, init: Init) -> None:
    async with fresh(Spec()) as desk:
        os.kill(init(settings, desk), signal.SIGSTOP)

        async def refused(call: Awaitable[object]) -> None:
            with pytest.raises(DeskError):
                await call

        with anyio.fail_after(90):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(refused, desk.stat("/"))
                tasks.start_soon(refused, desk.write("big", bytes(16 << 20)))
