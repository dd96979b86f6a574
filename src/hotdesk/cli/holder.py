"""The holder: an owner in the background, so that a desk opened on the command line outlives its command."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import anyio

from hotdesk import config
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.desk.owner.remote import NoOwnerError, remote_runtime
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.errors import DeskGone, HostError
from hotdesk.host import Host, control_path, server
from hotdesk.ipc.child import SOURCE
from hotdesk.linux.landlock import confine

START_SECONDS = 15.0
START = "import sys;sys.path.insert(0,sys.argv[1]);from hotdesk.cli import holder;holder.main()"
LINGER = 5.0
"""Seconds a holder without desks stays, for the next one; `HOTDESK_LINGER` says otherwise."""


async def open_held(settings: Config, spec: Spec, scope: Scope = CLOSED, key: str = "") -> DeskId:
    """Open a desk at the holder, starting one where there is none; an ordinary user's at the server."""
    if os.geteuid() != 0:
        async with remote_runtime(server(settings)) as runtime:
            return (await runtime.open(spec, scope, personal=True)).id
    path = _holder_path(settings)
    holder, why = None, "none started"
    end = anyio.current_time() + START_SECONDS
    while anyio.current_time() < end:
        if path.is_socket():
            try:
                async with remote_runtime(path) as runtime:
                    if key:
                        await runtime.unlock(key)
                    return (await runtime.open(spec, scope, personal=True)).id
            except (NoOwnerError, DeskGone) as e:  # it was about to end: it had no desk for a while
                why = str(e)
        if holder is None or holder.poll() is not None:
            holder = _start_holder()
        await anyio.sleep(0.05)
    raise HostError(f"no holder came up within {START_SECONDS:.0f} s ({why}); try `hotdesk run --debug -- true`")


def _holder_path(settings: Config) -> Path:
    """Give the socket at which a holder is found: a link to its control socket."""
    return settings.run / "control" / "holder.sock"


def _start_holder() -> subprocess.Popen[bytes]:
    """Start a holder in a session of its own; one that finds another ends at once."""
    environment = {name: value for name, value in os.environ.items() if name.startswith("HOTDESK_") or name == "PATH"}
    return subprocess.Popen(
        [sys.executable, "-I", "-c", START, str(SOURCE)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=None if os.environ.get("HOTDESK_DEBUG") else subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


async def hold(settings: Config) -> None:
    """Own desks until there are none."""
    async with Host(settings) as host:
        path = _holder_path(settings)
        path.unlink(missing_ok=True)
        path.symlink_to(control_path(settings, os.getpid()).name)
        confine([path.parent])
        runtime = host.keeper_runtime()
        try:
            quiet = 0.0
            while quiet < float(os.environ.get("HOTDESK_LINGER", LINGER)) and runtime.keeper.failure is None:
                await anyio.sleep(0.5)
                quiet = 0.0 if runtime.live() or runtime.opening or runtime.calls else quiet + 0.5
        finally:
            path.unlink(missing_ok=True)


def main() -> None:
    """Be the holder of this state directory, unless there is one."""
    settings = config.load()
    folder = settings.run / "control"
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    lock = os.open(folder / "holder.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    anyio.run(hold, settings)
