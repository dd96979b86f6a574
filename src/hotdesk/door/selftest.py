"""A test of a desk's way out, from inside, before hand-over: refusals must hold, and responses must be clean.

The canaries' output comes from an image that may be hostile: it is limited and parsed strictly, and a missing result
counts as a failure. An image that lies can pass; but it cannot hide what arrives at the owner's own sockets.
"""

from __future__ import annotations

import errno
import json
import secrets
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address, ip_network
from typing import TypeAlias

from hotdesk.brief import Scope
from hotdesk.brief.names import is_address, split_authority
from hotdesk.dataclass import dataclass
from hotdesk.desk.door_files import BUNDLE
from hotdesk.desk.room.layout import LINK
from hotdesk.desk.seam import Desk, Done
from hotdesk.door import canary
from hotdesk.door.canary import Canary
from hotdesk.errors import DoorError
from hotdesk.linux.pace import scale_seconds

_Targets: TypeAlias = tuple[tuple[str, str], ...]
"""Targets to try, each with the name of its canary."""

PROGRAM = f"import sys;sys.path.insert(0,'{LINK}/lib');from hotdesk_guest import canaries;canaries.main(*sys.argv[1:])"
"""Starts the program that every desk has beside its guest, compiled when its image was sealed."""
_SELFTEST_TIMEOUT_S = 60.0
"""A busy host needs most of it; others need a fraction of a second."""
_ANSWER_TIMEOUT_S = 3.0
"""Seconds that a canary waits for an answer of the door."""
LIMIT = 1 << 16
"""Bytes of output the canaries may write."""
FAR: _Targets = (
    ("raw-ip", "tcp|192.0.2.1|443"),
    ("raw-ip", "tcp|192.0.2.1|80"),
    ("dns", "udp|192.0.2.53|53"),
    ("dns", "tcp|192.0.2.53|53"),
    ("ipv6", "tcp|2001:db8::1|443"),
    ("ipv6", "udp|2001:db8::1|443"),
    ("ipv6", "tcp|::ffff:192.0.2.1|443"),
    ("udp-443", "udp|192.0.2.1|443"),
    ("metadata", "tcp|169.254.169.254|80"),
    ("metadata", "tcp|169.254.170.2|80"),
    ("metadata", "tcp|fd00:ec2::254|80"),
    ("another-desk", "tcp|10.0.0.1|3128"),
    ("another-desk", "tcp|172.17.0.1|3128"),
    ("another-desk", "tcp|192.168.0.1|3128"),
    ("another-desk", "tcp|100.64.0.1|3128"),
)
"""Targets that must have no route; nothing is sent unless one exists."""
NOWHERE = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EACCES,
     errno.EPERM}
)  # fmt: skip
"""Errors by which the kernel says at once that there is no route. A refused connection reached a host."""
LOCAL = ("host-loopback", "host-sockets", "dns", "dns")
_HUNG_UP = (
    b"ConnectionResetError(", b"BrokenPipeError(", b"SSLEOFError(", b"SSLZeroReturnError(",
    b"SSLError(1, '[SSL: TLSV1_UNRECOGNIZED_NAME]",
)  # fmt: skip
"""Results of a handshake that the door ended. If the desk itself ended it, the door had answered for a wrong name."""
_LATE = b"TimeoutError("
REMOVED = b"hotdesk-removed"
NAMES = (
    "raw-ip", "dns", "ipv6", "udp-443", "metadata", "another-desk", "host-loopback", "host-sockets",
    "connect-loopback", "connect-unlisted", "another-sni", "another-host", "swapped", "scrubbed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CanaryReport:
    passed: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CanaryResult:
    knocks: tuple[int, ...]
    local: tuple[int, ...]
    answers: tuple[int, ...]
    sni: bytes
    echo: bytes
    host: bytes


@dataclass(frozen=True, slots=True)
class Bait:
    """Sockets of the owner that no desk may reach. An owner that gave up TCP still has these."""

    udp: socket.socket
    abstract: socket.socket
    name: str

    @property
    def port(self) -> int:
        return int(self.udp.getsockname()[1])

    def list_caught_canaries(self) -> frozenset[str]:
        """Return the canaries that reached these sockets, independent of what the desk reports."""
        found = (("host-loopback", self.udp), ("host-sockets", self.abstract))
        return frozenset(name for name, sock in found if _has_caller(sock))


@dataclass(frozen=True, slots=True)
class CanaryPlace:
    """Where the canaries run, and what they try there."""

    program: str = PROGRAM
    bundle: str = BUNDLE
    """The desk's certificate authorities, the door's last."""
    far: _Targets = FAR
    """Targets that must have no route, beside this machine's own address; empty where policies drop packets instead."""


async def prove(
    desk: Desk, python: str, scope: Scope, expected: Canary, place: CanaryPlace | None = None
) -> CanaryReport:
    """Run the canaries in a desk, with its image's Python, and judge their results.

    They run once more if an answer was late: a busy machine is not a hole, and a real hole is there the second time,
    too.
    """
    place = place or CanaryPlace()
    report, is_late = await _run_canaries(desk, python, scope, expected, place)
    return (await _run_canaries(desk, python, scope, expected, place))[0] if report.failed and is_late else report


async def _run_canaries(
    desk: Desk, python: str, scope: Scope, expected: Canary, place: CanaryPlace
) -> tuple[CanaryReport, bool]:
    """Run the canaries once; return the report, and whether an answer was late."""
    nonce = secrets.token_hex(16)
    with open_bait() as listener:
        far = (*place.far, *_find_own_address()) if place.far else ()
        near = list_refusable(scope, listener.port, nonce)
        listed = (" ".join(where for _, where in targets) for targets in (far, near))
        seconds = f"{scale_seconds(_ANSWER_TIMEOUT_S):g}"
        address = (str(listener.port), listener.name)
        arguments = (nonce, expected.placeholder, canary.HOST, place.bundle, *address, *listed, seconds)
        argv = [python, "-I", "-S", "-B", "-c", place.program, *arguments]
        done = await desk.run(argv, timeout=scale_seconds(_SELFTEST_TIMEOUT_S), output_limit=LIMIT)
        result = read(done, nonce)
        is_late = done.timed_out or (result is not None and _has_late_answer(result))
        return judge(result, far, near, expected.digest, listener.list_caught_canaries()), is_late


def _has_late_answer(result: CanaryResult) -> bool:
    """Return whether the door left a request unanswered for as long as the canaries wait."""
    return 0 in result.answers or any(each.startswith(_LATE) for each in (result.sni, result.echo, result.host))


def require(report: CanaryReport) -> None:
    if report.failed:
        raise DoorError(
            f"the self-test of the desk's door failed ({', '.join(report.failed)}), so the desk was burnt; "
            "run `hotdesk doctor` to examine this machine"
        )


# -- targets --------------------------------------------------------------------------------------------------------


def list_refusable(scope: Scope, port: int, nonce: str) -> _Targets:
    """List targets that the door must refuse to connect to, except those that the scope itself lists."""
    targets = (
        *(("connect-loopback", f"{host}:{port}") for host in ("127.0.0.1", "localhost", "[::1]")),
        ("connect-loopback", "127.0.0.1:3128"),
        ("metadata", "169.254.169.254:80"),
        ("connect-unlisted", f"{nonce}.invalid:443"),
    )
    hosts = [rule.host for rule in scope.rules if rule.verdict != "deny"]
    return tuple(each for each in targets if not any(covers(host, split_authority(each[1])[0]) for host in hosts))


def covers(pattern: str, host: str) -> bool:
    """Return whether a rule's host covers this one. The door's own policy is not used, because it is being tested."""
    if is_address(pattern) and is_address(host):
        return ip_address(host) in ip_network(pattern)
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _find_own_address() -> _Targets:
    """Return this machine's outward address, if it has one; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:
            return ()
        return (("another-desk", f"tcp|{asking.getsockname()[0]}|3128"),)


@contextmanager
def open_bait() -> Iterator[Bait]:
    """Listen where only programs of this machine can connect: on its loopback, and at an abstract socket name."""
    name = f"hotdesk-canary-{secrets.token_hex(8)}"
    with socket.socket(type=socket.SOCK_DGRAM) as udp, socket.socket(socket.AF_UNIX) as abstract:
        udp.bind(("127.0.0.1", 0))
        abstract.bind(f"\0{name}")
        abstract.listen()
        yield Bait(udp, abstract, name)


def _has_caller(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


# -- results --------------------------------------------------------------------------------------------------------


def read(done: Done, nonce: str) -> CanaryResult | None:
    try:
        data = json.loads(done.stdout) if done.ok and not done.truncated else None
        if not isinstance(data, dict) or data.pop("nonce", None) != nonce or data.keys() != set(CanaryResult.__slots__):
            return None
        knocks, local, answers = (_parse_numbers(data[field]) for field in ("knocks", "local", "answers"))
        return CanaryResult(knocks, local, answers, *(bytes.fromhex(data[field]) for field in ("sni", "echo", "host")))
    except (ValueError, TypeError, RecursionError):
        return None


def _parse_numbers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise ValueError(f"{value!r:.80} is not a list of whole numbers")
    return tuple(value)


def judge(
    result: CanaryResult | None, far: _Targets, near: _Targets, digest: str, caught: frozenset[str]
) -> CanaryReport:
    """Return which canaries passed: those that were tried and did not fail."""
    tried = {name for name, _ in (*far, *near)} | {*LOCAL, "another-sni", "another-host", "swapped", "scrubbed"}
    failed = tried if result is None else {*_iterate_failed_canaries(result, far, near, digest), *caught}
    return CanaryReport(
        tuple(name for name in NAMES if name in tried and name not in failed),
        tuple(name for name in NAMES if name in failed),
    )


def _iterate_failed_canaries(result: CanaryResult, far: _Targets, near: _Targets, digest: str) -> Iterator[str]:
    yield from _iterate_wrong_targets(far, [number in NOWHERE for number in result.knocks])
    refused = [number == errno.ECONNREFUSED for number in result.local[:-1]]
    yield from _iterate_wrong_targets(tuple((name, "") for name in LOCAL), refused)
    if result.local[-1:] != (0,):
        yield "dns"
    yield from _iterate_wrong_targets(near, [number == 403 for number in result.answers[2:]])
    if result.answers[:1] != (200,) or not result.sni.startswith(_HUNG_UP):
        yield "another-sni"
    if not result.host.startswith(b"HTTP/1.1 400 "):
        yield "another-host"
    head, _, body = result.echo.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    if not lines[0].startswith(b"HTTP/1.1 200") or f"X-Canary-Digest: {digest}".encode() not in lines:
        yield "swapped"
    if b"X-Canary: " + REMOVED not in lines or _decode_chunks(body) != (REMOVED + b"\n") * 2:
        yield "scrubbed"


def _iterate_wrong_targets(targets: _Targets, right: list[bool]) -> Iterator[str]:
    for number, (name, _) in enumerate(targets):
        if len(right) != len(targets) or not right[number]:
            yield name


def _decode_chunks(data: bytes) -> bytes:
    """Reassemble a chunked body; invalid chunks yield another one."""
    body = b""
    while data:
        size, _, rest = data.partition(b"\r\n")
        length = int(size, 16) if size.isalnum() and len(size) < 8 else 0
        body, data = body + rest[:length], rest[length + 2 :] if length else b""
    return body
