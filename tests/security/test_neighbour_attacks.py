"""Attacks on other desks, the host beside a desk and its other users: by locks, watches, memory, queues and sockets."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from hotdesk.brief import Grant, Scope
from hotdesk.config import Config
from hotdesk.desk.image import image
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.control import serve_control
from hotdesk.desk.owner.remote import remote_runtime
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import BriefError
from hotdesk.host import Host, control_path
from tests.security.conftest import Attack, Init, Launch
from tests.security.guards import WALLS_UNPROVEN, Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

SHARED = "/usr/bin/env"
"""A file in the image that every desk shares."""
LOCK_FILE = """
fd = os.open(given["file"], os.O_RDONLY)
told = [attempt(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB), attempt(fcntl.lockf, fd, fcntl.LOCK_SH)]
told.append(attempt(fcntl.fcntl, fd, fcntl.F_SETLEASE, fcntl.F_RDLCK) in ("done", 0, "EACCES", "EINVAL"))
tell(told)
time.sleep(given["seconds"])
"""
WATCH_FILE = """
fd = libc.inotify_init1(os.O_NONBLOCK)
for path in (given["file"], os.path.dirname(given["file"]), "/etc", "/tmp", "/dev/shm"):
    assert libc.inotify_add_watch(fd, path.encode(), 0xfff) >= 0
tell("watching")
for sign in given["signs"]:
    while not os.path.exists(sign):
        time.sleep(0.02)
    print(len(os.read(fd, 65536)) if select.select([fd], [], [], 0)[0] else 0, flush=True)
"""
FIND_IPC = """
def find(work, *args):
    ctypes.set_errno(0)
    return "found" if work(*args) >= 0 else name(ctypes.get_errno())

key = given["key"]
tell({"shared memory": find(libc.shmget, key, 0, 0), "semaphores": find(libc.semget, key, 0, 0),
      "messages": find(libc.msgget, key, 0), "queue": find(libc.mq_open, given["queue"].encode(), 0),
      "file": os.path.exists("/dev/shm" + given["queue"]),
      "listed": [len(open("/proc/sysvipc/" + n).readlines()) - 1 for n in ("shm", "sem", "msg")]})
"""
MAKE_IPC = """
key = given["key"]
made = [libc.shmget(key, 4096, 0o1666), libc.semget(key, 1, 0o1666), libc.msgget(key, 0o1666),
        libc.mq_open(given["queue"].encode(), os.O_CREAT | os.O_RDWR, 0o666, None)]
open("/dev/shm" + given["queue"], "w").close()
tell(min(made) >= 0)
time.sleep(60)
"""
SOCKETS = """
inherited = [n for n in range(3, 100) if attempt(os.fstat, n) != "EBADF"]
found = os.popen("find / -type s 2>/dev/null").read().split()
def dial(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(2)
        return attempt(s.connect, path)
places = given["paths"] + ["/proc/1/root" + path for path in given["paths"]] + ["/proc/1/fd/%d" % n for n in range(12)]
with open("/proc/net/unix") as file:
    named = [line.split()[7] for line in file.readlines()[1:] if len(line.split()) > 7]
tell({"found": {path: dial(path) for path in found}, "asked": [dial(path) for path in places if len(path) < 108],
      "named": named, "inherited": inherited})
"""
FULL_PORT = """
listener = socket.socket()
listener.bind(("127.0.0.1", 8000))
listener.listen(0)
crowd = [socket.socket() for _ in range(8)]
for each in crowd:
    each.setblocking(False)
    each.connect_ex(("127.0.0.1", 8000))
tell("full")
time.sleep(60)
"""
CROWD = 1000
"""Connections to a port whose server never accepts them."""
STRANGER = """
import json, os, socket, sys
told, paths = {}, json.loads(sys.argv[1])
os.setgroups([])
os.setresgid(54321, 54321, 54321)
os.setresuid(54321, 54321, 54321)
def attempt(work):
    try:
        work()
        return "done"
    except OSError as e:
        return type(e).__name__
def dial(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
for path in paths["closed"]:
    told[path] = attempt(lambda: os.listdir(path) if os.path.isdir(path) else open(path).close())
for path in paths["sockets"]:
    told[path] = attempt(lambda: dial(path))
print(json.dumps(told))
"""
SPEAK = """
import os, socket, sys
os.setgroups([])
os.setresgid(54321, 54321, 54321)
os.setresuid(54321, 54321, 54321)
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(5)
    s.connect(sys.argv[1])
    try:
        s.sendall(b"GET /desks HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        print(len(s.recv(100)))
    except ConnectionError:
        print(0)
"""


@no_guard("overlayfs gives every desk inodes of its own")
@pytest.mark.parametrize("where", ["image", "disk"])
async def test_a_lock_does_not_affect_other_desks(
    desk: Desk, neighbour: Desk, attack: Attack, launch: Launch, settings: Config, where: str
) -> None:
    file = {"image": SHARED, "disk": "/etc/hostname"}[where]
    process, told = await launch(desk, LOCK_FILE, file=file, seconds=30)
    try:
        assert told == ["done", "done", True]
        assert (await attack(desk, LOCK_FILE, file=file, seconds=0))[0] == "EAGAIN"
        assert await attack(neighbour, LOCK_FILE, file=file, seconds=0) == ["done", "done", True]
        layer = image.find(settings.images, "base").layers[-1]
        ours = os.open(layer / file[1:] if where == "image" else file, os.O_RDONLY)
        fcntl.flock(ours, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(ours)
    finally:
        await process.kill()


@no_guard("overlayfs gives every desk inodes of its own")
async def test_a_watch_sees_nothing_of_another_desk(desk: Desk, neighbour: Desk, launch: Launch) -> None:
    signs = ["/var/tmp/first", "/var/tmp/second"]
    process, _ = await launch(desk, WATCH_FILE, file=SHARED, signs=signs)
    done = await neighbour.run(["sh", "-c", f"{SHARED} true; cat {SHARED} >/dev/null; ls /etc /tmp; echo x >/tmp/seen"])
    assert done.ok, done.stderr
    await desk.write(signs[0], b"")
    output = process.output()
    assert [await anext(output)] == [("stdout", b"0\n")]
    await desk.write("/tmp/own", b"x")
    await desk.write(signs[1], b"")
    _, own = await anext(output)
    assert int(own) > 0, "a desk's own events are seen"
    assert [data async for _, data in output] == []


@falls_without("a keeper that waits for no port", Removal("linux/loopback.py", "poll.poll(0)", "poll.poll(1000)"))
async def test_connections_to_a_full_port_do_not_delay_other_desks(desk: Desk, neighbour: Desk, launch: Launch) -> None:
    took, _, _ = await crowd_at_full_port(desk, neighbour, launch)
    assert took < 2, "four connections that the keeper waits for take four seconds"


@falls_without("dials that wait at their owner", Removal("owner/keeper_handle.py", "DIALS = 4\n", "DIALS = 1 << 20\n"))
async def test_a_crowd_of_connections_waits_for_its_turn_and_leaves_no_work_behind(
    desk: Desk, neighbour: Desk, launch: Launch
) -> None:
    """A request of another desk comes first, and callers that left are not served."""
    _, ahead, served = await crowd_at_full_port(desk, neighbour, launch)
    assert ahead < CROWD / 10
    assert served < CROWD / 10


async def crowd_at_full_port(desk: Desk, neighbour: Desk, launch: Launch) -> tuple[float, int, int]:
    """Dial a full port many times, and ask for another desk's usage meanwhile; then let all callers leave.

    Return the seconds that the request took, how many connections the keeper made before it, and how many in all.
    """
    assert isinstance(desk, LinkedDesk)
    full, told = await launch(desk, FULL_PORT)
    assert told == "full"
    served: list[socket.socket] = []

    async def call() -> None:
        served.append(await desk.outside.dial(8000, desk.link))

    async with anyio.create_task_group() as tasks:
        for _ in range(CROWD):
            tasks.start_soon(call)
        for _ in range(10):  # so that all have called
            await anyio.lowlevel.checkpoint()
        begun = anyio.current_time()
        await neighbour.usage()
        took, ahead = anyio.current_time() - begun, len(served)
        tasks.cancel_scope.cancel()
    for each in served:
        each.close()
    await full.kill()
    return took, ahead, len(served)


@pytest.fixture
def host_ipc() -> Iterator[tuple[int, str]]:
    libc = ctypes.CDLL(None, use_errno=True)
    key, queue = os.getpid() << 8 | 7, f"/hotdesk-{os.getpid()}"
    made = [libc.shmget(key, 4096, 0o1666), libc.semget(key, 1, 0o1666), libc.msgget(key, 0o1666)]
    made.append(libc.mq_open(queue.encode(), os.O_CREAT | os.O_RDWR, 0o666, None))
    Path(f"/dev/shm{queue}").touch()
    try:
        assert min(made) >= 0
        yield key, queue
    finally:
        libc.shmctl(made[0], 0, None)
        libc.semctl(made[1], 0, 0)
        libc.msgctl(made[2], 0, None)
        os.close(made[3])
        libc.mq_unlink(queue.encode())
        Path(f"/dev/shm{queue}").unlink()


NO_IPC = dict.fromkeys(("shared memory", "semaphores", "messages", "queue"), "ENOENT") | {
    "file": False,
    "listed": [0, 0, 0],
}


@falls_without(
    "an ipc namespace",
    WALLS_UNPROVEN,
    Removal(
        "container/bundle.py",
        'for kind in ("pid", "ipc", "uts", "mount", "cgroup"))',
        'for kind in ("pid", "uts", "mount", "cgroup"))',
    ),
)
async def test_shared_memory_and_queues_of_the_host_are_not_visible(
    desk: Desk, attack: Attack, host_ipc: tuple[int, str]
) -> None:
    assert await attack(desk, FIND_IPC, key=host_ipc[0], queue=host_ipc[1]) == NO_IPC


@falls_without("an ipc namespace")
async def test_shared_memory_and_queues_of_another_desk_are_not_visible(
    desk: Desk, neighbour: Desk, attack: Attack, launch: Launch
) -> None:
    process, made = await launch(desk, MAKE_IPC, key=4711, queue="/hotdesk-x")
    try:
        assert made
        assert await attack(neighbour, FIND_IPC, key=4711, queue="/hotdesk-x") == NO_IPC
        assert (await attack(desk, FIND_IPC, key=4711, queue="/hotdesk-x"))["shared memory"] == "found"
    finally:
        await process.kill()


@falls_without("a pid namespace, and a proc of its own")
async def test_a_process_of_another_desk_is_not_visible(
    desk: Desk, neighbour: Desk, attack: Attack, launch: Launch, settings: Config, init: Init
) -> None:
    process, theirs = await launch(neighbour, "tell(os.getpid())\ntime.sleep(60)")
    try:
        outside = [init(settings, neighbour), *descendants(init(settings, neighbour))]
        assert len(outside) >= 2
        code = """
told = [attempt(os.kill, pid, 9) for pid in given["pids"]]
told += [attempt(os.listdir, "/proc/%d" % pid) for pid in given["pids"]]
lines = [open("/proc/%s/cmdline" % n).read() for n in os.listdir("/proc") if n.isdigit()]
tell([told, [line for line in lines if given["mark"][::-1] in line]])
"""
        told, seen = await attack(desk, code, pids=outside, mark="time.sleep(60)"[::-1])
        assert told == ["ESRCH"] * len(outside) + ["ENOENT"] * len(outside)
        assert seen == []
        assert theirs in [running.pid for running in await neighbour.processes() if running.exit_code is None]
    finally:
        await process.kill()


def descendants(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
async def control(runtime: KeeperRuntime, settings: Config) -> AsyncIterator[Path]:
    path = control_path(settings, os.getpid())
    async with serve_control(runtime, path):
        yield path


@falls_without("a socket for one call")
async def test_no_socket_of_the_keeper_or_an_owner_is_found_inside(
    desk: Desk, attack: Attack, settings: Config, control: Path
) -> None:
    paths = [str(control), str(settings.run / "control/holder.sock"), "/run/hotdesk/control/holder.sock"]
    paths += [str(settings.run / "private" / desk.id / "link/link.sock"), "/run/hotdesk/lib/../link.sock"]
    told = await attack(desk, SOCKETS, paths=paths)
    assert told["found"] == {"/run/hotdesk/link.sock": "ECONNREFUSED"}
    assert set(told["asked"]) <= {"ENOENT", "EACCES", "ECONNREFUSED"}
    assert [name for name in told["named"] if "hotdesk" in name and not name.endswith("/link.sock")] == []
    assert told["inherited"] == []


@falls_without("closed folders")
async def test_another_user_of_the_host_cannot_see_into_desks(
    desk: Desk, runtime: KeeperRuntime, settings: Config, init: Init, control: Path
) -> None:
    first, keeper = init(settings, desk), runtime.keeper.pid
    closed = [str(settings.run / "desks" / desk.id), str(settings.run / "desks" / desk.id / "desk.json")]
    closed += [str(settings.run / "runtime"), str(settings.run / "pool"), str(settings.images), str(settings.lib)]
    closed += [f"/proc/{pid}/{name}" for pid in (first, keeper) for name in ("fd", "root", "environ", "map_files")]
    asked = json.dumps({"closed": closed, "sockets": [str(control), f"/proc/{first}/root/run/hotdesk/link.sock"]})
    done = await anyio.run_process([sys.executable, "-c", STRANGER, asked], check=True)
    told = json.loads(done.stdout)
    assert told == dict.fromkeys(told, "PermissionError")


@falls_without(
    "a control socket for its owner's user",
    Removal("owner/control.py", "if self.everyone or get_peer(sock)[1] in (os.geteuid(), 0):", "if get_peer(sock):"),
)
async def test_an_owner_disconnects_another_user_even_at_a_world_writable_socket(control: Path) -> None:
    os.chmod(control, 0o666)  # noqa: S103 - an attack
    try:
        done = await anyio.run_process([sys.executable, "-c", SPEAK, str(control)], stderr=subprocess.PIPE)
        assert int(done.stdout) == 0
        with socket.socket(socket.AF_UNIX) as ours:
            ours.connect(str(control))
            ours.sendall(b"GET /desks HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await anyio.to_thread.run_sync(ours.recv, 100)).startswith(b"HTTP/1.1 200")
    finally:
        os.chmod(control, 0o600)


@falls_without(
    "what is the operator's, at a shared socket",
    Removal(
        "owner/control.py",
        "if self.everyone and (scope.names or scope.grants or scope.anywhere or scope.proxy):",
        "if False:",
    ),
    cases="a name | a secret | the whole internet",
)
@pytest.mark.parametrize(
    "scope",
    [
        pytest.param(Scope(names={"a.test": "127.0.0.1:1"}), id="a name"),
        pytest.param(Scope(grants=(Grant("token-a", "a.test"),)), id="a secret"),
        pytest.param(Scope(anywhere=True), id="the whole internet"),
    ],
)
async def test_a_user_of_a_shared_socket_cannot_open_desks_with_the_operators_options(
    settings: Config, scope: Scope, tmp_path: Path
) -> None:
    shared = tmp_path / "shared.sock"
    async with Host(settings, control=False) as host:
        assert isinstance(host.runtime, KeeperRuntime)
        async with serve_control(host.runtime, shared, mode=0o666), remote_runtime(shared) as far:
            with pytest.raises(BriefError, match="only the operator may"):
                await far.open(Spec(), scope)
