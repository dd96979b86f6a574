"""A door process inside this one: desks at their gates, and the ends of its keeper and of the keys process."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotdesk.brief import Scope
from hotdesk.door.http.resolve import Resolver
from hotdesk.door.http.upstream import Upstreams
from hotdesk.door.process import Door
from hotdesk.ipc.frames import Frames, write
from hotdesk.keys.charter import Charter, Granted, make_authority

FLOODER, NEIGHBOUR, THIRD = ("i" + each * 20 for each in "abc")
STATUS = b"GET http://door.local/ HTTP/1.1\r\nHost: door.local\r\n\r\n"
SECONDS = 20.0


@dataclass
class DoorRoom:
    """A running door, and what its peers see."""

    door: Door
    keeper: socket.socket
    keys: socket.socket
    gates: dict[str, int] = field(default_factory=dict)
    frames: Frames = field(default_factory=Frames)

    def open(self, desk: str) -> None:
        """Hand the door a desk's gate, as a keeper does."""
        with socket.create_server(("127.0.0.1", 0), backlog=256) as gate:
            self.gates[desk] = gate.getsockname()[1]
            socket.send_fds(self.keeper, [json.dumps({"gate": desk}).encode()], [gate.fileno()])

    async def tell(self, message: dict[str, object]) -> None:
        await asyncio.get_running_loop().sock_sendall(self.keys, write(message))

    async def charter(self, desk: str, scope: Scope, *granted: Granted) -> None:
        """Send a desk's charter, as keys do."""
        await self.tell(Charter(desk, scope, make_authority(desk, 60), list(granted)).build_message())
        await self.settle()

    async def rescope(self, desk: str, scope: Scope, *granted: Granted) -> None:
        """Replace a desk's scope, as keys do."""
        charter = Charter(desk, scope, make_authority(desk, 60), list(granted)).build_message()
        await self.tell({"change": desk, "mark": 1, "verb": "scope", "charter": charter})
        await self.settle()

    async def settle(self) -> None:
        """Wait until the door has handled every message, or dropped its connection."""
        self.door.ready.clear()
        await self.tell({"ready": True})
        async with asyncio.timeout(SECONDS):
            await self.door.ready.wait()

    async def send(self, desk: str, data: bytes) -> bytes:
        """Send one request from a desk; return everything that comes back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.gates[desk])
        try:
            writer.write(data)
            writer.write_eof()
            async with asyncio.timeout(SECONDS):
                return await reader.read()
        except OSError:
            return b""
        finally:
            writer.close()

    async def status(self, desk: str) -> dict[str, Any]:
        """Return the status page of a desk's door."""
        answer = json.loads((await self.send(desk, STATUS)).partition(b"\r\n\r\n")[2])
        assert isinstance(answer, dict)
        return answer

    async def read_events(self) -> list[dict[str, Any]]:
        """Read, as keys do, everything that waits; return the events."""
        found: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(0.3):
                    data = await loop.sock_recv(self.keys, 1 << 20)
            except TimeoutError:
                return found
            if not data:
                return found
            found += [message for message, _ in self.frames.feed(data) if "event" in message]


@contextmanager
def pair(kind: socket.SocketKind) -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours:
        yield ours, theirs


def answer_lookup(child: socket.socket) -> None:
    """Answer as the resolver's child: no name has an address."""
    child.send(json.dumps({"id": json.loads(child.recv(1024))["id"], "addresses": [], "own": []}).encode())


@asynccontextmanager
async def door_room(folder: Path) -> AsyncIterator[DoorRoom]:
    """Run a door for a block, connected to keys; it reaches addresses that a scope maps names to."""
    with (
        pair(socket.SOCK_SEQPACKET) as (keeper, keepers),
        pair(socket.SOCK_STREAM) as (keys, line),
        pair(socket.SOCK_SEQPACKET) as (child, asking),
        asking,
        keepers,
    ):
        resolver = Resolver(asking)
        resolver.listen()
        asyncio.get_running_loop().add_reader(child, answer_lookup, child)
        door = Door(keepers, Upstreams(resolver, ssl.create_default_context()), folder)
        running = asyncio.create_task(door.run())
        with line:
            socket.send_fds(keeper, [b'{"line": "door"}'], [line.fileno()])
            while door.keys is None:
                await asyncio.sleep(0.005)
        room = DoorRoom(door, keeper, keys)
        await room.tell({"ready": True})
        try:
            yield room
        finally:
            keeper.close()
            await running
            for gate, task in door.gates.values():
                task.cancel()
                gate.way.close()
            await asyncio.sleep(0)
            for gate, _ in door.gates.values():
                gate.listener.close()
            door.drop_keys()
            await asyncio.sleep(0.05)
            for sock in (child, asking):
                asyncio.get_running_loop().remove_reader(sock)
