"""The guest's end of the link: a socket it connects and reconnects, and the data waiting to be written."""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from typing import Protocol

    class LinkSocket(Protocol):
        """The byte stream that carries a link."""

        def fileno(self) -> int: ...
        def send(self, data: memoryview, /) -> int: ...
        def recv(self, size: int, /) -> bytes: ...
        def close(self) -> None: ...


import _socket
import posix
import select

from hotdesk_guest.process import HOME
from hotdesk_guest.wire import HELLO, HOST_KINDS, HOST_LIMIT, VERSION, FrameReader, encode, encode_frame

READ = 1 << 16
HIGH = 1 << 20
"""Bytes waiting to be written above which programs and files are not read."""


class GuestLink:
    """The link in the guest's poll; one connection at a time."""

    def __init__(self, path: str, poll: select.epoll) -> None:
        self.path = path
        self.poll = poll
        self.sock: LinkSocket | None = None
        self.reader = FrameReader(HOST_KINDS, HOST_LIMIT)
        self.out = bytearray()
        self.listening = 0
        self.token = ""
        """The token that identifies the guest to its host when it reconnects."""
        self.parked = False
        """Whether channels are kept while no connection is open; frames then wait in `retained`."""
        self.leaving = False
        """Whether it disconnects once everything is written."""
        self.retained = bytearray()

    def get_fd(self) -> int:
        """Return the socket's descriptor, or -1 if there is none."""
        return self.sock.fileno() if self.sock is not None else -1

    def is_full(self) -> bool:
        return self.parked or len(self.out) >= HIGH

    def dial(self) -> bool:
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        try:
            sock.connect(self.path)
        except OSError:
            sock.close()
            return False
        sock.setblocking(False)
        self.greet(sock)
        return True

    def greet(self, sock: LinkSocket) -> None:
        self.sock = sock
        self.reader = FrameReader(HOST_KINDS, HOST_LIMIT)
        self.out = bytearray()
        self.listening = select.EPOLLIN
        self.poll.register(sock.fileno(), select.EPOLLIN)
        hello = {"version": VERSION, "pid": posix.getpid(), "home": HOME}
        if self.token:
            hello["token"] = self.token
        self.out += encode_frame(HELLO, 0, encode(hello))
        self.flush()

    def hang_up(self) -> None:
        if self.sock is not None:
            self.poll.unregister(self.sock.fileno())
            self.sock.close()
            self.sock = None

    def send(self, kind: int, channel: int, payload: bytes = b"") -> None:
        if self.parked:
            self.retained += encode_frame(kind, channel, payload)
            return
        self.out += encode_frame(kind, channel, payload)
        if len(self.out) < READ or not self.listening & select.EPOLLOUT:
            self.flush()

    def flush(self) -> None:
        """Write as much as the socket takes; the rest waits until it is writable."""
        if self.sock is None:
            self.out = bytearray()
            return
        try:
            while self.out:
                sent = self.sock.send(memoryview(self.out)[:READ])
                del self.out[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.out = bytearray()
        events = select.EPOLLIN | (select.EPOLLOUT if self.out else 0)
        if events != self.listening:
            self.listening = events
            self.poll.modify(self.sock.fileno(), events)
        if self.leaving and not self.out:
            self.leaving = False
            self.hang_up()

    def receive(self) -> list[tuple[int, int, bytes]] | None:
        """Return the received frames, or `None` if the host disconnected."""
        if self.sock is None:
            return []
        try:
            data = self.sock.recv(READ)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return self.reader.feed(data) if data else None


class VirtioPort:
    """A virtio port of a virtual machine, with the interface of a link's socket."""

    def __init__(self, fd: int) -> None:
        posix.set_blocking(fd, False)
        self.fd = fd

    def fileno(self) -> int:
        return self.fd

    def send(self, data: memoryview) -> int:
        return posix.write(self.fd, data)

    def recv(self, size: int) -> bytes:
        """Read available data. An empty read means that the other end is not open now, not that it has ended."""
        data = posix.read(self.fd, size)
        if not data:
            raise BlockingIOError
        return data

    def close(self) -> None:
        """Leave the port open: it is the only way to the host."""


class PortLink(GuestLink):
    """The link of a guest in a virtual machine, over a port that is open from the start.

    While it is parked nothing is written until the host calls, because a copy's host would not get what was written
    before the machine was saved.
    """

    def __init__(self, port: int, poll: select.epoll) -> None:
        super().__init__("", poll)
        self.port = port

    def dial(self) -> bool:
        if self.parked and not self.is_called():
            return False
        self.greet(VirtioPort(self.port))
        return True

    def is_called(self) -> bool:
        """Return whether the host has written to the port; only its call can be there while it is parked."""
        try:
            return bool(posix.read(self.port, READ))
        except BlockingIOError:
            return False
