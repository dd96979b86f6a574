"""The handle of a `local` desk: its guest can be restarted, its home copied, and its network is this machine's."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import anyio

from hotdesk.desk.image import guest_code
from hotdesk.desk.link.handle import NoHandle
from hotdesk.desk.link.link import Link
from hotdesk.desk.seam import SNAPSHOTS, Desk, DeskId, Spec
from hotdesk.errors import BriefError, DeskError, DeskGone
from hotdesk.ipc.tasks import Background
from hotdesk.linux.loopback import call_port
from hotdesk.linux.sockets import accept, listen

GREET_SECONDS = 10.0
POLL_INTERVAL_S = 0.005
"""Seconds between two checks of programs that are ending or stopping."""


class Opener(Protocol):
    """Opens desks like an existing one."""

    async def open_with(self, spec: Spec, home: Path | None) -> Desk:
        """Open a desk whose home is a copy of this one, or empty."""
        ...

    async def burn(self, desk: DeskId) -> None:
        """Burn a desk."""
        ...


class LocalHandle(NoHandle):
    """Controls a folder with the home, the socket its guest connects to, and the snapshots."""

    def __init__(self, folder: Path, spec: Spec, tasks: Background, opener: Opener) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.spec = spec
        self.tasks = tasks
        self.opener = opener
        self.guest: subprocess.Popen[bytes] | None = None
        self.paused = False
        self.snapshots: list[str] = []
        """The existing snapshots."""
        self.last = 0
        """The number of the newest snapshot; numbers are not reused."""

    async def start(self) -> Link:
        """Start a guest here. If it does not connect in time, end it."""
        with listen(self.folder / "link.sock") as listener:
            self.guest = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(guest_code.GUEST / "start.py"), str(self.folder)],
                env={**self.build_environment(), **self.spec.env},
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                with anyio.fail_after(GREET_SECONDS):
                    link = Link(await accept(listener))
            except BaseException:
                self.end()
                raise
        self.tasks.start(link.run)
        try:
            await link.wait_for_hello()
        except BaseException:
            link.hang_up()
            self.end()
            raise
        return link

    def build_environment(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.home), "LANG": "C.UTF-8"}

    def end(self) -> None:
        if self.guest is not None:
            self.guest.send_signal(signal.SIGKILL)
            self.guest.wait()
        while marked := list_programs(self.home):
            strike(marked, signal.SIGKILL)
            time.sleep(POLL_INTERVAL_S)
        self.guest, self.paused = None, False

    def clear(self) -> None:
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def check_open(self) -> None:
        if not self.folder.exists():
            raise DeskGone("the desk was burnt")

    async def pause(self, paused: bool) -> None:
        self.check_open()
        if paused:
            await self.stop()
        else:
            strike(list_programs(self.home), signal.SIGCONT)
        self.paused = paused

    async def stop(self) -> None:
        """Stop every program, including those that others started before they were stopped."""
        stopped: set[int] = set()
        while not stopped >= (found := set(list_programs(self.home))):
            strike(found, signal.SIGSTOP)
            stopped = found
            await anyio.sleep(POLL_INTERVAL_S)

    async def halt(self, snapshot: str = "") -> None:
        self.check_open()
        if snapshot:
            self.find(snapshot)
        self.end()

    async def boot(self, snapshot: str = "") -> Link:
        self.check_open()
        if snapshot:
            await self.restore(self.find(snapshot))
        return await self.start()

    async def restore(self, snapshot: Path) -> None:
        """Replace the home by a copy of a snapshot. If copying fails the home is unchanged."""
        fresh, old = self.folder / "fresh", self.folder / "old"
        await copy_tree(snapshot, fresh)
        self.home.rename(old)
        fresh.rename(self.home)
        shutil.rmtree(old, ignore_errors=True)

    async def snapshot(self) -> str:
        self.check_open()
        if self.spec.disk_in == "memory":
            raise DeskError("a desk whose disk is in memory has no snapshots; open a desk with disk_in='disk'")
        if len(self.snapshots) >= SNAPSHOTS:
            raise DeskError(f"the desk has {SNAPSHOTS} snapshots, which is the limit; delete some")
        self.last += 1
        name = str(self.last)
        try:
            if not self.paused:
                await self.stop()
            await copy_tree(self.home, self.folder / name)
        finally:
            if not self.paused:
                strike(list_programs(self.home), signal.SIGCONT)
        self.snapshots.append(name)
        return name

    def find(self, snapshot: str) -> Path:
        if snapshot not in self.snapshots:
            raise BriefError(f"the desk has no snapshot {snapshot!r}; it has {', '.join(self.snapshots) or 'none'}")
        return self.folder / snapshot

    async def forget(self, snapshot: str) -> None:
        self.check_open()
        shutil.rmtree(self.find(snapshot), ignore_errors=True)
        self.snapshots.remove(snapshot)

    async def fork(self, snapshot: str, count: int) -> Sequence[Desk]:
        """Open desks that start with a snapshot's files. An error leaves none."""
        self.check_open()
        source = self.find(snapshot)
        async with contextlib.AsyncExitStack() as undo:
            forks: list[Desk] = []
            for _ in range(count):
                forks.append(await self.opener.open_with(self.spec, source))
                undo.push_async_callback(self.opener.burn, forks[-1].id)
            undo.pop_all()
        return forks

    async def dial(self, port: int, link: Link) -> socket.socket:
        try:
            return call_port(port)
        except OSError as e:
            raise DeskError(str(e)) from e


async def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder with all its contents. A failure leaves no partial copy."""
    try:
        done = await anyio.run_process(["cp", "-a", "--reflink=auto", str(source), str(target)], check=False)
        if done.returncode:
            why = done.stderr.decode(errors="replace").strip()[:500]
            raise DeskError(f"the folder {source.name} could not be copied: {why}")
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def list_programs(home: Path) -> list[int]:
    mark = f"HOME={home}".encode()
    return [pid for pid in _iterate_pids() if mark in _read_environment(pid)]


def _iterate_pids() -> Iterator[int]:
    return map(int, filter(str.isdigit, os.listdir("/proc")))


def _read_environment(pid: int) -> list[bytes]:
    """Return a process's environment variables; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def strike(pids: Collection[int], number: signal.Signals) -> None:
    """Send a signal to programs. One that is gone is no error."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
