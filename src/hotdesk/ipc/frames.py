"""Messages between our own processes over a stream: a length, then JSON. Sans I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping

LIMIT = 4 << 20
"""The longest message; whoever sends a longer one is broken."""


class FrameError(Exception):
    """The other side does not speak this language."""


class Messages:
    """Takes bytes as they come, and gives the messages that are whole."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def feed(self, data: bytes) -> list[dict[str, object]]:
        """Take bytes; give what is complete."""
        self.buffer += data
        found = []
        while len(self.buffer) >= 4:
            size = int.from_bytes(self.buffer[:4], "big")
            if size > LIMIT:
                raise FrameError(f"a message of {size} bytes")
            if len(self.buffer) < 4 + size:
                break
            found.append(parse(bytes(self.buffer[4 : 4 + size])))
            del self.buffer[: 4 + size]
        return found


def parse(data: bytes) -> dict[str, object]:
    """Read one message."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise FrameError("a message that is not JSON") from e
    if not isinstance(message, dict):
        raise FrameError("a message that is not an object")
    return message


def write(message: Mapping[str, object]) -> bytes:
    """Write one message."""
    data = json.dumps(message).encode()
    if len(data) > LIMIT:
        raise FrameError(f"a message of {len(data)} bytes")
    return len(data).to_bytes(4, "big") + data
