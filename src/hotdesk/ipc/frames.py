"""Frames between hotdesk's own processes: two lengths, JSON, and a block of bytes. Sans I/O."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping

HEAD = struct.Struct(">II")
MAX_MESSAGE_BYTES = 4 << 20
"""Maximum bytes of the JSON; a peer that sends more is broken."""
MAX_BLOB_BYTES = 48 << 20
"""Maximum bytes of the block beside the JSON."""


class FrameError(Exception):
    """The peer broke the protocol."""


class Frames:
    """Buffers received bytes, and returns the complete messages, each with its block of bytes."""

    def __init__(self, max_blob_bytes: int = 0, max_items: float = math.inf) -> None:
        self.buffer = bytearray()
        self.max_blob_bytes = max_blob_bytes
        self.max_items = max_items
        """Maximum number of lists, objects and members of one message: parsing more would block other peers."""

    def feed(self, data: bytes) -> list[tuple[dict[str, object], bytes]]:
        """Add bytes; return the messages that are complete."""
        self.buffer += data
        found = []
        while len(self.buffer) >= HEAD.size:
            size, beside = HEAD.unpack_from(self.buffer)
            if size > MAX_MESSAGE_BYTES or beside > self.max_blob_bytes:
                raise FrameError(
                    f"a message has {size} bytes of JSON and {beside} of data; "
                    f"at most {MAX_MESSAGE_BYTES} and {self.max_blob_bytes} are allowed"
                )
            body = HEAD.size + size
            if len(self.buffer) < body + beside:
                break
            with memoryview(self.buffer) as view:
                found.append((self.parse(bytes(view[HEAD.size : body])), bytes(view[body : body + beside])))
            del self.buffer[: body + beside]
        return found

    def parse(self, data: bytes) -> dict[str, object]:
        if data.count(b",") + data.count(b"[") + data.count(b"{") > self.max_items:
            raise FrameError(f"a message has more than {self.max_items} items, which is the limit")
        try:
            message = json.loads(data)
        except (ValueError, RecursionError) as e:
            raise FrameError("a message is not JSON") from e
        if not isinstance(message, dict):
            raise FrameError("a message is not a JSON object")
        return message


def write(message: Mapping[str, object], blob: bytes = b"") -> bytes:
    data = json.dumps(message).encode()
    if len(data) > MAX_MESSAGE_BYTES or len(blob) > MAX_BLOB_BYTES:
        raise FrameError(
            f"a message has {len(data)} bytes of JSON and {len(blob)} of data; "
            f"at most {MAX_MESSAGE_BYTES} and {MAX_BLOB_BYTES} are allowed"
        )
    return b"".join((HEAD.pack(len(data), len(blob)), data, blob))
