"""Remove secrets from responses, in each of the encodings listed here.

Found, across any split: the secret itself, reversed, in hex, in base64 of either alphabet at any of the three
alignments, and any of these with some or all characters escaped in one way: percent; `\\u`, `\\x`, `\\/`; HTML
entities.

Not found: parts of a secret; escapes of two ways in one secret, or two layers of them; base32, UTF-16, hex or base64
with spaces or line breaks, anything compressed or encrypted inside the body; pictures; what was sent to another host
and returns under another name; secrets shorter than 16 bytes. Scrubbing limits what an echo reveals; it guarantees
nothing. Hosts, paths and methods do.

A secret that changes at every use is searched for in its last 64 values: older ones are spent. Tokens that hosts issued
are limited as well, for all hosts together: otherwise a site that sets a new cookie at each response would fill the
memory.

Speed: every spelling is long, so only one eight-byte word in every few of a block is checked; wherever a spelling is,
one of its own words is among those. A block with escapes is checked again with them decoded.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import re
import sys
from bisect import bisect_right
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import field
from operator import itemgetter
from typing import TypeVar
from urllib.parse import quote, quote_plus

from hotdesk.dataclass import dataclass

LEAST = 16
"""Bytes of the shortest secret that is searched for: shorter ones would be found by chance, and can be guessed."""
REMOVED = b"hotdesk-removed"
"""The replacement for a secret: valid in a header, a JSON string, HTML and a URL."""
E = TypeVar("E")
MOST_OF_ONE = 64
"""Values of one grant that are searched for, the latest ones. One of 80 characters needs about 150 KB."""
MOST_ISSUED = 256
"""Values issued by hosts that are searched for, of all hosts together."""
WORD = 8
WIDEST = 8
ORDINARY = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-.~:@")
"""Characters of most secrets. While all secrets consist of them, escapes of other characters need not be decoded."""
ONE = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def _build_hex_pattern(letters: Iterable[int]) -> bytes:
    rows: dict[str, str] = {}
    for letter in letters:
        high, low = f"{letter >> 4:x}", f"{letter & 15:x}"
        rows[high] = rows.get(high, "") + low + low.upper()
    return "|".join(f"[{high}{high.upper()}][{lows}]" for high, lows in rows.items()).encode()


@dataclass(frozen=True, slots=True)
class Escapes:
    """One way of escaping. Each pattern begins with one fixed byte, which makes the search fast.

    A doubled backslash does not count as an escape: the result would depend on where decoding began.
    """

    mark: bytes
    every: re.Pattern[bytes]
    ordinary: re.Pattern[bytes]
    """Only the escapes of ordinary characters."""
    cut: re.Pattern[bytes]
    """The beginning of an escape, at the end of a block."""


_NIBBLE = rb"[0-9A-Fa-f]"
_ORDINARY_CODES = _build_hex_pattern(ORDINARY)
PERCENT = Escapes(
    b"%",
    re.compile(rb"(%" + _NIBBLE + rb"{2})"),
    re.compile(rb"(%(?:" + _ORDINARY_CODES + rb"))"),
    re.compile(rb"%" + _NIBBLE + rb"?\Z"),
)
BACKSLASH = Escapes(
    b"\\",
    re.compile(rb"(\\(?:u[dD][89abAB]NN\\u[dD][c-fC-F]NN|uNNNN|xNN|[\"'/bfnrt]))".replace(b"N", _NIBBLE)),
    re.compile(rb"(\\(?:(?:u00|x)(?:" + _ORDINARY_CODES + rb")|/))"),
    re.compile(rb"\\(?:u[dD][89abAB]NN(?:\\(?:u(?:[dD](?:[c-fC-F]N?)?)?)?)?|uN{0,3}|xN?)?\Z".replace(b"N", _NIBBLE)),
)
ENTITY = Escapes(
    b"&",
    re.compile(rb"(&(?:#[0-9]{1,7}|#[xX]N{1,6}|amp|lt|gt|quot|apos);)".replace(b"N", _NIBBLE)),
    re.compile(rb"(&#(?:[0-9]{1,7}|[xX]N{1,6});)".replace(b"N", _NIBBLE)),
    re.compile(rb"&(?:#[0-9]{0,7}|#[xX]N{0,6}|a(?:mp?|p(?:os?)?)?|lt?|gt?|q(?:u(?:ot?)?)?)?\Z".replace(b"N", _NIBBLE)),
)
WAYS = (PERCENT, BACKSLASH, ENTITY)
_CUT_AT_MOST = 11
_ESCAPE_AT_MOST = 12


@dataclass(frozen=True, slots=True)
class ScrubbedSecret:
    """A value that must not come back."""

    id: str
    """Id of the grant it belongs to."""
    name: str
    value: bytes = field(repr=False)
    issued: bool = False
    """Whether a host issued it; a host can issue any number."""

    @property
    def scrubbable(self) -> bool:
        return len(self.value) >= LEAST


def list_scrubbed_secrets(id: str, name: str, kind: str, value: bytes) -> tuple[ScrubbedSecret, ...]:
    """List what must not come back of a granted value: for a user and password also the password alone."""
    whole = ScrubbedSecret(id, name, value)
    return (whole, ScrubbedSecret(id, name, value.partition(b":")[2])) if kind == "basic" else (whole,)


def list_spellings(value: bytes) -> set[bytes]:
    """Return a value in every encoding listed above; escaped forms only if its own characters may look like escapes."""
    found = {value, value[::-1], value.hex().encode(), value.hex().upper().encode()}
    for before in range(3):
        found |= list_base64_middles(value, before)
    if not ORDINARY.issuperset(value):
        found |= _list_escaped_forms(value)
    return {one for one in found if len(one) >= LEAST}


def _list_escaped_forms(value: bytes) -> set[bytes]:
    """Return a value as common programs escape it, and as it reads when its own characters are decoded as escapes."""
    found = {value, quote(value, safe="").encode(), quote_plus(value).encode()}
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    usual = json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], html.escape(text)
    found |= {one.encode() for one in usual}
    return found | {unescape(one, way) for one in found for way in WAYS}


def list_base64_middles(value: bytes, before: int) -> set[bytes]:
    """Return the base64 of a value after `before` other bytes, without the characters it shares with neighbours."""
    start, stop = -(-before * 8 // 6), (before + len(value)) * 8 // 6
    padded = bytes(before) + value
    return {base64.b64encode(padded)[start:stop], base64.urlsafe_b64encode(padded)[start:stop]}


@functools.lru_cache(4096)
def _decode_escape(escape: bytes) -> bytes:
    if escape[:1] == b"%":
        return bytes.fromhex(escape[1:].decode())
    if escape[:1] == b"&":
        return html.unescape(escape.decode()).encode("utf-8", "replace")
    match escape[1:2]:
        case b"u":
            return str(json.loads(b'"' + escape + b'"')).encode("utf-8", "replace")
        case b"x":
            return bytes.fromhex(escape[2:].decode())
        case other:
            return ONE.get(other, other)


def unescape(data: bytes, way: Escapes) -> bytes:
    return way.every.sub(lambda m: _decode_escape(m[0]), data)


class DecodedBlock:
    """A block with its escapes of one way decoded, and the original position of each byte."""

    def __init__(self, data: bytes, way: Escapes, pattern: re.Pattern[bytes], final: bool) -> None:
        self.data = data
        self.pattern = pattern
        self.size = len(data) if final else _find_cut_escape(data, way)
        """Where an escape begins that the end of the block cuts off, or else the length of the block."""
        pieces = self.pattern.split(data[: self.size])
        self.same = len(pieces) == 1
        """Whether nothing was escaped."""
        pieces[1::2] = map(_decode_escape, pieces[1::2])
        self.text = b"".join(pieces)

    @functools.cached_property
    def marks(self) -> list[tuple[int, int, int, int]]:
        """Positions of each escape: start in the text, start in the block, end in the text, end in the block."""
        found = []
        shorter = 0
        for m in self.pattern.finditer(self.data, 0, self.size):
            start, end = m.start() - shorter, m.start() - shorter + len(_decode_escape(m[0]))
            found.append((start, m.start(), end, m.end()))
            shorter = m.end() - end
        return found

    def get_raw_start(self, at: int) -> int:
        """Return the position in the block of the byte at this position of the text."""
        start, raw_start, end, raw_end = self.mark_at(at)
        return raw_start if start <= at < end else raw_end + at - end

    def get_raw_end(self, at: int) -> int:
        _, _, end, raw_end = self.mark_at(at - 1)
        return raw_end + max(0, at - end)

    def get_raw_start_of_last(self, remaining: int) -> int:
        """Return where in the block the last `remaining` bytes of the text begin, without decoding all of it again."""
        at = self.size
        for m in reversed([*self.pattern.finditer(self.data, max(0, at - _ESCAPE_AT_MOST * remaining), at)]):
            if remaining <= at - m.end():
                break
            remaining = max(0, remaining - (at - m.end()) - len(_decode_escape(m[0])))
            at = m.start()
        return at - remaining

    def mark_at(self, at: int) -> tuple[int, int, int, int]:
        """Return the positions of the last escape that starts at or before `at` in the text, or zeros."""
        i = bisect_right(self.marks, at, key=itemgetter(0))
        return self.marks[i - 1] if i else (0, 0, 0, 0)


def _find_cut_escape(data: bytes, way: Escapes) -> int:
    """Return where an escape that the end of a block cuts off begins, or the end of the block."""
    at = data.find(way.mark, max(0, len(data) - _CUT_AT_MOST))
    while at >= 0:
        if way.cut.match(data, at):
            return at
        at = data.find(way.mark, at + 1)
    return len(data)


def _iterate_words(spelling: bytes, count: int) -> Iterator[tuple[int, int]]:
    return ((at, int.from_bytes(spelling[at : at + WORD], sys.byteorder)) for at in range(count))


def lower(counter: dict[E, int], entry: E) -> None:
    """Decrement a counter's entry, and remove it at zero."""
    counter[entry] -= 1
    if not counter[entry]:
        del counter[entry]


class Scrubber:
    """All values that must not come back to one desk, within limits. Running streams find values added later, too."""

    def __init__(self, secrets: Iterable[ScrubbedSecret] = ()) -> None:
        self.values: dict[str, OrderedDict[bytes, None]] = {}
        """Values by grant id, the oldest first."""
        self.issued: deque[tuple[str, bytes]] = deque()
        self.spelt: dict[bytes, Counter[str]] = {}
        """Each spelling, with the number of values of each grant id that share it."""
        self.stride = WIDEST
        self.words: dict[int, dict[tuple[int, int], int]] = {}
        self.noted: dict[bytes, int] = {}
        """Number of words of each spelling that were indexed."""
        self.heads: dict[bytes, list[bytes]] = {}
        self.beginnings: Counter[bytes] = Counter()
        self.firsts: set[int] = set()
        self.ordinary = True
        """Whether every spelling consists of ordinary characters."""
        for secret in secrets:
            self.add(secret)

    def add(self, secret: ScrubbedSecret) -> None:
        """Search for one more value from now on; the oldest values are dropped when there are too many."""
        if not secret.scrubbable:
            return
        stored = self.values.setdefault(secret.id, OrderedDict())
        if secret.value in stored:
            stored.move_to_end(secret.value)
            return
        stored[secret.value] = None
        self.spell(secret)
        if secret.issued:
            self.note_issued(secret)
        elif len(stored) > MOST_OF_ONE:
            self.forget(secret.id, stored.popitem(last=False)[0])

    def note_issued(self, secret: ScrubbedSecret) -> None:
        """Limit the number of values issued by all hosts together."""
        self.issued.append((secret.id, secret.value))
        if len(self.issued) > MOST_ISSUED:
            id, value = self.issued.popleft()
            del self.values[id][value]
            self.forget(id, value)

    def spell(self, secret: ScrubbedSecret) -> None:
        found = list_spellings(secret.value)
        new = [one for one in found if one not in self.spelt]
        for one in found:
            self.spelt.setdefault(one, Counter())[secret.id] += 1
        for one in new:
            self.heads.setdefault(one[:WORD], []).append(one)
            self.beginnings.update(one[:size] for size in range(1, WORD))
            self.firsts.add(one[0])
            self.ordinary = self.ordinary and ORDINARY.issuperset(one)
        self.note_words(new)

    def note_words(self, new: list[bytes]) -> None:
        """Index the position of each word of a spelling. An index for a wider stride also works for a narrower one."""
        self.stride = min([self.stride, *((len(one) + 1) // WORD - 1 for one in new)])
        for one in new:
            self.noted[one] = self.stride * WORD
            for offset, word in _iterate_words(one, self.noted[one]):
                places = self.words.setdefault(word, {})
                places[offset, len(one)] = places.get((offset, len(one)), 0) + 1

    def forget(self, id: str, value: bytes) -> None:
        """Stop searching for a value of that id, but not for spellings that other values share."""
        for one in list_spellings(value):
            lower(self.spelt[one], id)
            if not self.spelt[one]:
                self.remove_spelling(one)

    def remove_spelling(self, one: bytes) -> None:
        """Remove a spelling from the index. First bytes stay: they only save searches."""
        del self.spelt[one]
        self.heads[one[:WORD]].remove(one)
        if not self.heads[one[:WORD]]:
            del self.heads[one[:WORD]]
        for size in range(1, WORD):
            lower(self.beginnings, one[:size])
        for offset, word in _iterate_words(one, self.noted.pop(one)):
            lower(self.words[word], (offset, len(one)))
            if not self.words[word]:
                del self.words[word]

    def stream(self) -> Stream:
        return Stream(self)

    def iterate_candidates(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield start and end of the places where a spelling may be, by the words found there."""
        words = memoryview(text)[: len(text) & -WORD].cast("Q")[:: self.stride]
        if self.words.keys().isdisjoint(words):
            return
        for i, word in enumerate(words):
            for offset, length in self.words.get(word, ()):
                start = i * self.stride * WORD - offset
                if start >= 0:
                    yield start, start + length

    def search(self, text: bytes, final: bool) -> tuple[list[tuple[int, int]], int, set[str]]:
        """Return where spellings are, where an incomplete one may begin (or the end), and the ids of their grants."""
        found: list[tuple[int, int]] = []
        ids: set[str] = set()
        cut = len(text) if final else self.cut_near_the_end(text)
        for start, end in self.iterate_candidates(text):
            if end > len(text):
                cut = start if start < cut and self.is_beginning(text[start:]) else cut
            elif whose := self.spelt.get(text[start:end]):
                found.append((start, end))
                ids |= whose.keys()
        return found, cut, ids

    def cut_near_the_end(self, text: bytes) -> int:
        """Return where near the end, in the part without a whole word to check, a spelling may begin, or the end."""
        if not self.spelt:
            return len(text)
        for start in range(max(0, len(text) - (self.stride + 1) * WORD + 2), len(text)):
            if text[start] in self.firsts and self.is_beginning(text[start:]):
                return start
        return len(text)

    def is_beginning(self, text: bytes) -> bool:
        if len(text) < WORD:
            return text in self.beginnings
        return any(len(one) > len(text) and one.startswith(text) for one in self.heads.get(text[:WORD], ()))


class Stream:
    """One response as it arrives. It holds back only what may be the beginning of a secret."""

    def __init__(self, scrubber: Scrubber) -> None:
        self.scrubber = scrubber
        self.hits: set[str] = set()
        """The ids of the secrets that were removed."""
        self.buffer = b""
        self.covered = 0
        """Number of held bytes that belong to a secret that was already replaced."""

    def feed(self, data: bytes) -> bytes:
        """Feed bytes; return those that may be passed on."""
        return self.step(self.buffer + data, final=False)

    def feed_last(self, data: bytes) -> bytes:
        """Feed the last bytes; return all the rest."""
        return self.step(self.buffer + data, final=True)

    def finish(self) -> bytes:
        """End the response; return the rest."""
        return self.step(self.buffer, final=True) if self.buffer else b""

    def scrub_headers(self, pairs: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Scrub the fields of a head one by one; a field whose name contains a secret is removed."""
        together = Stream(self.scrubber)
        together.step(b"\n".join([text for pair in pairs for text in pair]), final=True)  # no escape has a line end
        if not together.hits:
            return pairs
        return [(name, self.scrub_value(value)) for name, value in pairs if self.scrub_value(name) == name]

    def scrub_value(self, value: bytes) -> bytes:
        if len(value) < LEAST:
            return value  # escapes only make a secret longer
        alone = Stream(self.scrubber)
        clean = alone.step(value, final=True)
        self.hits |= alone.hits
        return clean

    def step(self, data: bytes, final: bool) -> bytes:
        """Replace the secrets that were found, and decide how many bytes may be passed on."""
        found, cut, ids = self.scrubber.search(data, final)
        readings = [
            DecodedBlock(data, way, pattern, final)
            for way in WAYS
            if way.mark in data
            for pattern in ((way.ordinary,) if self.scrubber.ordinary else (way.ordinary, way.every))
        ]
        for reading in readings:
            if reading.same and reading.size == len(data):
                continue
            more, read_cut, more_ids = self.scrubber.search(reading.text, final)
            found += [(reading.get_raw_start(start), reading.get_raw_end(end)) for start, end in more]
            ids |= more_ids
            cut = min(cut, reading.get_raw_start_of_last(len(reading.text) - read_cut))
        self.hits |= ids
        return self.replace(data, sorted(found), len(data) if final else cut)

    def replace(self, data: bytes, found: list[tuple[int, int]], cut: int) -> bytes:
        """Return the text before `cut` with each run of overlapping matches replaced once, and hold back the rest."""
        out: list[bytes] = []
        done = self.covered
        for start, end in found:
            if start >= cut:
                break
            if start >= done:
                out += (data[done:start], REMOVED)
            done = max(done, end)
        out.append(data[done:cut])
        self.buffer, self.covered = data[cut:], max(0, done - cut)
        return b"".join(out)
