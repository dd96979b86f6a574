"""A multiplexer's carrier inside TLS: a connected socket, and a TLS object that works on buffers."""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from typing import Protocol

    class TlsChannel(Protocol):
        """A connection whose handshake is done."""

        sock: socket.socket
        tls: ssl.SSLObject
        incoming: ssl.MemoryBIO
        outgoing: ssl.MemoryBIO


import select
import socket
import ssl

from hotdesk_guest.mux import READ, MuxCarrier
from hotdesk_guest.wire import WireError

MAX_SEALED = 1 << 17
"""Bytes that are encrypted in advance; the rest waits as plain text, where the multiplexer counts it."""


class TlsCarrier(MuxCarrier):
    """The encrypted byte stream between a desk's pod and its agent."""

    def __init__(self, channel: TlsChannel, poll: select.epoll, fd: int, limit: int) -> None:
        super().__init__(poll, fd, limit)
        self.channel = channel
        self.sealed = bytearray()

    def flush(self) -> None:
        """Encrypt and send as much as the socket takes; raise `OSError` if the connection failed."""
        try:
            while True:
                while self.out and len(self.sealed) < MAX_SEALED:
                    written = self.channel.tls.write(memoryview(self.out)[:READ])
                    del self.out[:written]
                    self.sealed += self.channel.outgoing.read()
                self.sealed += self.channel.outgoing.read()
                if not self.sealed:
                    break
                del self.sealed[: self.channel.sock.send(memoryview(self.sealed)[:READ])]
        except BlockingIOError:
            pass
        self.watch(select.EPOLLIN | (select.EPOLLOUT if self.sealed or self.out else 0))

    def watch(self, events: int) -> None:
        if events != self.events:
            self.events = events
            self.poll.modify(self.fd, events)

    def receive(self) -> list[tuple[int, int, bytes]] | None:
        """Read once; return the complete frames, or `None` at the end. Raise `WireError` for broken encryption."""
        try:
            data = self.channel.sock.recv(READ)
        except BlockingIOError:
            return []
        if not data:
            return None
        self.channel.incoming.write(data)
        return self.unseal()

    def unseal(self) -> list[tuple[int, int, bytes]] | None:
        """Return the frames in what was received already: some may have come with the handshake's last message."""
        frames: list[tuple[int, int, bytes]] = []
        while True:
            try:
                plain = self.channel.tls.read(READ)
            except ssl.SSLWantReadError:
                return frames
            except ssl.SSLError as e:
                raise WireError("broken encryption: %s" % e) from None
            if not plain:
                return None
            frames += self.reader.feed(plain)
