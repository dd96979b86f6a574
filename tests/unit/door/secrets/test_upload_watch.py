from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator, Sequence

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.outgoing import P

from hotdesk.door.secrets.encodings import MEMBERS, UnreadableError, make_decoder
from hotdesk.door.secrets.placeholder import PLACEHOLDER
from hotdesk.door.secrets.upload_watch import AT_ONCE, FREE, RATIO, UploadWatcher, make_watcher


def watched(data: bytes, cuts: Sequence[int]) -> tuple[bytes, bytes | None]:
    eye = UploadWatcher()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    out = b"".join(eye.feed(data[a:b]) for a, b in itertools.pairwise(edges))
    return out + eye.finish(), eye.found


NEAR = st.sampled_from(
    [
        P,
        P[:-1],
        P[:20],
        P[5:],
        b"hotdesk-",
        b"hotdesk-secret-",
        b"hotdesk-secret-a-",
        b"-" * 30,
        b"a" * 26,
        b"x",
        b"h",
        b" ",
    ]
)
CUTS = st.lists(st.integers(0, 600), max_size=8)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(st.one_of(NEAR, st.binary(max_size=5)), max_size=10).map(b"".join), CUTS)
def test_no_placeholder_leaves_whole_in_a_body_whatever_the_split(data: bytes, cuts: list[int]) -> None:
    out, found = watched(data, cuts)
    assert not PLACEHOLDER.search(out)
    assert bool(found) == bool(PLACEHOLDER.search(data))
    assert data.startswith(out)
    assert found or out == data


def test_the_longest_placeholder_does_not_leave_at_any_split() -> None:
    longest = b"hotdesk-secret-" + b"n" * 64 + b"-" + b"a" * 26
    for cut in range(len(longest)):
        assert watched(b"x" + longest + b"x", [cut])[1] == longest
        assert len(watched(b"x" + longest + b"x", [cut])[0]) <= 1


def test_data_that_cannot_be_a_placeholder_is_not_held_back() -> None:
    eye = UploadWatcher()
    assert eye.feed(b"hotdesk-secret-x\n") == b"hotdesk-secret-x\n"
    assert eye.feed(b"the h") == b"the "
    assert eye.feed(b"at hotdesk-secret-" + b"a" * 200) == b"hat hotdesk-secret-" + b"a" * 200


def test_after_a_placeholder_nothing_more_leaves() -> None:
    eye = UploadWatcher()
    assert eye.feed(b"x" + P) == b""
    assert eye.found == P
    assert eye.feed(b"more") + eye.finish() == b""


@pytest.mark.parametrize("step", [1, 50, 5000])
def test_a_placeholder_inside_a_compressed_body_does_not_leave(step: int) -> None:
    packed = gzip.compress(b'{"a": "' + b"filling " * 50 + P + b'"}')
    eye, out = make_watcher(b"gzip", granted=False), b""
    for start in range(0, len(packed), step):
        out += eye.feed(packed[start : start + step])
    assert eye.found == P
    assert len(out) < len(packed) - 8
    clean = make_watcher(b"gzip", granted=True)
    assert clean.feed(gzip.compress(b"fine")) + clean.finish() == gzip.compress(b"fine")


def test_an_unreadable_body_is_sent_to_no_granted_host() -> None:
    with pytest.raises(UnreadableError):
        make_watcher(b"compress", granted=True)
    assert make_watcher(b"compress", granted=False).feed(b"x") == b"x"
    with pytest.raises(UnreadableError):
        make_watcher(b"gzip", granted=False).feed(b"no gzip")


@pytest.mark.parametrize("packing", [b"gzip, gzip", b"gzip,br", b"identity, gzip, deflate", b"no, such"])
@pytest.mark.parametrize("granted", [True, False])
def test_a_body_packed_twice_is_not_unpacked_at_all(packing: bytes, granted: bool) -> None:
    with pytest.raises(UnreadableError, match="more than one"):
        make_watcher(packing, granted)


@pytest.mark.parametrize("bits", range(10, 25))
def test_a_brotli_body_has_a_window_of_8_mib_at_most(bits: int) -> None:
    packed = brotli.compress(b"fine", lgwin=bits)
    eye = make_watcher(b"br", granted=True)
    if bits <= 23:
        assert eye.feed(packed[:1]) + eye.feed(packed[1:]) + eye.finish() == packed
    else:
        with pytest.raises(UnreadableError, match="window exceeds 8 MiB"):
            eye.feed(packed[:1])


@pytest.mark.parametrize("packing", [b"gzip", b"identity, GZIP", b"gzip,"])
def test_a_body_packed_once_is_unpacked_however_it_is_declared(packing: bytes) -> None:
    eye = make_watcher(packing, granted=True)
    eye.feed(gzip.compress(P))
    assert eye.found == P


def test_a_request_unpacks_to_a_hundred_times_its_size_at_most() -> None:
    make_watcher(b"gzip", granted=False).feed(gzip.compress(bytes(FREE)))
    packed = gzip.compress(bytes(AT_ONCE // 2))
    assert len(packed) * RATIO < AT_ONCE // 2
    with pytest.raises(UnreadableError, match="100 times"):
        make_watcher(b"gzip", granted=False).feed(packed)


class Endless:
    """Unpacks whatever it is fed to one piece after another, and counts them."""

    def __init__(self) -> None:
        self.given = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            self.given += 1 << 20
            yield bytes(1 << 20)

    def finish(self) -> None:
        pass


def test_what_is_fed_at_once_is_unpacked_up_to_a_limit() -> None:
    endless = Endless()
    with pytest.raises(UnreadableError, match="unpacks to more than"):
        UploadWatcher(endless).feed(b"x")
    assert endless.given == AT_ONCE + (1 << 20)


@pytest.mark.parametrize(
    ("packing", "empty"), [(b"gzip", gzip.compress(b"", mtime=0)), (b"zstd", zstandard.compress(b""))]
)
def test_a_body_of_very_many_members_is_not_gone_through(packing: bytes, empty: bytes) -> None:
    eye = make_watcher(packing, granted=False)
    assert eye.feed(empty * MEMBERS) + eye.feed(empty * MEMBERS) == empty * 2 * MEMBERS
    with pytest.raises(UnreadableError, match="more than 256"):
        make_watcher(packing, granted=False).feed(empty * (MEMBERS + 1))


@pytest.mark.slow
def test_a_chain_of_encodings_is_measured_by_what_comes_in_at_its_beginning() -> None:
    once = gzip.compress(bytes(64 << 20))
    chain = make_decoder(b"gzip, gzip", 1 << 40)
    assert chain is not None
    given: list[int] = []
    with pytest.raises(UnreadableError, match="times as large"):
        given.extend(map(len, chain.feed(gzip.compress(once))))
    assert sum(given) <= 1 << 20
