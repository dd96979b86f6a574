"""A borrowed link to a desk's guest with many programs at once, without asyncio. Frames come from a desk: hostile.

It does what `desk/link/link.py` does. The owner that lends the link has already checked the flow-control windows, but
they are checked again here.
"""

from __future__ import annotations

import _socket

from hotdesk.cli.quick.link_socket import read_some, send_some
from hotdesk.errors import DeskGone, LinkError
from hotdesk_guest import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Follower(Protocol):
        """Receives the output and the end of a program."""

        def take_output(self, stream: int, data: bytes, cost: int) -> None:
            """Receive output of the program; `cost` must be returned to the window once it was passed on."""

        def take_room(self, count: int) -> None:
            """Receive the number of input bytes that the program consumed."""

        def take_end(self, code: int, text: str) -> None:
            """Receive the exit code; `text` is the reason if the program could not start."""


_TEXT_LIMIT = 500
GONE = "the desk closed the connection: it was burnt or stopped, or its first process ended"


class ProgramChannel:
    """One program at the other end of a link."""

    def __init__(self, link: DeskLink, number: int, follower: Follower) -> None:
        self.link = link
        self.number = number
        self.follower = follower
        self.window = self.credit = wire.WINDOW
        """Bytes the guest may still send, and bytes that may still be sent to it."""
        self.eaten = 0
        """Bytes that were passed on but not yet returned to the window."""
        self.is_over = self.is_started = False

    def send(self, data: bytes) -> None:
        """Send input to the program; the caller must not exceed what `take_room` allowed."""
        if self.is_over:
            return
        self.credit -= len(data)
        for at in range(0, len(data), wire.CHUNK):
            self.link.put(wire.DATA, self.number, b"\0" + data[at : at + wire.CHUNK])

    def end(self) -> None:
        if not self.is_over:
            self.link.put(wire.END, self.number)

    def order(self, body: dict[str, object]) -> None:
        if not self.is_over:
            self.link.put(wire.SIGNAL, self.number, wire.encode(body))

    def give_back(self, cost: int) -> None:
        self.eaten += cost
        if self.eaten >= wire.WINDOW // 4 and not self.is_over:
            granted, self.eaten = self.eaten, 0
            self.window += granted
            self.link.put(wire.CREDIT, self.number, granted.to_bytes(4, "big"))

    def drop(self) -> None:
        """Stop following the program, which continues."""
        self.link.channels.pop(self.number, None)
        if not self.is_over:
            self.is_over = True
            self.link.put(wire.DROP, self.number)

    def take(self, kind: int, payload: bytes) -> None:
        if kind in (wire.DATA, wire.EVENT):
            cost = wire.compute_cost(payload)
            self.window -= cost
            if self.window < 0 or len(payload) < 2:
                raise wire.WireError("unexpected empty frame, or more data than allowed")
            if kind == wire.EVENT:
                self.take_start(wire.decode(payload, wire.MAX_PARTS))
                self.give_back(cost)
            elif payload[0] in (wire.STDOUT, wire.STDERR) and self.is_started:
                self.follower.take_output(payload[0], payload[1:], cost)
            else:
                raise wire.WireError("output on an unknown stream, or before the program started")
        elif kind == wire.CREDIT:
            count = int.from_bytes(payload, "big")
            self.credit += count
            if len(payload) != 4 or self.credit > wire.WINDOW:
                raise wire.WireError("more flow-control credit than allowed")
            self.follower.take_room(count)
        elif kind == wire.REPLY:
            self.is_over = True
            self.link.channels.pop(self.number, None)
            self.follower.take_end(*_read_end(wire.decode(payload, wire.MAX_PARTS)))

    def take_start(self, value: object) -> None:
        if self.is_started or not isinstance(value, dict) or type(value.get("pid")) is not int:
            raise wire.WireError(f"unexpected start message: {str(value)[:_TEXT_LIMIT]}")
        self.is_started = True


class DeskLink:
    """One connection to one guest, through its owner."""

    def __init__(self, sock: _socket.socket, rest: bytes) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.reader = wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT)
        self.reader.buffer += rest
        self.channels: dict[int, ProgramChannel] = {}
        self.last = 0
        self.greeted = False
        self.out = bytearray()

    def start(self, follower: Follower, ask: dict[str, object]) -> ProgramChannel:
        try:
            payload = wire.encode({"op": "exec", "stdin": True, "tell": True, **ask})
        except wire.WireError as e:
            raise LinkError(f"the command cannot be sent to the desk: {e}") from e
        if len(payload) > wire.HOST_LIMIT:
            raise LinkError(
                f"the command has {len(payload)} bytes, more than {wire.HOST_LIMIT}; put it into a file in the desk"
            )
        self.last += 1
        channel = self.channels[self.last] = ProgramChannel(self, self.last, follower)
        self.put(wire.OPEN, self.last, payload)
        return channel

    def put(self, kind: int, number: int, payload: bytes = b"") -> None:
        self.out += wire.encode_frame(kind, number, payload)

    def flush(self) -> None:
        send_some(self.sock, self.out)

    def receive(self) -> None:
        """Read once, and handle the complete frames."""
        data = read_some(self.sock)
        if data is None:
            return
        if not data:
            raise DeskGone(GONE)
        self.reader.buffer += data
        self.take_frames()

    def take_frames(self) -> None:
        """Handle the complete frames; a guest that breaks the protocol ends the link."""
        try:
            while (frame := self.reader.read_next()) is not None:
                self.take(*frame)
        except wire.WireError as e:
            raise LinkError(
                f"hotdesk's process in the desk broke the protocol: {e}; burn the desk and open another"
            ) from None

    def take(self, kind: int, number: int, payload: bytes) -> None:
        if kind == wire.HELLO:
            body = wire.decode(payload, wire.MAX_PARTS)
            if self.greeted or not isinstance(body, dict) or body.get("version") != wire.VERSION:
                raise LinkError(
                    "hotdesk's process in the desk uses another protocol version; burn the desk and open another"
                )
            self.greeted = True
        elif (channel := self.channels.get(number)) is not None:
            channel.take(kind, payload)
        elif kind != wire.PONG and not 0 < number <= self.last:
            raise wire.WireError("a frame for a channel that is not open")


def _read_end(body: object) -> tuple[int, str]:
    if not isinstance(body, dict):
        raise wire.WireError("its reply is not an object")
    if "error" in body:
        return 126, str(body.get("text"))[:_TEXT_LIMIT]
    code, text = body.get("code"), body.get("text", "")
    if type(code) is not int or not 0 <= code <= 255 or not isinstance(text, str):
        raise wire.WireError(f"malformed exit status: {str(body)[:_TEXT_LIMIT]}")
    return code, text[:_TEXT_LIMIT]
