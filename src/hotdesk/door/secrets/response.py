"""Prepare a response for the desk: decompress it, replace issued tokens, remove secrets. Without I/O."""

from __future__ import annotations

from collections.abc import Iterator

from hotdesk.door.http import framing
from hotdesk.door.http.framing import Response
from hotdesk.door.secrets.encodings import KNOWN, STAGES, Decoder, UnreadableError, make_decoder
from hotdesk.door.secrets.issued_tokens import Issued
from hotdesk.door.secrets.scrub import Scrubber

DECODED = 1 << 40
"""Bytes a decoded response may have; the ratio to its input is limited where it is decoded."""
_DROPPED = frozenset(
    {
        b"alt-svc",
        b"public-key-pins",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"content-length",
        b"x-hotdesk-removed-headers",
    }
)
"""Headers that would lead a client past the door, and those that the door sets itself."""
CHANGED = frozenset({b"content-encoding", b"etag"})
"""Headers that are no longer true of a decoded response."""

Pairs = list[tuple[bytes, bytes]]


def end_to_end(answer: Response) -> Pairs:
    """Return the headers that the desk may see, without the length, which is set again."""
    return framing.end_to_end(answer.headers, _DROPPED)


class Cleaner:
    """Cleans a response as it streams. `granted`: secrets are involved, so the response must be readable."""

    def __init__(self, answer: Response, scrubber: Scrubber, issued: Issued | None, *, granted: bool) -> None:
        self.active = granted or bool(scrubber.spelt)
        self.stream = scrubber.stream()
        self.issued = issued
        self.unpack = self.choose_decoder(answer, granted) if self.active else None
        content = answer.headers.get(b"content-type") or b""
        self.withhold = issued.stream(content) if issued is not None and self.active else None

    @property
    def hits(self) -> set[str]:
        return self.stream.hits

    def choose_decoder(self, answer: Response, granted: bool) -> Decoder | None:
        """Return the decoder of the response, or `None`; raise if secrets are involved and its encoding is unknown."""
        coding = answer.headers.get(b"content-encoding")
        if coding is None or answer.body is None or coding.lower() == b"identity":
            return None
        found = make_decoder(coding, DECODED)
        if found is None and granted:
            raise UnreadableError(
                f"its Content-Encoding is not supported; supported are {', '.join(KNOWN)}, at most {STAGES} together"
            )
        return found

    def clean_headers(self, pairs: Pairs) -> Pairs:
        if not self.active:
            return pairs
        fields = [pair for pair in pairs if self.unpack is None or pair[0].lower() not in CHANGED]
        if self.issued is not None:
            fields = [(name, self.withhold_tokens(name.lower(), value)) for name, value in fields]
        return self.stream.scrub_headers(fields)

    def withhold_tokens(self, name: bytes, value: bytes) -> bytes:
        if self.issued is not None and name == b"set-cookie":
            return self.issued.set_cookie(value)
        return self.issued.rewrite_location(value) if self.issued is not None and name == b"location" else value

    def feed(self, payload: bytes, last: bool = False) -> Iterator[bytes]:
        """Feed bytes of the body; yield what may be passed on. `last` marks the last bytes of the body."""
        if not self.active:
            yield payload
            return
        if last and self.unpack is None:
            yield self.stream.feed_last(self.withhold.feed_last(payload) if self.withhold is not None else payload)
            return
        for piece in self.unpack.feed(payload) if self.unpack is not None else (payload,):
            yield self.stream.feed(self.withhold.feed(piece) if self.withhold is not None else piece)

    def finish(self) -> bytes:
        """End the body; return the rest."""
        if not self.active:
            return b""
        if self.unpack is not None:
            self.unpack.finish()
        rest = self.withhold.finish() if self.withhold is not None else b""
        return (self.stream.feed(rest) if rest else b"") + self.stream.finish()
