"""TLS for code that uses plain sockets: one end of a socketpair is the caller's, the other is encrypted and forwarded.

The control protocol is spoken over TLS exactly as over a unix socket. Data is sent in records of at most 64 KiB, each
preceded by its length, because OpenSSL cannot close one direction of a connection while there is data to read. An empty
record ends one direction, the end of the TCP connection both; an end without that record is a cut connection.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

import anyio
import anyio.lowlevel

from hotdesk.desk.link.lend import is_gone
from hotdesk.linux.sockets import receive, send

_HANDSHAKE_SECONDS = 10.0
_LOOK_INTERVAL_S = 1.0
_READ = 1 << 16
_LENGTH = 4
"""Bytes of a record's length field."""


class TlsTunnel:
    """One TLS connection over one TCP connection."""

    def __init__(self, raw: socket.socket, context: ssl.SSLContext, *, server_side: bool) -> None:
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.raw = raw
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=server_side)
        self.sending = anyio.Lock(fast_acquire=True)

    async def shake_hands(self) -> None:
        """Do the handshake; raise `OSError` or `ssl.SSLError` if the peer does not satisfy the context."""
        with anyio.fail_after(_HANDSHAKE_SECONDS):
            while True:
                try:
                    self.tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await self.flush()
                    await self.fill()
                except ssl.SSLError:
                    with suppress(OSError):
                        await self.flush()  # send the alert, so that the peer learns the reason
                    raise
            await self.flush()

    async def fill(self) -> bool:
        """Feed data from TCP to TLS; return False at the end of the connection."""
        if data := await receive(self.raw, _READ):
            self.incoming.write(data)
            return True
        self.incoming.write_eof()
        return False

    async def flush(self) -> None:
        async with self.sending:
            while data := self.outgoing.read():
                await send(self.raw, data)

    async def run(self, inner: socket.socket) -> None:
        """Forward bytes both ways between TLS and a plain socket until both have ended or one is gone; close both."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._seal, inner, tasks.cancel_scope)
                await self._unseal(inner)
                tasks.cancel_scope.cancel()
        except* OSError:
            pass  # the peer is gone, or the connection was cut or tampered with
        finally:
            for sock in (inner, self.raw):
                anyio.notify_closing(sock)
                sock.close()

    async def _seal(self, inner: socket.socket, scope: anyio.CancelScope) -> None:
        is_over = False
        while not is_over:
            data = await receive(inner, _READ)
            is_over = not data
            self.tls.write(len(data).to_bytes(_LENGTH, "big") + data)
            await self.flush()
            await anyio.lowlevel.checkpoint()
        while not is_gone(inner):  # noqa: ASYNC110 - it still reads, and there is no event for its end
            await anyio.sleep(_LOOK_INTERVAL_S)
        scope.cancel()

    async def _unseal(self, inner: socket.socket) -> None:
        """Forward received data to the plain socket until the TCP connection ends."""
        buffer, is_over = b"", False
        while True:
            while data := self._read():  # some data may have arrived with the end of the handshake
                buffer += data
                while (record := _read_record(buffer)) is not None:
                    if is_over:
                        raise ConnectionError("the peer sent data after its last record")
                    buffer = buffer[_LENGTH + len(record) :]
                    is_over = not record
                    if record:
                        await send(inner, record)
                    else:
                        inner.shutdown(socket.SHUT_WR)
                await anyio.lowlevel.checkpoint()
            if self.outgoing.pending and not self.sending.statistics().locked:  # its holder sends all that is pending
                await self.flush()
            if not await self.fill():
                return

    def _read(self) -> bytes:
        """Return decrypted data; empty if TLS needs more data first, or was closed."""
        try:
            return self.tls.read(_READ)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            return b""


def _read_record(buffer: bytes) -> bytes | None:
    """Return the first complete record, or `None` if more data is needed; raise `ConnectionError` if it is too long."""
    length = int.from_bytes(buffer[:_LENGTH], "big")
    if length > _READ:
        raise ConnectionError(f"the peer sent a record of {length} bytes; the limit is {_READ}")
    return buffer[_LENGTH : _LENGTH + length] if len(buffer) >= _LENGTH + length else None
