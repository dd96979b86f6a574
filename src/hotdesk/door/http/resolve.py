"""Resolve names to checked addresses in a child process, which sees nothing of a desk except the name.

Each side treats the other as hostile, because the child reads what name servers send, and the door what desks send. One
packet is one message: `{"id": 1, "name": "api.example.test"}`, answered by
`{"id": 1, "addresses": [...], "own": [...]}` or `{"id": 1, "error": "..."}`. An empty name asks for this host's own
addresses only.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import queue
import re
import resource
import signal
import socket
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from ipaddress import ip_address

from hotdesk.door.policy.address import Address, Network, check, normalise_address
from hotdesk.linux import jail, landlock, syscalls

UNDER_WAY = 64
"""Lookups that may be in progress at once; more are refused."""
_LOOKUP_TIMEOUT_S = 5.0
_THREADS = 24
_STACK = 512 << 10
ADDRESSES = 16
"""Addresses of one name that are checked, and dialled at most."""
QUESTION, ANSWER = 1024, 64 << 10
DNS = 53
_LIBC = {"RES_OPTIONS": "timeout:2 attempts:2 edns0", "LOCALDOMAIN": "."}
"""Options for libc's resolver: limit its time, and look up the name as given, never below the host's search domains."""
NAME = re.compile(r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z][a-z0-9-]{0,62}(?<!-)\Z")
"""Letters, digits and hyphens. The last label begins with a letter: libc reads `127.1` and `0x7f.1` as addresses."""
_NO_SUCH = "no such name"
_ENDED = "the DNS resolver of the door has ended and is being restarted; try again"
_FAILURES = {socket.EAI_NONAME: _NO_SUCH, socket.EAI_AGAIN: "the name servers do not respond"}
PR_SET_PDEATHSIG = 1


class UnresolvedError(Exception):
    """A name has no address that may be dialled; the text says why."""


class Resolver:
    """The door's side of the connection to its child."""

    def __init__(self, sock: socket.socket, seconds: float = _LOOKUP_TIMEOUT_S) -> None:
        self._sock = sock
        self._seconds = seconds
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._last = 0
        self.gone = False

    def listen(self) -> None:
        self._sock.setblocking(False)
        asyncio.get_running_loop().add_reader(self._sock, self._receive)

    async def resolve(
        self, host: str, named: Collection[Network] = (), *, private: bool = False
    ) -> tuple[Address, ...]:
        """Return the addresses of a host, IPv4 first; raise if any of them must not be dialled."""
        literal = as_address(host)
        if literal is None and not NAME.match(host):
            raise UnresolvedError("not a name")
        found, own = read_answer(await self._ask(host if literal is None else ""))
        addresses = (literal,) if literal is not None else found
        if not addresses:
            raise UnresolvedError(_NO_SUCH)
        for address in addresses:
            if reason := check(address, named, own, private=private):
                raise UnresolvedError(reason)
        return addresses

    async def _ask(self, name: str) -> bytes:
        if self.gone or len(self._waiting) >= UNDER_WAY:
            raise UnresolvedError(_ENDED if self.gone else "too many DNS lookups; try again later")
        self._last += 1
        number, answer = self._last, asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            async with asyncio.timeout(self._seconds):
                self._sock.send(json.dumps({"id": number, "name": name}).encode())
                return bytes(await answer)
        except (OSError, TimeoutError):
            raise UnresolvedError("the DNS resolver of the door does not respond; try again") from None
        finally:
            del self._waiting[number]

    def _receive(self) -> None:
        try:
            data = self._sock.recv(ANSWER)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
        elif (number := read_number(data)) in self._waiting and not self._waiting[number].done():
            self._waiting[number].set_result(data)

    def _end(self) -> None:
        self.gone = True
        asyncio.get_running_loop().remove_reader(self._sock)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(UnresolvedError(_ENDED))


def as_address(host: str) -> Address | None:
    try:
        return normalise_address(ip_address(host))
    except ValueError:
        return None


def read_number(data: bytes) -> int:
    """Return the id of the question that a message belongs to, or 0 if it has none."""
    try:
        number = json.loads(data)["id"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0
    return number if type(number) is int else 0


def read_answer(data: bytes) -> tuple[tuple[Address, ...], frozenset[Address]]:
    """Parse the child's answer: a name's addresses, and this host's own."""
    reply = json.loads(data)
    if "error" in reply:
        raise UnresolvedError(
            next((text for text in _FAILURES.values() if text == reply["error"]), "cannot be resolved")
        )
    try:
        found = tuple(normalise_address(ip_address(str(text))) for text in reply["addresses"][:ADDRESSES])
        return found, frozenset(normalise_address(ip_address(str(text))) for text in reply["own"])
    except (ValueError, LookupError, TypeError):
        raise UnresolvedError("malformed reply from the DNS resolver of the door; try again") from None


def start_resolver(uid: int) -> tuple[socket.socket, int]:
    """Start the child as a user of its own; call it before this process has threads or confines itself."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return ours, pid
    status = 1
    try:
        keep_only(theirs.fileno())
        become_resolver(uid)
        serve(theirs)
        status = 0
    finally:
        os._exit(status)


def keep_only(fd: int) -> None:
    """Close every file descriptor except the standard ones and this one."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(3, fd)
    os.closerange(fd + 1, most)


def become_resolver(uid: int) -> None:
    """Keep the right to read files and ask name servers, and give up every other."""
    jail.preload()
    jail.drop_privileges(uid)
    syscalls.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    landlock.restrict([], ports=(DNS,))
    os.environ.update(_LIBC)
    threading.stack_size(_STACK)


def serve(sock: socket.socket) -> None:
    """Answer questions until the door closes the connection."""
    waiting: queue.Queue[tuple[float, bytes]] = queue.Queue(UNDER_WAY)
    for _ in range(_THREADS):
        threading.Thread(target=work, args=(sock, waiting), daemon=True).start()
    while question := sock.recv(QUESTION):
        try:
            waiting.put_nowait((time.monotonic(), question))
        except queue.Full:
            continue  # the door has given up on the oldest question by now


def work(sock: socket.socket, waiting: queue.Queue[tuple[float, bytes]]) -> None:
    """Answer questions from the queue, except those the door has given up on."""
    while True:
        queued_at, question = waiting.get()
        if time.monotonic() - queued_at < _LOOKUP_TIMEOUT_S:
            try:
                sock.send(json.dumps(answer(question)).encode())
            except OSError:
                return


def answer(question: bytes) -> dict[str, object]:
    number = read_number(question)
    try:
        name = str(json.loads(question)["name"]) if number else "-"
        if name and not NAME.match(name):
            return {"id": number, "error": "not a name"}
        reply = {"id": number, "addresses": look_up(name) if name else [], "own": list(list_own_addresses())}
    except socket.gaierror as e:
        return {"id": number, "error": _FAILURES.get(e.errno or 0, "cannot be resolved")}
    except (OSError, LookupError, UnicodeError):
        return {"id": number, "error": "cannot be resolved"}
    return reply if len(json.dumps(reply)) <= ANSWER else {"id": number, "error": "too many addresses"}


def look_up(name: str) -> list[str]:
    """Return a name's addresses from libc, IPv4 first."""
    family = socket.AF_UNSPEC if _has_v6_route() else socket.AF_INET
    found = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
    ordered = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)
    return list(dict.fromkeys(str(entry[4][0]) for entry in ordered))[:ADDRESSES]


def _has_v6_route() -> bool:
    """Return whether this host has a route to the IPv6 internet. Nothing is sent."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.connect(("2000::1", DNS))
    except OSError:
        return False
    return True


class IfAddrs(ctypes.Structure):
    """The first fields of C's `struct ifaddrs`."""

    _fields_ = (
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("flags", ctypes.c_uint),
        ("address", ctypes.c_void_p),
    )


def list_own_addresses() -> Iterator[str]:
    first = ctypes.c_void_p()
    syscalls.check(syscalls.libc.getifaddrs(ctypes.byref(first)), "getifaddrs")
    try:
        yield from filter(None, map(_format_sockaddr, iterate_entries(first.value)))
    finally:
        syscalls.libc.freeifaddrs(first)


def iterate_entries(at: int | None) -> Iterable[int | None]:
    while at:
        entry = IfAddrs.from_address(at)
        yield entry.address
        at = entry.next


def _format_sockaddr(at: int | None) -> str | None:
    family = ctypes.c_uint16.from_address(at).value if at else 0
    if family == socket.AF_INET:
        return socket.inet_ntop(family, ctypes.string_at((at or 0) + 4, 4))
    if family == socket.AF_INET6:
        return socket.inet_ntop(family, ctypes.string_at((at or 0) + 8, 16))
    return None
