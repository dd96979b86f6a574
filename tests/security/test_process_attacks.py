"""A desk's processes: no privilege, no way to another's, and limits of their own."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk import uids
from hotdesk.desk.oci import ContainerRuntime
from hotdesk.desk.seam import Desk, Process, Spec
from hotdesk.errors import DeskError

Attack = Callable[..., Awaitable[Any]]
Launch = Callable[..., Awaitable[tuple[Process, Any]]]
Init = Callable[[Config, Desk], int]
Open = Callable[[Spec], AbstractAsyncContextManager[Desk]]

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

STATUS = """
with open("/proc/self/status") as file:
    lines = {key: value.strip() for key, _, value in (line.partition(":") for line in file)}
tell({"status": lines, "pids": [int(n) for n in os.listdir("/proc") if n.isdigit()],
      "core": resource.getrlimit(resource.RLIMIT_CORE),
      "uid_map": open("/proc/self/uid_map").read().split(), "gid_map": open("/proc/self/gid_map").read().split()})
"""
RISE = """
told = {
    "setuid": apart(lambda: attempt(os.setuid, 0)),
    "setgid": apart(lambda: attempt(os.setgid, 0)),
    "setgroups": apart(lambda: attempt(os.setgroups, [0])),
    "real time": attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)),
    "nice": attempt(os.setpriority, os.PRIO_PROCESS, 0, -1),
    "oom": attempt(put, "/proc/self/oom_score_adj", "-1000"),
    "uid_map": attempt(put, "/proc/self/uid_map", "0 0 1"),
    "chown": attempt(os.chown, "/proc/self/cwd", 0, 0),
}
os.makedirs("/tmp/rise", exist_ok=True)
with open("/bin/cat", "rb") as source, open("/tmp/rise/cat", "wb") as copy:
    copy.write(source.read())
os.chmod("/tmp/rise/cat", 0o6755)
told["own setuid"] = os.popen("/tmp/rise/cat /proc/self/status | grep -E '^(Uid|CapEff)'").read().split()
told["setuid files"] = os.popen("find / -xdev -perm /6000 -type f 2>/dev/null | grep -v ^/tmp/rise").read().split()
told["su"] = os.popen("su -c id 2>&1 </dev/null; sudo -n id 2>&1; newgrp root 2>&1 </dev/null").read()
tell(told)
"""
FIRST_PROCESS = """
def peek(path, flags=os.O_RDONLY):
    return attempt(lambda: os.close(os.open(path, flags)))

told = {
    "attach": call("ptrace", 16, 1, 0, 0),
    "seize": call("ptrace", 0x4206, 1, 0, 0),
    "mem": peek("/proc/1/mem", os.O_RDWR),
    "fd": attempt(os.listdir, "/proc/1/fd"),
    "root": attempt(os.listdir, "/proc/1/root"),
    "cwd": attempt(os.listdir, "/proc/1/cwd"),
    "exe": peek("/proc/1/exe"),
    "environ": attempt(lambda: open("/proc/1/environ", "rb").read(1) and None),
    "map_files": attempt(os.listdir, "/proc/1/map_files"),
    "maps": attempt(lambda: open("/proc/1/maps", "rb").read(1) and None),
    "namespaces": attempt(os.readlink, "/proc/1/ns/mnt"),
}
for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGUSR1):
    os.kill(1, number)
time.sleep(0.2)
with open("/proc/1/stat") as file:
    told["state"] = file.read().rpartition(")")[2].split()[0]
tell(told)
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
tell({str(number): attempt(os.chown, path, number, number) for number in (0, 999, 1001, 65533, 65534, 100000)})
"""


def signals_of_root() -> int:
    """Give how many signals are queued for this machine's root."""
    return int(Path("/proc/self/status").read_text().partition("SigQ:")[2].split("/")[0])


async def test_a_process_has_no_privilege(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, STATUS)
    status = told["status"]
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["Uid"].split() == status["Gid"].split() == ["1000"] * 4
    assert status["Groups"].strip() == ""
    assert max(told["pids"]) < 1000, "the host's processes can be seen"


async def test_a_process_cannot_rise(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, RISE)
    refused = {name: told[name] for name in ("setuid", "setgid", "setgroups", "real time", "chown", "uid_map")}
    assert refused == dict.fromkeys(refused, "EPERM")
    assert {told["nice"], told["oom"]} == {"EACCES"}
    assert told["own setuid"] == ["Uid:", *["1000"] * 4, "CapEff:", "0" * 16]
    assert told["setuid files"] == []
    assert "uid=0" not in told["su"]


async def test_the_first_process_cannot_be_read_traced_or_stopped(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, FIRST_PROCESS)
    assert told.pop("state") in "SR"
    assert {told.pop("attach"), told.pop("seize")} == {"EPERM"}
    assert set(told.values()) <= {"EACCES", "EPERM"}, told
    assert (await desk.run(["true"], timeout=10)).ok


async def test_an_interrupt_does_not_end_the_first_process(fresh: Open, attack: Attack) -> None:
    async with fresh(Spec()) as desk:
        await attack(desk, "for number in range(1, 65):\n    attempt(os.kill, 1, number)\ntime.sleep(0.5)\ntell(1)")
        assert (await desk.run(["true"], timeout=10)).ok


async def test_a_users_inotify_instances_are_its_own(
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


async def test_queued_signals_are_limited_and_not_charged_to_the_hosts_root(desk: Desk, launch: Launch) -> None:
    before = signals_of_root()
    process, told = await launch(desk, SIGNALS, seconds=30)
    try:
        assert told["sent"] <= 1024
        assert told["queue"] == f"{told['sent']}/1024"
        assert signals_of_root() - before < 100
    finally:
        await process.kill()


async def test_no_core_is_ever_dumped(desk: Desk, attack: Attack, settings: Config, init: Init) -> None:
    told = await attack(desk, STATUS)
    assert told["core"] == [1, 1]
    limits = Path(f"/proc/{init(settings, desk)}/limits").read_text()
    assert limits.partition("Max core file size")[2].split()[:2] == ["1", "1"]
    assert await attack(desk, CRASH) == {"signal": signal.SIGSEGV, "dumped": False, "cores": []}


async def test_only_its_own_ids_exist_in_a_desk_and_no_other_has_them(
    desk: Desk, neighbour: Desk, attack: Attack, settings: Config, init: Init
) -> None:
    bases = set()
    for each in (desk, neighbour):
        told = await attack(each, STATUS)
        base = os.stat(f"/proc/{init(settings, each)}").st_uid
        status = Path(f"/proc/{init(settings, each)}/status").read_text()
        uid = int(status.partition("Uid:")[2].split()[0])
        first = uid - uids.USER
        assert told["uid_map"] == ["0", str(first), "1001", "65534", str(first + uids.NOBODY), "1"]
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
        "1001": "EINVAL",
        "65533": "EINVAL",
        "65534": "EPERM",
        "100000": "EINVAL",
    }


async def test_host_calls_to_a_stalled_guest_end_and_it_burns(
    fresh: Open, runtime: ContainerRuntime, settings: Config, init: Init
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


@pytest.mark.long
@pytest.mark.timeout(150)
@pytest.mark.parametrize("what", ["ask", "write"])
async def test_every_wait_for_a_stalled_guest_has_an_end(fresh: Open, settings: Config, init: Init, what: str) -> None:
    async with fresh(Spec()) as desk:
        os.kill(init(settings, desk), signal.SIGSTOP)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "ask": lambda: desk.stat("/"),
            "write": lambda: desk.write("big", bytes(16 << 20)),
        }
        with anyio.fail_after(90), suppress(DeskError):
            await calls[what]()
