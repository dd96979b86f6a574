"""Watch bodies that no secret goes into, so that no whole placeholder leaves in one. Pure."""

from __future__ import annotations

import re

from hotdesk.door.secrets.credential_fields import FieldWatch
from hotdesk.door.secrets.encodings import Decoder, UnreadableError, make_decoder, parse_codings
from hotdesk.door.secrets.placeholder import MAX_PLACEHOLDER_BYTES, PLACEHOLDER, PREFIX

BEGUN = re.compile(rb"hotdesk-secret-[a-z0-9-]{0,90}\Z")
AT_ONCE = 4 << 20
"""Bytes that one feed may decode to: all of them are scanned before any other task runs."""
RATIO = 100
FREE = 64 * 1024
"""As in `encodings`, but stricter: a response is decoded with pauses, the body of a request without."""


WINDOW_BITS = 23
"""Largest Brotli window of a body: 8 MiB, as for zstd."""


class UploadWatcher:
    """A body to be sent that no secret goes into: no whole placeholder leaves in it."""

    def __init__(self, reader: Decoder | None = None, fields: FieldWatch | None = None) -> None:
        self.found: bytes | None = None
        """The placeholder that was found. The request must be aborted: no more bytes are returned."""
        self.buffer = b""
        self.inside = UploadWatcher(fields=fields) if reader else None
        self.reader = reader
        self.fields = None if reader else fields
        """The scanner for the desk's own credentials; for a compressed body `inside` has it."""

    @property
    def credential(self) -> tuple[str, str] | None:
        """Return the credential of the desk's own that was found, if any: the request must be aborted."""
        fields = self.inside.fields if self.inside else self.fields
        return fields.found if fields else None

    def feed(self, data: bytes) -> bytes:
        """Feed bytes; return those that may be passed on."""
        if self.reader and self.inside:
            unpacked = 0
            for piece in self.reader.feed(data):
                if (unpacked := unpacked + len(piece)) > AT_ONCE:
                    raise UnreadableError(f"a part of the body unpacks to more than {AT_ONCE} bytes")
                self.inside.feed(piece)
                self.found = self.found or self.inside.found
        if self.fields:
            self.fields.feed(data)
        data = self.buffer + data
        if PREFIX in data and (m := PLACEHOLDER.search(data)):
            self.found = self.found or m[0]
        if self.found:
            self.buffer = b""
            return b""
        cut = find_cut(data)
        self.buffer = data[cut:]
        return data[:cut]

    def finish(self) -> bytes:
        """End the body; return the rest."""
        if self.reader:
            self.reader.finish()
        rest, self.buffer = self.buffer, b""
        return rest


def find_cut(data: bytes) -> int:
    """Return where a placeholder that the end cuts off may begin, or the end of the data."""
    tail = max(0, len(data) - MAX_PLACEHOLDER_BYTES + 1)
    if m := BEGUN.search(data, tail):
        return m.start()
    sizes = range(min(len(PREFIX) - 1, len(data)), 0, -1)
    return next((len(data) - size for size in sizes if data.endswith(PREFIX[:size])), len(data))


def make_watcher(
    content_encoding: bytes, granted: bool, limit: int = 1 << 30, fields: FieldWatch | None = None
) -> UploadWatcher:
    """Return the watcher of a body; raise `UnreadableError` for two encodings, or an unknown one at a granted host.

    Compressed bodies are decompressed alongside; if that fails, `feed` raises `UnreadableError`.
    """
    named = parse_codings(content_encoding)
    if len(named) > 1:
        raise UnreadableError("the body has more than one Content-Encoding; use one, or none")
    reader = make_decoder(content_encoding, limit, RATIO, FREE, WINDOW_BITS) if named else None
    if granted and named and reader is None:
        raise UnreadableError("the body has a Content-Encoding that cannot be checked for secrets; send it unencoded")
    return UploadWatcher(reader, fields)
