"""A port of the desk as an SSH channel, as opened by `ssh -L`, `-D` and `-W`."""

from __future__ import annotations

import _socket

from hotdesk.cli.ssh.channel import CONNECT_FAILED, OPEN_FAILURE, SshChannel
from hotdesk.cli.ssh.fields import encode_string, encode_uint32
from hotdesk.errors import make_printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hotdesk.cli.ssh.transport import Transport

GATE_PORT = 3128
"""Port of the gate to the door, which must not be reachable from outside the desk."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
MAX_HEAD_BYTES = 1 << 14
_END = b"\r\n\r\n"
_SWITCHED = b"HTTP/1.1 101 "
_MAX_TEXT = 300


class PortForwarding(SshChannel):
    """One connection to a port in the desk, through the desk's owner."""

    def __init__(
        self, transport: Transport, local: int, opening: tuple[int, int, int], sock: _socket.socket, request: bytes
    ) -> None:
        super().__init__(transport, local, *opening)
        sock.setblocking(False)
        self.sock: _socket.socket | None = sock
        self.out = bytearray(request)
        self.unanswered = len(request)
        """Bytes of `out` that are the request to the owner, not the client's data."""
        self.head = b""
        self.pending = b""
        """Data that arrived with the owner's reply and waits for the client."""
        self.is_joined = self.is_ended = self.is_deaf = False
        """Whether the owner has connected to the port, and whether the port sends or accepts no more."""

    def wants_input(self) -> bool:
        may_send = not self.is_joined or (not self.pending and self.measure_room() > 0)
        return self.sock is not None and not self.is_ended and may_send

    def flush(self) -> None:
        """Send what the owner accepts and admit as much; discard data for a port that accepts no more."""
        if self.sock is None:
            return
        try:
            while self.out:
                self.count_sent(len(self.out) if self.is_deaf else self.sock.send(self.out))
            if self.got_eof:
                self.sock.shutdown(_socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self.is_deaf = True
            self.count_sent(len(self.out))
            if self.is_ended:
                self.end()

    def count_sent(self, count: int) -> None:
        del self.out[:count]
        own = min(count, self.unanswered)
        self.unanswered -= own
        if count > own:
            self.admit(count - own)

    def receive(self) -> None:
        """Read once and pass the data on; close the channel if the port has ended."""
        if self.sock is None or not self.wants_input():
            if self.is_ended:
                self.end()
            return
        try:
            data = self.sock.recv(self.measure_room() if self.is_joined else MAX_HEAD_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.end()
            return
        if not self.is_joined:
            self.take_answer(data)
        elif data:
            self.send_data(data)
        else:
            self.is_ended = True
            self.send_eof()
            if self.got_eof or self.is_deaf:
                self.end()

    def take_answer(self, data: bytes) -> None:
        """Handle the owner's reply: the port's data follows it, or it is the reason of a refusal."""
        self.head += data
        if self.head.startswith(_SWITCHED) and _END in self.head:
            self.is_joined = True
            self.confirm()
            self.pending = self.head.partition(_END)[2]
            self.pump()
        elif not data or len(self.head) >= MAX_HEAD_BYTES:
            self.refuse(read_reason(self.head))

    def refuse(self, why: str) -> None:
        self.transport.send(fail_opening(self.remote, CONNECT_FAILED, why))
        self.sent_close = self.got_close = True
        self.hang_up()

    def take_data(self, data: bytes) -> None:
        if self.sock is None:
            self.admit(len(data))
            return
        self.out += data
        self.flush()

    def take_eof(self) -> None:
        if self.is_ended:
            self.end()
        elif not self.out:
            self.flush()

    def pump(self) -> None:
        while self.pending and (room := self.measure_room()):
            self.send_data(self.pending[:room])
            self.pending = self.pending[room:]

    def end(self) -> None:
        """Close both sides, because one is gone or both are done."""
        self.hang_up()
        if not self.is_joined:
            self.refuse("the process that opened the desk closed the connection")
        else:
            self.send_eof()
            self.close()

    def leave(self) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        if self.sock is not None:
            self.sock.close()
            self.sock = None


def fail_opening(remote: int, code: int, why: str) -> bytes:
    return (
        bytes((OPEN_FAILURE,))
        + encode_uint32(remote)
        + encode_uint32(code)
        + encode_string(why.encode())
        + encode_string(b"")
    )


def read_reason(head: bytes) -> str:
    """Return the owner's reason for a refused call: the `text` of its JSON."""
    import json  # rarely needed

    body = head.partition(_END)[2]
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    text = value.get("text") if isinstance(value, dict) else None
    return (
        make_printable(text[:_MAX_TEXT])
        if isinstance(text, str)
        else "the process that opened the desk closed the connection"
    )
