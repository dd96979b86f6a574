"""The client side of RFB 3.8: bytes in, updates out. No I/O, and no message of a server can make it use more memory.

It accepts one security type (None), one encoding (Raw), our pixel format and geometry; anything else raises
`ProtocolError`. The caller receives into `get_space()` and reports the number of bytes with `advance()`, or calls
`feed()`; `outgoing` has the bytes to send.
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
"""Bytes of a pixel: blue, green, red and an unused one, which Pillow reads as `BGRX`."""
FORMAT = struct.pack(">B3xBBBBHHHBBB3x", 0, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
ONLY_RAW = struct.pack(">BxHi", 2, 1, 0)
MAX_NAME_BYTES = 1 << 10
_MAX_CUT_TEXT_BYTES = 64 << 10
MAX_RECTANGLES = 4096
MAX_FRAMES = 2
"""How many times an update may paint the area of the whole frame."""

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
    width: int
    height: int
    frame: bytearray = field(init=False)
    outgoing: bytearray = field(default_factory=bytearray)
    ready: bool = False
    """Whether the server's geometry was received and is correct, so that requests and input may be sent."""
    updates: list[tuple[Rectangle, ...]] = field(default_factory=list)
    """The painted rectangles of complete updates; the caller removes them."""
    course: Filling = field(init=False)
    space: memoryview = field(init=False)

    def __post_init__(self) -> None:
        self.frame = bytearray(self.width * self.height * _PIXEL)
        self.course = self.converse()
        self.space = next(self.course)

    def get_space(self) -> memoryview:
        """Return the buffer for the next bytes; it is never empty."""
        return self.space

    def advance(self, count: int) -> None:
        """Process `count` bytes that were received into `get_space()`."""
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
        """Negotiate the version, no security, and the geometry."""
        if (version := (yield from take(len(VERSION)))) != VERSION:
            raise ProtocolError(f"the screen speaks {version!r}, not RFB 3.8")
        self.outgoing += VERSION
        (count,) = yield from take(1)
        if NO_SECURITY not in (yield from take(count)):
            raise ProtocolError("the screen asks for a password, or refuses connections")
        self.outgoing.append(NO_SECURITY)
        if any((yield from take(4))):
            raise ProtocolError("the screen refuses the connection")
        self.outgoing.append(1)  # share the screen with other viewers
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
        """Refuse a rectangle that is not raw, is outside the frame, or exceeds the pixels allowed in one update."""
        if encoding != 0:
            raise ProtocolError(f"the screen sends encoding {encoding}, which was not requested")
        if rectangle.x + rectangle.width > self.width or rectangle.y + rectangle.height > self.height:
            raise ProtocolError(f"the screen sends a rectangle outside its area: {rectangle}")
        if remaining < 0:
            raise ProtocolError("the screen sends too many pixels in one update")

    def paint(self, rectangle: Rectangle) -> Filling:
        """Read a rectangle's pixels, directly into the frame if they are contiguous there."""
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
    """Request a part of the frame: its changes, or all of it."""
    return struct.pack(">BBHHHH", 3, incremental, x, y, width, height)


def encode_pointer(buttons: int, x: int, y: int) -> bytes:
    return struct.pack(">BBHH", 5, buttons, x, y)


def encode_key(keysym: int, down: bool) -> bytes:
    return struct.pack(">BBxxI", 4, down, keysym)
