"""Serves one SSH client on standard input and output until it disconnects: one thread, one poll."""

from __future__ import annotations

import _socket
import os
import select
import time

from hotdesk.cli.quick.call import OPEN_SECONDS, ask
from hotdesk.cli.quick.signals import EndingSignals, Interrupted
from hotdesk.cli.quick.streams import FAILED
from hotdesk.cli.ssh.channel import MAX_OUT_BYTES
from hotdesk.cli.ssh.connection import DeskOwner, SshConnection
from hotdesk.cli.ssh.desk_link import GONE, DeskLink
from hotdesk.cli.ssh.forwarding import MAX_HEAD_BYTES, PortForwarding, read_reason
from hotdesk.cli.ssh.host_key import load_host_key
from hotdesk.cli.ssh.transport import Transport
from hotdesk.errors import DeskError, DeskGone, HotdeskError, make_printable
from hotdesk.linux.landlock import confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Dial = Callable[[], _socket.socket]

READ = 1 << 16
GOODBYE_SECONDS = 2.0
"""Seconds for the desk, and then the client, to accept remaining data."""
_ROUTES = {"user": "link", "root": "root"}
_END = b"\r\n\r\n"


def serve(desk: str, dial: Dial, first: _socket.socket | None = None, *, dials: bool = False) -> int:
    """Serve the client. `dial` connects to the desk's owner; `first` is a connection that has already requested the
    link.

    Pass `dials` if the owner is a remote server, reached by TCP.
    """
    signals = EndingSignals()
    try:
        key = load_host_key()
        confine([], dials=dials)
        source = LinkSource(desk, dial, signals, first)
        source.open("user")
        connection = SshConnection(Transport(key), DeskOwner(desk, source.open, source.call), tell)
        return StdioServer(connection, source, signals).run()
    except Interrupted as e:
        return 128 + e.number
    except HotdeskError as e:
        tell(str(e))
        return FAILED


def tell(text: str) -> None:
    end = "\r\n" if os.isatty(2) else "\n"
    try:
        os.write(2, f"hotdesk: {make_printable(text)}{end}".encode())
    except OSError:
        pass  # no reader is left


class LinkSource:
    """Connections to the desk's owner, and the current link."""

    def __init__(self, desk: str, dial: Dial, signals: EndingSignals, first: _socket.socket | None) -> None:
        self.desk = desk
        self.dial = dial
        self.signals = signals
        self.first = first
        self.user = ""
        self.link: DeskLink | None = None

    def open(self, user: str) -> DeskLink:
        if self.link is None or user != self.user:
            sock, self.first = self.first, None
            if sock is None:
                sock = self.dial()
                if not ask(sock, f"/desks/{self.desk}/{_ROUTES[user]}"):
                    raise DeskGone(GONE)
            link = DeskLink(sock, self.read_switch(sock))
            if self.link is not None:
                self.link.sock.close()
            self.link, self.user = link, user
        return self.link

    def read_switch(self, sock: _socket.socket) -> bytes:
        """Read the owner's reply; return the bytes after it, or raise its reason for a refusal."""
        answer, data = b"", b" "
        try:
            while data and len(answer) < MAX_HEAD_BYTES:
                data = sock.recv(READ) if self.signals.wait(sock.fileno(), OPEN_SECONDS) else b""
                answer += data
                if answer.startswith(b"HTTP/1.1 101 ") and _END in answer:
                    return answer.partition(_END)[2]
        except OSError:
            pass
        sock.close()
        raise DeskError(read_reason(answer))

    def call(self, route: str) -> tuple[_socket.socket, bytes]:
        """Connect to the owner; return the connection, and the request to send."""
        head = "Host: hotdesk\r\nConnection: Upgrade\r\nUpgrade: hotdesk-stream\r\n\r\n"
        return self.dial(), f"GET /desks/{self.desk}/{route} HTTP/1.1\r\n{head}".encode()


class StdioServer:
    """The event loop for data of the client, the desk and forwarded ports."""

    def __init__(self, connection: SshConnection, source: LinkSource, signals: EndingSignals) -> None:
        self.connection = connection
        self.transport = connection.transport
        self.source = source
        self.signals = signals

    @property
    def link(self) -> DeskLink:
        assert self.source.link is not None
        return self.source.link

    def run(self) -> int:
        """Serve until the client disconnects; errors are reported to it."""
        for fd in (0, 1):
            os.set_blocking(fd, False)
        try:
            while not self.transport.is_closed:
                self.turn()
        except Interrupted:
            return 0  # ssh ends its proxy command with SIGHUP
        except HotdeskError as e:
            self.transport.disconnect(make_printable(str(e)))
            return FAILED
        finally:
            self.say_goodbye()
        return 0

    def turn(self) -> None:
        self.link.take_frames()  # frames that arrived with the owner's reply
        self.connection.pump()
        self.link.flush()
        self.flush()
        ports = self.list_ports()
        ready = dict(self.watch(ports).poll())
        if self.signals.fd in ready:
            self.signals.raise_pending()
        if 0 in ready:
            self.read_client()
        if ready.get(self.link.sock.fileno(), 0) & ~select.POLLOUT:
            self.link.receive()
        for fd, port in ports.items():
            if ready.get(fd, 0) & select.POLLOUT:
                port.flush()
            if ready.get(fd, 0) & ~select.POLLOUT:
                port.receive()

    def list_ports(self) -> dict[int, PortForwarding]:
        channels = self.connection.channels.values()
        return {each.sock.fileno(): each for each in channels if isinstance(each, PortForwarding) and each.sock}

    def watch(self, ports: dict[int, PortForwarding]) -> select.poll:
        watched = select.poll()
        watched.register(self.signals.fd, select.POLLIN)
        if len(self.link.out) < MAX_OUT_BYTES and len(self.transport.out) < 2 * MAX_OUT_BYTES:
            watched.register(0, select.POLLIN)
        if self.transport.out:
            watched.register(1, select.POLLOUT)
        watched.register(self.link.sock, select.POLLIN | (select.POLLOUT if self.link.out else 0))
        for fd, port in ports.items():
            events = (select.POLLIN if port.wants_input() else 0) | (select.POLLOUT if port.out else 0)
            if events or port.is_ended:  # poll reports a closed connection even without events
                watched.register(fd, events)
        return watched

    def read_client(self) -> None:
        try:
            data = os.read(0, READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.transport.is_closed = True
        self.transport.buffer += data
        self.connection.take_all()

    def flush(self) -> None:
        out = self.transport.out
        try:
            while out:
                del out[: os.write(1, memoryview(out)[:READ].tobytes())]
        except BlockingIOError:
            pass
        except OSError:
            out.clear()
            self.transport.is_closed = True

    def say_goodbye(self) -> None:
        self.connection.leave()
        end = time.monotonic() + GOODBYE_SECONDS
        while (self.link.out or self.transport.out) and (remaining := end - time.monotonic()) > 0:
            waiting = select.poll()
            if self.link.out:
                waiting.register(self.link.sock, select.POLLOUT)
            if self.transport.out:
                waiting.register(1, select.POLLOUT)
            waiting.poll(remaining * 1000)
            self.link.flush()
            self.flush()
        self.hang_up(end)

    def hang_up(self, end: float) -> None:
        """Wait until the owner has read everything: flooded by a desk, it drops a closed connection unread."""
        try:
            self.link.sock.shutdown(_socket.SHUT_WR)
            while (remaining := end - time.monotonic()) > 0:
                self.link.sock.settimeout(remaining)
                if not self.link.sock.recv(READ):
                    return
        except OSError:
            pass  # the owner is gone
