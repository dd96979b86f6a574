"""An owner's desks: opens them through its keeper, and connects to their guests."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import anyio
import anyio.lowlevel

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.desk import door_files
from hotdesk.desk.keeper.spawn import Started, start
from hotdesk.desk.link.channel import Channel
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner import memory
from hotdesk.desk.owner.keeper_client import BURN_SECONDS, KeeperClient, closing
from hotdesk.desk.owner.keeper_handle import KeeperHandle
from hotdesk.desk.owner.parts import KeeperParts, Parts
from hotdesk.desk.owner.pool import Pool
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import DeskId, Spec, Supervisor, new_id
from hotdesk.errors import (
    BriefError,
    DeskError,
    DeskGone,
    HostError,
    HotdeskError,
    KeeperError,
    LinkError,
    unwrap_group,
)
from hotdesk.event import Note, ignore
from hotdesk.ipc.tasks import Background, background
from hotdesk.linux.pace import scale_seconds
from hotdesk.linux.processes import is_dying
from hotdesk.linux.sockets import accept, get_peer

GREET_SECONDS = 15.0
_CONSOLE = 4096
_PULSE_INTERVAL_S = 1.0
SESSION = "/usr/local/lib/hotdesk/session"
"""In an image with a screen: the program that starts the desktop, and then runs its arguments."""
DRAW = ("sleep", "0.5")
"""Time for the panel to be drawn; no other program waits for that."""
OPEN = ("env", *(f"--unset={name}" for name in door_files.build_closed_environment()))
"""Starts the desktop of a ready desk without the variables for closed egress: its programs may get egress later."""
READY = "/usr/local/lib/hotdesk/ready"
"""In an image with its own server: the program that starts the server; `all` also starts all it may need."""
_SESSION_SECONDS = 30.0
_MAX_IDLE_S = 1e9


class KeeperRuntime:
    """Desks opened through one keeper."""

    claims_may_fail = False
    """Whether others can change a ready desk, so that each claim must be confirmed before the desk is handed over."""

    def __init__(
        self,
        config: Config,
        keeper: KeeperClient,
        tasks: Background,
        note: Note = ignore,
        supervise: Callable[[Parts, Background], Supervisor] | None = None,
    ) -> None:
        self.config = config
        self.keeper = keeper
        self.keeper.on_sudo = self.start_root
        self.keeper.on_end = self.dismiss
        self.tasks = tasks
        self.note = note
        self.parts = KeeperParts(keeper)
        self.supervise = supervise
        self.supervisor: Supervisor | None = None
        """Created on first use: most desks have no egress and no root."""
        self.used: set[DeskId] = set()
        """Desks with traffic through the door since the last pulse."""
        self.pool = self.make_pool()
        self.handles: dict[DeskId, KeeperHandle] = {}
        self.desks: dict[DeskId, LinkedDesk] = {}
        self.opening = 0
        """Number of desks being opened."""
        self.calls = 0
        """Number of calls of other processes being answered."""
        self.served = 0
        """Number of calls answered so far."""
        self.departed: Callable[[DeskId], None] = lambda desk: None
        """Called with each desk that is released."""
        self.route: Callable[[Spec], Spec] = lambda spec: spec
        """Sets the wall that the operator requires; it never weakens the requested one."""
        self.make_id: Callable[[], DeskId] = new_id
        """Makes the ids of desks; those of a node identify the node."""
        self.idle = _MAX_IDLE_S
        """The shortest idle time among the desks in seconds; it determines how often the keeper is notified of use."""

    def make_pool(self) -> Pool:
        return Pool(self.config, self)

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        """Return a ready desk of the pool, or a new one."""
        spec = self.route(spec)
        self.opening += 1
        try:
            if (found := self.pool.take(spec, scope)) is not None:
                return await self.claim(*found, spec, scope)
            return await self.begin(spec, scope)
        finally:
            self.opening -= 1

    async def claim(self, ready: LinkedDesk, proven: bool, spec: Spec, scope: Scope) -> LinkedDesk:
        """Turn a ready desk into the requested one. One that cannot be adapted is burnt, and another opened.

        If neither size, root nor door changes, no reply is awaited: calls reach the guest once the keeper has thawed
        it, and after its variables.
        """
        desk, handle = ready.id, self.handles[ready.id]
        same = spec.is_like(replace(handle.spec, env=spec.env))
        as_it_is = same and (proven or scope == CLOSED) and not self.claims_may_fail
        handle.spec, handle.scope = spec, scope
        async with self.unless_whole(desk):
            led, ca = await self.admit(desk, spec, scope)
            handle.env = led.env
            order = KeeperRequest("claim", desk, led, ca=ca)
            if as_it_is:
                await self.keeper.post(order, functools.partial(self.lose, ready))
            else:
                try:
                    await self.keeper.ask(order)
                except (DeskError, KeeperError):
                    await self.burn(desk)
                    return await self.open(spec, scope)
            self.idle = min(self.idle, spec.idle)
            self.desks[desk] = ready
            ready.link.paused = False
            handle.thaw()
            closed = dict.fromkeys(door_files.build_closed_environment()) if ca and not proven else {}
            if env := {**closed, **(await self.equip(ready, ca) if ca else {}), **led.env}:
                settled = await ready.begin_settling(env)
                self.tasks.start(functools.partial(self.confirm, ready, settled))
            if ca and not proven and self.supervisor is not None:
                await self.supervisor.prove(ready)
        return ready

    async def equip(self, desk: LinkedDesk, ca: str) -> dict[str, str]:
        """Return the variables by which a claimed desk's programs use their door. Its keeper has written the files."""
        return door_files.build_environment()

    async def confirm(self, desk: LinkedDesk, settled: Channel) -> None:
        """Wait until a claimed desk has its variables. One whose guest refuses them is lost."""
        try:
            await desk.finish_settling(settled)
        except HotdeskError as e:
            if desk.link.failure is None:
                self.lose(desk, e)

    def lose(self, desk: LinkedDesk, why: HotdeskError) -> None:
        desk.link.break_off(DeskGone(f"desk {desk.id} of the pool ended before it was used ({why}); open another"))
        self.tasks.start(functools.partial(self.discard, desk))

    async def prepare(self, spec: Spec, proven: bool) -> tuple[LinkedDesk, str]:
        """Open a desk to keep ready: it cannot be found until it is claimed."""
        desk = await self.begin(spec, CLOSED, spare=True, gated=proven)
        async with self.unless_whole(desk.id):
            await desk.run(["true"])  # the first program is slower, because it looks up files
            await desk.run([*OPEN, SESSION, *DRAW], timeout=_SESSION_SECONDS)  # fails without a screen, which is fine
            await desk.run([READY, "all"], timeout=_SESSION_SECONDS)
            await desk.settle({})
            await desk.pause()
        return desk, self.handles[desk.id].image

    async def discard(self, desk: LinkedDesk) -> None:
        """Burn an unclaimed desk. If the keeper is gone, it has burnt the desk already."""
        with contextlib.suppress(HotdeskError):
            await self.burn(desk.id)
        desk.hang_up()

    def has_ended(self, desk: LinkedDesk) -> bool:
        return desk.id in self.keeper.ended or desk.link.failure is not None

    def is_dying(self, desk: LinkedDesk) -> bool:
        """Return whether a ready desk was killed, and will end when it is thawed."""
        return is_dying(self.handles[desk.id].pid)

    async def begin(
        self,
        spec: Spec,
        scope: Scope,
        *,
        origin: str = "",
        snapshot: str = "",
        spare: bool = False,
        gated: bool = False,
        desk: DeskId | None = None,
        token: str = "",
    ) -> LinkedDesk:
        """Open or fork a desk. If its guest does not connect or its egress fails the test, the desk is burnt.

        With a `token` its programs continue: those of `origin`, or those of `desk` when it was hibernated.
        """
        desk = desk or self.make_id()
        self.idle = min(self.idle, spec.idle)
        requested = spec
        async with self.unless_whole(desk):
            spec, ca = await self.admit(desk, spec, scope, gated)
            order = KeeperRequest(
                "open", desk, spec, ca=ca, origin=origin, snapshot=snapshot, spare=spare, memory=bool(token)
            )
            body, fds = await self.keeper.ask(order, 2)
            with closing(fds):
                if token:
                    sock, hello = await memory.hear_guest(self, desk, body, fds[0], token)
                    link = await memory.join(self, desk, sock, hello, memory.build_variables(spec, ca))
                else:
                    link = await self.answer(desk, body, fds[0], fds[1])
            handle = KeeperHandle(self, desk, requested, scope, str(body["image"]), int(str(body["pid"])))
            handle.env, handle.can_dial = spec.env, body.get("can_dial") is not False
            handle.has_own_kernel = body.get("own_kernel") is True
            opened = self.take(desk, link, handle)
            if not spare:
                self.desks[desk] = opened
            if ca and self.supervisor is not None:
                await self.supervisor.prove(opened)
        return opened

    @contextlib.asynccontextmanager
    async def unless_whole(self, desk: DeskId) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            with anyio.move_on_after(BURN_SECONDS, shield=True):
                await self.burn(desk, spare_hibernated=True)
            raise

    async def admit(self, desk: DeskId, spec: Spec, scope: Scope, gated: bool = False) -> tuple[Spec, str]:
        """Prepare the record of root's acts and egress of a desk; return the adapted spec and a certificate.

        A `gated` desk gets egress without any rules yet.
        """
        if scope == CLOSED and not spec.root and not gated:
            return spec, ""
        supervisor = self.get_supervisor()
        if supervisor is None:
            if scope != CLOSED or gated:
                raise BriefError(
                    "desks of this process have no network access (door); leave the egress rules and grants out"
                )
            return spec, ""
        if scope == CLOSED and not gated:
            await supervisor.prepare()
            return spec, ""
        ca, env = await supervisor.admit(desk, spec, scope)
        return replace(spec, env={**env, **spec.env}), ca

    def get_supervisor(self) -> Supervisor | None:
        """Return the supervisor of these desks, created on first use, or `None` if they have none."""
        if self.supervisor is None and self.supervise is not None:
            self.supervisor = self.supervise(self.parts, self.tasks)
        return self.supervisor

    def take(self, desk: DeskId, link: Link, handle: KeeperHandle) -> LinkedDesk:
        self.handles[desk] = handle
        return LinkedDesk(desk, link, str((link.hello or {}).get("home", "/")), handle, self.burn)

    async def answer(
        self, desk: DeskId, body: dict[str, object], listening: int, console: int = -1, root: bool = False
    ) -> Link:
        """Accept a guest's connection: exactly one, and only from the process that the keeper named.

        Behind a wall whose programs all connect through one process, the guest connects first: nothing else runs until
        it has, and from then on no process listens.
        """
        listener = socket.socket(fileno=listening)
        listener.setblocking(False)
        link = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.stop_waiting, desk, body, root, tasks.cancel_scope)
                while link is None:
                    sock = await accept(listener)
                    if get_peer(sock) == (body["caller"], body["uid"]):
                        link = Link(sock)
                    else:
                        sock.close()
                        await anyio.lowlevel.checkpoint()  # yield, so that other callers cannot block the loop
                tasks.cancel_scope.cancel()
        except ExceptionGroup as group:
            raise HostError(
                f"hotdesk's process in desk {desk} could not be reached: {group.exceptions[0]}; open another desk"
            ) from group
        except BaseException:
            if link is not None:
                link.sock.close()  # cancelled just after the guest connected: this link has no reader
            raise
        finally:
            listener.detach()
        if link is None and root and desk not in self.keeper.ended:
            raise LinkError(
                f"the process for root in desk {desk} did not connect; the image's Python may be broken: build or "
                "import the image again"
            )
        if link is None:
            why = self.keeper.ended.get(desk, "hotdesk's process in it does not respond")
            raise DeskGone(f"desk {desk} did not start: {why}{_read_console(console)}")
        link.explain_end = lambda: self.keeper.explain_end(desk, root)
        self.tasks.start(link.run)
        try:
            await link.wait_for_hello()
        except BaseException:
            link.hang_up()
            raise
        return link

    def start_root(self, name: str) -> None:
        """Start the guest for root in a desk in which `sudo` was called."""
        if handle := self.handles.get(DeskId(name)):
            self.tasks.start(handle.start_root)

    def dismiss(self, name: str, why: str) -> None:
        if self.supervisor is not None:
            self.tasks.start(functools.partial(self.supervisor.dismiss, DeskId(name), why))

    async def stop_waiting(self, desk: DeskId, body: dict[str, object], root: bool, scope: anyio.CancelScope) -> None:
        """Stop waiting for a guest's connection when it or its desk ended, or after the time its wall allows."""
        seconds = float(str(body.get("start_seconds", scale_seconds(GREET_SECONDS))))
        await self.keeper.wait_end(desk, seconds, root)
        scope.cancel()

    async def wake(self, desk: DeskId, scope: Scope = CLOSED) -> LinkedDesk:
        if desk in self.desks:
            await self.desks[desk].resume()
            return self.desks[desk]
        self.opening += 1
        try:
            return await memory.wake(self, desk, scope)
        finally:
            self.opening -= 1

    async def find(self, desk: DeskId) -> LinkedDesk:
        if desk not in self.desks:
            raise DeskGone(f"desk {desk} is not open here; `hotdesk ps` lists open desks")
        return self.desks[desk]

    async def pulse(self) -> None:
        """Tell the keeper which desks are in use: those with open calls, traffic or new frames."""
        previous: dict[DeskId, int] = {}
        while self.keeper.failure is None:
            await anyio.sleep(min(_PULSE_INTERVAL_S, self.idle / 4))
            await self.dismiss_ended()
            for desk in self.list_live():
                link, handle = self.desks[desk].link, self.handles[desk]
                moves = link.moves + handle.count_root_calls()
                if (
                    len(link.channels) > link.carried
                    or handle.is_busy()
                    or desk in self.used
                    or moves != previous.get(desk)
                ):
                    previous[desk] = moves
                    self.used.discard(desk)
                    await self.keeper.tell(KeeperRequest("touch", desk))

    async def dismiss_ended(self) -> None:
        for desk in [desk for desk in self.desks if desk in self.keeper.ended]:
            self.let_go(desk)
            if self.supervisor is not None:
                await self.supervisor.dismiss(desk, self.keeper.ended[desk])

    async def watch(self) -> None:
        """Follow the keeper. If it is killed, start another to clean up its desks."""
        await self.keeper.run()
        self.hang_up()
        if not self.keeper.closing:
            with contextlib.suppress(PermissionError):  # this process dropped the privileges needed to start a keeper
                await bury(self.config)

    def list_live(self) -> list[DeskId]:
        for desk in [desk for desk in self.desks if desk in self.keeper.ended]:
            self.let_go(desk)
        return list(self.desks)

    def list_awake(self) -> list[DeskId]:
        """List the desks that need this owner; a hibernated one can be resumed by another."""
        return [desk for desk in self.list_live() if self.handles[desk].parked is None]

    def hang_up(self) -> None:
        self.pool.hang_up()
        for desk in list(self.desks):
            self.let_go(desk)

    def let_go(self, desk: DeskId) -> None:
        for resource in (self.desks.pop(desk, None), self.handles.pop(desk, None)):
            if resource is not None:
                resource.hang_up()
        self.used.discard(desk)
        self.departed(desk)

    async def strike(self, desk: DeskId) -> None:
        """Kill all processes of a desk and start burning it; `burn` waits until it is gone."""
        await self.keeper.ask(KeeperRequest("strike", desk))
        self.let_go(desk)

    async def burn(self, desk: DeskId, *, spare_hibernated: bool = False) -> None:
        await self.keeper.ask(KeeperRequest("burn", desk, spare_hibernated=spare_hibernated))
        self.let_go(desk)
        if self.supervisor is not None:
            await self.supervisor.dismiss(desk, self.keeper.ended.get(desk, "asked"))


async def bury(config: Config) -> None:
    """Start a keeper just to burn desks without a live keeper.

    A confined process cannot start one that works; then the next command's keeper cleans up.
    """
    keeper = KeeperClient(start(config))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keeper.run)
        await keeper.close()
        tasks.cancel_scope.cancel()


async def burn_hibernated(config: Config, desk: DeskId) -> None:
    """Start a keeper just to remove the files of a hibernated desk."""
    keeper = KeeperClient(start(config))
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keeper.run)
            await keeper.ask(KeeperRequest("burn", desk))
            await keeper.close()
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise unwrap_group(group) from None
    finally:
        with anyio.move_on_after(BURN_SECONDS, shield=True):
            await keeper.wait_exit()


def _read_console(console: int) -> str:
    """Return the output of a desk that failed to start, escaped."""
    try:
        os.set_blocking(console, False)
        text = os.read(console, _CONSOLE).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return f" ({text[-500:]!r})" if text else ""


@contextlib.asynccontextmanager
async def container_runtime(
    config: Config,
    started: Started | None = None,
    note: Note = ignore,
    supervise: Callable[[Parts, Background], Supervisor] | None = None,
) -> AsyncIterator[KeeperRuntime]:
    """Yield a runtime with its own keeper, which may be started already. Its desks burn when the block ends."""
    async with background() as tasks:
        keeper = KeeperClient(started or start(config))
        runtime = KeeperRuntime(config, keeper, tasks, note, supervise)
        tasks.start(runtime.watch)
        tasks.start(runtime.pulse)
        tasks.start(runtime.pool.run)
        try:
            yield runtime
        finally:
            with anyio.CancelScope(shield=True):
                await keeper.close()
            runtime.hang_up()
