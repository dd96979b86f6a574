"""Live forks and hibernation of desks: the owner's side.

The guest is given a token and told to disconnect, then the keeper saves the desk's memory. Afterwards the process that
presents the token is the guest: of the same desk, whose channels continue, or of a fork, which has no channels.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from hotdesk.brief.data import Scope
from hotdesk.desk import door_files
from hotdesk.desk.link.channel import Body
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.link.recognition import new_token, recognize
from hotdesk.desk.owner.keeper_client import BURN_SECONDS, closing
from hotdesk.desk.request import KeeperRequest, parse_spec
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.errors import BriefError, DeskError, DeskGone, HostError, HotdeskError, unwrap_group
from hotdesk.ipc.tasks import run_together
from hotdesk.walls import TRAITS, list_memory_walls

if TYPE_CHECKING:
    from hotdesk.desk.owner.keeper_handle import KeeperHandle
    from hotdesk.desk.owner.runtime import KeeperRuntime

SAVE_MEMORY_SECONDS = 400.0
"""Seconds a desk's memory may take to be saved."""
_ROOT_END_SECONDS = 5.0
_REJOIN_SECONDS = 20.0
_CONTINUE_SECONDS = 60.0
"""Seconds programs may take to continue after their memory was saved."""


def _require_memory(desk: str, spec: Spec) -> None:
    """Refuse a desk whose memory cannot be saved, before anything is changed."""
    if not TRAITS[spec.wall].can_keep_memory:
        raise BriefError(
            f"the programs of desk {desk} cannot be copied or hibernated: the wall {spec.wall} cannot save memory. "
            f"Open a desk with the wall {list_memory_walls()}, or save files only (without memory)"
        )


async def save(handle: KeeperHandle, link: Link, request: KeeperRequest, token: str) -> tuple[dict[str, object], int]:
    """Save a desk's memory while its link is parked; return the keeper's reply, and a listening socket.

    A failure leaves the desk running, with its link unchanged; if that is impossible, the link ends with the reason.
    """
    await _end_root(handle)
    await link.park(token)
    with _breaking_off(handle.desk, link):
        body, fds = await handle.runtime.keeper.ask(request, 1, SAVE_MEMORY_SECONDS)
        failure = str(body["failure"])
    if failure:
        await rejoin(handle, link, body, fds[0], token)
        raise DeskError(failure)
    return body, fds[0]


async def rejoin(handle: KeeperHandle, link: Link, body: dict[str, object], listening: int, token: str) -> None:
    """Continue a parked link with the guest's next connection; the runtime may take a while to resume its programs."""
    waiting: Body = {**body, "start_seconds": max(_CONTINUE_SECONDS, float(str(body.get("start_seconds", 0.0))))}
    with closing([listening]), anyio.CancelScope(shield=True), _breaking_off(handle.desk, link):
        sock, _ = await hear_guest(handle.runtime, handle.desk, waiting, listening, token)
        await link.rejoin(sock)


@contextlib.contextmanager
def _breaking_off(desk: DeskId, link: Link) -> Iterator[None]:
    """End a parked link that cannot continue: calls would wait for it for ever."""
    try:
        yield
    except BaseException as e:
        link.break_off(e if isinstance(e, DeskGone) else DeskGone(f"desk {desk} is gone: {e}; open another"))
        raise


async def _end_root(handle: KeeperHandle) -> None:
    """End the guest for root, which cannot be saved: it has files of the host open."""
    keeper, desk = handle.runtime.keeper, handle.desk
    if handle.roots is not None and not handle.roots.is_over():
        handle.roots.hang_up()
        await keeper.wait_end(desk, _ROOT_END_SECONDS, root=True)
    handle.roots = None


async def hear_guest(
    runtime: KeeperRuntime, desk: DeskId, body: dict[str, object], listening: int, token: str
) -> tuple[socket.socket, Body]:
    """Return the connection of a desk's guest, recognized by its token among all callers."""
    found: tuple[socket.socket, Body] | None = None
    listener = socket.socket(fileno=listening)
    listener.setblocking(False)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runtime.stop_waiting, desk, body, False, tasks.cancel_scope)
            found = await recognize(listener, (body["caller"], body["uid"]), token)
            tasks.cancel_scope.cancel()
    except ExceptionGroup as group:
        raise HostError(
            f"desk {desk} did not resume: hotdesk's process in it could not be reached: {unwrap_group(group)}; "
            "burn the desk and open another"
        ) from group
    finally:
        listener.detach()
    if found is None:
        why = runtime.keeper.ended.get(desk, "hotdesk's process in it does not respond")
        raise DeskGone(f"desk {desk} did not resume: {why}; open another desk")
    return found


async def join(runtime: KeeperRuntime, desk: DeskId, sock: socket.socket, hello: Body, env: Body) -> Link:
    link = Link(sock)
    link.hello = hello
    link.greeted.set()
    link.explain_end = lambda: runtime.keeper.explain_end(desk, False)
    runtime.tasks.start(link.run)
    try:
        with anyio.fail_after(_REJOIN_SECONDS):
            await link.ask_beside({"op": "rejoin", "same": False, "env": env})
    except BaseException as e:
        link.hang_up()
        if isinstance(e, TimeoutError):
            raise DeskGone(
                f"desk {desk} did not resume: hotdesk's process in it does not respond; open another desk"
            ) from None
        raise
    return link


async def fork(handle: KeeperHandle, link: Link, count: int) -> Sequence[LinkedDesk]:
    """Open desks in which the programs of one continue: all of them, or none. The origin continues as well."""
    _require_memory(handle.desk, handle.spec)
    token = new_token()
    forks: list[LinkedDesk] = []
    async with handle.rising:
        await handle.runtime.keeper.ask(KeeperRequest("may_save", handle.desk))
        with anyio.CancelScope(shield=True):
            body, listening = await save(handle, link, KeeperRequest("checkpoint", handle.desk), token)
    snapshot = str(body["snapshot"])

    async def one() -> None:
        begin = handle.runtime.begin
        forks.append(await begin(handle.spec, handle.scope, origin=handle.desk, snapshot=snapshot, token=token))

    try:
        await run_together([functools.partial(rejoin, handle, link, body, listening, token), *[one] * count])
    except BaseException:
        with anyio.move_on_after(BURN_SECONDS, shield=True):
            for desk in forks:
                with contextlib.suppress(HotdeskError):
                    await handle.runtime.burn(desk.id)
        raise
    finally:
        with anyio.move_on_after(BURN_SECONDS, shield=True), contextlib.suppress(HotdeskError):
            await handle.forget(snapshot)
    return forks


async def hibernate(handle: KeeperHandle, link: Link) -> None:
    """Save a desk's memory to disk and end its processes until it is resumed. A second call is no error."""
    if handle.parked is not None:
        return
    _require_memory(handle.desk, handle.spec)
    if handle.paused:
        await handle.pause(False)
    token = new_token()
    async with handle.rising:
        await handle.runtime.keeper.ask(KeeperRequest("may_save", handle.desk, stop=True))
        await handle.write_out()  # what is left after a halt, or in a snapshot taken meanwhile, is the disk alone
        with anyio.CancelScope(shield=True):
            request = KeeperRequest("hibernate", handle.desk, token=token)
            _, listening = await save(handle, link, request, token)
            os.close(listening)  # after resuming it connects to another socket
            handle.parked = (link, token)
            handle.thawing = handle.thawing or anyio.Event()


async def resume(handle: KeeperHandle) -> None:
    """Resume a hibernated desk under the same owner, with all channels unchanged."""
    assert handle.parked is not None
    link, token = handle.parked
    desk = handle.desk
    with anyio.CancelScope(shield=True):
        async with handle.runtime.unless_whole(desk):
            with _breaking_off(desk, link):
                body, fds = await handle.runtime.keeper.ask(KeeperRequest("boot", desk), 2)
                with closing(fds):
                    sock, _ = await hear_guest(handle.runtime, desk, body, fds[0], token)
                    await link.rejoin(sock)
            await handle.runtime.keeper.ask(KeeperRequest("woken", desk))
        handle.parked, handle.paused = None, False
        handle.thaw()


async def wake(runtime: KeeperRuntime, desk: DeskId, scope: Scope) -> LinkedDesk:
    """Resume a hibernated desk that has no owner, with the egress of the given scope."""
    body, _ = await runtime.keeper.ask(KeeperRequest("recall", desk))
    seconds = float(str(body["seconds"]))
    if seconds <= 0:
        raise DeskGone(f"the deadline of desk {desk} passed while it was hibernated; open another")
    spec = replace(parse_spec(body["spec"]), deadline=seconds)
    runtime.keeper.ended.pop(desk, None)  # it may have ended here once before
    opened = await runtime.begin(spec, scope, desk=desk, token=str(body["token"]))
    await runtime.keeper.ask(KeeperRequest("woken", desk))
    return opened


def build_variables(spec: Spec, ca: str) -> Body:
    """Return the variables for a fork's programs, which must not inherit those of the origin's egress."""
    closed = door_files.build_closed_environment()
    found: Body = {**dict.fromkeys(closed), **dict.fromkeys(door_files.build_environment())}
    return {**found, **(door_files.build_environment() if ca else closed), **spec.env}
