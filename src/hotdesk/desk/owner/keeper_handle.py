"""The handle of a desk that its owner uses: operations through the keeper."""

from __future__ import annotations

import contextlib
import functools
import socket
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from hotdesk.brief.data import Scope
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link, explain_stop
from hotdesk.desk.link.port import call_port
from hotdesk.desk.owner import memory
from hotdesk.desk.owner.keeper_client import BURN_SECONDS, SAVE_SECONDS, closing
from hotdesk.desk.owner.root import RootLedger, note_programs, supervise
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import DeskId, Spec, Usage
from hotdesk.errors import HotdeskError, KeeperError
from hotdesk.ipc.tasks import run_together

if TYPE_CHECKING:
    from hotdesk.desk.owner.runtime import KeeperRuntime


_WRITE_OUT_SECONDS = 20.0
"""Seconds a guest may take to flush its kernel's writes; a guest that lies or is slow damages only its own files."""
_MAX_DIALS = 4
"""Maximum dials of one desk that the keeper handles at a time."""


class KeeperHandle:
    """Controls a desk through its keeper."""

    def __init__(self, runtime: KeeperRuntime, desk: DeskId, spec: Spec, scope: Scope, image: str, pid: int) -> None:
        self.runtime = runtime
        self.desk = desk
        self.spec = spec
        self.scope = scope
        self.image = image
        """The digest of the desk's image."""
        self.pid = pid
        """The pid of its first process when it was opened, in the host's pid namespace."""
        self.can_dial = True
        """Whether the keeper can connect to the desk's ports; otherwise the guest connects."""
        self.has_own_kernel = False
        """Whether only the guest can flush the kernel's pending writes."""
        self.env: Mapping[str, str] = {}
        """Environment variables of every program in the desk, including placeholders of secrets."""
        self.roots: Link | None = None
        self.rising = anyio.Lock()
        self.dialling = anyio.Semaphore(_MAX_DIALS)
        self.ledger = RootLedger(desk, runtime.note)
        self.paused = False
        self.suspended = False
        self.parked: tuple[Link, str] | None = None
        """While the desk is hibernated: the link that continues afterwards, and the token its guest will send."""
        self.thawing: anyio.Event | None = None
        """Set when a paused or halted desk continues, or ends."""

    async def usage(self) -> Usage:
        body, _ = await self.runtime.keeper.ask(KeeperRequest("usage", self.desk))
        return as_usage(body)

    async def pause(self, paused: bool) -> None:
        """Freeze or thaw the desk through the keeper, but not while root starts; freezing a hibernated one does
        nothing.
        """
        if self.parked is not None:
            if not paused:
                await memory.resume(self)
            return
        if paused:
            await self.write_out()
        async with self.rising if paused else contextlib.nullcontext():
            await self.runtime.keeper.ask(KeeperRequest("pause" if paused else "resume", self.desk))
        self.paused = paused
        self.settle()

    async def suspend(self, suspended: bool) -> None:
        """Freeze or thaw all but screen, window manager and browser, but not while root starts."""
        async with self.rising if suspended else contextlib.nullcontext():
            await self.runtime.keeper.ask(KeeperRequest("suspend", self.desk, suspended=suspended))
        self.suspended = suspended
        self.settle()

    def settle(self) -> None:
        still = self.paused or self.suspended
        if self.roots is not None:
            self.roots.paused = still
        if still:
            self.thawing = self.thawing or anyio.Event()
        else:
            self.thaw()

    def thaw(self) -> None:
        if self.thawing is not None:
            self.thawing.set()
        self.thawing = None

    async def halt(self, snapshot: str = "") -> None:
        """End all programs of the desk through the keeper. Callers that need root wait from now on."""
        was_up = self.thawing is None
        if not snapshot:
            await self.write_out()
        self.thawing = self.thawing or anyio.Event()
        async with self.rising:
            link, self.roots = self.roots, None
            explain_end = link.explain_end if link is not None else None
            try:
                if link is not None:
                    link.explain_end = functools.partial(explain_stop, self.desk)
                await self.runtime.keeper.ask(KeeperRequest("halt", self.desk, snapshot=snapshot))
            except BaseException:
                if link is not None and explain_end is not None:
                    link.explain_end, self.roots = explain_end, link
                if was_up:
                    self.thaw()
                raise
        self.paused = self.suspended = False
        self.parked = None
        if link is not None:
            link.break_off(await explain_stop(self.desk))

    async def boot(self, snapshot: str = "") -> Link:
        """Start the desk through the keeper, and accept its guest's connection. Burn a desk that does not start."""
        async with self.runtime.unless_whole(self.desk):
            body, fds = await self.runtime.keeper.ask(KeeperRequest("boot", self.desk, snapshot=snapshot), 2)
            with closing(fds):
                link = await self.runtime.answer(self.desk, body, fds[0], fds[1])
        self.thaw()
        return link

    async def snapshot(self) -> str:
        """Take a snapshot through the keeper; delete it if the caller was cancelled."""
        await self.write_out()
        async with self.rising:
            with anyio.CancelScope(shield=True):
                body, _ = await self.runtime.keeper.ask(KeeperRequest("snapshot", self.desk))
        name = str(body.get("snapshot"))
        try:
            await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            with anyio.move_on_after(BURN_SECONDS, shield=True), contextlib.suppress(HotdeskError):
                await self.forget(name)
            raise
        return name

    async def write_out(self) -> None:
        """Flush the guest kernel's writes to disk. A frozen guest has done so before."""
        desk = self.runtime.desks.get(self.desk)
        if not self.has_own_kernel or self.thawing is not None or desk is None:
            return
        with contextlib.suppress(HotdeskError), anyio.move_on_after(_WRITE_OUT_SECONDS):
            channel = await desk.link.open({"op": "sync"})
            try:
                await channel.answer()
            finally:
                with anyio.move_on_after(_WRITE_OUT_SECONDS, shield=True):
                    await channel.drop()

    async def forget(self, snapshot: str) -> None:
        await self.runtime.keeper.ask(KeeperRequest("forget", self.desk, snapshot=snapshot))

    async def save(self, name: str, snapshot: str) -> None:
        await self.runtime.keeper.ask(KeeperRequest("save", self.desk, snapshot=snapshot, name=name), 0, SAVE_SECONDS)

    async def fork(self, snapshot: str, count: int) -> Sequence[LinkedDesk]:
        """Open desks of the same spec and scope that start with a snapshot's files: all of them, or none."""
        forks: list[LinkedDesk] = []

        async def one() -> None:
            forks.append(await self.runtime.begin(self.spec, self.scope, origin=self.desk, snapshot=snapshot))

        try:
            await run_together([one] * count)
        except BaseException:
            with anyio.move_on_after(BURN_SECONDS, shield=True):
                for desk in forks:
                    with contextlib.suppress(HotdeskError):
                        await self.runtime.burn(desk.id)
            raise
        return forks

    async def fork_live(self, link: Link, count: int) -> Sequence[LinkedDesk]:
        return await memory.fork(self, link, count)

    async def hibernate(self, link: Link) -> None:
        await memory.hibernate(self, link)

    async def dial(self, port: int, link: Link) -> socket.socket:
        """Connect to a server inside through the keeper, or through the guest where the wall requires it.

        Excess callers wait here and not in the keeper's queue, where they would delay other requests; a waiting caller
        that is cancelled sends nothing. A request that was sent is completed, because the keeper replies at once.
        """
        if not self.can_dial:
            return await call_port(link, self.desk, port, self.runtime.tasks.start)
        async with self.dialling:
            with anyio.CancelScope(shield=True):
                _, fds = await self.runtime.keeper.ask(KeeperRequest("dial", self.desk, port=port), 1)
        sock = socket.socket(fileno=fds[0])
        sock.setblocking(False)
        return sock

    async def get_root_link(self) -> Link:
        """Return the link to the guest for root; the first call makes the keeper start it.

        A start is completed even if its caller is cancelled: no one else would accept the guest's connection, and a
        desk whose root is starting cannot be paused.
        """
        while True:
            while self.thawing is not None:
                await self.thawing.wait()
            async with self.rising:
                if self.thawing is None:
                    with anyio.CancelScope(shield=True):
                        return await self.ensure_root()

    async def ensure_root(self) -> Link:
        if self.roots is None or self.roots.is_over():
            body, fds = await self.runtime.keeper.ask(KeeperRequest("root", self.desk), 1)
            self.runtime.keeper.rootless.discard(self.desk)
            with closing(fds):
                self.roots = await self.runtime.answer(self.desk, body, fds[0], root=True)
            note_programs(self.roots, self.ledger)
            self.runtime.tasks.start(functools.partial(supervise, self.roots, self.ledger))
        return self.roots

    def count_root_calls(self) -> int:
        """Return the number of calls as root so far. `sudo` in the desk is not counted, and keeps no desk open."""
        return self.roots.last if self.roots is not None else 0

    def is_busy(self) -> bool:
        """Return whether a call as root is in progress. One channel is always open, for the acts of `sudo`."""
        return self.roots is not None and self.roots.failure is None and len(self.roots.channels) > 1

    async def start_root(self) -> None:
        """Start the guest for root. A failure is reported to the next caller."""
        with contextlib.suppress(HotdeskError):
            await self.get_root_link()

    def hang_up(self) -> None:
        self.thaw()
        if self.roots is not None:
            self.roots.hang_up()


async def suspend(desk: LinkedDesk, suspended: bool) -> None:
    """Freeze all of a desk but its screen, window manager and browser, or thaw it. Calls to it wait meanwhile."""
    async with desk.rebooting:
        await desk.outside.suspend(suspended)
        desk.link.suspend(suspended)


def as_usage(body: dict[str, object]) -> Usage:
    numbers = {field.name: body.get(field.name, 0) for field in fields(Usage)}
    if not all(type(number) in (int, float) for number in numbers.values()):
        raise KeeperError("malformed usage reply from the keeper")
    return Usage(**numbers)  # type: ignore[arg-type]
