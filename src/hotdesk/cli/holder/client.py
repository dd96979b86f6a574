"""Finds or starts the holder for `hotdesk open`, so that a desk outlives its command."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import anyio

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.cli.quick.call import is_own_socket
from hotdesk.cli.quick.place import Place, get_socket_path, name_holder, read_settings
from hotdesk.cli.quick.start import start
from hotdesk.config import Config
from hotdesk.desk.keeper import state
from hotdesk.desk.owner.remote import NoOwnerError, RemoteRuntime, remote_runtime
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.errors import BriefError, DeskGone, HostError, HotdeskError
from hotdesk.host import find_server
from hotdesk.linux.ownership import is_private
from hotdesk.linux.pace import scale_seconds

T = TypeVar("T")

START_SECONDS = 15.0
RELEASE_SECONDS = 30.0


async def release_ready(settings: Config, image: str) -> None:
    """Make holders burn the ready desks of an image, so that it can be removed."""
    for path in sorted((settings.run / "control").glob("holder-*.sock")):
        if is_private(str(path.parent)) and is_own_socket(str(path)):
            with suppress(HotdeskError):  # it is about to end, and its desks with it
                async with remote_runtime(path) as runtime:
                    await runtime.call("DELETE", f"/leases/{image}")
    with anyio.move_on_after(RELEASE_SECONDS):
        while _has_ready(settings, image):  # noqa: ASYNC110 - the state of another process
            await anyio.sleep(0.02)


def _has_ready(settings: Config, image: str) -> bool:
    states = [facts.get("state") for facts in state.list_own_desks(settings) if facts.get("image") == image]
    return any(each in ("opening", "starting", "ready") for each in states)


async def open_held(settings: Config, spec: Spec, scope: Scope = CLOSED, key: str = "") -> DeskId:
    """Open a desk at the holder, which is started if needed; for an ordinary user, at the server."""

    async def work(runtime: RemoteRuntime) -> DeskId:
        if key:
            await runtime.unlock(key)
        return (await runtime.open(spec, scope, personal=True)).id

    if os.geteuid() != 0:
        async with remote_runtime(find_server(settings)) as runtime:
            return (await runtime.open(spec, scope, personal=True)).id
    return await _run_at_holder(work)


async def wake_held(settings: Config, desk: DeskId) -> int:
    if os.geteuid() != 0:
        raise BriefError(
            f"desk {desk} is hibernated, and the process that opened it has ended; use `sudo hotdesk resume {desk}`"
        )

    async def work(runtime: RemoteRuntime) -> int:
        await runtime.wake(desk)
        return 0

    return await _run_at_holder(work)


async def _run_at_holder(work: Callable[[RemoteRuntime], Awaitable[T]]) -> T:
    place = Place()
    name = name_holder(read_settings(place))
    path = Path(get_socket_path(place, name))
    why = "no process started"
    end = anyio.current_time() + scale_seconds(START_SECONDS)
    while anyio.current_time() < end:
        if is_private(str(path.parent)) and is_own_socket(str(path)):
            try:
                async with remote_runtime(path) as runtime:
                    return await work(runtime)
            except (NoOwnerError, DeskGone) as e:  # it was about to end, because it was idle
                why = str(e)
        start(place, name)
        await anyio.sleep(0.02)
    raise HostError(
        f"the background process that keeps desks open did not start within "
        f"{scale_seconds(START_SECONDS):.0f} s ({why}); `hotdesk run --debug -- true` shows more"
    )
