"""One connected process of the keys process: buffered reads and writes."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Literal

from hotdesk.ipc.frames import FrameError, Frames, write

READ = 1 << 16
BACKLOG = 16 << 20
"""Bytes that may wait for a process that does not read; then its line is cut."""
REASON = 2000
"""Characters of an error's text: it may quote the request, and grow on the way."""


class Peer:
    """One process at the other end."""

    def __init__(self, sock: socket.socket, actor: Literal["owner", "door"]) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.actor = actor
        self.frames = Frames()
        self.out = bytearray()
        self.cut = False
        self.applied_mark = 0
        """The last change that the door at the other end says it has made."""

    def tell(self, **message: object) -> None:
        """Send a message as soon as the other end takes it; one too long to be sent ends the line."""
        try:
            self.out += write(message)
        except FrameError:
            self.cut = True
        if len(self.out) > BACKLOG:
            self.cut = True

    def flush(self) -> None:
        with suppress(BlockingIOError):
            try:
                while self.out:
                    del self.out[: self.sock.send(self.out)]
            except (BrokenPipeError, ConnectionResetError):
                self.cut = True

    def hear(self) -> list[dict[str, object]]:
        """Take what came; a line that ends or is garbled is cut."""
        try:
            data = self.sock.recv(READ)
            if data:
                return [message for message, _ in self.frames.feed(data)]
        except BlockingIOError:
            return []
        except (OSError, FrameError):
            pass
        self.cut = True
        return []
