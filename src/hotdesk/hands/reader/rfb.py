"""RFB 3.8 as a client speaks it: bytes in, updates out. No I/O, and nothing a server says makes it hold more.

One security type (None), one encoding (Raw), a pixel format and a geometry of our own: whatever else comes is
`ProtocolError`. The caller fills `get_space()` with what it receives and says how much came by `advance()`, or feeds
it; `outgoing` is what it has to send.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from dataclasses import field
from typing import TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.hands.reader import ProtocolError

VERSION = b"RFB 003.008\n"
NO_SECURITY = 1
_PIXEL = 4
"""Bytes of a pixel: blue, green, red and one that means nothing, which Pillow reads as `BGRX`."""
FORMAT = struct.pack(">B3xBBBBHHHBBB3x", 0, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
ONLY_RAW = struct.pack(">BxHi", 2, 1, 0)
MAX_NAME_BYTES = 1 << 10
_MAX_CUT_TEXT_BYTES = 64 << 10
MAX_RECTANGLES = 4096
MAX_FRAMES = 2
"""How often an update may paint the whole frame over."""

Filling: TypeAlias = Generator[memoryview, None, None]
Taking: TypeAlias = Generator[memoryview, None, bytes]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A part of the frame."""

    x: int
    y: int
    width: int
    height: int

    @property
    def area(self) -> int:
        return self.width * self.height

    def holds(self, x: int, y: int) -> bool:
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


@dataclass(slots=True)
class Conversation:
    """One connection's worth of RFB."""

    width: int
    height: int
    frame: bytearray = field(init=False)
    outgoing: bytearray = field(default_factory=bytearray)
    ready: bool = False
    """The server has told its geometry, and it is ours: requests and input may be sent."""
    updates: list[tuple[Rectangle, ...]] = field(default_factory=list)
    """What whole updates have painted, for the caller to take away."""
    course: Filling = field(init=False)
    space: memoryview = field(init=False)

    def __post_init__(self) -> None:
        self.frame = bytearray(self.width * self.height * _PIXEL)
        self.course = self.converse()
        self.space = next(self.course)

    def get_space(self) -> memoryview:
        """Return where the next bytes belong; never empty."""
        return self.space

    def advance(self, count: int) -> None:
        """Go on with `count` more bytes, which lie in `get_space()` now."""
        self.space = self.space[count:]
        while not self.space:
            self.space = next(self.course)

    def feed(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            count = min(len(rest), len(self.space))
            self.space[:count] = rest[:count]
            rest = rest[count:]
            self.advance(count)

    def converse(self) -> Filling:
        yield from self.shake_hands()
        self.outgoing += FORMAT + ONLY_RAW
        self.ready = True
        while True:
            match (yield from take(1))[0]:
                case 0:
                    yield from self.update()
                case 2:
                    pass  # the bell
                case 3:
                    (length,) = struct.unpack(">3xI", (yield from take(7)))
                    yield from drop(length, _MAX_CUT_TEXT_BYTES, "a clipboard")
                case kind:
                    raise ProtocolError(f"the screen sends an unexpected message of type {kind}")

    def shake_hands(self) -> Filling:
        """Agree on the version, on no security, and on the geometry."""
        if (version := (yield from take(len(VERSION)))) != VERSION:
            raise ProtocolError(f"the screen speaks {version!r}, not RFB 3.8")
        self.outgoing += VERSION
        (count,) = yield from take(1)
        if NO_SECURITY not in (yield from take(count)):
            raise ProtocolError("the screen asks for a password")
        self.outgoing.append(NO_SECURITY)
        if any((yield from take(4))):
            raise ProtocolError("the screen refuses the connection")
        self.outgoing.append(1)  # others may look on
        width, height, length = struct.unpack(">HH16xI", (yield from take(24)))
        if (width, height) != (self.width, self.height):
            raise ProtocolError(f"the screen is {width} by {height} pixels, not {self.width} by {self.height}")
        yield from drop(length, MAX_NAME_BYTES, "a name")

    def update(self) -> Filling:
        (count,) = struct.unpack(">xH", (yield from take(3)))
        if count > MAX_RECTANGLES:
            raise ProtocolError(f"the screen sends an update of {count} rectangles; the limit is {MAX_RECTANGLES}")
        painted: list[Rectangle] = []
        remaining = MAX_FRAMES * self.width * self.height
        for _ in range(count):
            *where, encoding = struct.unpack(">HHHHi", (yield from take(12)))
            rectangle = Rectangle(*where)
            remaining -= rectangle.area
            self.check(rectangle, encoding, remaining)
            yield from self.paint(rectangle)
            painted.append(rectangle)
        self.updates.append(tuple(painted))

    def check(self, rectangle: Rectangle, encoding: int, remaining: int) -> None:
        """Refuse a rectangle that is not raw, lies outside, or is more than one update may bring."""
        if encoding != 0:
            raise ProtocolError(f"the screen sends encoding {encoding}, which was not requested")
        if rectangle.x + rectangle.width > self.width or rectangle.y + rectangle.height > self.height:
            raise ProtocolError(f"the screen sends a rectangle outside its area: {rectangle}")
        if remaining < 0:
            raise ProtocolError("the screen sends too many pixels in one update")

    def paint(self, rectangle: Rectangle) -> Filling:
        """Take a rectangle's pixels: straight into the frame where its lines follow each other there."""
        line, frame = rectangle.width * _PIXEL, memoryview(self.frame)
        start, step = (rectangle.y * self.width + rectangle.x) * _PIXEL, self.width * _PIXEL
        if not rectangle.area:
            return
        if line == step or rectangle.height == 1:
            yield frame[start : start + line * rectangle.height]
            return
        pixels = memoryview(bytearray(line * rectangle.height))
        yield pixels
        for number in range(rectangle.height):
            frame[start : start + line] = pixels[number * line : (number + 1) * line]
            start += step


def take(count: int) -> Taking:
    buffer = bytearray(count)
    yield memoryview(buffer)
    return bytes(buffer)


def drop(length: int, most: int, what: str) -> Filling:
    if length > most:
        raise ProtocolError(f"the screen sends {what} of {length} bytes; the limit is {most}")
    yield memoryview(bytearray(length))


def encode_request(incremental: bool, x: int, y: int, width: int, height: int) -> bytes:
    """Ask for a part of the frame: what has changed of it, or all of it."""
    return struct.pack(">BBHHHH", 3, incremental, x, y, width, height)


def encode_pointer(buttons: int, x: int, y: int) -> bytes:
    return struct.pack(">BBHH", 5, buttons, x, y)


def encode_key(keysym: int, down: bool) -> bytes:
    return struct.pack(">BBxxI", 4, down, keysym)
