"""Attacks behind gVisor: by programs inside, and by an attacker who has taken over a desk's sentry or its runsc."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.image import image
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.gvisor import prove
from hotdesk.errors import DeskGone
from hotdesk.linux import syscalls, uids
from hotdesk.linux.cgroup import Cgroup, find_hierarchies
from hotdesk.linux.processes import read_status
from tests.security.conftest import KNOCK, NEWER, NUMBERS, Attack, Craft, Init, Open, Owning
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.gvisor, pytest.mark.timeout(90)]

GVISOR = Spec(wall="gvisor", cpus=1)
UNPROVEN = Removal("gvisor/prove.py", "while wrong := list_flaws(room, supervisor):", "while wrong := list[str]():")
"""Without it, a desk whose sentry is not confined is never handed over."""
ROOT_UNPROVEN = Removal("gvisor/wall.py", "return prove.list_root_flaws(room, pid, first)", "return []")
DIAL = """
def dial(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(3)
        return attempt(s.connect, path)
tell({path: dial(path) for path in given["paths"]})
"""

BESIDE = """
s = socket.socket(socket.AF_UNIX)
at = "/run/hotdesk/"
tell([attempt(s.bind, at + "mine"), attempt(os.mkdir, at + "mine"), attempt(os.unlink, at + "gate.sock"),
      attempt(os.rename, at + "gate.sock", at + "old"), attempt(os.chmod, at + "gate.sock", 0o777),
      attempt(os.symlink, "/etc", at + "lib/x")])
"""
OUTSIDE = """
os.makedirs("/tmp/out/a/b")
path, up = given["path"], "../" * 30
ways = (path, up + path, "/proc/1/root" + path, "/proc/self/root/../.." + path, "/proc/self/cwd/" + up + path)
found = []
for n, target in enumerate(ways):
    os.symlink(target, "/tmp/out/%d" % n)
    found += [attempt(open, target), attempt(open, "/tmp/out/%d" % n)]
os.chdir("/tmp/out/a/b")
os.rename("/tmp/out/a", "/tmp/out/moved")
found.append(attempt(open, up + path[1:]))
os.rename("/tmp/out", "/tmp/out-%d" % os.getpid())
tell(found)
"""
NODES = """
kinds = {"kmem": (1, 2), "fuse": (10, 229), "kvm": (10, 232), "loop": (7, 0)}
told = {}
for n, (major, minor) in kinds.items():
    path = "/tmp/node-" + n
    made = attempt(os.mknod, path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    told[n] = made if made != "done" else attempt(os.open, path, os.O_RDWR)
told["there"] = [n for n in ("kvm", "loop0", "mem", "sda") if os.path.exists("/dev/" + n)]
tell(told)
"""
EVIL = """
told = {n: attempt(os.open, "/evil/" + n, os.O_RDWR | os.O_NONBLOCK) for n in given["nodes"]}
told["who"] = os.popen("/evil/who /proc/self/status | grep -E 'Uid|CapEff'").read().split()
tell(told)
"""


@pytest.fixture(scope="module")
async def desk(runtime: KeeperRuntime) -> AsyncIterator[Desk]:
    opened = await runtime.open(replace(GVISOR, root=True))
    await opened.run(KNOCK, timeout=20)
    await opened.run(["true"], user="root")
    yield opened
    await runtime.burn(opened.id)


@pytest.fixture
def sandbox(settings: Config, desk: Desk, init: Init) -> dict[str, int]:
    return find_sandbox(settings, desk, init)


def find_sandbox(settings: Config, desk: Desk, init: Init) -> dict[str, int]:
    """Find the processes of a desk's sandbox by their arguments, which the desk has not changed."""
    supervisor = init(settings, desk)
    found = {"supervisor": supervisor}
    for pid in Cgroup(find_hierarchies(), desk.id).list_pids():
        line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        for name in ("sandbox", "gofer", "exec"):
            if line[0].startswith(f"runsc-{name}".encode()) or (name == "exec" and b"exec" in line):
                found[name] = pid
    return found


@contextmanager
def listening(name: bytes | str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen(4)
        yield listener


def in_place_of(pid: int, work: Callable[[], object], *, root: bool = True) -> Any:
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(30)
            enter(pid, root)
            if (grandchild := os.fork()) == 0:  # a pid namespace applies to children only
                result = work()
                os.write(w, json.dumps(result).encode())
                os._exit(0)
            os.waitpid(grandchild, 0)
        except BaseException as e:  # noqa: BLE001 - a child: told to its parent
            os.write(w, json.dumps(f"raised {e!r}").encode())
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)


def enter(pid: int, root: bool) -> None:
    """Take a process's place; called in a child."""
    kinds = ("pid", "net", "ipc", "uts", "mnt", "user")
    spaces = {kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds}
    place = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for kind in ("pid", "net", "ipc", "uts", "mnt"):
        syscalls.check(syscalls.libc.setns(spaces[kind], 0), f"setns {kind}")
    if root:
        os.fchdir(place)
        os.chroot(".")
    syscalls.check(syscalls.libc.setns(spaces["user"], 0), "setns user")
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def attempt(work: Callable[..., object], *arguments: object) -> str:
    try:
        work(*arguments)
    except OSError as e:
        return errno.errorcode.get(e.errno or 0, str(e))
    return "done"


def call(name: bytes | str) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(3)
        sock.connect(name)


def trace(pid: int) -> None:
    if syscalls.libc.ptrace(16, pid, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


# -- from inside -----------------------------------------------------------------------------------------------


@falls_without(
    "who calls first behind gVisor is the only one",
    Removal(
        "keeper/keeper.py",
        "        room.hang_up()\n        os.close(tracked.console)",
        "        os.close(tracked.console)",
    ),
)
async def test_no_process_can_call_the_owner_after_the_guest(fresh: Open, attack: Attack) -> None:
    async with fresh(GVISOR) as desk:
        answer = await attack(desk, DIAL, paths=["/run/hotdesk/link.sock"])
    assert answer == {"/run/hotdesk/link.sock": "ECONNREFUSED"}


@falls_without(
    "root's socket is root's behind gVisor",
    Removal("room/room.py", 'self.listen("root.sock", 0, 0o600)', 'self.listen("root.sock", 0, 0o666)'),
)
async def test_a_program_cannot_impersonate_roots_guest(desk: Desk, attack: Attack) -> None:
    await desk.run(["true"], user="root")
    answer = await attack(desk, DIAL, paths=["/run/hotdesk/root.sock"])
    assert answer == {"/run/hotdesk/root.sock": "EACCES"}


@no_guard("a sentry has unix sockets of its own; the host's can only be opened as files, and none is in a desk")
async def test_sockets_of_the_host_are_out_of_reach(desk: Desk, attack: Attack) -> None:
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as folder:  # a socket's path has at most 107 bytes
        os.chmod(folder, 0o755)  # noqa: S103 - an attack
        path = f"{folder}/s"
        with listening(b"\0hotdesk-attack"), listening(path):
            paths = ["\0hotdesk-attack", path, f"/run/hotdesk/../../..{path}", f"/proc/1/root{path}"]
            answer = await attack(desk, DIAL, paths=paths)
    assert set(answer.values()) <= {"ECONNREFUSED", "ENOENT", "EACCES", "ENOTDIR"}, answer


@no_guard("the folder is the keeper's, who is nobody in the desk, and it is mounted read-only")
@pytest.mark.parametrize("user", [None, "root"])
async def test_no_file_can_be_added_beside_the_guests_code(desk: Desk, attack: Attack, user: str | None) -> None:
    answer = await attack(desk, BESIDE, user=user)
    assert set(answer) <= {"EROFS", "EACCES", "EPERM"}, answer


@no_guard("the gofer shows the desk's file system and nothing above it")
@pytest.mark.parametrize("user", [None, "root"])
async def test_no_name_leads_out_of_the_desk(desk: Desk, attack: Attack, user: str | None, home: Path) -> None:
    secret = home / "secret-of-the-host"
    secret.write_text("of the host")
    secret.chmod(0o644)
    answer = await attack(desk, OUTSIDE, user=user, path=str(secret))
    assert set(answer) <= {"ENOENT", "EACCES", "ENOTDIR", "ELOOP"}, answer


@no_guard("a layer is shown without devices, by the host and by the sentry")
async def test_device_nodes_give_no_device_access(desk: Desk, attack: Attack) -> None:
    answer = await attack(desk, NODES, user="root")
    assert answer.pop("there") == []
    assert set(answer.values()) <= {"EPERM", "EACCES", "ENXIO", "ENODEV"}, answer


@pytest.fixture
async def evil(settings: Config, crafted: Craft, owning: Owning) -> AsyncIterator[Desk]:
    base = image.find(settings.images, "base")

    def fill(layer: Path) -> None:
        (layer / "evil").mkdir()
        for name, number in {"mem": (1, 1), "fuse": (10, 229), "kvm": (10, 232)}.items():
            os.mknod(layer / "evil" / name, stat.S_IFCHR | 0o666, os.makedev(*number))
            os.chmod(layer / "evil" / name, 0o666)  # noqa: S103 - an attack
        shutil.copy(base.layers[-1] / "usr/bin/cat", layer / "evil/who")
        os.chmod(layer / "evil/who", 0o6755)  # noqa: S103 - an attack

    async with owning(crafted("evil", fill)) as runtime:
        yield await runtime.open(replace(GVISOR, image="evil"))


@no_guard("a layer is shown without devices and setuid, and no process of a desk can gain privileges")
async def test_an_image_adds_no_device_and_no_privilege(evil: Desk, attack: Attack) -> None:
    nodes = ["mem", "fuse", "kvm"]
    answer = await attack(evil, EVIL, nodes=nodes)
    assert {answer[name] for name in nodes} <= {"EACCES", "ENXIO", "ENODEV", "EPERM"}, answer
    assert answer["who"] == ["Uid:", *["1000"] * 4, "CapEff:", "0" * 16]


FILL = {
    "memory": "data = [bytearray(os.urandom(1 << 20)) for _ in range(400)]",
    "tmpfs": """
try:
    with open("/dev/shm/x", "wb", buffering=0) as f:
        [f.write(os.urandom(1 << 20)) for _ in range(400)]
except OSError:
    pass  # the file system has a size
""",
    "sockets": """
pairs = []
try:
    while True:
        a, b = socket.socketpair()
        a.setblocking(False)
        pairs.append((a, b))
        try:
            while True:
                a.send(bytes(1 << 16))
        except BlockingIOError:
            pass
except OSError:
    pass  # no more descriptors, or no more memory
""",
    "inotify": """
fd = libc.inotify_init()
os.makedirs("/tmp/watched", exist_ok=True)
libc.inotify_add_watch(fd, b"/tmp/watched", 0xfff)
name = "/tmp/watched/" + "n" * 200
end = time.time() + 40
while time.time() < end:
    open(name, "w").close()
    os.unlink(name)
""",
}


@pytest.mark.long
@falls_without(
    "the memory limit of a desk behind gVisor",
    Removal(
        "linux/cgroup.py", "        self.limit_memory_v1(limits.memory)\n", "        self.limit_memory_v1(1 << 40)\n"
    ),
    cases="memory",
)
@no_guard("the memory limit holds for all of it; the attack on it is `memory`", cases="tmpfs | sockets | inotify")
@pytest.mark.parametrize("what", FILL)
async def test_filled_memory_counts_against_the_desk(settings: Config, fresh: Open, attack: Attack, what: str) -> None:
    async with fresh(replace(GVISOR, memory=160 * MIB)) as desk:
        cgroup = Cgroup(find_hierarchies(), desk.id)
        try:
            await attack(desk, FILL[what] + "\ntell('filled')", timeout=50)
            survived = True
        except DeskGone:
            survived = False
        if what == "memory":
            assert not survived
        if survived:
            assert cgroup.read_memory_use().total <= 160 * MIB


@falls_without(
    "the limit of processes of a desk behind gVisor",
    Removal("room/room.py", "pids = THREADS_PER_PROGRAM * spec.pids + self.kernel_threads if", "pids = 1 << 20 if"),
)
async def test_a_fork_bomb_ends_only_its_own_desk(desk: Desk, fresh: Open, attack: Attack) -> None:
    code = "tell(sum(1 for _ in range(200) if os.fork() or time.sleep(60)))"
    async with fresh(replace(GVISOR, pids=16)) as bomb:
        with pytest.raises(DeskGone, match="out of processes"):
            await attack(bomb, code)
    assert (await desk.run(["true"])).ok


GIVE_AWAY = """
path = "/tmp/given-away"
open(path, "w").close()
for number in given["ids"]:
    attempt(os.chown, path, number, number)
    apart(lambda: [attempt(os.setresgid, number, number, number), attempt(os.setresuid, number, number, number),
                   attempt(open, path + str(number), "w")])
tell(1)
"""


@falls_without(
    "ids of the desk's own behind gVisor",
    Removal(
        "linux/uids.py",
        'f"0 {base} {USER + 1}\\n{added}\\n65534 {base + NOBODY} 1\\n"',
        'f"0 {base} {WIDTH}\\n"',
    ),
)
async def test_no_file_on_the_host_has_a_user_id_outside_the_desks_range(
    fresh: Open, attack: Attack, settings: Config, init: Init
) -> None:
    async with fresh(replace(GVISOR, root=True)) as desk:
        await attack(desk, GIVE_AWAY, user="root", ids=[1001, 1012, 1013, 1023, 1024, 65533, 65535, 100000, 0x70000000])
        supervisor = init(settings, desk)
        base = int(read_status(supervisor)["Uid"].split()[0]) - uids.SUPERVISOR
        keeper = int(read_status(supervisor)["PPid"])
        folder = Path(f"/proc/{keeper}/root{settings.run}/private/{desk.id}/root/tmp")
        owners = {(found.lstat().st_uid, found.lstat().st_gid) for found in folder.rglob("*")}
        assert owners
        assert {number - base for pair in owners for number in pair} <= {0, uids.USER, uids.NOBODY, *range(1004, 1016)}


RAW = """
def make(family, kind, protocol):
    with socket.socket(family, kind, protocol):
        pass
each = ((2, 3, 1), (2, 3 | 0x80000, 255), (10, 3, 58), (17, 1, 0), (17, 2, 0), (17, 3, 3))
tell([attempt(make, *words) for words in each])
"""


@falls_without(
    "sockets that end a sentry",
    Removal("gvisor/bundle.py", '"seccomp": WRONG_CALLS,', '"seccomp": {"defaultAction": "SCMP_ACT_ALLOW"},'),
)
async def test_a_raw_socket_is_refused_and_does_not_end_the_sentry(fresh: Open, attack: Attack) -> None:
    async with fresh(GVISOR) as desk:
        assert set(await attack(desk, RAW)) == {"EPERM"}
        assert (await desk.run(["true"])).ok


@falls_without(
    "sockets of root that end a sentry",
    Removal("hotdesk_guest/agent.py", "        wrong_calls.refuse()\n", "        pass\n"),
)
async def test_a_raw_socket_of_root_does_not_end_the_sentry(fresh: Open, attack: Attack) -> None:
    async with fresh(replace(GVISOR, root=True)) as desk:
        assert set(await attack(desk, RAW, user="root")) == {"EPERM"}
        assert (await desk.run(["true"])).ok


@falls_without(
    "a guest that outlives signals behind gVisor",
    Removal("hotdesk_guest/agent.py", "    if sentry:\n        outlive_signals()\n", ""),
)
async def test_a_signal_that_can_be_caught_does_not_end_the_guest(fresh: Open, attack: Attack) -> None:
    caught = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
    async with fresh(GVISOR) as desk:
        await attack(desk, "[attempt(os.kill, 1, each) for each in given['signals']]\ntell(1)", signals=caught)
        assert (await desk.run(["true"])).ok
        ended = await desk.run(["sh", "-c", "kill -TERM $$; sleep 5"])
        assert ended.signal == signal.SIGTERM, "programs have the defaults"


# -- in the sentry's place -------------------------------------------------------------------------------------


@falls_without(
    "a sentry's own processes",
    UNPROVEN,
    ROOT_UNPROVEN,
    Removal("gvisor/runsc.py", "    syscalls.unshare(syscalls.CLONE_NEWPID)\n", ""),
)
async def test_a_compromised_sentry_finds_no_process_of_the_host(sandbox: dict[str, int]) -> None:
    ours = os.getpid()
    answer = in_place_of(sandbox["sandbox"], lambda: [attempt(os.kill, ours, 0), os.listdir("/proc")])
    assert answer == ["ESRCH", []]


@falls_without(
    "the supervisor's own user",
    UNPROVEN,
    Removal("gvisor/runsc.py", "drop_privileges(room.base + uids.SUPERVISOR)", "drop_privileges(room.base)"),
)
async def test_a_compromised_sentry_cannot_touch_its_supervisor(sandbox: dict[str, int]) -> None:
    answer = in_place_of(sandbox["sandbox"], lambda: [attempt(os.kill, 1, 0), attempt(trace, 1)])
    assert answer == ["EPERM", "EPERM"]


@falls_without(
    "a sentry's own network",
    UNPROVEN,
    Removal(
        "gvisor/runsc.py",
        "    syscalls.setns(netns, syscalls.CLONE_NEWNET)\n    syscalls.unshare",
        "    syscalls.unshare",
    ),
    Removal("gvisor/runsc.py", '"--network=none"', '"--network=host"'),
    Removal("gvisor/bundle.py", '"mount", "network")', '"mount")'),
)
async def test_a_compromised_sentry_has_no_network_and_no_host_socket(sandbox: dict[str, int]) -> None:
    name = b"\0hotdesk-attack-%d" % os.getpid()

    def work() -> object:
        return [attempt(call, name), sorted(each[1] for each in socket.if_nameindex())]

    with listening(name):
        assert in_place_of(sandbox["sandbox"], work) == ["ECONNREFUSED", ["lo"]]


@no_guard("runsc starts no sentry without this root directory; that it has it is proven before a desk is handed over")
async def test_a_compromised_sentry_finds_no_file_of_the_host(sandbox: dict[str, int]) -> None:
    def work() -> object:
        found = [os.path.join(folder, name) for folder, folders, files in os.walk("/") for name in [*folders, *files]]
        return [sorted(found), attempt(os.mkdir, "/mine"), attempt(open, "/proc/self/status")]

    found, made, status = in_place_of(sandbox["sandbox"], work)
    assert {*found} <= {"/etc", "/proc", "/etc/localtime"}
    assert made != "done"
    assert status == "ENOENT"


@no_guard("the user that the gofer and the sentry have on the host is the desk's own; nothing of it is anybody else's")
@pytest.mark.parametrize("name", ["sandbox", "gofer"])
async def test_a_process_of_the_sandbox_is_unprivileged_on_the_host(sandbox: dict[str, int], name: str) -> None:
    status = read_status(sandbox[name])
    user = int(status["Uid"].split()[0])
    assert uids.FIRST <= user < uids.DOOR
    assert (user - uids.FIRST) % uids.WIDTH == 0
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert int(status["CapBnd"], 16) & ~prove.ALLOWED == 0


def kernel_call(name: str, *arguments: int | bytes | None) -> str:
    """Make a system call; return the name of its errno, or its result."""
    numbers = {**NEWER, **{each: both[MACHINE] for each, both in NUMBERS.items()}}
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    ctypes.set_errno(0)
    result = syscalls.libc.syscall(ctypes.c_long(numbers[name]), *words)
    return errno.errorcode[ctypes.get_errno()] if result == -1 else f"done: {result}"


def write_of_host(path: str) -> str:
    os.makedirs("/proc", exist_ok=True)
    mounted = kernel_call("mount", b"proc", b"/proc", b"proc", 0, None)
    return mounted if not mounted.startswith("done") else attempt(lambda: os.close(os.open(path, os.O_WRONLY)))


def dial_host(port: int) -> str:
    with socket.socket() as sock:
        sock.settimeout(3)
        return attempt(sock.connect, ("127.0.0.1", port))


MACHINE = ("aarch64", "x86_64").index(os.uname().machine)
JOIN = "join the supervisor's namespaces"
REFUSED = {"EPERM", "EACCES", "ENOSYS", "EINVAL", "ENOENT", "EROFS"}
TAKEN_OVER: dict[str, tuple[Callable[[int, int], str], set[str]]] = {
    "signal a process of the host": (lambda victim, port: attempt(os.kill, victim, 9), {"ESRCH"}),
    "trace a process of the host": (lambda victim, port: attempt(trace, victim), {"ESRCH"}),
    "hold a process of the host": (lambda victim, port: kernel_call("pidfd_open", victim, 0), {"ESRCH"}),
    "set limits of a process of the host": (
        lambda victim, port: kernel_call("prlimit64", victim, 7, None, bytes(16)),
        {"ESRCH", "EPERM"},
    ),
    JOIN: (
        lambda victim, port: kernel_call("setns", os.pidfd_open(1), 0x40020000),
        {"EPERM"},
    ),
    "dial the host's loopback": (
        lambda victim, port: dial_host(port),
        {"ECONNREFUSED", "ENETUNREACH", "EADDRNOTAVAIL"},
    ),
    "become a user of the host": (lambda victim, port: attempt(os.setresuid, 65533, 65533, 65533), {"EINVAL", "EPERM"}),
    "make a device": (
        lambda victim, port: attempt(os.mknod, "/sda", stat.S_IFBLK | 0o600, os.makedev(8, 0)),
        REFUSED,
    ),
    "open a file by its handle": (lambda victim, port: kernel_call("open_by_handle_at", -100, bytes(24), 0), REFUSED),
    "mount a disk": (lambda victim, port: kernel_call("mount", b"/dev/vda", b"/", b"ext4", 0, None), REFUSED),
    "mount the cgroups": (lambda victim, port: kernel_call("mount", b"cgroup2", b"/", b"cgroup2", 0, None), REFUSED),
    "have a core written by the host": (lambda victim, port: write_of_host("/proc/sys/kernel/core_pattern"), REFUSED),
    "press the host's emergency key": (lambda victim, port: write_of_host("/proc/sysrq-trigger"), REFUSED),
    "load a module": (lambda victim, port: kernel_call("init_module", b"", 0, b""), REFUSED),
    "load another kernel": (lambda victim, port: kernel_call("kexec_load", 0, 0, None, 0), REFUSED),
    "load a program into the kernel": (lambda victim, port: kernel_call("bpf", 5, bytes(120), 120), REFUSED),
    "set the clock": (
        lambda victim, port: kernel_call("clock_settime", 0, struct.pack("qq", int(time.time()), 0)),
        REFUSED,
    ),
    "read the kernel's log": (lambda victim, port: kernel_call("syslog", 3, bytes(16), 16), REFUSED),
    "account for processes": (lambda victim, port: kernel_call("acct", b"/x"), REFUSED),
    "swap to a file": (lambda victim, port: kernel_call("swapon", b"/x", 0), REFUSED),
}
"""What an attacker in a sandbox process asks of the host, without the system call filter that it also has."""


@no_guard("the kernel refuses whoever has capabilities in a user namespace of their own; that they have one is proven")
@pytest.mark.parametrize("name", ["sandbox", "gofer"])
async def test_a_compromised_sandbox_process_has_no_access_to_the_host(
    sandbox: dict[str, int], victim: int, name: str
) -> None:
    def work() -> object:
        attempt(syscalls.unshare, syscalls.CLONE_NEWNS)  # a mount it makes must not stay in the desk under attack
        attempt(syscalls.mount, "none", "/", None, syscalls.MS_REC | syscalls.MS_SLAVE)
        return {what: act(victim, port) for what, (act, _) in TAKEN_OVER.items()}

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        found = in_place_of(sandbox[name], work)
    if name == "gofer":
        found.pop(JOIN)  # the process itself is the first one of its pid namespace
    assert {what: answer for what, answer in found.items() if answer not in TAKEN_OVER[what][1]} == {}


@falls_without(
    "what stays while root's guest runs behind gVisor has no capability",
    ROOT_UNPROVEN,
    Removal("gvisor/runsc.py", "[*argv, CONTAINER], capable=False)", "[*argv, CONTAINER])"),
)
async def test_the_runsc_that_stays_for_root_has_no_access(settings: Config, desk: Desk, init: Init) -> None:
    await desk.run(["true"], user="root")
    pid = find_sandbox(settings, desk, init)["exec"]
    status = read_status(pid)
    assert [status[f"Cap{kind}"] for kind in ("Prm", "Eff", "Bnd")] == ["0" * 16] * 3
    assert status["NoNewPrivs"] == "1"
    assert not {"etc", "usr", "home"} & {*os.listdir(f"/proc/{pid}/root")}


# -- the proof -------------------------------------------------------------------------------------------------

STRANGERS = {
    "of another user": "os.setresgid(USER + 1, USER + 1, USER + 1); os.setresuid(USER + 1, USER + 1, USER + 1)",
    "with root's rights": "pass",
    "without a filter": "os.setresgid(USER, USER, USER); os.setresuid(USER, USER, USER)",
}


@no_guard("it is the proof itself that is attacked; without it the attacks above succeed")
@pytest.mark.parametrize("what", STRANGERS)
async def test_the_proof_detects_an_unconfined_process(
    runtime: KeeperRuntime, settings: Config, init: Init, what: str
) -> None:
    desk = await runtime.open(GVISOR)
    try:
        supervisor, cgroup = init(settings, desk), Cgroup(find_hierarchies(), desk.id)
        user = int(read_status(supervisor)["Uid"].split()[0]) - uids.SUPERVISOR
        code = f"import os, time; USER = {user}; os.setgroups([]); {STRANGERS[what]}; print(flush=True); time.sleep(60)"
        stranger = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, preexec_fn=cgroup.join)  # noqa: PLW1509
        try:
            assert stranger.stdout is not None
            await anyio.to_thread.run_sync(stranger.stdout.readline)
            room: Any = find_room(settings, desk, cgroup, user, supervisor)
            wrong = [each for each in prove.list_flaws(room, supervisor) if str(stranger.pid) in each]
        finally:
            stranger.kill()
            stranger.communicate()
        assert any("Seccomp" in each for each in wrong)
        assert any("the pid namespace of the process is the host's" in each for each in wrong)
        assert any("root directory" in each for each in wrong)
    finally:
        await runtime.burn(desk.id)


def find_room(settings: Config, desk: Desk, cgroup: Cgroup, base: int, supervisor: int) -> object:
    keeper = int(read_status(supervisor)["PPid"])
    folder = Path(f"/proc/{keeper}/root{settings.run}/private/{desk.id}")
    userns = os.open(f"/proc/{supervisor}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    return SimpleNamespace(folder=folder, cgroup=cgroup, base=base, userns=userns)


@no_guard("a desk without its sentry has nobody left who could go on")
async def test_a_desk_ends_with_its_sentry(runtime: KeeperRuntime, settings: Config, init: Init) -> None:
    desk = await runtime.open(GVISOR)
    os.kill(find_sandbox(settings, desk, init)["sandbox"], signal.SIGKILL)
    with anyio.fail_after(10), pytest.raises(DeskGone, match="first process ended"):
        await desk.run(["sleep", "30"])
    await runtime.burn(desk.id)
