"""`hotdesk run` without a holder and without asyncio: this process owns one desk, through a keeper of its own.

It serves a first command and those that find no holder. It supports plain desks only: other options are left to the
regular command, and so are errors, which that command explains better.
"""

from __future__ import annotations

import _socket
import os
import select
import sys
import time
from _json import encode_basestring_ascii as quote

from hotdesk.cli.quick.arguments import QuickRun
from hotdesk.cli.quick.place import IDENTITY, get_holder_environment
from hotdesk.cli.quick.signals import EndingSignals, Interrupted
from hotdesk.desk.keeper.program import launch
from hotdesk.linux.pace import scale_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hotdesk.errors import HotdeskError

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
MAX_PACKET_BYTES = 1 << 16
OPEN_SECONDS, GREET_SECONDS, END_EVENT_SECONDS = 60.0, 15.0, 5.0
"""Seconds for a keeper to open a desk, for its guest to connect, and for the keeper to report why a desk ended."""
PULSE_INTERVAL_S = 1.0
DAY, SPARE_SECONDS, MAX_SECONDS = 86400.0, 300.0, 365 * 86400.0
_ORDER = sys.byteorder


def run(order: QuickRun, signals: EndingSignals, when_open: Callable[[], None]) -> int | None:
    """Run a command on a fresh desk; return `None` if none could be opened, before anything was done.

    `when_open` is called once the desk is open, while this process still has its privileges.
    """
    if not all(_is_plain(text) for text in order.own):
        return None
    owner = _Owner(order, signals)
    try:
        sock = owner.open()
    except Interrupted as e:
        owner.close()
        return 128 + e.number
    if sock is None:
        owner.close()
        return None
    when_open()
    from hotdesk.cli.quick.follow import Follower
    from hotdesk.cli.quick.run_follow import follow

    return follow(Follower(sock, b"", signals, owner.explain_end, owner.pulse), order, owner.close)


def _is_plain(option: str) -> bool:
    name, _, value = option.partition("=")
    return name == "--timeout" or (name == "--env" and value.partition("=")[1] == "=" and value[0] != "=")


def _describe_actor() -> str:
    """Return for whom root acts, or `""` if unknown; the keeper identifies this process itself."""
    if not any(os.environ.get(name) for name in IDENTITY):
        return ""
    from hotdesk.drive.identity import describe_actor

    return describe_actor()


class _Owner:
    """Owner of one desk; its keeper burns the desk when this process ends, for whatever reason."""

    def __init__(self, order: QuickRun, signals: EndingSignals) -> None:
        self.signals = signals
        self.desk = "i" + "".join(ALPHABET[each % 36] for each in os.urandom(64) if each < 252)[:20]
        self.sock, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        for end in (self.sock, theirs):
            end.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, 4 * MAX_PACKET_BYTES)
        try:
            self.pid = launch(
                _format_object({"environ": _format_object(_quote_values(get_holder_environment()))}), theirs.fileno()
            )
        finally:
            theirs.close()
        lasting = min((order.timeout or DAY) + SPARE_SECONDS, MAX_SECONDS)
        env = dict(text[len("--env=") :].partition("=")[::2] for text in order.own if text.startswith("--env="))
        spec = {
            "deadline": str(lasting),
            "idle": str(lasting),
            "env": _format_object(_quote_values(env)),
            "by": quote(_describe_actor()),
        }
        self.request = _format_object(
            {"n": "1", "verb": '"open"', "desk": quote(self.desk), "spec": _format_object(spec)}
        ).encode()
        self.pulsed = time.monotonic()

    def open(self) -> _socket.socket | None:
        """Open the desk and accept its guest's connection; return `None` if either fails."""
        if len(self.request) > MAX_PACKET_BYTES:
            return None
        self.sock.sendall(self.request)
        import json  # noqa: F401  both while the keeper starts

        import hotdesk.cli.quick.run_follow  # noqa: F401

        end = time.monotonic() + scale_seconds(OPEN_SECONDS)
        while self.signals.wait(self.sock.fileno(), max(0.0, end - time.monotonic())):
            message, fds = self.receive()
            body = message.get("ok")
            if message.get("re") == 1 and isinstance(body, dict) and len(fds) == 2:
                os.close(fds[1])  # the runtime's output
                return self.accept(_socket.socket(fileno=fds[0]), body)
            for fd in fds:
                os.close(fd)
            if not message or "error" in message or message.get("event"):
                return None
        return None

    def receive(self) -> tuple[dict[str, object], list[int]]:
        """Read one message of the keeper with its file descriptors; return an empty one once the keeper is gone."""
        try:
            data, controls, _, _ = self.sock.recvmsg(MAX_PACKET_BYTES, _socket.CMSG_SPACE(64), _socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return {}, []
        rights = b"".join(each[2] for each in controls)
        fds = [int.from_bytes(rights[at : at + 4], _ORDER) for at in range(0, len(rights) // 4 * 4, 4)]
        import json

        message = json.loads(data) if data else {}
        return message if isinstance(message, dict) else {}, fds

    def accept(self, listener: _socket.socket, body: dict[str, object]) -> _socket.socket | None:
        """Accept the connection of the process that the keeper started; close any other."""
        end = time.monotonic() + scale_seconds(GREET_SECONDS)
        watched = select.poll()
        for fd in (listener.fileno(), self.sock.fileno(), self.signals.fd):
            watched.register(fd, select.POLLIN)
        try:
            listener.setblocking(False)
            while (remaining := end - time.monotonic()) > 0:
                ready = dict(watched.poll(remaining * 1000))
                if self.signals.fd in ready:
                    self.signals.raise_pending()
                if listener.fileno() in ready:
                    sock = _socket.socket(fileno=listener._accept()[0])  # type: ignore[attr-defined]
                    peer = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
                    if (int.from_bytes(peer[:4], _ORDER), int.from_bytes(peer[4:8], _ORDER)) == (
                        body["caller"],
                        body["uid"],
                    ):
                        return sock
                    sock.close()
                elif self.sock.fileno() in ready:
                    return None  # the desk or its keeper has ended
        except BlockingIOError:
            pass
        finally:
            listener.close()
        return None

    def pulse(self) -> None:
        """Report to the keeper that the desk is in use, so that it updates the desk's visible usage figures."""
        if time.monotonic() - self.pulsed >= PULSE_INTERVAL_S:
            self.pulsed = time.monotonic()
            try:
                self.sock.send(
                    _format_object({"n": "0", "verb": '"touch"', "desk": quote(self.desk)}).encode(),
                    _socket.MSG_DONTWAIT,
                )
            except OSError:
                pass  # the keeper is gone, and the desk with it

    def explain_end(self) -> HotdeskError:
        """Return the error for a connection the guest closed, with the keeper's reason if it reports one."""
        from hotdesk.errors import DeskGone

        self.sock.settimeout(scale_seconds(END_EVENT_SECONDS))
        why = "hotdesk's process in the desk closed the connection"
        while (message := self.receive()[0]) and message.get("event") != "ended":
            pass
        if message:
            why = str(message.get("why"))
        return DeskGone(f"desk {self.desk} is gone: {why}; open another desk")

    def close(self) -> None:
        """Close the connection to the keeper, and wait until it has burnt the desk."""
        from hotdesk.cli.quick.run_follow import BURN_SECONDS

        try:
            self.sock.shutdown(_socket.SHUT_WR)
            self.sock.settimeout(scale_seconds(BURN_SECONDS))
            while self.sock.recv(MAX_PACKET_BYTES):
                pass
        except OSError:
            pass  # too slow, or the keeper was killed: the next keeper cleans up
        self.sock.close()


def _quote_values(table: dict[str, str]) -> dict[str, str]:
    return {name: quote(value) for name, value in table.items()}


def _format_object(fields: dict[str, str]) -> str:
    return "{" + ", ".join(f"{quote(name)}: {value}" for name, value in fields.items()) + "}"
