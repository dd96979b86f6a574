"""Find a desk's own credentials in the bodies it sends, by the names of their fields, while the body streams. Pure.

Inspected: forms, JSON, multipart forms and XML, also if the type is missing or unknown. Not inspected: types that are
plainly files or other formats (`INERT`), names inside query languages, positional arguments, numbers. A body is cut off
before the field that was found is sent, so that no server has a whole request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote_to_bytes

from hotdesk.door.secrets.foreign_credentials import LONGEST_NAME, AllowedCredentials, fold_name, is_credential
from hotdesk.door.secrets.placeholder import PREFIX

INERT = re.compile(
    rb"(?:image|audio|video|font|model)/.*|text/(?:csv|tab-separated-values|html|markdown|calendar|vcard|css)"
    rb"|application/(?:octet-stream|pdf|zip|gzip|zstd|x-tar|x-gzip|x-bzip2|x-xz|x-7z-compressed|x-ndjson|wasm|x-git-.*"
    rb"|vnd\.git-.*|vnd\.ms-.*|vnd\.openxmlformats-.*|vnd\.oasis\..*|msword|rtf|epub\+zip|java-archive|x-protobuf"
    rb"|protobuf|grpc.*|msgpack|x-msgpack|cbor|vnd\.docker\..*|vnd\.oci\..*|vnd\.apache\..*)"
)
FORM = b"application/x-www-form-urlencoded"
JSON = re.compile(rb"(?:application|text)/(?:[a-z0-9.+-]*\+)?json|text/plain")
XML = re.compile(rb"(?:application|text)/(?:[a-z0-9.+-]*\+)?(?:xml|soap)")
OURS = PREFIX + rb"[a-z0-9]"
PATTERNS: dict[str, re.Pattern[bytes]] = {
    "JSON field": re.compile(
        rb'(?<!\\)"((?:[^"\\\x00-\x1f]|\\.){1,160})"(?:\s{64}|\s{0,63}:(?:\s{64}|\s{0,63}"(?!%b)))' % OURS
    ),
    "form field": re.compile(rb"(?<=[&;])([^&;=]{1,480})=(?!%b)" % OURS),
    "multipart field": re.compile(
        rb"(?i)content-disposition:[^\r\n]{0,256}?[;\s]name\*?[ \t]{0,16}=[ \t]{0,16}"
        rb"(?:\"((?:[^\"\\\r\n]|\\.){1,160})\"|(?:[a-z0-9-]{1,16}'[a-z-]{0,8}')?([^\";\s]{1,160}))"
    ),
    "XML element": re.compile(rb"<(?:[\w.-]{1,64}:)?([A-Za-z_][\w.-]{0,159})[\s>]"),
}
"""The text before a field's value. A placeholder is not a credential: another module decides where it may be."""
_HINT = re.compile(rb"(?i)token|secret|pass|pwd|key|jwt|sig|auth|cred|assert|bearer|cookie|sess|%|\\u")
"""A name without any of these cannot be a credential's."""
REACH = 1024
"""Bytes of earlier data that are searched again, because a field may begin in them."""


def list_kinds(types: Sequence[bytes]) -> tuple[str, ...]:
    """List the formats in which a server might read a body, by its content types."""
    named = [each.partition(b";")[0].strip().lower() for each in types] or [b""]
    if all(INERT.fullmatch(each) for each in named):
        return ()
    found = ["JSON field", "multipart field"]
    clear = [bool(JSON.fullmatch(each) or each.startswith(b"multipart/")) for each in named]
    if not all(is_clear or XML.fullmatch(each) for each, is_clear in zip(named, clear, strict=True)):
        found.append("form field")
    if not all(is_clear or each == FORM for each, is_clear in zip(named, clear, strict=True)):
        found.append("XML element")
    return tuple(found)


class FieldWatch:
    """Scans a body as it streams, and remembers the first credential."""

    def __init__(self, types: Sequence[bytes], allowed: AllowedCredentials) -> None:
        self.kinds = list_kinds(types)
        self.allowed = allowed
        self.found: tuple[str, str] | None = None
        """The kind of field, and its name."""
        self.tail = b"&"  # so that the first field of a form, too, follows a separator

    def feed(self, data: bytes) -> None:
        if not self.kinds or self.found:
            return
        if b"\0" in data:
            data = data.replace(b"\0", b"")  # some parsers of JSON and XML accept UTF-16
        data = self.tail + data
        self.tail = data[-REACH:]
        if _HINT.search(data):
            self.found = next(self.iterate_credentials(data), None)

    def iterate_credentials(self, data: bytes) -> Iterator[tuple[str, str]]:
        for kind in self.kinds:
            for found in PATTERNS[kind].finditer(data):
                name = _decode_name(kind, found[found.lastindex or 1])
                if is_credential(kind, name[-LONGEST_NAME:]) and fold_name(name) not in self.allowed.fields:
                    yield kind, name


def _decode_name(kind: str, name: bytes) -> str:
    if kind == "JSON field" and b"\\" in name:
        try:
            return str(json.loads(b'"' + name + b'"'))
        except ValueError:
            return name.decode("latin-1")
    return (unquote_to_bytes(name.replace(b"+", b" ")) if b"%" in name else name).decode("latin-1")
