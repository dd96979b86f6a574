"""Cuts connections whose clients accept too little of what waits for them."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

WRITE_STALL_S = 60.0
WRITE_PROGRESS = 4 << 10
"""Seconds, and the bytes of what waits that a client must accept in that time."""
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of a socket whose closing resets the connection."""
_BYTES_ACKED = slice(120, 128)
"""Where Linux's `struct tcp_info` has `tcpi_bytes_acked`."""


class WriteWatch:
    """Watches one connection, from `start` to `stop`; several calls of `start` begin the time again."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, seconds: float, cut: Callable[[], None]
    ) -> None:
        self.transport, self.loop, self.seconds, self.cut = transport, loop, seconds, cut
        self.timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self.stop()
        waiting = self.transport.get_write_buffer_size()
        self.timer = self.loop.call_later(self.seconds, self.check, waiting, self.count_accepted())

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def check(self, waiting: int, accepted: int) -> None:
        """Cut the connection if its client accepted too little of the `waiting` bytes since `accepted` bytes."""
        is_waiting = self.transport.get_write_buffer_size() > 0
        if is_waiting and self.count_accepted() - accepted < min(waiting, WRITE_PROGRESS):
            self.stop()
            self.cut()
        else:
            self.start()

    def count_accepted(self) -> int:
        """Return how many bytes the client's kernel has acknowledged: buffers here do not show it with TLS."""
        sock = self.transport.get_extra_info("socket")
        try:
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_ACKED.stop)
        except (AttributeError, OSError):  # closed already, or no TCP
            return 0
        return int.from_bytes(info[_BYTES_ACKED], sys.byteorder)


def reset_connection(transport: asyncio.Transport) -> None:
    """Cut a connection with a TCP reset, which marks a stream as incomplete.

    It does not fail if the client has already disconnected.
    """
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with suppress(OSError):  # closed already
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    transport.abort()
