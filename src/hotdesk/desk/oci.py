"""The container wall: an owner's side of it. Asks its keeper for rooms, and talks to the guests in them."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import fields, replace

import anyio
import anyio.lowlevel

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.desk.background import Background, background
from hotdesk.desk.keeper_client import BURN_SECONDS, KeeperClient, closing
from hotdesk.desk.link import Link
from hotdesk.desk.linked import LinkedDesk
from hotdesk.desk.request import Request
from hotdesk.desk.root import Ledger, note_programs, supervise
from hotdesk.desk.seam import DeskId, Spec, Supervisor, Usage, new_id
from hotdesk.desk.sockets import accept, peer
from hotdesk.desk.spawn import Started, start
from hotdesk.errors import BriefError, DeskGone, HostError, HotdeskError, KeeperError, LinkError
from hotdesk.event import Note, ignore

GREET_SECONDS = 15.0
CONSOLE = 4096
PULSE = 1.0
IDLE_LONGEST = 1e9


class Kept:
    """A desk from outside, through its keeper."""

    def __init__(self, runtime: ContainerRuntime, desk: DeskId) -> None:
        self.runtime = runtime
        self.desk = desk
        self.roots: Link | None = None
        self.rising = anyio.Lock()
        self.ledger = Ledger(desk, runtime.note)
        self.thawing: anyio.Event | None = None
        """Set when a paused desk goes on, or ends."""

    async def usage(self) -> Usage:
        """Ask the keeper what the desk uses."""
        body, _ = await self.runtime.keeper.ask(Request("usage", self.desk))
        return as_usage(body)

    async def pause(self, paused: bool) -> None:
        """Have the keeper stop the desk, or let it go on."""
        await self.runtime.keeper.ask(Request("pause" if paused else "resume", self.desk))
        if self.roots is not None:
            self.roots.paused = paused
        if paused:
            self.thawing = self.thawing or anyio.Event()
        else:
            self.thaw()

    def thaw(self) -> None:
        """Let whoever waits for a paused desk go on."""
        if self.thawing is not None:
            self.thawing.set()
        self.thawing = None

    async def dial(self, port: int) -> socket.socket:
        """Have the keeper call a server inside."""
        _, fds = await self.runtime.keeper.ask(Request("dial", self.desk, port=port), 1)
        sock = socket.socket(fileno=fds[0])
        sock.setblocking(False)
        return sock

    async def root(self) -> Link:
        """Give the link to root's guest; the first call has the keeper start it."""
        async with self.rising:
            while self.thawing is not None:
                await self.thawing.wait()
            if self.roots is None or self.roots.is_over():
                body, fds = await self.runtime.keeper.ask(Request("root", self.desk), 1)
                self.runtime.keeper.rootless.discard(self.desk)
                with closing(fds):
                    self.roots = await self.runtime.answer(self.desk, body, fds[0], root=True)
                note_programs(self.roots, self.ledger)
                self.runtime.tasks.start(functools.partial(supervise, self.roots, self.ledger))
            return self.roots

    def calls(self) -> int:
        """Count the calls as root so far; what `sudo` does is the desk's own use, and keeps no desk open."""
        return self.roots.last if self.roots is not None else 0

    def is_busy(self) -> bool:
        """Say whether a call as root is under way; one channel is always open, to hear of acts."""
        return self.roots is not None and self.roots.failure is None and len(self.roots.channels) > 1

    async def rise(self) -> None:
        """Have root up; what fails is told to whoever asks next."""
        with contextlib.suppress(HotdeskError):
            await self.root()

    def hang_up(self) -> None:
        """Let go of root's link."""
        self.thaw()
        if self.roots is not None:
            self.roots.hang_up()


def as_usage(body: dict[str, object]) -> Usage:
    """Read what a desk uses, as its keeper or its owner tells."""
    told = {field.name: body.get(field.name, 0) for field in fields(Usage)}
    if not all(type(number) in (int, float) for number in told.values()):
        raise KeeperError("what the desk uses was told strangely")
    return Usage(**told)  # type: ignore[arg-type]


class ContainerRuntime:
    """Desks in OCI containers, opened through one keeper."""

    def __init__(
        self,
        config: Config,
        keeper: KeeperClient,
        tasks: Background,
        note: Note = ignore,
        supervise: Callable[[KeeperClient, Background], Supervisor] | None = None,
    ) -> None:
        self.config = config
        self.keeper = keeper
        self.keeper.knocked = self.rise
        self.keeper.ends = self.dismiss
        self.tasks = tasks
        self.note = note
        self.supervise = supervise
        self.supervisor: Supervisor | None = None
        """Made on first need: most desks have no way out, and no root."""
        self.used: set[DeskId] = set()
        """Desks whose bytes went through the door since the last pulse."""
        self.kept: dict[DeskId, Kept] = {}
        self.desks: dict[DeskId, LinkedDesk] = {}
        self.idle = IDLE_LONGEST
        """The shortest idle time among the desks; how often to tell the keeper follows from it."""

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        """Open a desk; when its guest does not greet or its way out does not hold, nothing is left of it."""
        desk = new_id()
        self.idle = min(self.idle, spec.idle)
        try:
            spec, ca = await self.admit(desk, spec, scope)
            body, fds = await self.keeper.ask(Request("open", desk, spec, ca=ca), 2)
            with closing(fds):
                self.desks[desk] = await self.greet(desk, body, fds)
            if ca and self.supervisor is not None:
                await self.supervisor.prove(self.desks[desk])
        except BaseException:
            with anyio.move_on_after(BURN_SECONDS, shield=True):
                await self.burn(desk)
            raise
        return self.desks[desk]

    async def admit(self, desk: DeskId, spec: Spec, scope: Scope) -> tuple[Spec, str]:
        """Have whatever the desk needs outside: somebody who notes what root does, and a way out."""
        if scope == CLOSED and not spec.root:
            return spec, ""
        supervisor = self.supervised()
        if supervisor is None:
            if scope != CLOSED:
                raise BriefError("these desks have no way out; leave the scope away")
            return spec, ""
        if scope == CLOSED:
            await supervisor.ready()
            return spec, ""
        ca, env = await supervisor.admit(desk, spec, scope)
        return replace(spec, env={**env, **spec.env}), ca

    def supervised(self) -> Supervisor | None:
        """Give who supervises these desks, made on first need; None where nobody does."""
        if self.supervisor is None and self.supervise is not None:
            self.supervisor = self.supervise(self.keeper, self.tasks)
        return self.supervisor

    async def greet(self, desk: DeskId, body: dict[str, object], fds: list[int]) -> LinkedDesk:
        """Take the guest's call, and its first word."""
        link = await self.answer(desk, body, fds[0], fds[1])
        self.kept[desk] = Kept(self, desk)
        return LinkedDesk(desk, link, str((link.hello or {}).get("home", "/")), self.kept[desk])

    async def answer(
        self, desk: DeskId, body: dict[str, object], listening: int, console: int = -1, root: bool = False
    ) -> Link:
        """Accept a guest's call: only from the very process the keeper started."""
        listener = socket.socket(fileno=listening)
        listener.setblocking(False)
        link = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.stop_waiting, desk, root, tasks.cancel_scope)
                while link is None:
                    sock = await accept(listener)
                    if peer(sock) == (body["pid"], body["uid"]):
                        link = Link(sock)
                    else:
                        sock.close()
                        await anyio.lowlevel.checkpoint()  # a crowd of strangers takes nobody's turn
                tasks.cancel_scope.cancel()
        except ExceptionGroup as group:
            raise HostError(f"the guest of desk {desk} could not be heard: {group.exceptions[0]}") from group
        except BaseException:
            if link is not None:
                link.sock.close()  # cancelled when the guest had just called: nobody would read this link
            raise
        finally:
            listener.detach()
        if link is None and root and desk not in self.keeper.ended:
            raise LinkError(f"root's guest in desk {desk} did not call; is its Python broken?")
        if link is None:
            why = self.keeper.ended.get(desk, "its guest is silent")
            raise DeskGone(f"desk {desk} did not come up: {why}{said(console)}")
        link.obituary = lambda: self.keeper.obituary(desk, root)
        self.tasks.start(link.run)
        try:
            await link.ready()
        except BaseException:
            link.hang_up()
            raise
        return link

    def rise(self, name: str) -> None:
        """Have root's guest started in a desk where `sudo` calls."""
        if kept := self.kept.get(DeskId(name)):
            self.tasks.start(kept.rise)

    def dismiss(self, name: str, why: str) -> None:
        """Have the way out of a desk that ended shut, whoever or whatever ended it."""
        if self.supervisor is not None:
            self.tasks.start(functools.partial(self.supervisor.dismiss, DeskId(name), why))

    async def stop_waiting(self, desk: DeskId, root: bool, scope: anyio.CancelScope) -> None:
        """Stop waiting for a guest's call when it or its desk ended, or its time is up."""
        await self.keeper.mourn(desk, GREET_SECONDS, root)
        scope.cancel()

    async def find(self, desk: DeskId) -> LinkedDesk:
        """Give an open desk of this owner."""
        if desk not in self.desks:
            raise DeskGone(f"desk {desk} is not open here")
        return self.desks[desk]

    async def pulse(self) -> None:
        """Tell the keeper which desks are in use: a call under way counts, and every frame either way."""
        seen: dict[DeskId, int] = {}
        while self.keeper.failure is None:
            await anyio.sleep(min(PULSE, self.idle / 4))
            await self.dismiss_ended()
            for desk in self.live():
                link, kept = self.desks[desk].link, self.kept[desk]
                moves = link.moves + kept.calls()
                if link.channels or kept.is_busy() or desk in self.used or moves != seen.get(desk):
                    seen[desk] = moves
                    self.used.discard(desk)
                    await self.keeper.tell(Request("touch", desk))

    async def dismiss_ended(self) -> None:
        """Have the ways out of desks that ended by themselves written off."""
        for desk in [desk for desk in self.desks if desk in self.keeper.ended]:
            self.let_go(desk)
            if self.supervisor is not None:
                await self.supervisor.dismiss(desk, self.keeper.ended[desk])

    async def watch(self) -> None:
        """Follow the keeper; should it be killed, have another bury its desks."""
        await self.keeper.run()
        self.hang_up()
        if not self.keeper.closing:
            await bury(self.config)

    def live(self) -> list[DeskId]:
        """List the desks that are open, letting go of those that ended."""
        for desk in [desk for desk in self.desks if desk in self.keeper.ended]:
            self.let_go(desk)
        return list(self.desks)

    def hang_up(self) -> None:
        """Let go of every desk's links."""
        for desk in list(self.desks):
            self.let_go(desk)

    def let_go(self, desk: DeskId) -> None:
        """Hang up on a desk, if it was open."""
        for known in (self.desks.pop(desk, None), self.kept.pop(desk, None)):
            if known is not None:
                known.hang_up()
        self.used.discard(desk)

    async def burn(self, desk: DeskId) -> None:
        """End a desk."""
        await self.keeper.ask(Request("burn", desk))
        self.let_go(desk)
        if self.supervisor is not None:
            await self.supervisor.dismiss(desk, self.keeper.ended.get(desk, "asked"))


async def bury(config: Config) -> None:
    """Start a keeper for just long enough to burn what no keeper holds.

    A confined command starts one in vain: the next command's keeper then does it.
    """
    undertaker = KeeperClient(start(config))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(undertaker.run)
        await undertaker.close()
        tasks.cancel_scope.cancel()


def said(console: int) -> str:
    """Read what a desk that failed to start wrote, escaped."""
    try:
        os.set_blocking(console, False)
        text = os.read(console, CONSOLE).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return f" ({text[-500:]!r})" if text else ""


@contextlib.asynccontextmanager
async def container_runtime(
    config: Config,
    started: Started | None = None,
    note: Note = ignore,
    supervise: Callable[[KeeperClient, Background], Supervisor] | None = None,
) -> AsyncIterator[ContainerRuntime]:
    """Give a runtime with a keeper of its own, perhaps already started; its desks burn with it."""
    async with background() as tasks:
        keeper = KeeperClient(started or start(config))
        runtime = ContainerRuntime(config, keeper, tasks, note, supervise)
        tasks.start(runtime.watch)
        tasks.start(runtime.pulse)
        try:
            yield runtime
        finally:
            with anyio.CancelScope(shield=True):
                await keeper.close()
            runtime.hang_up()
