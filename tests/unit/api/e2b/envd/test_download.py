"""Tests of downloads: ranges, compression and errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.api.e2b.envd.download import as_head, as_refusal, is_packed, parse_range
from hotdesk.api.e2b.envd.guest_files import GuestFilesError
from hotdesk.api.e2b.responses import E2bError
from hotdesk.errors import LinkError


@pytest.mark.parametrize(
    ("told", "size", "part"),
    [
        ("", 10, (0, 10)),
        ("bytes=0-", 10, (0, 10)),
        ("bytes=2-4", 10, (2, 5)),
        ("bytes=2-", 10, (2, 10)),
        ("bytes=2-99", 10, (2, 10)),
        ("bytes=-3", 10, (7, 10)),
        ("bytes=-99", 10, (0, 10)),
        ("bytes=9-9", 10, (9, 10)),
        ("bytes=-", 10, (0, 10)),
        ("bytes=0-1,3-4", 10, (0, 10)),
        ("lines=1-2", 10, (0, 10)),
        ("bytes=x-y", 10, (0, 10)),
        ("bytes=" + "9" * 30 + "-", 10, (0, 10)),
        ("bytes=1-2", 0, (0, None)),
    ],
)
def test_a_range_selects_a_part_and_an_invalid_one_selects_all(
    told: str, size: int, part: tuple[int, int | None]
) -> None:
    found = parse_range(told, size)
    assert (found.first, found.last) == part


@pytest.mark.parametrize("told", ["bytes=10-", "bytes=4-2", "bytes=-0", "bytes=999-1000"])
def test_a_range_without_a_byte_is_refused(told: str) -> None:
    with pytest.raises(E2bError) as caught:
        parse_range(told, 10)
    assert caught.value.status == 416


@pytest.mark.slow
@given(st.text(max_size=30) | st.from_regex(r"bytes=[0-9]{0,18}-[0-9]{0,18}", fullmatch=True), st.integers(0, 1 << 59))
def test_a_range_stays_within_its_file(told: str, size: int) -> None:
    try:
        part = parse_range(told, size)
    except E2bError:
        return
    assert 0 <= part.first < (part.last or 1) <= max(size, 1)


@pytest.mark.parametrize(
    ("told", "packed"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("gzip;q=0.5", True),
        ("", False),
        ("gzip, deflate", False),
        ("gzip;q=0", False),
        ("identity", False),
        ("br", False),
        ("gzip, identity;q=0", True),
        ("identity;q=0", None),
        ("br, *;q=0", None),
        ("br, *;q=0.0", None),
        ("br, identity; q=0", None),
    ],
)
def test_a_file_is_compressed_if_the_client_requires_it(told: str, packed: bool | None) -> None:
    if packed is None:
        with pytest.raises(E2bError) as caught:
            is_packed(told)
        assert caught.value.status == 406
    else:
        assert is_packed(told) is packed


@pytest.mark.parametrize(
    ("code", "status"),
    [("ENOENT", 404), ("EISDIR", 400), ("ENOSPC", 507), ("EDQUOT", 507), ("ELOOP", 400), ("EEXIST", 400),
     ("EROFS", 400), ("ENOTSUP", 400), ("ETXTBSY", 400), ("EIO", 500)],
)  # fmt: skip
def test_an_error_inside_has_its_http_status(code: str, status: int) -> None:
    assert as_refusal(GuestFilesError(code, "so it is"), "/f").status == status


@pytest.mark.parametrize(
    "frame",
    [
        ("D", b"{}"), ("H", b""), ("H", b"[]"), ("H", b'{"size": -1, "modified": 0}'), ("H", b'{"size": "1"}'),
        ("H", b'{"size": 1e400, "modified": 0}'), ("H", b"\xff"), ("H", b"[" * 100_000),
    ],
)  # fmt: skip
def test_a_file_with_a_malformed_description_is_not_sent(frame: tuple[str, bytes]) -> None:
    with pytest.raises(LinkError):
        as_head(frame)
