"""Local access to a server: members of group `hotdesk` open desks through `run/serve.sock`.

It speaks the protocol of owners' control sockets, so that `hotdesk run` is the same for every user.
"""

from __future__ import annotations

import grp
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from hotdesk.api.caller import DEFAULT_TENANT
from hotdesk.api.e2b.responses import log
from hotdesk.api.launch.launcher import SOCKET, get_file_identity, remove_file
from hotdesk.api.tenants import PAUSE, Tenants
from hotdesk.config import Config
from hotdesk.desk.owner.control import ControlServer
from hotdesk.errors import HotdeskError
from hotdesk.host import Host
from hotdesk.ipc.tasks import background
from hotdesk.linux.sockets import listen

GROUP = "hotdesk"


@asynccontextmanager
async def listening(settings: Config, *, opens_desks: bool = True) -> AsyncIterator[socket.socket | None]:
    """Listen for ordinary users; without the group only root may connect. Call it before privileges are dropped.

    Yield `None` on a server whose desks are on nodes: it has no desks for users of its machine.
    """
    if not opens_desks:
        yield None
        return
    settings.run.mkdir(mode=0o711, parents=True, exist_ok=True)
    path = settings.run / SOCKET
    with listen(path, 0o660) as listener:
        admit(path)
        identity = get_file_identity(path)
        try:
            yield listener
        finally:
            with suppress(OSError):  # a confined server may not remove it; its launcher does (`Starting.close`)
                remove_file(path, identity)


def admit(path: Path) -> None:
    try:
        os.chown(path, 0, grp.getgrnam(GROUP).gr_gid)
    except (KeyError, PermissionError):
        path.chmod(0o600)


async def serve(listener: socket.socket, tenants: Tenants) -> None:
    """Take calls until cancelled; the first one opens the machine's own tenant."""
    listener.setblocking(False)
    while True:
        await anyio.wait_readable(listener)
        try:
            tenant = await tenants.get_tenant(DEFAULT_TENANT)
        except (HotdeskError, OSError) as e:
            log(e)
            await anyio.sleep(PAUSE)
            continue
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, listener, tenant.host)
            await tenant.closing.wait()
            tasks.cancel_scope.cancel()


async def answer(listener: socket.socket, host: Host) -> None:
    """Answer calls to a tenant's machine until cancelled."""
    async with background() as tasks:
        control = ControlServer(
            host.get_keeper_runtime(),
            tasks,
            everyone=True,
            asks=lambda: host.doors,
            people=host.choose_screen_services,
            personal=host.mark_personal,
        )
        await control.serve(listener)
