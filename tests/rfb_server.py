"""Byte streams as an RFB server sends them, correct and hostile ones."""

from __future__ import annotations

import struct

SIZE = (8, 4)
VERSION = b"RFB 003.008\n"


def hello(width: int = SIZE[0], height: int = SIZE[1], name: bytes = b"desk") -> bytes:
    init = struct.pack(">HH16xI", width, height, len(name)) + name
    return VERSION + b"\x01\x01" + bytes(4) + init


def update(*rectangles: bytes) -> bytes:
    return struct.pack(">BxH", 0, len(rectangles)) + b"".join(rectangles)


def raw(x: int, y: int, width: int, height: int, pixel: bytes = b"\x01\x02\x03\x00") -> bytes:
    return struct.pack(">HHHHi", x, y, width, height, 0) + pixel * (width * height)


def head(x: int, y: int, width: int, height: int, encoding: int = 0) -> bytes:
    return struct.pack(">HHHHi", x, y, width, height, encoding)


STRANGE: dict[str, bytes] = {
    "another version": b"RFB 003.003\n",
    "no RFB at all": b"HTTP/1.1 400",
    "a password": VERSION + b"\x01\x02",
    "no security type": VERSION + b"\x00",
    "a refusal": VERSION + b"\x01\x01" + b"\0\0\0\1",
    "the largest geometry": hello(65535, 65535),
    "another geometry": hello(SIZE[0] + 1, SIZE[1]),
    "a name of 4 GiB": VERSION + b"\x01\x01" + bytes(4) + struct.pack(">HH16xI", *SIZE, 0xFFFF_FFFF),
    "a long name": hello(name=b"n" * 1025),
    "an unknown message": hello() + b"\x96",
    "a colour map": hello() + struct.pack(">BxHH", 1, 0, 1),
    "a clipboard of 4 GiB": hello() + struct.pack(">B3xI", 3, 0xFFFF_FFFF),
    "a clipboard above the limit": hello() + struct.pack(">B3xI", 3, (64 << 10) + 1),
    "endless rectangles": hello() + struct.pack(">BxH", 0, 65535),
    "a rectangle beside the frame": hello() + update(head(SIZE[0], 0, 1, 1)),
    "a rectangle wider than the frame": hello() + update(head(1, 0, SIZE[0], 1)),
    "a rectangle below the frame": hello() + update(head(0, SIZE[1] - 1, 1, 2)),
    "another encoding": hello() + update(head(0, 0, 1, 1, 7)),
    "another size": hello() + update(head(0, 0, 1, 1, -223)),
    "one update painting over and over": hello() + update(*[raw(0, 0, *SIZE)] * 3),
}
