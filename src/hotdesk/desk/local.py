"""A directory and no wall at all: the guest as an ordinary process. For tests of what stands on a desk."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from hotdesk.brief import CLOSED, Scope
from hotdesk.desk import guestlib
from hotdesk.desk.background import Background, background
from hotdesk.desk.link import Link
from hotdesk.desk.linked import LinkedDesk
from hotdesk.desk.outside import Unheld
from hotdesk.desk.room import call_port
from hotdesk.desk.seam import DeskId, Spec, new_id
from hotdesk.desk.sockets import accept, listen
from hotdesk.errors import DeskError, DeskGone, HostError

GREET_SECONDS = 10.0
SWITCH = "HOTDESK_ALLOW_LOCAL"
"""Only with this variable set: a program in a `local` desk is a program on this machine."""


class Unwalled(Unheld):
    """A directory from outside: its network is this machine's."""

    async def dial(self, port: int) -> socket.socket:
        """Call a server on this machine's own loopback."""
        try:
            return call_port(port)
        except OSError as e:
            raise DeskError(str(e)) from e


class LocalRuntime:
    """Opens directories. Nothing holds a program in one."""

    def __init__(self, tasks: Background) -> None:
        self.tasks = tasks
        self.open_desks: dict[DeskId, tuple[LinkedDesk, subprocess.Popen[bytes], Path]] = {}

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        """Start a guest in a new directory."""
        desk = new_id()
        folder = Path(tempfile.mkdtemp(prefix=f"hotdesk-{desk}-"))
        (folder / "home").mkdir()
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder / "home"), "LANG": "C.UTF-8"}
        with listen(folder / "link.sock") as listener:
            guest = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(guestlib.SOURCE / "start.py"), str(folder)],
                env={**environment, **spec.env},
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                with anyio.fail_after(GREET_SECONDS):
                    link = Link(await accept(listener))
            except BaseException:
                clear(guest, folder)
                raise
        self.tasks.start(link.run)
        try:
            await link.ready()
        except BaseException:
            link.hang_up()
            clear(guest, folder)
            raise
        self.open_desks[desk] = (LinkedDesk(desk, link, str(folder / "home"), Unwalled()), guest, folder)
        return self.open_desks[desk][0]

    async def find(self, desk: DeskId) -> LinkedDesk:
        """Give an open desk."""
        if desk not in self.open_desks:
            raise DeskGone(f"desk {desk} is not open")
        return self.open_desks[desk][0]

    async def burn(self, desk: DeskId) -> None:
        """End the guest and what it started, and delete the directory."""
        if desk in self.open_desks:
            opened, guest, folder = self.open_desks.pop(desk)
            opened.link.hang_up()
            clear(guest, folder)


def clear(guest: subprocess.Popen[bytes], folder: Path) -> None:
    """End a guest with every program that has its home, and delete its directory."""
    guest.send_signal(signal.SIGKILL)
    guest.wait()
    mark = f"HOME={folder}/home".encode()
    while marked := [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if mark in environment_of(pid)]:
        for pid in marked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    shutil.rmtree(folder, ignore_errors=True)


def environment_of(pid: int) -> list[bytes]:
    """Read a process's variables; nothing of one that is gone."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


@contextlib.asynccontextmanager
async def local_runtime() -> AsyncIterator[LocalRuntime]:
    """Give a runtime without walls; its desks burn with it."""
    if os.environ.get(SWITCH) != "1":
        raise HostError(f"the local runtime has no wall; it exists for tests, with {SWITCH}=1")
    async with background() as tasks:
        runtime = LocalRuntime(tasks)
        try:
            yield runtime
        finally:
            with anyio.move_on_after(10, shield=True):
                for desk in list(runtime.open_desks):
                    await runtime.burn(desk)
