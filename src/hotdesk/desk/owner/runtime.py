"""The container wall: an owner's side of it. Asks its keeper for rooms, and talks to the guests in them."""

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
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner import memory
from hotdesk.desk.owner.keeper_client import BURN_SECONDS, KeeperClient, closing
from hotdesk.desk.owner.keeper_handle import KeeperHandle
from hotdesk.desk.owner.parts import KeeperParts, Parts
from hotdesk.desk.owner.pool import Pool
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import DeskId, Spec, Supervisor, new_id
from hotdesk.errors import BriefError, DeskError, DeskGone, HostError, HotdeskError, KeeperError, LinkError
from hotdesk.event import Note, ignore
from hotdesk.ipc.tasks import Background, background
from hotdesk.linux.processes import is_dying
from hotdesk.linux.sockets import accept, get_peer

GREET_SECONDS = 15.0
_CONSOLE = 4096
_PULSE_INTERVAL_S = 1.0
SESSION = "/usr/local/lib/hotdesk/session"
"""In an image with a screen: the program that starts what shows it, and then runs its arguments."""
DRAW = ("sleep", "0.5")
"""Until the panel, for which no one else waits, is drawn."""
OPEN = ("env", *(f"--unset={name}" for name in door_files.build_closed_environment()))
"""Starts the desktop of a desk kept ready, whose programs may have egress later."""
READY = "/usr/local/lib/hotdesk/ready"
"""In an image with a server of its own: the program that starts it unless it is up, with `all` all it may need."""
_SESSION_SECONDS = 30.0
_MAX_IDLE_S = 1e9


class KeeperRuntime:
    """Desks in OCI containers, opened through one keeper."""

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
        """Made on first need: most desks have no way out, and no root."""
        self.used: set[DeskId] = set()
        """Desks whose bytes went through the door since the last pulse."""
        self.pool = Pool(config, self)
        self.handles: dict[DeskId, KeeperHandle] = {}
        self.desks: dict[DeskId, LinkedDesk] = {}
        self.opening = 0
        """Desks that are being opened."""
        self.calls = 0
        """Calls of other processes that are being answered."""
        self.served = 0
        """Calls that were answered so far."""
        self.departed: Callable[[DeskId], None] = lambda desk: None
        """Called with a desk that is released."""
        self.route: Callable[[Spec], Spec] = lambda spec: spec
        """Gives a spec the wall that this owner's operator demands; it never weakens the requested one."""
        self.make_id: Callable[[], DeskId] = new_id
        """Makes the ids of desks; those of a node tell where they are."""
        self.idle = _MAX_IDLE_S
        """The shortest idle time among the desks; how often to tell the keeper follows from it."""

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        """Return a desk: a ready one, or a new one."""
        spec = self.route(spec)
        self.opening += 1
        try:
            if (found := self.pool.take(spec, scope)) is not None:
                return await self.claim(*found, spec, scope)
            return await self.begin(spec, scope)
        finally:
            self.opening -= 1

    async def claim(self, ready: LinkedDesk, proven: bool, spec: Spec, scope: Scope) -> LinkedDesk:
        """Turn a ready desk into the requested one; one that cannot be adapted is burnt, and another taken.

        A desk that needs no change is not waited for: calls reach its guest once it is thawed.
        """
        desk, handle = ready.id, self.handles[ready.id]
        as_it_is = scope == CLOSED and spec.is_like(handle.spec)
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
            if env := {**closed, **(door_files.build_environment() if ca else {}), **led.env}:
                await ready.settle(env)
            if ca and not proven and self.supervisor is not None:
                await self.supervisor.prove(ready)
        return ready

    def lose(self, desk: LinkedDesk, why: HotdeskError) -> None:
        desk.link.break_off(DeskGone(f"desk {desk.id} of the pool ended before it was used ({why}); open another"))
        self.tasks.start(functools.partial(self.discard, desk))

    async def prepare(self, spec: Spec, proven: bool) -> tuple[LinkedDesk, str]:
        """Open a desk to be kept ready: it cannot be found until it is claimed."""
        desk = await self.begin(spec, CLOSED, spare=True, gated=proven)
        async with self.unless_whole(desk.id):
            await desk.run(["true"])  # a first program's lookups take time, which nobody waits for here
            await desk.run([*OPEN, SESSION, *DRAW], timeout=_SESSION_SECONDS)  # an image without a screen has none
            await desk.run([READY, "all"], timeout=_SESSION_SECONDS)
            await desk.settle({})
            await desk.pause()
        return desk, self.handles[desk.id].image

    async def discard(self, desk: LinkedDesk) -> None:
        """Burn a desk that was kept ready in vain; a keeper that is gone does so too."""
        with contextlib.suppress(HotdeskError):
            await self.burn(desk.id)
        desk.hang_up()

    def has_ended(self, desk: LinkedDesk) -> bool:
        return desk.id in self.keeper.ended or desk.link.failure is not None

    def is_dying(self, desk: LinkedDesk) -> bool:
        """Return whether a desk that is kept ready was killed, and would end once it is thawed."""
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
        """Open or fork a desk; if its guest does not greet or its way out fails the test, nothing is left.

        With a `token` its programs continue, as they were in `origin` or when `desk` was hibernated.
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
        """Prepare what the desk needs outside: the record of root's acts, and a way out.

        A `gated` one gets a way out that leads nowhere yet.
        """
        if scope == CLOSED and not spec.root and not gated:
            return spec, ""
        supervisor = self.get_supervisor()
        if supervisor is None:
            if scope != CLOSED or gated:
                raise BriefError("these desks have no network access (door); leave the scope out")
            return spec, ""
        if scope == CLOSED and not gated:
            await supervisor.prepare()
            return spec, ""
        ca, env = await supervisor.admit(desk, spec, scope)
        return replace(spec, env={**env, **spec.env}), ca

    def get_supervisor(self) -> Supervisor | None:
        """Return the supervisor of these desks, made on first need; None if there is none."""
        if self.supervisor is None and self.supervise is not None:
            self.supervisor = self.supervise(self.parts, self.tasks)
        return self.supervisor

    def take(self, desk: DeskId, link: Link, handle: KeeperHandle) -> LinkedDesk:
        self.handles[desk] = handle
        return LinkedDesk(desk, link, str((link.hello or {}).get("home", "/")), handle, self.burn)

    async def answer(
        self, desk: DeskId, body: dict[str, object], listening: int, console: int = -1, root: bool = False
    ) -> Link:
        """Accept a guest's call: only from the very process that the keeper named, and only one.

        Behind a wall whose programs all call through one process, the guest is the first to call: nothing else runs
        before it has, and from then on no one listens.
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
                        await anyio.lowlevel.checkpoint()  # yield, so that strangers cannot starve the loop
                tasks.cancel_scope.cancel()
        except ExceptionGroup as group:
            raise HostError(f"hotdesk's process in desk {desk} could not be reached: {group.exceptions[0]}") from group
        except BaseException:
            if link is not None:
                link.sock.close()  # cancelled when the guest had just called: this link has no reader
            raise
        finally:
            listener.detach()
        if link is None and root and desk not in self.keeper.ended:
            raise LinkError(f"the process for root in desk {desk} did not connect; the image's Python may be broken")
        if link is None:
            why = self.keeper.ended.get(desk, "hotdesk's process in it does not respond")
            raise DeskGone(f"desk {desk} did not start: {why}{_read_console(console)}")
        link.obituary = lambda: self.keeper.explain_end(desk, root)
        self.tasks.start(link.run)
        try:
            await link.wait_for_hello()
        except BaseException:
            link.hang_up()
            raise
        return link

    def start_root(self, name: str) -> None:
        """Have root's guest started in a desk where `sudo` calls."""
        if handle := self.handles.get(DeskId(name)):
            self.tasks.start(handle.start_root)

    def dismiss(self, name: str, why: str) -> None:
        if self.supervisor is not None:
            self.tasks.start(functools.partial(self.supervisor.dismiss, DeskId(name), why))

    async def stop_waiting(self, desk: DeskId, body: dict[str, object], root: bool, scope: anyio.CancelScope) -> None:
        """Stop waiting for a guest's call when it or its desk ended, or after the time its wall needs."""
        seconds = float(str(body.get("start_seconds", GREET_SECONDS)))
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
        """Tell the keeper which desks are in use: by running calls, and by frames either way."""
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
        """Follow the keeper; should it be killed, have another bury its desks."""
        await self.keeper.run()
        self.hang_up()
        if not self.keeper.closing:
            with contextlib.suppress(PermissionError):  # this process gave up what it takes to start one
                await bury(self.config)

    def list_live(self) -> list[DeskId]:
        for desk in [desk for desk in self.desks if desk in self.keeper.ended]:
            self.let_go(desk)
        return list(self.desks)

    def list_awake(self) -> list[DeskId]:
        """List the desks that need this owner; a hibernated one can resume at another."""
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
        """Kill everything in a desk, and have it burn; `burn` waits until nothing is left of it."""
        await self.keeper.ask(KeeperRequest("strike", desk))
        self.let_go(desk)

    async def burn(self, desk: DeskId, *, spare_hibernated: bool = False) -> None:
        await self.keeper.ask(KeeperRequest("burn", desk, spare_hibernated=spare_hibernated))
        self.let_go(desk)
        if self.supervisor is not None:
            await self.supervisor.dismiss(desk, self.keeper.ended.get(desk, "asked"))


async def bury(config: Config) -> None:
    """Start a keeper for just long enough to burn what no keeper holds.

    A confined command cannot start one, or in vain: the next command's keeper then does it.
    """
    undertaker = KeeperClient(start(config))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(undertaker.run)
        await undertaker.close()
        tasks.cancel_scope.cancel()


async def burn_hibernated(config: Config, desk: DeskId) -> None:
    """Start a keeper for just long enough to remove the files of a hibernated desk."""
    keeper = KeeperClient(start(config))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keeper.run)
        await keeper.ask(KeeperRequest("burn", desk))
        await keeper.close()
        tasks.cancel_scope.cancel()


def _read_console(console: int) -> str:
    """Read what a desk that failed to start wrote, escaped."""
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
    """Yield a runtime with a keeper of its own, perhaps already started; its desks burn with it."""
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
