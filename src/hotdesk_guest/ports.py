"""Connect to ports of a desk that has its own network stack, as behind gVisor, which the host cannot reach.

The guest forwards programs' connections to the desk's gate, connects to ports inside for its host, and as root listens
for `sudo` inside the desk. All of it runs in the guest's own loop: no program can take over the port or end the
service.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from hotdesk_guest.agent import Guest, GuestChannel

import _socket
import errno
import posix
import select

from hotdesk_guest import process
from hotdesk_guest.wire import CHUNK, CREDIT, DATA, EVENT, STDOUT, STEP, encode

GATE = ("127.0.0.1", 3128)
LOOPBACKS = ((_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1"))
SUDO = "/run/sudo.sock"
"""The socket at which the guest for root serves `sudo` inside: in a folder that only root can write."""
BACKLOG = 256
MAX_FORWARDED = 512
"""Maximum connections to the gate at a time; others wait in the listener's queue."""
READ = 1 << 16
MAX_WAITING = 1 << 20
"""Maximum bytes received from one side that the other has not taken yet."""
REFUSED = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)
"""Errors of writing to a socket whose other end has closed. What it sent before can still be read."""


class PortSocket:
    """A socket in the guest's loop, and the data waiting to be written to it."""

    def __init__(self, poll: select.epoll, sock: _socket.socket) -> None:
        sock.setblocking(False)
        self.poll = poll
        self.sock = sock
        self.fd = sock.fileno()
        self.out = bytearray()
        self.ending = False
        """Whether the writing side is closed once `out` is written."""
        self.ended = False
        """Whether the other end will send no more data."""
        self.was_reset = False
        """Whether it ended by a reset, so that what it sent may be incomplete."""
        self.is_refused = False
        """Whether the other end takes no more data: what is to be written is dropped."""
        self.events = 0

    def watch(self, events: int) -> None:
        """Poll for these events. Without any, the descriptor is not polled at all, not even for its end."""
        if events == self.events:
            return
        if not events:
            self.poll.unregister(self.fd)
        elif not self.events:
            self.poll.register(self.fd, events)
        else:
            self.poll.modify(self.fd, events)
        self.events = events

    def read(self, size: int) -> bytes | None:
        """Read available data; return `None` if there is none yet, and b"" at the end, or after a reset."""
        try:
            data = self.sock.recv(size)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            self.was_reset, data = True, b""
        self.ended = not data
        return data

    def flush(self) -> int:
        """Write as much as the socket takes, and close the writing side at the end; return the bytes written.

        A server may answer and close before it has read all: its answer must still be read, so that is no error.
        """
        before = len(self.out)
        try:
            while self.out and not self.is_refused:
                del self.out[: self.sock.send(memoryview(self.out)[:READ])]
            if self.ending and not self.out:
                self.ending = False
                self.sock.shutdown(_socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError as e:
            if e.errno not in REFUSED:
                raise
            self.is_refused = True
        if self.is_refused:
            self.out.clear()
        return before - len(self.out)

    def close(self) -> None:
        self.watch(0)
        self.sock.close()

    def reset(self) -> None:
        """Have the other end see a reset when this socket is closed."""
        self.sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


class Forwarding:
    """A program's connection to the gate."""

    def __init__(self, program: PortSocket, gate: PortSocket) -> None:
        self.other = {program.fd: gate, gate.fd: program}
        self.ends = {program.fd: program, gate.fd: gate}

    def turn(self, fd: int, event: int) -> bool:
        """Forward available data; return whether both sides have ended, or one cannot go on."""
        end, other = self.ends[fd], self.other[fd]
        try:
            if event & select.EPOLLOUT:
                end.flush()
            if event & ~select.EPOLLOUT and not end.ended:
                data = end.read(READ)
                if data is not None:
                    other.out += data
                    other.ending = not data and not end.was_reset
                    other.flush()
        except OSError:
            return True
        self.listen()
        over = [end for end in self.ends.values() if end.ended and not self.other[end.fd].out]
        return len(over) == len(self.ends) or any(end.is_refused or end.was_reset for end in over)

    def listen(self) -> None:
        for fd, end in self.ends.items():
            reads = not end.ended and len(self.other[fd].out) < MAX_WAITING
            end.watch((select.EPOLLIN if reads else 0) | (select.EPOLLOUT if end.out else 0))

    def close(self) -> None:
        for fd, end in self.ends.items():
            if self.other[fd].was_reset:
                end.reset()
            end.close()


class DialledPort:
    """A connection to a port inside, carried over a channel of the host."""

    def __init__(self, ports: GuestPorts, channel: GuestChannel, port: int) -> None:
        if not 0 < port < 1 << 16:
            raise ValueError("invalid port")
        self.ports = ports
        self.channel = channel
        self.port = port
        self.families = list(LOOPBACKS)
        self.connecting = True
        self.end = self.connect()

    def connect(self) -> PortSocket:
        family, address = self.families.pop(0)
        sock = _socket.socket(family, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC, _socket.IPPROTO_TCP)
        end = PortSocket(self.ports.guest.poll, sock)
        failure = sock.connect_ex((address, self.port))
        if failure not in (0, errno.EINPROGRESS):
            end.close()
            if self.families:
                return self.connect()
            raise self.explain(failure)
        self.ports.by_fd[end.fd] = self
        end.watch(select.EPOLLOUT)
        return end

    def explain(self, failure: int) -> OSError:
        refused = "nothing listens on port %d of the desk" % self.port
        return OSError(failure, refused if failure == errno.ECONNREFUSED else posix.strerror(failure))

    def turn(self, fd: int, event: int) -> None:
        """Finish connecting, or forward data."""
        if self.connecting:
            self.conclude()
            return
        try:
            if event & select.EPOLLOUT:
                self.write()
            if event & ~select.EPOLLOUT and not self.end.ended and self.can_read():
                self.read()
        except OSError as e:
            self.ports.guest.fail(self.channel, e)
            return
        self.listen()

    def conclude(self) -> None:
        failure = self.end.sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
        if failure:
            self.ports.let_go(self.end)
            try:
                if not self.families:
                    raise self.explain(failure)
                self.end = self.connect()
            except OSError as e:
                self.ports.guest.fail(self.channel, e)
            return
        self.connecting = False
        self.ports.guest.tell(self.channel, EVENT, encode({"connected": True}))
        self.turn(self.end.fd, select.EPOLLOUT)

    def can_read(self) -> bool:
        return self.channel.credit >= STEP and not self.ports.guest.line.is_full()

    def read(self) -> None:
        data = self.end.read(CHUNK)
        if data:
            self.ports.guest.tell(self.channel, DATA, bytes((STDOUT,)) + data)
        elif self.end.was_reset:
            raise OSError(errno.ECONNRESET, posix.strerror(errno.ECONNRESET))
        elif data is not None:
            self.ports.guest.tell(self.channel, EVENT, encode({"end": True}))

    def write(self) -> None:
        if size := self.end.flush():
            self.ports.guest.line.send(CREDIT, self.channel.number, size.to_bytes(4, "big"))

    def consume(self, data: bytes) -> None:
        self.end.out += data
        if not self.connecting:
            self.turn(self.end.fd, select.EPOLLOUT)

    def finish(self) -> None:
        self.end.ending = True
        if not self.connecting:
            self.turn(self.end.fd, select.EPOLLOUT)

    def listen(self) -> None:
        """Read while the host has credit."""
        if self.connecting:
            return
        reads = not self.end.ended and self.can_read()
        self.end.watch((select.EPOLLIN if reads else 0) | (select.EPOLLOUT if self.end.out else 0))

    def close(self) -> None:
        self.ports.let_go(self.end)


class GuestPorts:
    """The connections that a guest carries."""

    def __init__(self, guest: Guest, gate: str, address: tuple[str, int] = GATE) -> None:
        self.guest = guest
        self.gate = gate
        self.by_fd: dict[int, DialledPort | Forwarding] = {}
        self.forwarded = 0
        listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC, _socket.IPPROTO_TCP)
        listener.bind(address)
        listener.listen(BACKLOG)
        self.listener = PortSocket(guest.poll, listener)
        self.listener.watch(select.EPOLLIN)

    def dial(self, channel: GuestChannel, port: int) -> None:
        channel.port = DialledPort(self, channel, port)

    def handle_event(self, fd: int, event: int) -> bool:
        """Handle an event of a descriptor; return False if it is not one of these."""
        if fd == self.listener.fd:
            self.accept()
            return True
        connection = self.by_fd.get(fd)
        if connection is None:
            return False
        if isinstance(connection, DialledPort):
            connection.turn(fd, event)
        elif connection.turn(fd, event):
            self.end(connection)
        return True

    def accept(self) -> None:
        try:
            fd, _ = self.listener.sock._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        program = PortSocket(self.guest.poll, _socket.socket(fileno=fd))
        gate = PortSocket(self.guest.poll, _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC))
        try:
            gate.sock.connect(self.gate)
        except OSError:
            program.close()
            gate.close()
            return
        connection = Forwarding(program, gate)
        for end in connection.ends:
            self.by_fd[end] = connection
        connection.listen()
        self.forwarded += 1
        if self.forwarded >= MAX_FORWARDED:
            self.listener.watch(0)

    def end(self, connection: Forwarding) -> None:
        for fd in connection.ends:
            del self.by_fd[fd]
        connection.close()
        self.forwarded -= 1
        self.listener.watch(select.EPOLLIN)

    def park(self) -> None:
        """Close every connection to the gate, and accept no more: sockets of the host cannot be saved with memory."""
        for connection in {each for each in self.by_fd.values() if isinstance(each, Forwarding)}:
            self.end(connection)
        self.listener.watch(0)

    def go_on(self) -> None:
        self.listener.watch(select.EPOLLIN)
        self.listen_again()

    def let_go(self, end: PortSocket) -> None:
        self.by_fd.pop(end.fd, None)
        end.close()

    def listen_again(self) -> None:
        """Poll every dialled port again, because the link has room."""
        for connection in list(self.by_fd.values()):
            if isinstance(connection, DialledPort):
                connection.listen()


def attach(guest: Guest, folder: str, is_root: bool, signals: bool = False) -> None:
    """Add the duties of a guest whose network is the desk's own. With `signals`, also those for terminals."""
    process.signals_terminals = signals
    if not is_root:
        guest.ports = GuestPorts(guest, folder + "/gate.sock")
        return
    from hotdesk_guest.acts import SudoCalls

    try:
        posix.unlink(SUDO)
    except FileNotFoundError:
        pass
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    listener.bind(SUDO)
    posix.chmod(SUDO, 0o666)
    listener.listen(BACKLOG)
    guest.acts = SudoCalls(guest, listener.detach())
    guest.ends_with_link = True
