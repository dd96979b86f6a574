"""Keep tokens that an upstream issues outside the desk: it gets placeholders that are valid for that host only.

Replaced: the values of `HttpOnly` cookies; the fields `access_token`, `refresh_token`, `id_token` and those a grant
names in JSON responses (also in JSON that is itself a string in JSON), in form-encoded ones, and in the address of a
redirect. They go back as the cookie they were, or as bearer, but not in bodies: the door's side refreshes tokens.

Not replaced: tokens under other names, in other types of response, or in field names written with escapes; and cookies
that scripts may read, because pages would break. Those cookies are remembered, so that the desk may send them back to
the host that set them. A login across several hosts fails at the second: a token of one host is a placeholder at
others.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from urllib.parse import unquote_to_bytes

from hotdesk.dataclass import dataclass
from hotdesk.door.secrets.encodings import UnreadableError
from hotdesk.door.secrets.placeholder import make_placeholder
from hotdesk.door.secrets.scrub import ScrubbedSecret

USUAL = ("access_token", "refresh_token", "id_token")
MAX_TOKENS = 256
AN_ANSWER = 32
"""Tokens one response may contain: each costs time, and real responses have few."""
REMEMBERED = 1024
_LONGEST_VALUE = 8 * 1024
_LONGEST_HELD = 16 * 1024
"""Bytes of a response that may be held back while a token field is incomplete; beyond that the response fails."""
_JSON_ANSWER = re.compile(rb"(?i)\s*(?:application|text)/(?:[a-z0-9.+-]*\+)?json\s*(?:;.*)?")
_FORM_ANSWER = re.compile(rb"(?i)\s*application/x-www-form-urlencoded\s*(?:;.*)?")


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """An issued value, and the form in which it may go back."""

    value: bytes = field(repr=False)
    cookie: bytes | None
    """Name of the cookie, or `None` if the value is a token."""


class Issued:
    """The values that one host issued to one desk. The oldest are dropped when there are too many."""

    def __init__(self, host: str, fields: tuple[str, ...], tell: Callable[[ScrubbedSecret], None]) -> None:
        self.host = host
        self.fields = fields
        self.grants: set[tuple[int, str]] = set()
        """The grants that were active while tokens were issued: the number of the scope, and the secret."""
        self.tell = tell
        """Registers a stored value, so that it is scrubbed from all later responses."""
        self.tokens: OrderedDict[bytes, IssuedToken] = OrderedDict()
        self.placeholders: dict[IssuedToken, bytes] = {}
        self.observed: OrderedDict[bytes, None] = OrderedDict()
        names = sorted({*USUAL, *fields}, key=len, reverse=True)
        self.names = tuple(name.encode() for name in names)
        firsts = b"".join(re.escape(name[:1]) for name in self.names)
        self.quote = re.compile(rb'"(?=[' + firsts + rb"]|\Z)")
        """A quote after which one of the names may begin."""
        one = b"|".join(re.escape(name) for name in self.names)
        self.json = re.compile(
            rb'"(?:' + one + rb')"\s{0,64}:\s{0,64}(")|\\"(?:' + one + rb')\\"\s{0,64}:\s{0,64}(\\")'
        )
        self.reach = max(map(len, self.names)) + 150
        """Bytes before the end of a block in which a field can begin whose value is not complete."""
        self.form = re.compile(rb"(?:\A|(?<=[?&#]))((?:" + one + rb")=)([^&#\s]*)")

    def keep(self, value: bytes, cookie: bytes | None = None) -> bytes:
        """Store a value and return its placeholder, which is the same for the same value."""
        token = IssuedToken(value, cookie)
        if len(value) > _LONGEST_VALUE:
            raise UnreadableError(f"it has an access token or session cookie of more than {_LONGEST_VALUE} bytes")
        if not (placeholder := self.placeholders.get(token)):
            self.tell(ScrubbedSecret(f"issued:{self.host}", "issued", value, issued=True))
            placeholder = self.placeholders[token] = make_placeholder("issued").encode()
        self.tokens[placeholder] = token
        self.tokens.move_to_end(placeholder)
        while len(self.tokens) > MAX_TOKENS:
            _, old = self.tokens.popitem(last=False)
            del self.placeholders[old]
        return placeholder

    def find_cookie(self, name: bytes, placeholder: bytes) -> bytes | None:
        token = self.tokens.get(placeholder)
        return token.value if token and token.cookie == name else None

    def find_bearer(self, placeholder: bytes) -> bytes | None:
        token = self.tokens.get(placeholder)
        return token.value if token and token.cookie is None else None

    def knows(self, name: bytes, value: bytes) -> bool:
        return compute_digest(name, value) in self.observed

    def set_cookie(self, header: bytes) -> bytes:
        """Process a Set-Cookie header; return it as the desk may see it."""
        pair, mark, rest = header.partition(b";")
        name, equals, value = pair.partition(b"=")
        name, value = name.strip(b" \t"), value.strip(b" \t")
        if not equals:
            name, value = b"", pair.strip(b" \t")
        attributes = {one.partition(b"=")[0].strip().lower() for one in rest.split(b";")}
        if value.strip(b'"') and b"httponly" in attributes:
            return name + equals + self.keep(value, name) + mark + rest
        self.remember(name, value)
        return header

    def remember(self, name: bytes, value: bytes) -> None:
        """Record that the host set a cookie, without storing its value."""
        self.observed[compute_digest(name, value)] = None
        while len(self.observed) > REMEMBERED:
            self.observed.popitem(last=False)

    def rewrite_location(self, header: bytes) -> bytes:
        """Process the address of a redirect; return it as the desk may see it."""
        return self.form.sub(self.replace_form_field, header)

    def replace_form_field(self, m: re.Match[bytes]) -> bytes:
        return m[1] + self.keep(unquote_to_bytes(m[2].replace(b"+", b" "))) if m[2] else m[0]

    def stream(self, content_type: bytes) -> Answer | None:
        """Return a filter for a response of this type, or `None` if no token in it is replaced."""
        if _JSON_ANSWER.fullmatch(content_type):
            return JsonAnswer(self)
        return FormAnswer(self) if _FORM_ANSWER.fullmatch(content_type) else None


def compute_digest(name: bytes, value: bytes) -> bytes:
    """Return a digest that identifies a cookie without storing its value."""
    return hashlib.sha256(name + b"=" + value).digest()[:16]


class JsonAnswer:
    """A JSON response as it arrives. It holds back bytes that may belong to a field to replace."""

    def __init__(self, issued: Issued) -> None:
        self.issued = issued
        self.buffer = b""
        self.count = 0

    def feed(self, data: bytes) -> bytes:
        """Feed bytes; return those that may be passed on."""
        return self.step(self.buffer + data, final=False)

    def feed_last(self, data: bytes) -> bytes:
        """Feed the last bytes; return all the rest."""
        return self.step(self.buffer + data, final=True)

    def finish(self) -> bytes:
        """End the response; return the rest."""
        return self.step(self.buffer, final=True) if self.buffer else b""

    def step(self, data: bytes, final: bool) -> bytes:
        """Replace the values of token fields, and hold back bytes that are not decided yet."""
        out: list[bytes] = []
        at = 0
        m: re.Match[bytes] | None = None
        named = any(name in data for name in self.issued.names)  # most responses have none of them: one search is cheap
        while named and (m := self.issued.json.search(data, at)):
            end = _find_value_end(data, m.end(), nested=m[2] is not None, final=final)
            if end is None:
                break
            out += (data[at : m.end()], self.replace_value(data[m.end() : end], nested=m[2] is not None))
            at = end
        cut = m.start() if m else len(data) if final else self.find_cut(data, at)
        if len(data) - cut > _LONGEST_HELD:
            raise UnreadableError(f"an access token in it is longer than {_LONGEST_HELD} bytes")
        self.buffer = data[cut:]
        return b"".join([*out, data[at:cut]])

    def replace_value(self, text: bytes, nested: bool) -> bytes:
        """Store the value of a JSON string and return its placeholder; an empty string stays."""
        self.count += 1
        if self.count > AN_ANSWER:
            raise UnreadableError(f"it has more than {AN_ANSWER} access tokens; request fewer at once")
        try:
            for _ in range(2 if nested else 1):
                text = json.loads(b'"' + text + b'"', strict=False).encode("utf-8", "replace")
        except ValueError as e:
            raise UnreadableError("an access token in it is not a valid JSON string") from e
        return self.issued.keep(text) if text else b""

    def find_cut(self, data: bytes, at: int) -> int:
        """Return where a token field that the end cuts off may begin, or the end of the data."""
        start = max(at, len(data) - self.issued.reach)
        while m := self.issued.quote.search(data, start):
            start = m.start()
            if start > at and data[start - 1] == 0x5C and self.may_go_on(data[start + 1 :], NESTED):
                return start - 1
            if self.may_go_on(data[start + 1 :], DIRECT):
                return start
            start += 1
        return len(data) - 1 if data.endswith(b"\\") and len(data) > at else len(data)

    def may_go_on(self, text: bytes, rest: re.Pattern[bytes]) -> bool:
        """Return whether the text after a quote may become a token field."""
        return any(
            name.startswith(text) or (text.startswith(name) and rest.fullmatch(text, len(name)))
            for name in self.issued.names
        )


DIRECT = re.compile(rb'"\s{0,64}(?::\s{0,64})?')
NESTED = re.compile(rb'\\(?:"\s{0,64}(?::\s{0,64}\\?)?)?')
"""What may be between a field's name and the end of the data, in JSON and in JSON inside a JSON string."""
_DIRECT_VALUE = re.compile(rb'(?:[^"\\]|\\.)*', re.DOTALL)
_NESTED_VALUE = re.compile(rb'(?:[^"\\]|\\\\(?:[^"\\]|\\\\|\\"))*')


def _find_value_end(data: bytes, at: int, nested: bool, final: bool) -> int | None:
    """Return where a JSON string ends, or `None` if it is incomplete. An invalid escape ends it, too."""
    m = (_NESTED_VALUE if nested else _DIRECT_VALUE).match(data, at)
    assert m is not None  # both patterns match the empty string
    unread = len(data) - m.end()
    return m.end() if final or unread >= (4 if nested else 2) or data[m.end() : m.end() + 2] in (b'"', b'\\"') else None


class FormAnswer:
    """A form-encoded response, held back completely because it is small."""

    def __init__(self, issued: Issued) -> None:
        self.issued = issued
        self.buffer = b""

    def feed(self, data: bytes) -> bytes:
        """Store the next bytes; return nothing yet."""
        self.buffer += data
        if len(self.buffer) > _LONGEST_HELD:
            raise UnreadableError(f"it is form-encoded and has more than {_LONGEST_HELD} bytes, which is the limit")
        return b""

    def feed_last(self, data: bytes) -> bytes:
        self.feed(data)
        return self.finish()

    def finish(self) -> bytes:
        """End the response; return all of it, once."""
        whole, self.buffer = self.buffer, b""
        return self.issued.rewrite_location(whole)


Answer = JsonAnswer | FormAnswer
