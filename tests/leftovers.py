"""Lists what desks use on this machine (processes, mounts, cgroups, ids), to check that a test leaves nothing behind.

Other test runs may have desks on the same machine; they are told apart by the state directory that claims their ids.
A snapshot must take only milliseconds, because two are taken for every test: each process is read once.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import hotdesk_guest
from hotdesk.linux import uids

SETTLING = 20.0
"""Seconds the kernel may take to release closed resources."""
LOCAL_FOLDER = re.compile(r"/[^\0 ]*/hotdesk-i[a-z0-9]{20}-[^\0/ ]*")
STATUS = re.compile(r"\nState:\t(\w).*?\nPPid:\t(\d+)\n.*?\nUid:\t\d+\t(\d+)", re.DOTALL)
HOLDER = "holder import process"
"""Part of every holder's command line."""
KERNEL_THREADS = 2
"""Process id of kthreadd, the parent of all kernel threads."""
GUEST = "/hotdesk_guest/start.py"
OUR_GUEST = f"{Path(hotdesk_guest.__file__).parent.parent}{GUEST}"
"""The program of a desk without a wall; that of another checkout's desks is elsewhere."""
LAST_UID = uids.FIRST + uids.WIDTH * uids.SLOTS


def settle(difference: Callable[[], set[str]]) -> set[str]:
    """Return the differences that persist for a while; those that end sooner belong to desks of other runs."""
    end = time.monotonic() + SETTLING
    left = difference()
    while left and time.monotonic() < end:
        time.sleep(0.02)
        left &= difference()
    return left


@dataclass(frozen=True, slots=True)
class Running:
    """A process at the time of the snapshot."""

    pid: int
    parent: int
    uid: int
    zombie: bool
    line: str
    """Its command line."""

    @property
    def is_keeper(self) -> bool:
        return "keeper.main()" in self.line


class Look:
    """A snapshot of the machine, for one state directory."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.claims = claims()
        self.running = list(read_processes())
        self.by_pid = {each.pid: each for each in self.running}

    @cached_property
    def keepers(self) -> set[int]:
        """Process ids of this folder's keepers, without just forked children, which briefly look the same."""
        found = {each.pid: each.parent for each in self.running if each.is_keeper and f"{self.home}/" in each.line}
        return {pid for pid, parent in found.items() if parent not in found}

    @cached_property
    def strangers(self) -> set[str]:
        """Name the desks of other runs on this machine: by id, and desks without a wall by folder."""
        names = {desk.name for desk in self.claims.values() if self.home not in desk.parents}
        for each in self.running:
            is_foreign = each.parent not in (os.getpid(), 1) or (GUEST in each.line and OUR_GUEST not in each.line)
            if is_foreign and (folder := LOCAL_FOLDER.search(each.line)):
                names.add(folder.group())
        return names

    def things(self) -> set[str]:
        found = {f"mount {line}" for line in Path("/proc/self/mountinfo").read_text().splitlines() if self.owns(line)}
        found |= {f"loop {name}" for name in loops() if self.owns(name)}
        found |= {f"cgroup {folder}" for folder in cgroups()}
        found |= {f"uids {slot} for {desk}" for slot, desk in self.claims.items()}
        found |= {f"folder {folder}" for folder in Path(tempfile.gettempdir()).glob("hotdesk-i*")}
        for part in ("desks", "runtime"):  # crun since 1.9 caches filters in runtime/.cache
            found |= {f"file {file}" for file in (self.home / "run" / part).glob("[!.]*")}
        for each in self.running:
            if not self.is_ours(each) or self.is_stub(each):
                continue
            found.add(f"process {each.pid} {each.line[:150]}")
            found |= {f"namespace {name}" for name in namespaces(each.pid)}
        return {thing for thing in found if not any(name in thing for name in self.strangers)}

    def owns(self, text: str) -> bool:
        return f"{self.home}/" in text

    def is_ours(self, each: Running) -> bool:
        """Return whether a process belongs to our desks: keeper, door, runtime, guest, their child, or our zombie."""
        if each.uid in (uids.DOOR, uids.KEYS, uids.RESOLVER, uids.READER, uids.VOLUMES):
            above = self.by_pid.get(each.parent)
            return each.parent in (1, *self.keepers) or (above is not None and above.parent in self.keepers)
        if uids.FIRST <= each.uid < LAST_UID:
            desk = self.claims.get((each.uid - uids.FIRST) // uids.WIDTH)
            return desk is None or self.home in desk.parents  # a range outlasts its processes
        if each.zombie:
            return each.parent == os.getpid()
        return self.owns(each.line) or self.is_local(each)

    def is_stub(self, each: Running) -> bool:
        """Return whether a process is a program behind gVisor as the host sees it; they come and go with an open desk.

        It has no arguments, and the uid of its desk's root. One that is left behind shows in the desk's cgroup.
        """
        is_root = uids.FIRST <= each.uid < LAST_UID and (each.uid - uids.FIRST) % uids.WIDTH == 0
        return is_root and not each.line and not each.zombie

    def is_local(self, each: Running) -> bool:
        """Return whether a process is the guest of a desk without a wall, or was started by one."""
        folder = LOCAL_FOLDER.search(each.line)
        if folder is None:
            environment = read(each.pid, "environ")
            folder = LOCAL_FOLDER.search(environment) if "HOTDESK_PROCESS=" in environment else None
        return folder is not None and folder.group() not in self.strangers


def things(home: Path) -> set[str]:
    return Look(home).things()


def keepers(home: Path) -> list[int]:
    return sorted(Look(home).keepers)


def end_holders(home: Path) -> None:
    def look() -> set[str]:
        found = {each.pid for each in Look(home).running if HOLDER in each.line and f"{home}/" in environment(each.pid)}
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        return {str(pid) for pid in [*found, *keepers(home)]}

    assert not settle(look)


def environment(pid: int) -> str:
    """Read a process's environment, with a slash after each variable."""
    return read(pid, "environ").replace("\0", "/")


def read_processes() -> Iterator[Running]:
    """Yield every process but ourselves and the kernel's threads."""
    for pid in pids():
        if pid == KERNEL_THREADS or parent(pid) == KERNEL_THREADS:
            continue
        if status := STATUS.search(read(pid, "status")):
            state, above, uid = status.groups()
            yield Running(pid, int(above), int(uid), state == "Z", "" if state == "Z" else settled_cmdline(pid))


def claims() -> dict[int, Path]:
    found = {}
    with suppress(FileNotFoundError):
        for file in uids.CLAIMS.iterdir():
            if file.name.isdigit():
                with suppress(OSError):
                    found[int(file.name)] = Path(os.readlink(file))
    return found


def loops() -> Iterator[str]:
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            yield f"{entry.parts[3]} {entry.read_text().strip()}"


def cgroups() -> Iterator[Path]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith(("cgroup ", "cgroup2 ")):
            for pattern in ("hotdesk-*", "hotdesk/hotdesk-*"):  # with cgroups v2, desks are below hotdesk's own cgroup
                yield from Path(left.split()[4]).glob(pattern)


def namespaces(pid: int) -> Iterator[str]:
    """Yield the namespaces a process is in or has open, without those it shares with us."""
    ours = {os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "user")}
    with suppress(OSError):
        links = [*Path(f"/proc/{pid}/fd").iterdir(), *(Path(f"/proc/{pid}/ns/{kind}") for kind in ("net", "user"))]
        for link in links:
            with suppress(OSError):
                name = os.readlink(link)
                if name.startswith(("net:[", "user:[")) and name not in ours:
                    yield name


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def cmdline(pid: int) -> str:
    """Read a process's command line; empty if the process is gone."""
    return read(pid, "cmdline").replace("\0", " ")


def settled_cmdline(pid: int) -> str:
    for _ in range(10):
        if (line := cmdline(pid)) or not read(pid, "stat"):
            return line
        time.sleep(0.002)
    return ""


def parent(pid: int) -> int:
    stat = read(pid, "stat")
    return int(stat.rpartition(")")[2].split()[1]) if stat else 0


def read(pid: int, name: str) -> str:
    """Read a file of a process in /proc; empty if the process is gone."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.readall().decode(errors="replace")
    except OSError:
        return ""
