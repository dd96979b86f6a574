"""A relay between a person's viewer and a desk's screen: it parses both sides and passes on only what it knows.

Neither side's greeting reaches the other: the relay acts as the server towards the viewer, and as the viewer towards
the desk. It has no I/O: bytes are fed in, and output waits in `out` for the other side, or in `back` for the sender.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import field
from enum import IntEnum
from struct import Struct, pack
from typing import TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.hands.reader import ProtocolError

WIDTH, HEIGHT = 1280, 800
VERSION = b"RFB 003.008\n"
NO_SECURITY = 1
NAME = b"desk"
"""The desk's name for every viewer: the name that the desk sends is not passed on."""
PIXELS = pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
"""32 bits, true colour, little-endian."""
SHIFTS = {0, 8, 16, 24}

RAW, COPY, TIGHT, ZRLE = 0, 1, 7, 16
PASSED = (TIGHT, ZRLE, COPY, RAW)
"""Encodings a desk may use for pixels, the best first. Without those of cursor, clipboard and resizing."""
_LIGHT = -256 + 1
"""Requests little compression: between two processes of one machine, bytes are cheap."""
COLOUR = 3
"""Bytes of a colour in a Tight rectangle, with our pixel format."""
FILL, BASIC, FILTERED = 8, 7, 4
"""Compression types of a Tight rectangle: one colour, the highest for pixels, and the bit that announces a filter."""
PALETTE, GRADIENT = 1, 2
_UNPACKED = 12
"""Bytes below which the pixels of a Tight rectangle are not compressed."""
_MAX_ENCODINGS = 256
MAX_RECTANGLES = 8192
"""Rectangles in one update; a normal X server sends a few."""
MAX_TEXT_BYTES = 1 << 20
"""Bytes of a clipboard text or a name, neither of which is passed on."""
MAX_PRESSED_KEYS = 32
"""Keys held down at once."""
MAX_PLACES = 200
"""Clicks whose positions are stored."""
_RECTANGLE = Struct(">HHHHi")
FORMAT = Struct(">BBBBHHHBBB3x")

Steps: TypeAlias = Generator[int, bytes, None]


class ServerMessage(IntEnum):
    """A message from a desk."""

    UPDATE = 0
    BELL = 2
    CUT_TEXT = 3


class Person(IntEnum):
    """A message from a viewer."""

    PIXELS = 0
    ENCODINGS = 2
    ASK = 3
    KEY = 4
    POINTER = 5
    PASTE = 6


class Side(ABC):
    """The bytes of one side, parsed step by step: `read` yields how many bytes it needs next, and receives them."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.passing = 0
        """Bytes to come that are passed on unread."""
        self.dropping = 0
        """Bytes to come that are dropped."""
        self.out = bytearray()
        """Bytes for the other side."""
        self.back = bytearray()
        """Bytes for this side."""
        self.ready = False
        """Whether the greeting is complete."""
        self.steps = self.read()
        self.need = next(self.steps)

    @abstractmethod
    def read(self) -> Steps:
        """Yield the number of bytes that are needed next, and receive them."""

    def feed(self, data: bytes) -> None:
        """Feed bytes; raise `ProtocolError` if they are invalid."""
        self.buffer += data
        while self.skip():
            if len(self.buffer) < self.need:
                return
            piece = bytes(self.buffer[: self.need])
            del self.buffer[: self.need]
            self.need = self.steps.send(piece)

    def skip(self) -> bool:
        """Pass on or drop bytes that need no parsing; return whether all of them were available."""
        dropped = min(self.dropping, len(self.buffer))
        self.dropping -= dropped
        passed = min(self.passing, len(self.buffer) - dropped)
        self.passing -= passed
        self.out += self.buffer[dropped : dropped + passed]
        del self.buffer[: dropped + passed]
        return not self.dropping and not self.passing

    def take(self) -> bytes:
        data = bytes(self.out)
        self.out.clear()
        return data

    def take_back(self) -> bytes:
        data = bytes(self.back)
        self.back.clear()
        return data

    def drop_text(self, length: int) -> None:
        """Drop a text; a negative length means the extended clipboard."""
        if abs(length) > MAX_TEXT_BYTES:
            raise ProtocolError(f"a clipboard text has {abs(length)} bytes; the limit is {MAX_TEXT_BYTES}")
        self.dropping = abs(length)


@dataclass(slots=True)
class ViewerInput:
    """A person's input: how often and where, never which characters."""

    clicks: int = 0
    keys: int = 0
    places: list[tuple[int, int, int]] = field(default_factory=list)
    """X, Y and button of the first clicks."""

    def press(self, x: int, y: int, button: int) -> None:
        """Count a button press; a turn of the mouse wheel is one as well."""
        self.clicks += 1
        if len(self.places) < MAX_PLACES:
            self.places.append((x, y, button))


class DeskSide(Side):
    def __init__(self) -> None:
        self.encodings = {RAW}
        """Encodings that a rectangle may have: Raw, and those that were requested for the viewer."""
        super().__init__()

    def read(self) -> Steps:
        yield from self.greet()
        while True:
            match (yield 1)[0]:
                case ServerMessage.UPDATE:
                    yield from self.read_update()
                case ServerMessage.BELL:
                    continue
                case ServerMessage.CUT_TEXT:
                    self.drop_text(int.from_bytes((yield 7)[3:], "big", signed=True))
                case kind:
                    raise ProtocolError(f"the screen sent an unexpected message of type {kind}")

    def greet(self) -> Steps:
        """Greet the screen; it must have no password, and the expected size."""
        if (yield 12) != VERSION:
            raise ProtocolError("the screen speaks another RFB version than 3.8")
        self.back += VERSION
        count = (yield 1)[0]
        if not count or NO_SECURITY not in (yield count):
            raise ProtocolError("the screen asks for a password, or refuses connections")
        self.back.append(NO_SECURITY)
        if (yield 4) != bytes(4):
            raise ProtocolError("the screen refused the connection")
        self.back += b"\x01"  # share the screen with other viewers
        head = yield 24
        if head[:4] != pack(">HH", WIDTH, HEIGHT):
            raise ProtocolError(f"the screen is not {WIDTH} by {HEIGHT} pixels")
        self.drop_text(int.from_bytes(head[20:], "big"))
        self.back += pack(">B3x", Person.PIXELS) + PIXELS
        self.ready = True

    def read_update(self) -> Steps:
        count = int.from_bytes((yield 3)[1:], "big")
        if count > MAX_RECTANGLES:
            raise ProtocolError(f"an update has {count} rectangles; the limit is {MAX_RECTANGLES}")
        self.out += pack(">BxH", ServerMessage.UPDATE, count)
        for _ in range(count):
            yield from self.read_rectangle()

    def read_rectangle(self) -> Steps:
        """Pass on one rectangle; raise if it is outside the screen or in an encoding that was not requested."""
        head = yield _RECTANGLE.size
        x, y, wide, high, encoding = _RECTANGLE.unpack(head)
        if not wide or not high or x + wide > WIDTH or y + high > HEIGHT:
            raise ProtocolError(f"a rectangle of {wide} by {high} at {x}, {y} is empty or outside the screen")
        if encoding not in self.encodings:
            raise ProtocolError(f"a rectangle has the encoding {encoding}, which was not requested")
        body = b""
        if encoding == COPY:
            body = yield 4
            from_x, from_y = int.from_bytes(body[:2], "big"), int.from_bytes(body[2:], "big")
            if from_x + wide > WIDTH or from_y + high > HEIGHT:
                raise ProtocolError("a rectangle is copied from outside the screen")
        elif encoding == ZRLE:
            body = yield 4
        elif encoding == TIGHT:
            self.out += head
            yield from self.read_tight(wide, high)
            return
        self.out += head + body
        if encoding == RAW:
            self.passing = wide * high * 4
        elif encoding == ZRLE:
            self.passing = _check_length(int.from_bytes(body, "big"), wide * high * 4)

    def read_tight(self, wide: int, high: int) -> Steps:
        """Pass on a Tight rectangle as TigerVNC encodes it: one colour, pixels, a palette or a gradient."""
        control = yield 1
        self.out += control
        kind = control[0] >> 4
        if kind == FILL:
            self.out += yield COLOUR
            return
        if kind > BASIC:
            raise ProtocolError(f"a rectangle has the unknown Tight compression {kind}")
        size = wide * high * COLOUR
        if kind & FILTERED:
            header = yield 1
            if header[0] == PALETTE:
                header += yield 1
                header += yield (header[1] + 1) * COLOUR
                size = (wide + 7) // 8 * high if header[1] < 2 else wide * high
            elif header[0] > GRADIENT:
                raise ProtocolError(f"a rectangle has the unknown Tight filter {header[0]}")
            self.out += header
        if size >= _UNPACKED:
            yield from self.read_packed(size)
        else:
            self.passing = size

    def read_packed(self, size: int) -> Steps:
        length = b""
        while len(length) < 3 and (not length or length[-1] & 0x80):
            length += yield 1
        self.out += length
        self.passing = _check_length(
            sum((byte & (0x7F if at < 2 else 0xFF)) << 7 * at for at, byte in enumerate(length)), size
        )


class ViewerSide(Side):
    def __init__(self, desk: DeskSide) -> None:
        self.desk = desk
        self.driving = False
        """Whether this viewer has control: its keys and clicks are passed on."""
        self.acts = ViewerInput()
        self.pressed: set[int] = set()
        self.buttons = 0
        self.at = (0, 0)
        super().__init__()
        self.back += VERSION

    def read(self) -> Steps:
        yield from self.greet()
        while True:
            match (yield 1)[0]:
                case Person.PIXELS:
                    self.set_pixels((yield 19)[3:])
                case Person.ENCODINGS:
                    yield from self.set_encodings()
                case Person.ASK:
                    self.ask((yield 9))
                case Person.KEY:
                    self.pass_key((yield 7))
                case Person.POINTER:
                    self.point((yield 5))
                case Person.PASTE:
                    self.drop_text(int.from_bytes((yield 7)[3:], "big", signed=True))
                case kind:
                    raise ProtocolError(f"the viewer sent an unexpected message of type {kind}")

    def greet(self) -> Steps:
        """Offer a screen without a password, with our size and name."""
        if (yield 12) != VERSION:
            raise ProtocolError("the viewer speaks another RFB version than 3.8")
        self.back += bytes([1, NO_SECURITY])
        if (yield 1)[0] != NO_SECURITY:
            raise ProtocolError("the viewer requests a password")
        self.back += bytes(4)
        yield 1
        self.back += pack(">HH", WIDTH, HEIGHT) + PIXELS + pack(">I", len(NAME)) + NAME
        self.ready = True

    def set_pixels(self, data: bytes) -> None:
        """Pass on a request for pixels of 32 bits, in any byte order."""
        bits, depth, _, true, red, green, blue, *shifts = FORMAT.unpack(data)
        if (bits, depth, bool(true), red, green, blue) != (32, 24, True, 255, 255, 255):
            raise ProtocolError("the viewer requests a pixel format other than 32 bits")
        if len(set(shifts)) != 3 or not set(shifts) <= SHIFTS:
            raise ProtocolError("the viewer requests a pixel format with overlapping colours")
        self.out += pack(">B3x", Person.PIXELS) + data[:13] + bytes(3)

    def set_encodings(self) -> Steps:
        """Request the encodings from the desk that the viewer offers and we can parse, and no others."""
        count = int.from_bytes((yield 3)[1:], "big")
        if count > _MAX_ENCODINGS:
            raise ProtocolError(f"the viewer lists {count} encodings; the limit is {_MAX_ENCODINGS}")
        listed = yield count * 4
        offered = {RAW, *(int.from_bytes(listed[at : at + 4], "big", signed=True) for at in range(0, len(listed), 4))}
        accepted = [each for each in PASSED if each in offered]
        self.desk.encodings.update(accepted)
        self.out += pack(f">BxH{len(accepted) + 1}i", Person.ENCODINGS, len(accepted) + 1, *accepted, _LIGHT)

    def ask(self, data: bytes) -> None:
        x, y, wide, high = (int.from_bytes(data[at : at + 2], "big") for at in (1, 3, 5, 7))
        x, y = min(x, WIDTH - 1), min(y, HEIGHT - 1)
        self.out += pack(">BBHHHH", Person.ASK, bool(data[0]), x, y, min(wide, WIDTH - x), min(high, HEIGHT - y))

    def pass_key(self, data: bytes) -> None:
        down, key = bool(data[0]), int.from_bytes(data[3:], "big")
        if not self.driving:
            return
        if down and (key in self.pressed or len(self.pressed) < MAX_PRESSED_KEYS):
            self.pressed.add(key)
            self.acts.keys += 1
        elif key in self.pressed:
            self.pressed.discard(key)
        else:
            return
        self.out += pack(">BBxxI", Person.KEY, down, key)

    def point(self, data: bytes) -> None:
        if not self.driving:
            return
        buttons = data[0]
        x = min(int.from_bytes(data[1:3], "big"), WIDTH - 1)
        y = min(int.from_bytes(data[3:], "big"), HEIGHT - 1)
        for number in range(8):
            if buttons & ~self.buttons & 1 << number:
                self.acts.press(x, y, number + 1)
        self.buttons, self.at = buttons, (x, y)
        self.out += pack(">BBHH", Person.POINTER, buttons, x, y)

    def drive(self, driving: bool) -> None:
        """Give the viewer control, or take it away; release the keys and buttons it holds down."""
        self.driving = driving
        for key in sorted(self.pressed):
            self.out += pack(">BBxxI", Person.KEY, False, key)
        self.pressed.clear()
        if self.buttons:
            self.out += pack(">BBHH", Person.POINTER, 0, *self.at)
            self.buttons = 0
        if driving:
            self.acts = ViewerInput()


def _check_length(length: int, size: int) -> int:
    """Check the length of compressed data, which can be only slightly longer than the pixels; return it."""
    if length > size + size // 10 + (1 << 16):
        raise ProtocolError(f"a rectangle has {length} compressed bytes, too many for its {size} bytes of pixels")
    return length
