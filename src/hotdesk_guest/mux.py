"""Multiplex connections over one byte stream, between a microVM and the process that runs its machine emulator.

Only the VM opens streams; both sides send data, and get credit back as it is consumed. Channel 0 carries messages
between the two sides. Both treat received data as hostile: frames and the number of streams are bounded.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

import _socket
import posix
import select

from hotdesk_guest.ports import PortSocket
from hotdesk_guest.wire import FrameReader, WireError, decode, encode, encode_frame

OPEN, DATA, END, CREDIT, CLOSE, WORD = range(1, 7)
KINDS = frozenset((OPEN, DATA, END, CREDIT, CLOSE, WORD))
CHUNK = 1 << 15
WINDOW = 1 << 18
"""Bytes of a stream that one side may send before the other has consumed any."""
POD_WINDOW = 1 << 12
"""As `WINDOW`, for a stream that a pod has just opened: an agent has thousands of them, and widens those in use."""
HIGH = 1 << 20
"""Bytes waiting for the carrier above which streams are not read."""
READ = 1 << 16
MAX_STREAMS = 1024
MAX_PARTS = 4096
VM_LIMIT = 1 << 16
"""Maximum bytes of a frame from a VM."""
HOST_LIMIT = 1 << 23
"""Maximum bytes of a frame to a VM: the first message has the files that configure it."""


class MuxCarrier:
    """The byte stream that both sides share: a socket outside, a virtio port in the VM."""

    def __init__(self, poll: select.epoll, fd: int, limit: int) -> None:
        posix.set_blocking(fd, False)
        self.poll = poll
        self.fd = fd
        self.out = bytearray()
        self.reader = FrameReader(KINDS, limit)
        self.events = select.EPOLLIN
        self.allowance: int | None = None
        """Bytes that may be written until it continues; `None` if it is not on hold."""
        poll.register(fd, self.events)

    def hold(self) -> None:
        """Write what is waiting and then nothing, so that the stream stops between two frames."""
        self.allowance = len(self.out)

    def go_on(self) -> None:
        self.allowance = None
        self.flush()

    def reset(self) -> None:
        """Start afresh, because the other side is a new one that knows of nothing."""
        self.out.clear()
        self.go_on()

    def send(self, kind: int, number: int, payload: bytes = b"") -> None:
        self.out += encode_frame(kind, number, payload)
        self.flush()

    def flush(self) -> None:
        """Write as much as the stream takes; the rest waits."""
        try:
            while self.out and self.allowance != 0:
                sent = posix.write(self.fd, memoryview(self.out)[: min(READ, self.allowance or READ)])
                del self.out[:sent]
                if self.allowance is not None:
                    self.allowance -= sent
        except BlockingIOError:
            pass
        events = select.EPOLLIN | (select.EPOLLOUT if self.out and self.allowance != 0 else 0)
        if events != self.events:
            self.events = events
            self.poll.modify(self.fd, events)

    def receive(self) -> list[tuple[int, int, bytes]] | None:
        """Read once; return the complete frames, or `None` at the end of the stream."""
        try:
            data = posix.read(self.fd, READ)
        except BlockingIOError:
            return []
        return self.reader.feed(data) if data else None


class MuxStream:
    """A connection on this side, and its flow-control credit."""

    def __init__(self, number: int, end: PortSocket) -> None:
        self.number = number
        self.end = end
        self.credit = WINDOW
        """Bytes that this side may send."""
        self.window = WINDOW
        """Bytes that the other side may send before this side has consumed any."""
        self.finished = False
        """Whether the other side sends no more data."""


class Mux:
    """The connections over one carrier."""

    def __init__(
        self,
        poll: select.epoll,
        fd: int,
        limit: int,
        hear: Callable[[dict[str, Any]], None],
        connect: Callable[[str], _socket.socket | None] | None = None,
        make_carrier: Callable[[select.epoll, int, int], MuxCarrier] = MuxCarrier,
        first: int = WINDOW,
        spare: int = 0,
    ) -> None:
        self.poll = poll
        self.carrier = make_carrier(poll, fd, limit)
        self.hear = hear
        self.connect = connect
        """Connects a stream that the other side opens, by its name; `None` if the other side may not open any."""
        self.first = first
        """Bytes that the side which opens a stream may send at first; both sides must agree."""
        self.spare = spare
        """Bytes by which the windows of all streams may still grow: so much more may wait here at most."""
        self.is_full = False
        """Whether streams are not read because too much waits for the carrier."""
        self.by_number: dict[int, MuxStream] = {}
        self.by_fd: dict[int, MuxStream] = {}
        self.last = 0

    def tell(self, word: dict[str, object]) -> None:
        self.carrier.send(WORD, 0, encode(word))

    def hold(self) -> None:
        """Send what is waiting and then nothing until `go_on`; streams are read until too much waits."""
        self.carrier.hold()

    def go_on(self) -> None:
        self.carrier.go_on()
        self.listen_again()

    def reset(self) -> None:
        """Forget all streams, because the other side is a new one that knows of none."""
        for stream in list(self.by_number.values()):
            self.forget(stream)
        self.carrier.reset()

    def open(self, sock: _socket.socket, name: str) -> None:
        """Carry a connection to the destination of this name on the other side; refuse it if there are too many."""
        if len(self.by_number) >= MAX_STREAMS:
            sock.close()
            return
        self.last += 1
        self.add(self.last, sock).credit = self.first
        self.carrier.send(OPEN, self.last, name.encode())

    def add(self, number: int, sock: _socket.socket) -> MuxStream:
        stream = MuxStream(number, PortSocket(self.poll, sock))
        self.by_number[number] = self.by_fd[stream.end.fd] = stream
        self.listen(stream)
        return stream

    def handle_event(self, fd: int, event: int) -> bool:
        """Handle an event of a descriptor; return False if it is another's. Raise `EOFError` if the carrier ended."""
        if fd == self.carrier.fd:
            self.carry(event)
        elif (stream := self.by_fd.get(fd)) is not None:
            try:
                self.turn(stream, event)
            except OSError:
                self.drop(stream)
        else:
            return False
        if self.is_full and len(self.carrier.out) < HIGH:
            self.listen_again()
        return True

    def listen_again(self) -> None:
        """Read streams after the carrier was full or on hold."""
        self.is_full = False
        for stream in list(self.by_number.values()):
            self.listen(stream)

    def carry(self, event: int) -> None:
        if event & select.EPOLLOUT:
            self.carrier.flush()
        if event & ~select.EPOLLOUT:
            frames = self.carrier.receive()
            if frames is None:
                raise EOFError
            for kind, number, payload in frames:
                self.take(kind, number, payload)

    def take(self, kind: int, number: int, payload: bytes) -> None:
        if kind == WORD:
            word = decode(payload, MAX_PARTS)
            if not isinstance(word, dict):
                raise WireError("a message is not an object")
            self.hear(word)
        elif kind == OPEN:
            self.accept(number, payload)
        elif (stream := self.by_number.get(number)) is not None:
            try:
                self.deliver(stream, kind, payload)
            except OSError:
                self.drop(stream)

    def accept(self, number: int, payload: bytes) -> None:
        if self.connect is None or number in self.by_number or len(self.by_number) >= MAX_STREAMS:
            raise WireError("a stream was opened twice, or too many streams are open")
        try:
            sock = self.connect(payload[:64].decode("ascii", "replace"))
        except OSError:
            sock = None
        if sock is None:
            self.carrier.send(CLOSE, number)
        else:
            self.add(number, sock).window = self.first

    def deliver(self, stream: MuxStream, kind: int, payload: bytes) -> None:
        if kind == DATA:
            if len(stream.end.out) + len(payload) > stream.window:
                raise WireError("a stream sent more data than its flow-control credit allows")
            stream.end.out += payload
            self.write(stream)
        elif kind == END:
            stream.finished = stream.end.ending = True
            stream.end.flush()
        elif kind == CREDIT:
            stream.credit = min(WINDOW, stream.credit + int.from_bytes(payload[:4], "big"))
        elif kind == CLOSE:
            self.forget(stream)
            return
        self.settle(stream)

    def turn(self, stream: MuxStream, event: int) -> None:
        if event & select.EPOLLOUT:
            self.write(stream)
        if event & ~select.EPOLLOUT and self.is_readable(stream):
            data = stream.end.read(min(CHUNK, stream.credit))
            if data:
                stream.credit -= len(data)
                self.carrier.send(DATA, stream.number, data)
            elif data is not None:
                self.carrier.send(END, stream.number)
        self.settle(stream)

    def write(self, stream: MuxStream) -> None:
        if size := stream.end.flush():
            self.carrier.send(CREDIT, stream.number, (size + self.widen(stream)).to_bytes(4, "big"))

    def widen(self, stream: MuxStream) -> int:
        """Double the window of a stream whose data is consumed, as far as there is spare memory; return by how much."""
        more = min(stream.window, WINDOW - stream.window, self.spare)
        self.spare -= more
        stream.window += more
        return more

    def settle(self, stream: MuxStream) -> None:
        """Forget a connection that has ended on both sides; otherwise wait for its next event."""
        if stream.end.ended and stream.finished and not stream.end.out:
            self.forget(stream)
        else:
            self.listen(stream)

    def listen(self, stream: MuxStream) -> None:
        reads = select.EPOLLIN if self.is_readable(stream) else 0
        stream.end.watch(reads | (select.EPOLLOUT if stream.end.out else 0))

    def is_readable(self, stream: MuxStream) -> bool:
        """Return whether a stream is to be read. It may have become unreadable since its event was reported."""
        self.is_full = self.is_full or len(self.carrier.out) >= HIGH
        return not self.is_full and not stream.end.ended and stream.credit > 0

    def drop(self, stream: MuxStream) -> None:
        if stream.number in self.by_number:
            self.carrier.send(CLOSE, stream.number)
            self.forget(stream)

    def forget(self, stream: MuxStream) -> None:
        del self.by_number[stream.number]
        del self.by_fd[stream.end.fd]
        self.spare += max(0, stream.window - self.first)
        stream.end.close()
