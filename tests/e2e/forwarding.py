"""A port of this machine as a port of a desk: for a browser in a desk that shall see a page served here."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.abc

from hotdesk.desk.seam import Desk, Process
from hotdesk.desk.sockets import receive, send

HEAD = struct.Struct(">II")
INSIDE = """
import os, socket, struct, sys, threading
lock = threading.Lock()
socks = {}
def tell(number, data):
    with lock:
        os.write(1, struct.pack(">II", number, len(data)))
        while data:
            data = data[os.write(1, data):]
def hear(number, sock):
    try:
        while data := sock.recv(65536):
            tell(number, data)
    except OSError:
        pass
    tell(number, b"")
def read(size):
    data = b""
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data
def take():
    while True:
        number, size = struct.unpack(">II", read(8))
        data = read(size)
        try:
            if size:
                socks[number].sendall(data)
            else:
                socks.pop(number).shutdown(socket.SHUT_RDWR)
        except (OSError, KeyError):
            pass
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
threading.Thread(target=take, daemon=True).start()
tell(0, b"")
number = 0
while True:
    sock = listener.accept()[0]
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    number += 1
    socks[number] = sock
    threading.Thread(target=hear, args=(number, sock), daemon=True).start()
"""


class Forward:
    """Carries every connection inside to one here."""

    def __init__(self, process: Process, port: int, tasks: anyio.abc.TaskGroup) -> None:
        self.process = process
        self.port = port
        self.tasks = tasks
        self.socks: dict[int, socket.socket] = {}
        self.writing = anyio.Lock()
        self.ready = anyio.Event()

    async def run(self) -> None:
        """Carry until the program inside ends."""
        held = bytearray()
        async for _, data in self.process.output():
            held += data
            while len(held) >= HEAD.size:
                number, size = HEAD.unpack_from(held)
                if len(held) < HEAD.size + size:
                    break
                said = bytes(held[HEAD.size : HEAD.size + size])
                del held[: HEAD.size + size]
                await self.take(number, said)

    async def take(self, number: int, said: bytes) -> None:
        """Take what one connection inside said; nothing is its end."""
        if number == 0:
            self.ready.set()
            return
        if number not in self.socks and said:
            self.socks[number] = socket.create_connection(("127.0.0.1", self.port), 5)
            self.socks[number].setblocking(False)
            self.tasks.start_soon(self.answer, number, self.socks[number])
        with suppress(OSError, KeyError):
            if said:
                await send(self.socks[number], said)
            else:
                self.socks.pop(number).shutdown(socket.SHUT_RDWR)

    async def answer(self, number: int, sock: socket.socket) -> None:
        """Carry what comes back."""
        with sock:
            try:
                while data := await receive(sock):
                    await self.tell(number, data)
            except OSError:
                pass
            await self.tell(number, b"")
            self.socks.pop(number, None)

    async def tell(self, number: int, data: bytes) -> None:
        """Tell the program inside."""
        async with self.writing:
            await self.process.send(HEAD.pack(number, len(data)) + data)


@asynccontextmanager
async def forwarded(desk: Desk, port: int) -> AsyncIterator[None]:
    """Have a port of this machine's loopback in a desk for a while."""
    process = await desk.start(["python3", "-u", "-c", INSIDE, str(port)])
    try:
        async with anyio.create_task_group() as tasks:
            forward = Forward(process, port, tasks)
            tasks.start_soon(forward.run)
            with anyio.fail_after(10):
                await forward.ready.wait()
            yield
            tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(5, shield=True):
            await process.kill()
