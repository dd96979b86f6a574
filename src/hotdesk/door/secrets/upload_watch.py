"""Bodies no secret goes into, watched on their way out: no placeholder leaves in one whole. Pure."""

from __future__ import annotations

import re

from hotdesk.door.secrets.credential_fields import FieldWatch
from hotdesk.door.secrets.encodings import Decoder, UnreadableError, make_decoder, parse_codings
from hotdesk.door.secrets.placeholder import MAX_PLACEHOLDER_BYTES, PLACEHOLDER, PREFIX

BEGUN = re.compile(rb"hotdesk-secret-[a-z0-9-]{0,90}\Z")
AT_ONCE = 4 << 20
"""What may be unpacked of the bytes fed at once: all of it is looked through before anybody else has a turn."""
RATIO = 100
FREE = 64 * 1024
"""As in `encodings`, but tighter: an answer is unpacked with pauses, a body of a request without."""


class UploadWatcher:
    """A body on its way out that no secret goes into: no placeholder leaves in it whole."""

    def __init__(self, reader: Decoder | None = None, fields: FieldWatch | None = None) -> None:
        self.found: bytes | None = None
        """The placeholder that was there. The request is to be broken off: nothing more comes out of here."""
        self.buffer = b""
        self.inside = UploadWatcher(fields=fields) if reader else None
        self.reader = reader
        self.fields = None if reader else fields
        """What looks for credentials of the desk's own; in a packed body, where it is unpacked."""

    @property
    def credential(self) -> tuple[str, str] | None:
        """Return the credential of the desk's own that was there: the request is to be broken off."""
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
    """Return where a placeholder that is cut off by the end may begin, or the end of the data."""
    tail = max(0, len(data) - MAX_PLACEHOLDER_BYTES + 1)
    if m := BEGUN.search(data, tail):
        return m.start()
    sizes = range(min(len(PREFIX) - 1, len(data)), 0, -1)
    return next((len(data) - size for size in sizes if data.endswith(PREFIX[:size])), len(data))


def make_watcher(
    content_encoding: bytes, granted: bool, limit: int = 1 << 30, fields: FieldWatch | None = None
) -> UploadWatcher:
    """Make the watcher of a body; `UnreadableError` for one packed twice, or one unreadable for a granted host.

    Compressed bodies are unpacked alongside; if that fails, `feed` raises `UnreadableError`.
    """
    named = parse_codings(content_encoding)
    if len(named) > 1:
        raise UnreadableError("the body has more than one Content-Encoding; use one, or none")
    reader = make_decoder(content_encoding, limit, RATIO, FREE) if named else None
    if granted and named and reader is None:
        raise UnreadableError("the body has a Content-Encoding that cannot be checked for secrets; send it unencoded")
    return UploadWatcher(reader, fields)
