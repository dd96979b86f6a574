"""The door's process: takes gates from its keeper, and answers what desks send there. It refuses everything today."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import sys
from collections.abc import Callable

from hotdesk.desk import kernel

HEAD_LIMIT = 16384
HEAD_SECONDS = 10.0
CONNECTIONS = 256
"""Connections one desk may hold; more wait in the gate's queue."""
MESSAGE = 4096
PAUSE = 0.1


def refusal(line: str) -> bytes:
    """Write the answer to a request: what was refused, why, what is allowed instead, how to ask."""
    reason = {
        "refused": printable_line(line),
        "rule": "default deny: this desk has no way out",
        "allowed": [],
        "ask": "nothing can be asked for here yet; work with the files in the desk",
    }
    body = json.dumps(reason).encode() + b"\n"
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\nX-Hotdesk-Door: refused\r\n\r\n".encode() + body


def printable_line(line: str) -> str:
    """Give a request's first line for a person or a model to read: short, and nothing but plain characters."""
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in line[:200])


class Gate:
    """One desk's listener, and its connections."""

    def __init__(self, desk: str, listener: socket.socket) -> None:
        self.desk = desk
        self.listener = listener
        self.free = asyncio.Semaphore(CONNECTIONS)

    async def serve(self) -> None:
        """Accept until shut; stop accepting, rather than closing, while a desk has too many connections."""
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
                await asyncio.sleep(PAUSE)  # too many files are open: the call waits in the gate's queue
                continue
            task = loop.create_task(self.answer(sock))
            task.add_done_callback(lambda _: self.free.release())

    async def answer(self, sock: socket.socket) -> None:
        """Read one request's head, within bounds, and refuse it."""
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        head = b""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                while b"\r\n\r\n" not in head and len(head) < HEAD_LIMIT:
                    data = await loop.sock_recv(sock, HEAD_LIMIT - len(head))
                    if not data:
                        break
                    head += data
                await loop.sock_sendall(sock, refusal(head.split(b"\r\n", 1)[0].decode("latin-1")))
                sock.shutdown(socket.SHUT_WR)
                while await loop.sock_recv(sock, HEAD_LIMIT):
                    pass  # let the desk read the answer before the connection goes
        except (OSError, TimeoutError):
            pass  # the desk went away, or never finished its request
        finally:
            sock.close()


class Door:
    """All gates of one owner's desks."""

    def __init__(self, keeper: socket.socket) -> None:
        self.keeper = keeper
        self.gates: dict[str, tuple[Gate, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Take gates from the keeper until it hangs up."""
        over = asyncio.Event()
        asyncio.get_running_loop().add_reader(self.keeper, self.receive, over.set)
        await over.wait()

    def receive(self, end: Callable[[], None]) -> None:
        """Take one message: a gate to serve, or one to shut."""
        data, fds, _, _ = socket.recv_fds(self.keeper, MESSAGE, 1, socket.MSG_CMSG_CLOEXEC)
        if not data:
            asyncio.get_running_loop().remove_reader(self.keeper)
            end()
            return
        desk = str(json.loads(data)["gate"])
        if fds:
            gate = Gate(desk, socket.socket(fileno=fds[0]))
            self.gates[desk] = (gate, asyncio.get_running_loop().create_task(gate.serve()))
        elif desk in self.gates:
            gate, task = self.gates.pop(desk)
            task.cancel()
            gate.listener.close()


def give_up_privilege(uid: int) -> None:
    """Become a user that owns nothing and can become nobody else."""
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    os.chdir("/")


def main() -> None:
    """Serve the keeper at descriptor 3, as the user it names."""
    keeper = socket.socket(fileno=3)
    keeper.setblocking(False)
    door = Door(keeper)
    loop = asyncio.new_event_loop()
    give_up_privilege(int(sys.argv[2]))
    loop.run_until_complete(door.run())
