"""The door's process: receives gates from its keeper and charters from the keys process, and serves desks."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, cast

import uvloop

from hotdesk.door.egress import CONFIRM_SECONDS, Egress, GrantValue, UnconfirmedError
from hotdesk.door.http.ca import Leaves, get_utc_now, make_upstream_context, new_authority, new_key
from hotdesk.door.http.resolve import Resolver, start_resolver
from hotdesk.door.http.upstream import UnreachableError, Upstreams
from hotdesk.door.http.wire import Wire
from hotdesk.door.proxy import DeskConnection
from hotdesk.door.secrets import mint
from hotdesk.event import Event, RequestAdmitted, as_dict, get_chain
from hotdesk.ipc.frames import FrameError, Frames, write
from hotdesk.linux import bpf, jail

CONNECTIONS = 256
"""Connections one desk may have open; more wait in the gate's queue."""
MESSAGE = 4096
ACCEPT_RETRY_S = 0.1
ENDING = 2.0
"""Seconds that running tasks get to end after the keeper is gone."""
_PULSE = 1.0
"""Seconds between two reports of which desks are in use."""
CROWD = 256 << 10
"""Bytes of events that may wait for the keys process before desks have to wait."""
BACKLOG = 16 << 20
"""Bytes of waiting events at which the keys process is considered stopped."""
DESK_BACKLOG = 2 << 20
"""Bytes of waiting events of one desk at which that desk is shut, long before `BACKLOG` shuts them all."""
_MINT_SECONDS = 30.0
IDENTITY_REFRESH_S = 300.0
"""Seconds a workload token is used: half its lifetime. Each token is scrubbed from responses from then on."""
TOO_MANY_EVENTS = (
    "this desk causes events faster than the journal can record them, so every request is refused; open another desk"
)
NO_KEYS = "the journal cannot be written, so every request is refused; open another desk"


class Gate:
    """One desk's listening socket and its connections."""

    def __init__(self, way: Egress, listener: socket.socket, door: Door) -> None:
        self.way = way
        self.listener = listener
        self.door = door
        self.free = asyncio.Semaphore(CONNECTIONS)

    async def serve(self) -> None:
        """Accept until shut; pause accepting, rather than refusing, while a desk has too many connections."""
        loop = asyncio.get_running_loop()
        self.listener.setblocking(False)
        while True:
            await self.free.acquire()
            try:
                sock, _ = await loop.sock_accept(self.listener)
            except OSError:
                self.free.release()
                if self.listener.fileno() < 0:
                    return
                await asyncio.sleep(ACCEPT_RETRY_S)  # too many files are open: the connection waits in the gate's queue
                continue
            task = loop.create_task(self.talk(sock))
            task.add_done_callback(lambda _: self.free.release())

    async def talk(self, sock: socket.socket) -> None:
        """Serve one connection, after the charters that were pending have arrived."""
        try:
            _, wire = await asyncio.get_running_loop().connect_accepted_socket(Wire, sock)
        except OSError:
            sock.close()
            return
        await self.door.ready.wait()
        await DeskConnection(self.way, wire, self.door.upstreams).serve()


class Door:
    """All gates of one owner's desks."""

    def __init__(self, keeper: socket.socket, upstreams: Upstreams, scratch: Path) -> None:
        self.keeper = keeper
        self.upstreams = upstreams
        self.scratch = scratch
        self.leaf_key = new_key()
        self.gates: dict[str, tuple[Gate, asyncio.Task[None]]] = {}
        self.ways: dict[str, Egress] = {}
        self.keys: asyncio.Transport | None = None
        self.unsaid: list[bytes] = []
        """Messages for the keys process, sent together at the end of this turn of the event loop."""
        self.unread: dict[str, int] = {}
        """Bytes of events by desk since the keys process had last caught up."""
        self.ready = asyncio.Event()
        """Set once the keys process has sent everything that was pending."""
        self.caught_up = asyncio.Event()
        """Set while the keys process reads events as fast as they happen."""
        self.caught_up.set()
        self.number = 0
        self.minting: dict[int, asyncio.Future[bytes]] = {}
        self.recording: dict[int, asyncio.Future[int]] = {}
        """Events that a request waits for; the result is an event's number in the journal."""
        self.confirmed = 0
        """The number of the last event that the server of this node has."""
        self.raised = asyncio.Event()
        """Set, and replaced, when `confirmed` has risen."""
        self.over = asyncio.Event()

    async def run(self) -> None:
        """Serve until the keeper closes its socket."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.keeper, self.receive)
        pulse = loop.create_task(self.pulse())
        await self.over.wait()
        pulse.cancel()

    def receive(self) -> None:
        """Receive one message of the keeper: a gate to serve, a gate to shut, or the connection to the keys process."""
        data, fds, _, _ = socket.recv_fds(self.keeper, MESSAGE, 1, socket.MSG_CMSG_CLOEXEC)
        if not data:
            asyncio.get_running_loop().remove_reader(self.keeper)
            self.over.set()
            return
        message = json.loads(data)
        if "line" in message:
            line = socket.socket(fileno=fds[0])
            asyncio.get_running_loop().create_task(self.listen(line))
        elif fds:
            self.open_gate(str(message["gate"]), socket.socket(fileno=fds[0]))
        elif (shut := self.gates.pop(str(message["gate"]), None)) is not None:
            gate, task = shut
            task.cancel()
            gate.listener.close()
            gate.way.close()
            self.ways.pop(gate.way.desk, None)

    def open_gate(self, desk: str, listener: socket.socket) -> None:
        gate = Gate(self.get_egress(desk), listener, self)
        self.gates[desk] = (gate, asyncio.get_running_loop().create_task(gate.serve()))

    def get_egress(self, desk: str) -> Egress:
        if desk not in self.ways:
            self.ways[desk] = Egress(desk, self)
            if self.ready.is_set() and self.keys is None:
                self.ways[desk].shut = NO_KEYS
        return self.ways[desk]

    async def pulse(self) -> None:
        """Report which desks are in use: bytes through the door count as use."""
        previous: dict[str, int] = {}
        while True:
            await asyncio.sleep(_PULSE)
            if self.upstreams.resolver.gone:
                self.over.set()  # it was started before we confined ourselves: the keeper starts both again
            used = [desk for desk, way in self.ways.items() if way.moved != previous.get(desk, 0)]
            previous = {desk: way.moved for desk, way in self.ways.items()}
            if used:
                self.tell(used=used)

    # -- keys -------------------------------------------------------------------------------------------------

    async def listen(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: KeysLine(self), sock)

    def handle_message(self, message: dict[str, Any]) -> None:
        match message:
            case {"charter": str(desk)}:
                self.get_egress(desk).adopt(message, self.leaf_key, self.scratch)
            case {"change": str(desk)}:
                self.get_egress(desk).change(message)
                self.tell(changed=message.get("mark", 0))
            case {"answer": str(number), "desk": str(desk), "digest": str(mark), "approved": bool(approved)}:
                self.get_egress(desk).answer(number, mark, approved)
            case {"drop": str(desk)}:
                if way := self.ways.pop(desk, None):
                    way.close()
            case {"re": int(number)} if number in self.recording:
                self.receive_position(self.recording[number], message)
            case {"confirmed": int(number)}:
                self.confirmed = max(self.confirmed, number)
                self.raised.set()
                self.raised = asyncio.Event()
            case {"re": int(number)} if number in self.minting:
                self.receive_value(self.minting[number], message)
            case {"ready": True}:
                self.ready.set()

    def receive_value(self, waiting: asyncio.Future[bytes], reply: dict[str, Any]) -> None:
        if waiting.done():
            return
        if "ok" in reply:
            waiting.set_result(base64.b64decode(reply["ok"]["value"]))
        else:
            waiting.set_exception(UnreachableError(str(reply["error"]["text"])))

    def receive_position(self, waiting: asyncio.Future[int], reply: dict[str, Any]) -> None:
        if waiting.done():
            return
        if "ok" in reply:
            waiting.set_result(int(reply["ok"]["number"]))
        else:
            waiting.set_exception(UnconfirmedError(str(reply["error"]["text"])))

    def drop_keys(self) -> None:
        """Refuse everything from now on: an event that cannot be recorded must not happen."""
        line, self.keys = self.keys, None
        if line is not None:
            line.abort()
        self.ready.set()
        self.caught_up.set()
        for waiting in self.recording.values():
            if not waiting.done():
                waiting.set_exception(UnconfirmedError(NO_KEYS))
        for way in self.ways.values():
            way.shut = NO_KEYS
            way.hang_up()

    def tell(self, **message: object) -> None:
        self.queue(write(message))

    def queue(self, data: bytes) -> None:
        self.unsaid.append(data)
        if len(self.unsaid) == 1:
            asyncio.get_running_loop().call_soon(self.speak)

    def speak(self) -> None:
        data, self.unsaid = b"".join(self.unsaid), []
        if self.keys is not None and not self.keys.is_closing():
            self.keys.write(data)
            waiting = self.keys.get_write_buffer_size()
            if waiting > BACKLOG:
                self.drop_keys()
            elif waiting <= CROWD:
                self.unread.clear()

    def note(self, event: Event, **fields: object) -> None:
        """Record an event; shut its desk if too many of that desk's events wait."""
        data, desk = write({"event": type(event).__name__, "data": as_dict(event), **fields}), get_chain(event)
        self.queue(data)
        self.unread[desk] = waiting = self.unread.get(desk, 0) + len(data)
        if waiting > DESK_BACKLOG and (way := self.ways.get(desk)) is not None and not way.shut:
            way.shut = TOO_MANY_EVENTS
            way.hang_up()

    async def confirm(self, event: RequestAdmitted) -> None:
        """Record a request, and wait until the server of this node has the record."""
        self.number += 1
        number = self.number
        self.recording[number] = asyncio.get_running_loop().create_future()
        try:
            self.note(event, n=number)
            async with asyncio.timeout(CONFIRM_SECONDS):
                position = await self.recording[number]
                while self.confirmed < position:
                    await self.raised.wait()
        except TimeoutError:
            raise UnconfirmedError(
                "the request was not sent: the server of this desk has not confirmed within "
                f"{CONFIRM_SECONDS:.0f} s that it has the record of it; try again"
            ) from None
        finally:
            del self.recording[number]

    async def steady(self) -> None:
        """Wait while the keys process is behind."""
        await self.caught_up.wait()

    async def mint(self, desk: str, live: GrantValue) -> bytes:
        """Return a value created for its use: a token from its server, or a code, token or program output from keys."""
        if live.live_grant.kind == "oauth2":
            return await mint.mint_client_token(self.get_egress(desk), live, self.upstreams)
        if live.live_grant.kind == "identity" and time.time() < live.fresh_until:
            return live.minted
        self.number += 1
        number = self.number
        self.minting[number] = asyncio.get_running_loop().create_future()
        try:
            self.tell(print=live.live_grant.id, desk=desk, n=number)
            async with asyncio.timeout(_MINT_SECONDS):
                value = await self.minting[number]
        except TimeoutError:
            raise UnreachableError(
                f"hotdesk did not provide the value of the secret {live.live_grant.grant.secret} within "
                f"{_MINT_SECONDS:.0f} s; try again"
            ) from None
        finally:
            del self.minting[number]
        if live.live_grant.kind == "identity":
            live.minted, live.fresh_until = value, time.time() + IDENTITY_REFRESH_S
        return value


class KeysLine(asyncio.Protocol):
    """The door's end of the connection to the keys process."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.frames = Frames()

    def data_received(self, data: bytes) -> None:
        try:
            for message, _ in self.frames.feed(data):
                self.door.handle_message(message)
        except FrameError:
            self.door.drop_keys()

    def pause_writing(self) -> None:
        """Make desks wait until the keys process has caught up."""
        self.door.caught_up.clear()

    def resume_writing(self) -> None:
        self.door.unread.clear()
        self.door.caught_up.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(CROWD)
        self.door.keys = self.transport

    def connection_lost(self, _why: Exception | None) -> None:
        """Refuse all requests from now on, unless another connection exists already."""
        if self.door.keys in (None, self.transport):
            self.door.drop_keys()


async def serve(keeper: socket.socket, asking: socket.socket, settings: dict[str, Any], trust: Any) -> None:
    resolver = Resolver(asking)
    resolver.listen()
    keeper.setblocking(False)
    await Door(keeper, Upstreams(resolver, trust, str(settings["proxy"])), Path(settings["root"])).run()


async def _serve_until_hangup(
    keeper: socket.socket, asking: socket.socket, settings: dict[str, Any], trust: Any
) -> None:
    """Serve until the keeper closes its socket, then end within `ENDING` seconds, whatever is still running."""
    await serve(keeper, asking, settings, trust)
    pending = asyncio.all_tasks() - {asyncio.current_task()}
    for task in pending:
        task.cancel()
    if pending:
        await asyncio.wait(pending, timeout=ENDING)
    os._exit(0)


def main() -> None:
    """Serve the keeper at file descriptor 3, in a jail."""
    settings = json.loads(sys.argv[3])
    keeper = socket.socket(fileno=3)
    keeper.set_inheritable(False)
    extra = Path(settings["ca"]).read_bytes() if settings["ca"] else None
    trust = make_upstream_context(extra)
    asking, _ = start_resolver(int(settings["resolver"]))
    Leaves(new_authority("rehearsal", get_utc_now()), new_key(), Path(settings["root"])).get_tls_context("rehearsal")
    settings["root"] = str(jail.enter(Path(settings["root"]), int(settings["uid"]), bpf.DOOR, dials=True))
    gc.freeze()
    uvloop.run(_serve_until_hangup(keeper, asking, settings, trust))
