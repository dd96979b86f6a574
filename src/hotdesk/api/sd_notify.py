"""Tell the service manager, with `sd_notify`, that the server is ready and that it stops."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


class Notice:
    """Messages to the service manager that started the server, if any; create it while sockets may still be opened."""

    def __init__(self) -> None:
        self.line: socket.socket | None = None
        path = os.environ.pop("NOTIFY_SOCKET", "")  # not for the processes a server starts
        if path.startswith(("/", "@")):
            line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            with suppress(OSError):  # a manager that does not listen needs no message
                line.connect(path.replace("@", "\0", 1) if path[0] == "@" else path)
                self.line = line

    def tell(self, word: str) -> None:
        """Send one message: `READY=1`, `STOPPING=1`."""
        if self.line is not None:
            with suppress(OSError):
                self.line.send(word.encode())
