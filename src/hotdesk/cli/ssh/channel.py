"""One channel of an SSH connection, with flow control both ways (RFC 4254, section 5)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from hotdesk.cli.ssh.fields import FieldReader, SshError, encode_string, encode_uint32
from hotdesk.cli.ssh.transport import Transport
from hotdesk_guest import wire

OPEN, OPEN_CONFIRMATION, OPEN_FAILURE, WINDOW_ADJUST, DATA, EXTENDED_DATA, EOF, CLOSE, REQUEST, SUCCESS, FAILURE = (
    range(90, 101)
)
PROHIBITED, CONNECT_FAILED, UNKNOWN_TYPE, RESOURCE_SHORTAGE = 1, 2, 3, 4
STDERR = 1
"""The only type of extended data."""
WINDOW = wire.WINDOW
"""Bytes a client may send before more are admitted; a program's channel takes as many, so that none wait here."""
PACKET = 1 << 15
MAX_OUT_BYTES = 1 << 20
"""Maximum bytes that wait for the client before no more output is taken from a desk."""


class SshChannel(ABC):
    """One channel; subclasses define its purpose."""

    def __init__(self, transport: Transport, local: int, remote: int, window: int, packet: int) -> None:
        self.transport = transport
        self.local, self.remote = local, remote
        self.window = window
        """Bytes the client still accepts."""
        self.packet = max(1, min(packet, PACKET))
        self.admitted = WINDOW
        """Bytes the client may still send."""
        self.got_eof = self.sent_eof = self.sent_close = self.got_close = False

    # -- to the client ---------------------------------------------------------------------------------------------

    def send(self, kind: int, payload: bytes = b"") -> None:
        if not self.sent_close:
            self.transport.send(bytes((kind,)) + encode_uint32(self.remote) + payload)

    def confirm(self) -> None:
        self.send(OPEN_CONFIRMATION, encode_uint32(self.local) + encode_uint32(WINDOW) + encode_uint32(PACKET))

    def measure_room(self) -> int:
        """Return how many bytes can be sent now."""
        return min(self.window, self.packet) if len(self.transport.out) < MAX_OUT_BYTES else 0

    def send_data(self, data: bytes, *, is_error: bool = False) -> None:
        self.window -= len(data)
        if is_error:
            self.send(EXTENDED_DATA, encode_uint32(STDERR) + encode_string(data))
        else:
            self.send(DATA, encode_string(data))

    def admit(self, count: int) -> None:
        """Allow the client to send `count` more bytes."""
        self.admitted += count
        if not self.got_eof:
            self.send(WINDOW_ADJUST, encode_uint32(count))

    def send_eof(self) -> None:
        if not self.sent_eof:
            self.send(EOF)
            self.sent_eof = True

    def close(self) -> None:
        self.send(CLOSE)
        self.sent_close = True

    @property
    def is_over(self) -> bool:
        return self.sent_close and self.got_close

    # -- from the client -------------------------------------------------------------------------------------------

    def take(self, kind: int, fields: FieldReader) -> None:
        if kind == WINDOW_ADJUST:
            self.window = min(self.window + fields.read_uint32(), 0xFFFFFFFF)
        elif kind == DATA:
            data = fields.read_string()
            self.admitted -= len(data)
            if self.admitted < 0 or self.got_eof:
                raise SshError("the client sent more data than the channel window allows")
            self.take_data(data)
        elif kind == EOF:
            self.got_eof = True
            self.take_eof()
        elif kind == CLOSE:
            self.got_close = True
            self.leave()
            self.close()
        elif kind == REQUEST:
            name, wants_reply = fields.read_string(), fields.read_boolean()
            accepted = self.take_request(name, fields)
            if wants_reply:
                self.send(SUCCESS if accepted else FAILURE)

    @abstractmethod
    def take_data(self, data: bytes) -> None:
        """Handle data from the client."""

    @abstractmethod
    def take_eof(self) -> None:
        """Handle the end of the client's data."""

    def take_request(self, name: bytes, fields: FieldReader) -> bool:
        """Handle a request of the client; return whether it succeeded."""
        return False

    @abstractmethod
    def leave(self) -> None:
        """Release the channel's resources."""

    @abstractmethod
    def pump(self) -> None:
        """Send waiting data, as far as the client accepts it."""
