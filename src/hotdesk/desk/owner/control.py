"""An owner's control socket: HTTP over a unix socket, so that other processes of the same user can use its desks.

GET    /desks            list the open desks
POST   /desks            open one; the body has its spec and its scope
DELETE /desks/ID         burn one
GET    /desks/ID/usage   its resource usage
POST   /desks/ID/pause   freeze it; `resume` continues
POST   /desks/ID/snapshots     take a snapshot of its files; DELETE /desks/ID/snapshots/N deletes one
POST   /desks/ID/halt    end its processes; `boot` restarts it, with a snapshot's files if the body names one
POST   /desks/ID/forks   open desks that start with its files
POST   /desks/ID/images  save its files as an image
GET    /desks/ID/link    upgrade to a link: a guest's frames, relayed channel by channel; `root`: to the guest for root
GET    /desks/ID/dial/N  upgrade to a stream of bytes to and from port N inside
GET    /questions        list the desks' unanswered questions
POST   /questions/ID     answer one; the body has the decision, and the digest of the question
POST   /allow/ID         allow a desk more egress; the body has a rule
POST   /unlock           give keys the vault's root key
POST   /leases           open a desk for the duration of this call, and upgrade to its link; resident holders only
DELETE /leases/IMAGE     keep no ready desks of an image; resident holders only

Requests for tools and screens (`tools`, `view`, `wheel`) are answered by the services given as `people`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Protocol

import anyio
import h11

from hotdesk.brief import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper import state
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.lend import join, relay
from hotdesk.desk.owner.control_bodies import (
    name_caller,
    parse_allow,
    parse_answer,
    parse_forks,
    parse_keep,
    parse_order,
    parse_unlock,
)
from hotdesk.desk.owner.control_http import (
    BODY_LIMIT,
    REQUEST_SECONDS,
    explain,
    is_large_tool_call,
    read_body,
    read_head,
    respond,
    switch,
)
from hotdesk.desk.owner.keeper_client import BURN_SECONDS
from hotdesk.desk.request import parse_name, parse_port, parse_snapshot
from hotdesk.desk.seam import DeskId, SnapshotId, Spec, as_id
from hotdesk.errors import BriefError, DeskGone, HotdeskError, unwrap_group
from hotdesk.event import Asked
from hotdesk.ipc.tasks import Background, background
from hotdesk.linux.sockets import accept, get_peer, listen
from hotdesk.tool import MAX_CALL_BYTES

_MAX_LARGE_CALLS = 8
"""Maximum callers whose tool calls over `BODY_LIMIT` are being read."""
_MAX_CALLS = 256
"""Maximum callers whose requests are being read; more wait in the socket's queue."""
ACCEPT_RETRY_S = 0.1
STATUS = {BriefError.code: 400, DeskGone.code: 404}
NOTHING = "the control socket does not have this path"
PEOPLE = frozenset({"tools", "view", "wheel"})
"""Path components after a desk's id for using its tools, viewing its screen, and controlling it."""


class Asks(Protocol):
    """Holds the open questions of an owner's desks, and accepts answers."""

    def open_questions(self) -> list[Asked]:
        """List open questions, each with the seconds left to answer it."""
        ...

    async def answer(self, number: str, approved: bool, by: str, digest: str) -> Asked:
        """Answer a question and return it. Raise `BriefError` if no open question has this number and digest."""
        ...

    async def unlock(self, root: str) -> None:
        """Receive the vault's root key, in base64."""
        ...

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str) -> None:
        """Allow a desk more egress without a question."""
        ...


class Leases(Protocol):
    """Parses requests for desks that last as long as a call."""

    identity: str
    """The holder's identity; a caller that expected another holder disconnects."""

    def read_lease(self, body: bytes, pid: int, uid: int) -> Spec:
        """Return the spec of the desk to lease. Raise `BriefError` if the caller may not lease one."""
        ...

    def release_ready(self, image: str) -> None:
        """Burn the ready desks of an image that is being removed."""
        ...


class ControlledRuntime(Protocol):
    """The desks of an owner, wherever they run."""

    config: Config
    calls: int
    """Number of calls of other processes being answered."""
    served: int
    """Number of calls answered so far."""

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        """Open a desk."""
        ...

    async def find(self, desk: DeskId) -> LinkedDesk:
        """Return an open desk of this owner. Raise `DeskGone` if there is none with this id."""
        ...

    async def burn(self, desk: DeskId) -> None:
        """End a desk."""
        ...

    async def wake(self, desk: DeskId, scope: Scope = CLOSED) -> LinkedDesk:
        """Resume a hibernated desk."""
        ...


class ScreenServices(Protocol):
    """Serves callers that use a desk's tools, or view its screen."""

    async def answer(self, sock: socket.socket, method: str, desk: LinkedDesk, parts: list[str], body: bytes) -> None:
        """Handle a call until it ends."""
        ...


@dataclass(slots=True)
class ControlServer:
    """Serves the control socket of one owner."""

    runtime: ControlledRuntime
    tasks: Background
    everyone: bool = False
    """Whether other users may call; the socket's mode then decides which."""
    asks: Callable[[], Asks] | None = None
    people: Callable[[str], ScreenServices] | None = None
    """Returns the service for a kind of call, one of `PEOPLE`."""
    personal: Callable[[DeskId], None] | None = None
    """Called with each desk that a person opens for themselves."""
    leases: Leases | None = None
    free: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_MAX_CALLS))
    free_large: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_MAX_LARGE_CALLS))

    async def serve(self, listener: socket.socket) -> None:
        while True:
            await self.free.acquire()
            try:
                sock = await accept(listener)
            except OSError:
                self.free.release()
                await anyio.sleep(ACCEPT_RETRY_S)  # too many open files: the call waits in the queue
                continue
            if self.everyone or get_peer(sock)[1] in (os.geteuid(), 0):
                self.tasks.start(functools.partial(self.talk, sock))
            else:
                sock.close()
                self.free.release()

    async def talk(self, sock: socket.socket) -> None:
        """Handle one call; a caller that disconnects does not affect others."""
        sock.setblocking(False)
        self.runtime.calls += 1
        try:
            request, body = await self.hear(sock)
            parts = request.target.decode("ascii", "replace").strip("/").split("/")
            await self.answer(sock, request.method.decode(), parts, body)
        except Exception:  # noqa: BLE001, S110 - outer boundary: no call may end the owner
            pass
        finally:
            self.runtime.calls -= 1
            self.runtime.served += 1
            anyio.notify_closing(sock)
            sock.close()

    async def hear(self, sock: socket.socket) -> tuple[h11.Request, bytes]:
        try:
            with anyio.fail_after(REQUEST_SECONDS):
                connection = h11.Connection(h11.SERVER)
                request = await read_head(sock, connection)
                if not is_large_tool_call(request):
                    return request, await read_body(sock, connection, BODY_LIMIT)
                async with self.free_large:
                    return request, await read_body(sock, connection, MAX_CALL_BYTES)
        except BriefError as e:
            await respond(sock, 413, {"code": e.code, "text": str(e)})
            raise
        finally:
            self.free.release()

    async def answer(self, sock: socket.socket, method: str, parts: list[str], body: bytes) -> None:
        """Carry out one request; report its errors to the caller."""
        try:
            if (method, parts[::2]) == ("POST", ["desks", "wake"]):
                await self.wake(sock, as_id(parts[1]))
                return
            if len(parts) > 2 and parts[0] == "desks":
                await self.use(sock, method, await self.runtime.find(as_id(parts[1])), parts[2:], body)
                return
            if parts[0] in ("questions", "unlock", "allow"):
                await respond(sock, 200, await self.decide(method, parts, body, *get_peer(sock)))
                return
            match method, parts:
                case "GET", ["desks"]:
                    await respond(sock, 200, state.list_own_desks(self.runtime.config))
                case "POST", ["desks"]:
                    await self.open(sock, *parse_order(json.loads(body)))
                case "POST", ["leases"] if self.leases is not None:
                    await self.lease(sock, self.leases, body)
                case "DELETE", ["leases", name] if self.leases is not None:
                    self.leases.release_ready(name)
                    await respond(sock, 200, {})
                case "DELETE", ["desks", name]:
                    await self.runtime.burn(as_id(name))
                    await respond(sock, 200, {})
                case _:
                    raise BriefError(NOTHING)
        except (ValueError, RecursionError):
            await respond(sock, 400, {"code": BriefError.code, "text": "the body of the request is not JSON"})
        except HotdeskError as e:
            await respond(sock, STATUS.get(e.code, 503), {"code": e.code, "text": str(e)})

    async def use(self, sock: socket.socket, method: str, desk: LinkedDesk, parts: list[str], body: bytes) -> None:
        match method, parts:
            case "GET", ["usage"]:
                await respond(sock, 200, asdict(await desk.usage()))
            case "POST", ["pause"]:
                await desk.pause(keep=parse_keep(json.loads(body or b"{}")))
                await respond(sock, 200, {})
            case "POST", ["resume"]:
                await desk.resume()
                await respond(sock, 200, {})
            case "GET", ["link"]:
                await switch(sock, "hotdesk-link")
                await relay(sock, await desk.wait_for_link())
            case "GET", ["root"]:
                link = await desk.get_link("root")
                await switch(sock, "hotdesk-link")
                await relay(sock, link)
            case "GET", ["dial", port]:
                with await desk.dial(parse_port(int(port) if port.isdecimal() and len(port) < 6 else port)) as inside:
                    await switch(sock, "hotdesk-stream")
                    await join(sock, inside)
            case _, [route, *_] if self.people is not None and route in PEOPLE:
                if route != "wheel" and (desk.link.paused or desk.down is not None):
                    raise BriefError(f"desk {desk.id} is paused; resume it with `hotdesk resume {desk.id}`")
                await self.people(route).answer(sock, method, desk, parts, body)
            case "POST", ["forks"]:
                await self.fork(sock, desk, *parse_forks(json.loads(body or b"{}")))
            case _:
                await respond(sock, 200, await self.use_disk(method, desk, parts, body))

    async def use_disk(self, method: str, desk: LinkedDesk, parts: list[str], body: bytes) -> object:
        """Carry out a request about a desk's disk: snapshots, images, halt and boot."""
        data = json.loads(body or b"{}")
        snapshot = SnapshotId(parse_snapshot(data.get("snapshot") if isinstance(data, dict) else 0))
        match method, parts:
            case "POST", ["snapshots"]:
                return {"snapshot": await desk.snapshot()}
            case "DELETE", ["snapshots", name]:
                await desk.forget(SnapshotId(parse_snapshot(name)))
            case "POST", ["images"] if self.everyone:
                raise BriefError("only the operator may save images on this machine")
            case "POST", ["images"]:
                await desk.save(parse_name(data.get("name")), snapshot or None)
            case "POST", ["halt"]:
                async with desk.rebooting:
                    await desk.halt(snapshot)
            case "POST", ["boot"] if snapshot:
                await desk.rollback(snapshot)
            case "POST", ["boot"]:
                await desk.resume()
            case _:
                raise BriefError(NOTHING)
        return {}

    async def decide(self, method: str, parts: list[str], body: bytes, pid: int, uid: int) -> object:
        """Carry out a request that only the owner's user may make. The kernel identifies the caller, not the body."""
        if self.asks is None:
            raise BriefError(NOTHING)
        if uid not in (os.geteuid(), 0):
            raise BriefError(
                f"user id {uid} may not decide requests of these desks; run the command as the user who opened them, "
                "or with sudo"
            )
        match method, parts:
            case "GET", ["questions"]:
                return [asdict(question) for question in self.asks().open_questions()]
            case "POST", ["questions", number]:
                approved, digest, behind = parse_answer(json.loads(body))
                return asdict(await self.asks().answer(number, approved, name_caller(pid, uid, behind), digest))
            case "POST", ["allow", name]:
                rule, behind = parse_allow(json.loads(body))
                await self.asks().allow(as_id(name), [rule], name_caller(pid, uid, behind))
                return {}
            case "POST", ["unlock"]:
                await self.asks().unlock(parse_unlock(json.loads(body)))
                return {}
        raise BriefError(NOTHING)

    async def fork(self, sock: socket.socket, desk: LinkedDesk, count: int, snapshot: str, memory: bool) -> None:
        """Fork a desk for a caller. The forks are burnt if the caller is gone by then, as no one knows their ids."""
        forks = await desk.fork(count, SnapshotId(snapshot) if snapshot else None, memory=memory)
        self.note_forks(desk.id, [each.id for each in forks])
        try:
            await respond(sock, 201, {"ids": [each.id for each in forks]})
        except BaseException:
            with anyio.move_on_after(REQUEST_SECONDS, shield=True):
                for each in forks:
                    await self.runtime.burn(each.id)
            raise

    def note_forks(self, desk: DeskId, forks: Sequence[DeskId]) -> None:
        """Hook, called when a desk was forked, before the caller gets the reply."""

    async def open(self, sock: socket.socket, spec: Spec, scope: Scope, personal: bool) -> None:
        """Open a desk for a caller. It is burnt if the caller is gone by then, as it would never know the id."""
        if self.everyone and (scope.names or scope.grants or scope.anywhere or scope.proxy):
            raise BriefError(
                "only the operator may map names to addresses, grant secrets, allow every host, or set a proxy; leave "
                "these out"
            )
        pid, uid = get_peer(sock)
        desk = await self.runtime.open(replace(spec, by=f"uid {uid} pid {pid}"), scope)
        if personal and self.personal is not None:
            self.personal(desk.id)
        try:
            await respond(sock, 201, {"id": desk.id})
        except BaseException:
            with anyio.move_on_after(REQUEST_SECONDS, shield=True):
                await self.runtime.burn(desk.id)
            raise

    async def wake(self, sock: socket.socket, desk: DeskId) -> None:
        """Resume a hibernated desk here, without egress: its scope is not stored."""
        if self.everyone:
            raise BriefError("only the operator of this machine may resume hibernated desks")
        await self.runtime.wake(desk)
        await respond(sock, 200, {})

    async def lease(self, sock: socket.socket, leases: Leases, body: bytes) -> None:
        """Open a desk for the duration of a call, which ends when the caller is done or gone, and the desk is burnt."""
        desk = await self.open_unless_gone(sock, leases.read_lease(body, *get_peer(sock)))
        try:
            link = await desk.wait_for_link()
            await switch(sock, "hotdesk-link", {"Desk": desk.id, "Holder": leases.identity})
            await relay(sock, link)
            if link.failure is not None:
                await explain(sock, link.failure)
        finally:
            with anyio.move_on_after(BURN_SECONDS, shield=True):
                await self.runtime.burn(desk.id)

    async def open_unless_gone(self, sock: socket.socket, spec: Spec) -> LinkedDesk:
        desk: LinkedDesk | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_wait_hang_up, sock, tasks.cancel_scope)
                desk = await self.runtime.open(spec)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise unwrap_group(group) from None
        if desk is None:
            raise DeskGone("the client disconnected")
        return desk


async def _wait_hang_up(sock: socket.socket, scope: anyio.CancelScope) -> None:
    """Cancel a caller's request when it disconnects. Data it sends is left for later readers."""
    await anyio.wait_readable(sock)
    if sock.recv(1, socket.MSG_PEEK) == b"":
        scope.cancel()


@contextlib.asynccontextmanager
async def serve_control(
    runtime: ControlledRuntime,
    path: Path,
    asks: Callable[[], Asks] | None = None,
    mode: int = 0o600,
    people: Callable[[str], ScreenServices] | None = None,
    personal: Callable[[DeskId], None] | None = None,
    leases: Leases | None = None,
) -> AsyncIterator[None]:
    with listen(path, mode) as listener:
        try:
            async with background() as tasks:
                everyone = mode != 0o600
                control = ControlServer(
                    runtime, tasks, everyone=everyone, asks=asks, people=people, personal=personal, leases=leases
                )
                tasks.start(lambda: control.serve(listener))
                yield
        finally:
            path.unlink(missing_ok=True)
