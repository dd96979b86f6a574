from __future__ import annotations

import base64
import html
import itertools
import json
import random
import time
import zlib
from collections.abc import Callable
from urllib.parse import quote

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.door.secrets.encodings import PIECE, UnreadableError, make_decoder
from hotdesk.door.secrets.scrub import (
    MOST_ISSUED,
    MOST_OF_ONE,
    REMOVED,
    WAYS,
    ScrubbedSecret,
    Scrubber,
    list_scrubbed_secrets,
    list_spellings,
    unescape,
)

pytestmark = pytest.mark.slow

TOKEN = b"tok_9aXq2/Lm+4Zr8Vw1Yb6Nc3Hd5Jf7Kg0Ps-T_"
ODD = "pä ss%41\"wörd\\n&<é😀/+'".encode()
LIMIT = 64 << 20


def scrub(data: bytes, *values: bytes, cuts: tuple[int, ...] = ()) -> bytes:
    scrubber = Scrubber(ScrubbedSecret(f"g{i}", "n", value) for i, value in enumerate(values))
    stream, other = scrubber.stream(), scrubber.stream()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    out = b"".join(map(stream.feed, pieces)) + stream.finish()
    assert b"".join(map(other.feed, pieces[:-1])) + other.feed_last(pieces[-1]) + other.finish() == out
    return out


def jsoned(value: bytes) -> bytes:
    return json.dumps(value.decode())[1:-1].encode()


def every_unit(value: bytes, form: str) -> bytes:
    units = [int.from_bytes(pair, "big") for pair in pairs(value.decode().encode("utf-16-be"))]
    return "".join(form % unit for unit in units).encode()


def pairs(data: bytes) -> list[bytes]:
    return [data[i : i + 2] for i in range(0, len(data), 2)]


SPELT: dict[str, Callable[[bytes], bytes]] = {
    "itself": lambda v: v,
    "reversed": lambda v: v[::-1],
    "hex": lambda v: v.hex().encode(),
    "upper hex": lambda v: v.hex().upper().encode(),
    "base64": base64.b64encode,
    "base64 after one byte": lambda v: base64.b64encode(b"x" + v),
    "base64 after two bytes": lambda v: base64.b64encode(b"xy" + v),
    "base64 inside": lambda v: base64.b64encode(b'{"token": "' + v + b'"}'),
    "url-safe base64": lambda v: base64.urlsafe_b64encode(b"\xff\xfe" + v),
    "basic": lambda v: base64.b64encode(b"user:" + v),
    "base64 in a query": lambda v: quote(base64.b64encode(b"a" + v)).encode(),
    "base64 in json with slashes escaped": lambda v: base64.b64encode(v).replace(b"/", rb"\/"),
    "percent": lambda v: quote(v, safe="").encode(),
    "percent, lower": lambda v: b"".join(b"%%%02x" % c for c in v),
    "percent, upper": lambda v: b"".join(b"%%%02X" % c for c in v),
    "json": jsoned,
    "json, not ascii": lambda v: json.dumps(v.decode(), ensure_ascii=False)[1:-1].encode(),
    "json, slashes": lambda v: jsoned(v).replace(b"/", rb"\/"),
    "json, all": lambda v: every_unit(v, r"\u%04x"),
    "html": lambda v: html.escape(v.decode()).encode(),
    "html, decimal": lambda v: "".join(f"&#{ord(c)};" for c in v.decode()).encode(),
    "html, hex": lambda v: "".join(f"&#x{ord(c):X};" for c in v.decode()).encode(),
    "script": lambda v: b"".join(rb"\x%02x" % c for c in v),
    "percent, some": lambda v: v[:5] + b"%%%02x" % v[5] + v[6:-1] + b"%%%02X" % v[-1],
    "json, some": lambda v: v.replace(b"\\", b"\\\\").replace(b"s", rb"\u0073").replace(b"4", rb"\u0034"),
}


@pytest.mark.parametrize("form", SPELT)
@pytest.mark.parametrize("secret", [TOKEN, ODD, b"0123456789abcdef"], ids=["token", "odd", "shortest"])
def test_a_secret_is_removed_however_it_is_spelt(form: str, secret: bytes) -> None:
    spelt = SPELT[form](secret)
    for cut in range(len(spelt) + 1):
        out = scrub(b'<a>"' + spelt + b'"</a>', secret, cuts=(cut + 4, cut + 5))
        assert out.count(REMOVED) == 1
        assert spelt not in out
        assert not any(secret in unescape(out, way) for way in WAYS)
        assert out.startswith(b"<a>")
        assert out.endswith(b'"</a>')


NOISE = st.sampled_from(
    [TOKEN, TOKEN[:7], TOKEN[-9:], TOKEN[::-1], ODD, ODD[:9], b"%", b"\\", b"&#", b"\\u00", b"%4", b"x"]
)
ENCODED = st.builds(lambda form, v: SPELT[form](v), st.sampled_from(sorted(set(SPELT))), st.sampled_from([TOKEN, ODD]))
TEXT = st.lists(st.one_of(NOISE, ENCODED, st.binary(max_size=12)), max_size=12).map(b"".join)


@settings(max_examples=400, deadline=None)
@given(TEXT, st.lists(st.integers(0, 4000), max_size=6))
def test_any_split_gives_what_one_piece_gives_and_no_spelling_is_left(data: bytes, cuts: list[int]) -> None:
    out = scrub(data, TOKEN, ODD)
    assert scrub(data, TOKEN, ODD, cuts=tuple(cuts)) == out
    for form in set(SPELT) - {"basic", "base64 after one byte", "base64 after two bytes", "base64 inside"}:
        assert SPELT[form](TOKEN) not in out


@settings(max_examples=200, deadline=None)
@given(st.text("ab", min_size=16, max_size=24), st.text("ab", max_size=120), st.lists(st.integers(0, 120), max_size=5))
def test_secrets_that_overlap_themselves_are_removed_the_same_at_any_split(s: str, text: str, cuts: list[int]) -> None:
    out = scrub(text.encode(), s.encode())
    assert scrub(text.encode(), s.encode(), cuts=tuple(cuts)) == out
    assert s.encode() not in out


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"%41", b"\\", b"\\u0041", b"&amp;", TOKEN[:39]]))),
    st.integers(0, 400),
)
def test_text_without_secrets_is_left_as_it_is(parts: list[bytes], cut: int) -> None:
    data = b"|".join(parts)
    assert scrub(data, TOKEN, ODD, cuts=(cut,)) == data


def test_only_whole_secrets_are_removed_so_that_nothing_can_be_guessed_piece_by_piece() -> None:
    for size in range(len(TOKEN)):
        assert scrub(TOKEN[:size] + b"!", TOKEN) == TOKEN[:size] + b"!"
        assert scrub(b"!" + TOKEN[size + 1 :], TOKEN) == b"!" + TOKEN[size + 1 :]


def test_a_stream_of_a_secret_that_repeats_holds_no_more_than_one() -> None:
    stream = Scrubber([ScrubbedSecret("g", "n", b"a" * 16)]).stream()
    out = b"".join(stream.feed(b"a" * 1000) for _ in range(50))
    assert len(stream.buffer) < 100
    assert out + stream.finish() == REMOVED


def test_an_event_is_passed_on_at_once() -> None:
    stream = Scrubber([ScrubbedSecret("g", "n", TOKEN)]).stream()
    assert stream.feed(b"data: tok\n\n") == b"data: tok\n\n"
    assert stream.feed(b"data: " + TOKEN[:20]) == b"data: "
    assert stream.feed(b"\n\n") == TOKEN[:20] + b"\n\n"
    assert stream.feed(b"data: 100%\n\n") == b"data: 100%\n\n"


def test_headers_are_scrubbed_and_count_as_hits() -> None:
    stream = Scrubber([ScrubbedSecret("g", "n", TOKEN), ScrubbedSecret("h", "n", ODD)]).stream()
    assert stream.scrub_value(b"/next?back=" + quote(TOKEN[::-1]).encode()) == b"/next?back=" + REMOVED
    assert stream.scrub_value(b"sid=" + TOKEN + b"; HttpOnly") == b"sid=" + REMOVED + b"; HttpOnly"
    assert stream.hits == {"g"}


def test_the_fields_of_a_head_are_scrubbed_one_by_one() -> None:
    stream = Scrubber([ScrubbedSecret("g", "n", TOKEN)]).stream()
    halves = [(b"A", TOKEN[:20]), (b"B", TOKEN[20:])]
    assert stream.scrub_headers(halves) == halves
    assert not stream.hits
    assert stream.scrub_headers([(b"A", b"x"), (b"Sid", b"a=" + TOKEN)]) == [(b"A", b"x"), (b"Sid", b"a=" + REMOVED)]
    assert stream.hits == {"g"}


def test_short_secrets_are_not_looked_for_and_say_so() -> None:
    assert not ScrubbedSecret("g", "n", b"hunter2hunter22").scrubbable
    assert scrub(b"hunter2hunter22", b"hunter2hunter22") == b"hunter2hunter22"


def test_both_user_and_password_are_looked_for() -> None:
    stream = Scrubber(list_scrubbed_secrets("g", "n", "basic", b"ann:" + TOKEN)).stream()
    assert TOKEN not in stream.feed(b"pw=" + TOKEN + b" " + base64.b64encode(b"ann:" + TOKEN) + b" ")
    assert stream.finish() == b""
    assert [s.value for s in list_scrubbed_secrets("g", "n", "token", b"a:b")] == [b"a:b"]


def test_a_secret_added_later_is_found_in_streams_under_way() -> None:
    scrubber = Scrubber([ScrubbedSecret("g", "n", TOKEN)])
    stream = scrubber.stream()
    assert stream.feed(b"one ") == b"one "
    scrubber.add(ScrubbedSecret("h", "n", b"short-but-enough"))
    assert stream.feed(b"short-but-enough " + TOKEN + b" ") == REMOVED + b" " + REMOVED + b" "
    assert stream.hits == {"g", "h"}


def test_both_alphabets_of_base64_are_read_at_every_alignment() -> None:
    secret = bytes(range(0xF8, 0x100)) * 3
    for before in (b"", b"a", b"ab"):
        assert b"-_" in base64.urlsafe_b64encode(before + secret)
        assert REMOVED in scrub(base64.urlsafe_b64encode(before + secret), secret)
        assert REMOVED in scrub(base64.b64encode(before + secret), secret)


def test_a_stray_backslash_before_a_secret_does_not_hide_it() -> None:
    assert scrub(b"\\" + TOKEN.replace(b"/", rb"\/"), TOKEN, ODD) == b"\\" + REMOVED


def test_a_secret_shows_in_no_repr() -> None:
    assert TOKEN.decode() not in repr(ScrubbedSecret("g", "n", TOKEN))


def deflated(data: bytes, bits: int) -> bytes:
    made = zlib.compressobj(6, zlib.DEFLATED, bits)
    return made.compress(data) + made.flush()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda d: d,
    "identity": lambda d: d,
    "gzip": lambda d: deflated(d, 31),
    "X-GZip": lambda d: deflated(d[:9], 31) + deflated(d[9:], 31),
    "deflate": zlib.compress,
    "deflate ": lambda d: deflated(d, -15),
    "br": brotli.compress,
    "zstd": lambda d: zstandard.compress(d[:9]) + zstandard.compress(d[9:]),
    "gzip, br": lambda d: brotli.compress(deflated(d, 31)),
    "zstd,gzip": lambda d: deflated(zstandard.compress(d), 31),
}


def unpack(encoding: str, packed: bytes, step: int = 1 << 16, limit: int = LIMIT) -> bytes:
    reader = make_decoder(encoding.encode(), limit)
    assert reader is not None
    out = []
    for start in range(0, len(packed), step):
        for piece in reader.feed(packed[start : start + step]):
            assert len(piece) <= PIECE
            out.append(piece)
    reader.finish()
    return b"".join(out)


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("step", [1, 7, 1 << 16])
def test_every_listed_encoding_is_read_at_any_split(encoding: str, step: int) -> None:
    text = b"It is " + TOKEN + b", they said. " + random.Random(1).randbytes(3000)
    assert unpack(encoding, PACKED[encoding](text), step) == text
    assert TOKEN not in scrub(unpack(encoding, PACKED[encoding](text), step), TOKEN)


@pytest.mark.parametrize("encoding", [name for name in PACKED if name not in ("", "identity")])
def test_a_body_that_is_cut_short_or_broken_is_unreadable(encoding: str) -> None:
    packed = PACKED[encoding](b"some words " * 300)
    with pytest.raises(UnreadableError):
        unpack(encoding, packed[:-3])
    with pytest.raises(UnreadableError):
        unpack(encoding, b"\xff\xfe not this at all, whatever it is \x00\x01")
    with pytest.raises(UnreadableError):
        unpack(encoding, packed + b"and a tail")
    assert unpack(encoding, b"") == b""


@pytest.mark.parametrize("encoding", ["compress", "gzip, gzip, gzip", "aes128gcm", "gzip;q=1", "br, br", "zstd, br"])
def test_an_unknown_encoding_has_no_decoder(encoding: str) -> None:
    assert make_decoder(encoding.encode(), LIMIT) is None


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "gzip, br"])
def test_a_bomb_is_stopped_by_its_ratio_long_before_the_limit(encoding: str) -> None:
    packed = PACKED[encoding](bytes(32 << 20))
    with pytest.raises(UnreadableError, match="1000 times"):
        unpack(encoding, packed)


def test_a_bomb_gives_no_more_than_the_ratio_before_it_is_stopped() -> None:
    reader, given = make_decoder(b"br", LIMIT), []
    assert reader is not None
    with pytest.raises(UnreadableError):  # noqa: PT012 - what came before it counts
        for piece in reader.feed(brotli.compress(bytes(32 << 20))):
            given.append(len(piece))
    assert 0 < sum(given) <= 1 << 20


@pytest.mark.parametrize("encoding", ["", "gzip", "br", "zstd"])
def test_no_more_is_unpacked_than_the_caller_allows(encoding: str) -> None:
    data = random.Random(2).randbytes(5000)
    assert unpack(encoding, PACKED[encoding](data), limit=5000) == data
    with pytest.raises(UnreadableError, match="more than 4999 bytes"):
        unpack(encoding, PACKED[encoding](data), limit=4999)


def test_a_block_without_secrets_costs_little() -> None:
    made = random.Random(3)
    scrubber = Scrubber(ScrubbedSecret(str(i), "n", base64.b64encode(made.randbytes(30))) for i in range(5))
    block = b"".join(b'{"id": %d, "name": "%s"},\n' % (i, made.randbytes(8).hex().encode()) for i in range(1500))[
        :65536
    ]
    stream, begun = scrubber.stream(), time.process_time()
    for _ in range(50):
        stream.feed(block)
    rate = 50 * len(block) / (time.process_time() - begun) / (1 << 20)
    assert rate > 25, f"{rate:.0f} MiB/s; several hundred on an idle machine"


def numbered(i: int) -> bytes:
    return b"shared-beginning-%04d-and-its-end" % i


def looks_for(scrubber: Scrubber, value: bytes) -> list[bool]:
    return [REMOVED in scrubber.stream().scrub_value(b"<" + one + b">") for one in sorted(list_spellings(value))]


def test_of_a_secret_that_changes_at_every_use_the_last_values_are_looked_for() -> None:
    scrubber = Scrubber(ScrubbedSecret("g", "n", numbered(i)) for i in range(MOST_OF_ONE + 10))
    for i in range(MOST_OF_ONE + 10):
        assert set(looks_for(scrubber, numbered(i))) == {i >= 10}


def test_forgetting_a_value_affects_no_other() -> None:
    scrubber = Scrubber()
    for i in range(5 * MOST_OF_ONE):
        scrubber.add(ScrubbedSecret("g", "n", numbered(i)))
        scrubber.add(ScrubbedSecret("other", "n", numbered(3)))
    fresh = Scrubber([ScrubbedSecret("other", "n", numbered(3))])
    for i in range(4 * MOST_OF_ONE, 5 * MOST_OF_ONE):
        fresh.add(ScrubbedSecret("g", "n", numbered(i)))
    assert (scrubber.spelt, scrubber.words, scrubber.noted) == (fresh.spelt, fresh.words, fresh.noted)
    assert scrubber.beginnings == fresh.beginnings
    assert {k: set(v) for k, v in scrubber.heads.items()} == {k: set(v) for k, v in fresh.heads.items()}
    stream = scrubber.stream()
    assert stream.scrub_value(numbered(3)) == REMOVED
    assert stream.hits == {"other"}


def test_a_value_that_is_used_again_is_not_the_next_to_be_forgotten() -> None:
    scrubber = Scrubber(ScrubbedSecret("g", "n", numbered(i)) for i in range(MOST_OF_ONE))
    scrubber.add(ScrubbedSecret("g", "n", numbered(0)))
    scrubber.add(ScrubbedSecret("g", "n", numbered(MOST_OF_ONE)))
    assert all(looks_for(scrubber, numbered(0)))
    assert not any(looks_for(scrubber, numbered(1)))


def test_a_value_that_spells_another_is_looked_for_when_the_other_is_forgotten() -> None:
    scrubber = Scrubber([ScrubbedSecret("g", "n", numbered(0)), ScrubbedSecret("g", "n", numbered(0)[::-1])])
    for i in range(1, MOST_OF_ONE):
        scrubber.add(ScrubbedSecret("g", "n", numbered(i)))
    assert all(looks_for(scrubber, numbered(0)[::-1]))


def test_issued_values_of_all_hosts_are_limited_and_the_oldest_is_forgotten() -> None:
    scrubber = Scrubber(
        ScrubbedSecret(f"issued:{i % 3}", "n", numbered(i), issued=True) for i in range(MOST_ISSUED + 1)
    )
    scrubber.add(ScrubbedSecret("g", "n", TOKEN))
    assert not any(looks_for(scrubber, numbered(0)))
    assert all(all(looks_for(scrubber, numbered(i))) for i in (1, 2, MOST_ISSUED))
    assert scrubber.stream().scrub_value(TOKEN) == REMOVED
    assert len(scrubber.spelt) <= (MOST_ISSUED + 1) * len(list_spellings(TOKEN))
