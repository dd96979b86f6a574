"""`hotdesk forward`: forward a port of a desk to an address of this machine."""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket
import sys
from contextlib import suppress
from dataclasses import field

import anyio
from anyio.abc import TaskGroup

from hotdesk import config
from hotdesk.cli.ids import find_desk
from hotdesk.cli.terminal import run_interruptible
from hotdesk.dataclass import dataclass
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.lend import join
from hotdesk.desk.room.room import GATE
from hotdesk.drive.identity import find_invoker
from hotdesk.errors import BriefError, HostError, HotdeskError, make_printable
from hotdesk.host import borrow
from hotdesk.linux.landlock import confine
from hotdesk.linux.sockets import accept
from hotdesk.linux.tcp_peer import find_peer_uid

LOOPBACK = "127.0.0.1"
MAX_CONNECTIONS = 256
"""Maximum concurrent connections; more wait in the socket's queue."""
MAX_TOLD = 20
"""Maximum refused connections that are reported."""
ACCEPT_RETRY_S = 0.1


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desk", metavar="ID", help="the desk's id, or a prefix of it")
    parser.add_argument("port", metavar="PORT", help="the port in the desk, 1 to 65535")
    parser.add_argument(
        "--listen",
        metavar="[ADDRESS:]PORT",
        help="where to listen on this machine; port 0 takes a free one (default: 127.0.0.1 and the same port)",
    )
    parser.add_argument("--all-users", action="store_true", help="let other users of this machine connect")


def main(arguments: argparse.Namespace) -> int:
    """Forward connections from an address of this machine to a port of a desk, until Ctrl-C or the desk's end.

    It listens on 127.0.0.1 and accepts connections of your own user's programs only, unless --all-users or
    another address says otherwise. A server inside may listen on 127.0.0.1, ::1 or any address.

    For example:

      hotdesk forward $ID 8000
      hotdesk forward $ID 8000 --listen 9000
      hotdesk forward $ID 5432 --listen 192.0.2.7:5432
    """
    port = _parse_inside(arguments.port)
    address, local = _parse_listen(arguments.listen, port)
    settings = config.load()
    desk = find_desk(settings, arguments.desk)
    guards = is_loopback(address) and not arguments.all_users

    async def work() -> int:
        with listen(address, local) as listener:
            confine([])
            async with borrow(settings, desk) as lent:
                assert isinstance(lent, LinkedDesk)
                host, bound = listener.getsockname()[:2]
                shown = f"[{host}]:{bound}" if ":" in host else f"{host}:{bound}"
                print(f"Forwarding {shown} to port {port} of {desk}. Ctrl-C ends it.", file=sys.stderr, flush=True)
                if not is_loopback(address):
                    tell(f"anyone who can reach {shown} can use the desk's port; there is no password")
                await PortForwarder(lent, port, list_users() if guards else None).serve(listener)
        return 0

    return run_interruptible(work)


def _parse_inside(text: str) -> int:
    port = int(text) if text.isdecimal() and len(text) < 6 else 0
    if not 0 < port < 1 << 16:
        raise BriefError(f"a port of the desk is a number from 1 to 65535, not {text!r}")
    if port == GATE[1]:
        raise BriefError(
            f"port {port} is reserved for the desk's egress proxy and cannot be forwarded; choose another port"
        )
    return port


def _parse_listen(text: str | None, port: int) -> tuple[str, int]:
    """Parse the address and port to listen on, or a port alone."""
    address, colon, digits = (text or str(port)).rpartition(":")
    address = address.removeprefix("[").removesuffix("]") if colon else LOOPBACK
    try:
        if not digits.isdecimal() or not 0 <= int(digits) < 1 << 16:
            raise ValueError
        return str(ipaddress.ip_address("127.0.0.1" if address == "localhost" else address)), int(digits)
    except ValueError:
        raise BriefError(f"--listen takes PORT or ADDRESS:PORT, such as 127.0.0.1:8080, not {text!r}") from None


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def list_users() -> frozenset[int]:
    """Return the users whose programs may connect: this one, root, and the user who called `sudo`."""
    behind = find_invoker()
    return frozenset({0, os.geteuid(), *([behind[0]] if behind is not None else [])})


def listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        listener.listen(64)
    except OSError as e:
        listener.close()
        why = f"cannot listen on {address} port {port}: {e.strerror}"
        raise HostError(f"{why}; choose another with --listen") from e
    listener.setblocking(False)
    return listener


def tell(text: str) -> None:
    print(f"hotdesk: {make_printable(text)}", file=sys.stderr, flush=True)


@dataclass(slots=True)
class PortForwarder:
    """Forwards connections to a port of a desk."""

    desk: LinkedDesk
    port: int
    users: frozenset[int] | None
    """Users whose connections are accepted, or `None` for all."""
    free: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(MAX_CONNECTIONS))
    refused: int = 0

    async def serve(self, listener: socket.socket) -> None:
        """Accept connections until the desk ends; then raise the reason."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.take_all, listener, tasks)
            await self.desk.link.ended.wait()
            tasks.cancel_scope.cancel()
        raise self.desk.link.make_lost_error()

    async def take_all(self, listener: socket.socket, tasks: TaskGroup) -> None:
        while True:
            await self.free.acquire()
            try:
                caller = await accept(listener)
            except OSError:
                self.free.release()
                await anyio.sleep(ACCEPT_RETRY_S)  # too many files are open: the caller waits in the queue
                continue
            tasks.start_soon(self.pass_on, caller)

    async def pass_on(self, caller: socket.socket) -> None:
        try:
            caller.setblocking(False)
            if self.admits(caller):
                with suppress(OSError), await self.desk.dial(self.port) as inside:
                    await join(caller, inside)
        except HotdeskError as e:
            if self.desk.link.failure is None:
                tell(str(e))
        finally:
            anyio.notify_closing(caller)
            caller.close()
            self.free.release()

    def admits(self, caller: socket.socket) -> bool:
        """Return whether a caller may use the port: other users can connect to loopback too."""
        if self.users is None:
            return True
        uid = find_peer_uid(caller)
        if uid in self.users:
            return True
        self.refused += 1
        if self.refused <= MAX_TOLD:
            who = "an unknown user" if uid is None else f"uid {uid}"
            tell(f"refused a connection from {who}; pass --all-users to let other users of this machine connect")
        return False
