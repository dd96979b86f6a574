"""A port of this machine as a port of a desk: for a browser in a desk that shall see a page served here."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio

from hotdesk.desk.relay import join
from hotdesk.desk.seam import Desk
from hotdesk.errors import DeskError

LINES = 16
"""Connections into the desk that wait for a browser's."""
BACK = 7001
"""The port inside at which they wait."""
INSIDE = """
import queue, socket, sys, threading
waiting = queue.Queue()
def pour(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        target.close()
def join(browser):
    line = waiting.get()
    line.sendall(b"!")
    for pair in ((browser, line), (line, browser)):
        for sock in pair:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=pour, args=pair, daemon=True).start()
def lines(listener):
    while True:
        waiting.put(listener.accept()[0])
back = socket.create_server(("127.0.0.1", int(sys.argv[2])))
front = socket.create_server(("127.0.0.1", int(sys.argv[1])))
threading.Thread(target=lines, args=(back,), daemon=True).start()
print("ready", flush=True)
while True:
    join(front.accept()[0])
"""


@asynccontextmanager
async def forwarded(desk: Desk, port: int) -> AsyncIterator[None]:
    """Have a port of this machine's loopback in a desk for a while."""
    process = await desk.start(["python3", "-u", "-c", INSIDE, str(port), str(BACK)])
    try:
        async for _ in process.output():
            break
        async with anyio.create_task_group() as tasks:
            for _ in range(LINES):
                tasks.start_soon(line, desk, port)
            yield
            tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(5, shield=True):
            await process.kill()


async def line(desk: Desk, port: int) -> None:
    """Carry one connection after another."""
    with suppress(DeskError, OSError):
        while True:
            with await desk.dial(BACK) as inside:
                await anyio.wait_readable(inside)
                if inside.recv(1) != b"!":
                    return
                with socket.create_connection(("127.0.0.1", port), 5) as here:
                    here.setblocking(False)
                    here.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    await join(inside, here)
