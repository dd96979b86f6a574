"""One connected process of the keys process: buffered reads and writes."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Literal

from hotdesk.ipc.frames import FrameError, Frames, write

READ = 1 << 16
BACKLOG = 16 << 20
"""Maximum bytes that wait for a process that does not read. Beyond that its connection is cut."""
REASON = 2000
"""Maximum characters of an error's text, which may quote the request."""


class Peer:
    """The process at the other end of one connection."""

    def __init__(self, sock: socket.socket, actor: Literal["owner", "door"]) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.actor = actor
        self.frames = Frames()
        self.out = bytearray()
        self.cut = False
        self.applied_mark = 0
        """The last change that the connected door has confirmed."""

    def tell(self, **message: object) -> None:
        """Queue a message. One that is too long, or a full queue, cuts the connection."""
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
        """Return the messages that have arrived; cut the connection if it has ended or is garbled."""
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
