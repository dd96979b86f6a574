"""The protocol between a desk's guest and its host: frames, and the encoding of values.

A frame is a 4-byte length, a 1-byte kind, a 4-byte channel and the payload. The host opens channels, the guest never
does. DATA and EVENT payloads are flow-controlled: each side starts with WINDOW bytes of credit per channel and
direction, and gets CREDIT back as the other side consumes. Structured payloads are values in a variant of bencode,
because the host must be able to decode a hostile guest's with bounds, and a guest must not spend 10 ms importing a
parser.
"""

from __future__ import annotations

VERSION = 1

HELLO, OPEN, DATA, END, CREDIT, SIGNAL, EVENT, REPLY, DROP, PING, PONG = range(1, 12)
HOST_KINDS = frozenset((OPEN, DATA, END, CREDIT, SIGNAL, DROP, PING))
GUEST_KINDS = frozenset((HELLO, DATA, CREDIT, EVENT, REPLY, PONG))
STDIN, STDOUT, STDERR = 0, 1, 2

HEADER = 9
CHUNK = 32768
WINDOW = 262144
GUEST_LIMIT = 65536
"""Maximum bytes of a payload that a host accepts from a guest."""
HOST_LIMIT = 8388608
"""Maximum bytes of a payload that a guest accepts from its host: a command with its environment."""
MAX_DEPTH = 8
MAX_NUMBER = 10**18
"""Maximum absolute value of a number."""
MAX_PARTS = 4096
"""Maximum parts, including nested ones, of a value that a host accepts from a guest: a bound on decoding time."""
OVERHEAD = 64
"""Credit that a guest's DATA or EVENT frame takes beyond its payload, so that many tiny ones cannot fill a host."""
STEP = CHUNK + 1 + OVERHEAD
"""Credit a guest must have before it produces a frame of unknown size."""


NUMBER, BYTES, TEXT, LIST, TABLE, END_OF_VALUE = b"ibslde"
CONSTANTS = {b"n"[0]: None, b"t"[0]: True, b"f"[0]: False}


class WireError(Exception):
    """The other side broke the protocol."""


def encode_frame(kind: int, channel: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(4, "big") + bytes((kind,)) + channel.to_bytes(4, "big") + payload


def compute_cost(payload: bytes) -> int:
    return len(payload) + OVERHEAD


class FrameReader:
    """Splits received bytes into frames; checks each header before waiting for its payload."""

    def __init__(self, kinds: frozenset[int], limit: int) -> None:
        self.kinds = kinds
        self.limit = limit
        self.buffer = bytearray()
        self.start = 0
        """The position in the buffer at which the next frame begins."""

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """Add bytes; return the frames that are complete."""
        self.buffer += data
        frames: list[tuple[int, int, bytes]] = []
        while True:
            frame = self.read_next()
            if frame is None:
                return frames
            frames.append(frame)

    def read_next(self) -> tuple[int, int, bytes] | None:
        """Return the next frame, or `None` until more bytes arrive."""
        buffer, start = self.buffer, self.start
        if len(buffer) - start >= HEADER:
            length = int.from_bytes(buffer[start : start + 4], "big")
            kind = buffer[start + 4]
            if length > self.limit:
                raise WireError("a frame of %d bytes" % length)
            if kind not in self.kinds:
                raise WireError("a frame of kind %d" % kind)
            end = start + HEADER + length
            if len(buffer) >= end:
                self.start = end
                channel = int.from_bytes(buffer[start + 5 : start + 9], "big")
                return kind, channel, bytes(buffer[start + HEADER : end])
        if start:
            del buffer[:start]
            self.start = 0
        return None


def encode(value: object) -> bytes:
    """Encode a value: None, a bool, an int, bytes, text, a list or a dict with text keys."""
    out: list[bytes] = []
    _encode(value, out)
    return b"".join(out)


def _encode(value: object, out: list[bytes]) -> None:
    if value is None:
        out.append(b"n")
    elif value is True:
        out.append(b"t")
    elif value is False:
        out.append(b"f")
    elif isinstance(value, int):
        if not -MAX_NUMBER <= value <= MAX_NUMBER:
            raise WireError("a number has more than 18 digits")
        out.append(b"i%d;" % value)
    elif isinstance(value, bytes):
        out.append(b"b%d:" % len(value))
        out.append(value)
    elif isinstance(value, str):
        try:
            data = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise WireError("a text has a lone surrogate") from None
        out.append(b"s%d:" % len(data))
        out.append(data)
    elif isinstance(value, (list, tuple)):
        out.append(b"l")
        for item in value:
            _encode(item, out)
        out.append(b"e")
    elif isinstance(value, dict):
        out.append(b"d")
        for key, item in value.items():
            _encode(str(key), out)
            _encode(item, out)
        out.append(b"e")
    else:
        raise WireError("cannot send a " + type(value).__name__)


def decode(data: bytes, most: int = HOST_LIMIT) -> object:
    """Decode one value of at most `most` parts that fills the data exactly; raise `WireError` for anything else."""
    try:
        value, end = _decode(data, 0, MAX_DEPTH, [most])
    except IndexError:
        raise WireError("a truncated value") from None
    if end != len(data):
        raise WireError("bytes after a value")
    return value


def _parse_number(data: bytes, at: int, stop: bytes) -> tuple[int, int]:
    end = data.find(stop, at, at + 21)
    digits = data[at:end]
    if end < 0 or not (digits.isdigit() or (digits[:1] == b"-" and digits[1:].isdigit())):
        raise WireError("a bad number")
    number = int(digits)
    if not -MAX_NUMBER <= number <= MAX_NUMBER:
        raise WireError("a number has more than 18 digits")
    return number, end + 1


def _decode(data: bytes, at: int, depth: int, remaining: list[int]) -> tuple[object, int]:
    if depth == 0:
        raise WireError("a value is nested too deeply")
    remaining[0] -= 1
    if remaining[0] < 0:
        raise WireError("a value has too many parts")
    tag = data[at]
    at += 1
    if tag == TEXT or tag == BYTES:
        end = data.find(b":", at, at + 20)
        digits = data[at:end]
        if end < 0 or not digits.isdigit():
            raise WireError("a bad number")
        at = end + 1
        end = at + int(digits)
        if end > len(data):
            raise WireError("a string is longer than its frame")
        return (data[at:end].decode("utf-8", "surrogateescape") if tag == TEXT else data[at:end]), end
    if tag == NUMBER:
        return _parse_number(data, at, b";")
    if tag == LIST:
        items = []
        while data[at] != END_OF_VALUE:
            item, at = _decode(data, at, depth - 1, remaining)
            items.append(item)
        return items, at + 1
    if tag == TABLE:
        pairs: dict[str, object] = {}
        while data[at] != END_OF_VALUE:
            key, at = _decode(data, at, depth - 1, remaining)
            if not isinstance(key, str):
                raise WireError("a key is not text")
            pairs[key], at = _decode(data, at, depth - 1, remaining)
        return pairs, at + 1
    if tag in CONSTANTS:
        return CONSTANTS[tag], at
    raise WireError("an unknown value")
