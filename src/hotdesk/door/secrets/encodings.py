"""Content encodings, decoded piece by piece, with limits on memory and on the total.

`feed` returns an iterator with short steps, so that a process that serves many desks can do other work in between.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator
from typing import Protocol

import brotli  # type: ignore[import-untyped]
import zstandard

PIECE = 256 * 1024
"""Bytes one step yields at most. zstd may need a few times that inside, because it returns whole blocks."""
RATIO = 1000
FREE = 1 << 20
"""Bytes of output that are allowed before the ratio is checked."""
MEMBERS = 256
"""gzip members or zstd frames in one input: each has a fixed cost, and may be empty."""
STAGES = 2
_ZSTD_WINDOW = 8 << 20
"""The window size that RFC 9659 lets a server require."""
_BROTLI_WINDOW_BITS = 24
"""The largest window of Brotli, 16 MiB."""
_LARGE = frozenset({"br", "zstd"})
"""Encodings whose decoder may hold a window of megabytes; that of gzip has 32 KiB."""
_ZSTD_SIP = 64
"""Bytes passed to zstd at a time: four bytes can expand to a block of 128 KiB, and the library returns all at once."""


class UnreadableError(Exception):
    """A body that cannot be decoded, or not within the limits; the text says why."""


class DecodersBusyError(Exception):
    """A desk has as many large decoders in use as it may have; the text says what to do."""


class Decoder(Protocol):
    """Decodes one encoding."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded bytes in pieces, some of them empty; raise `UnreadableError` for invalid data."""

    def finish(self) -> None:
        """Raise `UnreadableError` unless the body is complete. An empty body is complete."""


class Plain:
    """No encoding at all."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), PIECE):
            yield data[start : start + PIECE]

    def finish(self) -> None:
        """Accept any end."""


class Inflate:
    """gzip of any number of members; and deflate, with the zlib header of the standard or without it."""

    def __init__(self, bits: int | None) -> None:
        self.bits = bits
        self.head = b""
        self.inner: zlib._Decompress | None = None
        self.ended = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        data = self.head + data
        self.head = b""
        begun = 0
        while data:
            if (begun := begun + 1) > MEMBERS:
                raise UnreadableError(f"one received piece of the body has more than {MEMBERS} gzip members, the limit")
            if self.inner is None and (data := self.begin(data)) == b"":
                return
            data = yield from self.inflate_member(data)

    def begin(self, data: bytes) -> bytes:
        """Start a member, or store input that is too short; return the bytes to decode now."""
        if self.ended and self.bits != 31:
            raise UnreadableError("there are bytes after the end of the deflate stream")
        bits = self.bits
        if bits is None:
            if len(data) < 2:
                self.head = data
                return b""
            bits = 15 if data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0 else -15
        self.inner = zlib.decompressobj(bits)
        return data

    def inflate_member(self, data: bytes) -> Generator[bytes, None, bytes]:
        assert self.inner is not None
        while True:
            try:
                out = self.inner.decompress(data, PIECE)
            except zlib.error as e:
                raise UnreadableError(f"malformed gzip or deflate data: {e}") from e
            data = self.inner.unconsumed_tail
            yield out
            if self.inner.eof:
                rest, self.inner, self.ended = self.inner.unused_data, None, True
                return rest
            if not data and len(out) < PIECE:
                return b""

    def finish(self) -> None:
        if self.inner is not None or self.head:
            raise UnreadableError("the compressed body is truncated")


class Brotli:
    """Brotli with a window of at most `1 << window_bits` bytes."""

    def __init__(self, window_bits: int) -> None:
        self.inner = brotli.Decompressor()
        self.window_bits = window_bits
        self.begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if data and not self.begun and _read_window_bits(data[0]) > self.window_bits:
            raise UnreadableError(f"its Brotli window exceeds {1 << self.window_bits - 20} MiB, which is the limit")
        self.begun = self.begun or bool(data)
        while True:
            if data and self.inner.is_finished():
                raise UnreadableError("there are bytes after the end of the Brotli stream")
            try:
                out = self.inner.process(data, output_buffer_limit=PIECE // 2)
            except brotli.error as e:
                raise UnreadableError("malformed Brotli data") from e
            data = b""
            yield out
            if len(out) < PIECE // 2 and self.inner.can_accept_more_data():
                return

    def finish(self) -> None:
        if self.begun and not self.inner.is_finished():
            raise UnreadableError("the compressed body is truncated")


def _read_window_bits(first: int) -> int:
    """Read the size of a Brotli window from a stream's first byte (RFC 7932, section 9.1)."""
    if not first & 1:
        return 16
    if high := first >> 1 & 7:
        return 17 + high
    low = first >> 4 & 7
    return 8 + low if low else 17


class Zstd:
    """zstd of any number of frames."""

    def __init__(self) -> None:
        self.inner: zstandard.ZstdDecompressionObj | None = None
        self.begun = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        self.begun = 0
        for start in range(0, len(data), _ZSTD_SIP):
            yield from self.decode_slice(data[start : start + _ZSTD_SIP])

    def decode_slice(self, data: bytes) -> Iterator[bytes]:
        """Decompress a few bytes, across the end of a frame."""
        while data:
            self.begun += self.inner is None
            if self.begun > MEMBERS:
                raise UnreadableError(f"one received piece of the body has more than {MEMBERS} zstd frames, the limit")
            self.inner = self.inner or zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
            try:
                out = self.inner.decompress(data)
            except zstandard.ZstdError as e:
                raise UnreadableError(f"malformed zstd data: {e}") from e
            data = self.inner.unused_data if self.inner.eof else b""
            self.inner = None if self.inner.eof else self.inner
            yield from (out[start : start + PIECE] for start in range(0, len(out), PIECE))

    def finish(self) -> None:
        if self.inner is not None:
            raise UnreadableError("the compressed body is truncated")


class Capped:
    """A decoder with limits on its total output and on the ratio of output to input."""

    def __init__(self, inner: Decoder, limit: int, ratio: int, free: int) -> None:
        self.inner, self.limit = inner, limit
        self.ratio, self.free = ratio, free
        self.bytes_in = self.bytes_out = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        self.bytes_in += len(data)
        for piece in self.inner.feed(data):
            self.bytes_out += len(piece)
            if self.bytes_out > self.limit:
                raise UnreadableError(f"the unpacked body has more than {self.limit} bytes")
            if self.bytes_out > max(self.free, self.ratio * self.bytes_in):
                raise UnreadableError(f"the unpacked body is over {self.ratio} times as large as the compressed one")
            yield piece

    def finish(self) -> None:
        self.inner.finish()


class Chain:
    """Two decoders; the outer encoding is decoded first."""

    def __init__(self, first: Decoder, second: Decoder) -> None:
        self.first, self.second = first, second

    def feed(self, data: bytes) -> Iterator[bytes]:
        for piece in self.first.feed(data):
            yield from self.second.feed(piece)

    def finish(self) -> None:
        self.first.finish()
        self.second.finish()


KNOWN: dict[str, Callable[[int], Decoder]] = {
    "gzip": lambda window_bits: Inflate(31),
    "x-gzip": lambda window_bits: Inflate(31),
    "deflate": lambda window_bits: Inflate(None),
    "br": Brotli,
    "zstd": lambda window_bits: Zstd(),
}


def parse_codings(content_encoding: bytes) -> list[str]:
    """List the encodings in a Content-Encoding, in the order they were applied."""
    names = [name.strip().lower() for name in content_encoding.decode("latin-1").split(",")]
    return [name for name in names if name not in ("", "identity")]


def needs_large_decoder(content_encoding: bytes) -> bool:
    return not _LARGE.isdisjoint(parse_codings(content_encoding))


def make_decoder(
    content_encoding: bytes,
    limit: int,
    ratio: int = RATIO,
    free: int = FREE,
    window_bits: int = _BROTLI_WINDOW_BITS,
) -> Decoder | None:
    """Return a decoder of a Content-Encoding with at most `limit` bytes at any stage, or `None` if it is not supported.

    Of the codings with large windows it may name one, because each body counts as one decoder of them.
    The ratio of every stage is relative to the first stage's input: separate ratios would multiply.
    """
    names = parse_codings(content_encoding)
    if len(names) > STAGES or any(name not in KNOWN for name in names) or sum(name in _LARGE for name in names) > 1:
        return None
    capped: Decoder = Capped(KNOWN[names.pop()](window_bits) if names else Plain(), limit, ratio, free)
    while names:
        capped = Capped(Chain(capped, KNOWN[names.pop()](window_bits)), limit, ratio, free)
    return capped
