"""What an owner and its reader say to each other: lengths, JSON, and bytes beside it. Sans I/O."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

HEAD = struct.Struct(">II")
LONGEST = 4 << 20
"""Bytes of a message's JSON."""
MOST_PIECES = 500_000
"""Lists, objects and members of it: what reading costs those who wait meanwhile."""
LARGEST = 48 << 20
"""Bytes beside it."""


class ReaderProtocolError(Exception):
    """The other side does not speak this language."""


class Frames:
    """Takes bytes as they come, and gives the messages that are whole, each with what came beside it."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[dict[str, object], bytes]]:
        """Take bytes; give what is complete."""
        self.buffer += data
        found = []
        while len(self.buffer) >= HEAD.size:
            length, beside = HEAD.unpack_from(self.buffer)
            if length > LONGEST or beside > LARGEST:
                raise ReaderProtocolError(f"a message of {length} and {beside} bytes")
            end = HEAD.size + length + beside
            if len(self.buffer) < end:
                break
            with memoryview(self.buffer) as view:
                body = HEAD.size + length
                found.append((parse(bytes(view[HEAD.size : body])), bytes(view[body:end])))
            del self.buffer[:end]
        return found


def parse(data: bytes) -> dict[str, object]:
    """Read a message's JSON."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MOST_PIECES:
        raise ReaderProtocolError(f"a message of more than {MOST_PIECES} pieces")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise ReaderProtocolError("a message that is not JSON") from e
    if not isinstance(message, dict):
        raise ReaderProtocolError("a message that is not an object")
    return message


def write(message: Mapping[str, object], blob: bytes = b"") -> bytes:
    """Write one message."""
    data = json.dumps(message).encode()
    if len(data) > LONGEST or len(blob) > LARGEST:
        raise ReaderProtocolError(f"a message of {len(data)} and {len(blob)} bytes")
    return b"".join((HEAD.pack(len(data), len(blob)), data, blob))
