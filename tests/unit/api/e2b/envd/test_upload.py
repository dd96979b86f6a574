"""Tests of uploads, as raw bytes or as a form, whatever pieces the bytes arrive in."""

from __future__ import annotations

import gzip
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from tests.sent_bodies import asked, run

from hotdesk.api.e2b.envd import upload
from hotdesk.api.e2b.responses import E2bError

KIND = "multipart/form-data; boundary=edge"
CUTS = st.lists(st.integers(0, 600), max_size=8)
PART = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="%b"\r\n\r\n%b\r\n'


def form(*parts: tuple[bytes, bytes]) -> bytes:
    return b"".join(PART % part for part in parts) + b"--edge--\r\n"


def read(data: bytes, cuts: Iterable[int] = (), kind: str = KIND) -> list[tuple[str, str, bytes]]:
    async def found() -> list[tuple[str, str, bytes]]:
        parts = upload.UploadForm(kind, upload.read_body(asked(data, cuts))).iterate_parts()
        return [(name, filename, b"".join([piece async for piece in data])) async for name, filename, data in parts]

    return run(found())


def unpacked(data: bytes, cuts: Iterable[int] = ()) -> list[bytes]:
    async def found() -> list[bytes]:
        return [piece async for piece in upload.read_body(asked(data, cuts, {"content-encoding": "gzip"}))]

    return run(found())


@pytest.mark.slow
@given(st.lists(st.binary(max_size=100), max_size=4), CUTS)
def test_a_form_is_the_same_however_its_bytes_are_cut(contents: list[bytes], cuts: list[int]) -> None:
    contents = [one for one in contents if b"--edge" not in one]
    parts = [(b"/a/%d.txt" % place, one) for place, one in enumerate(contents)]
    assert read(form(*parts), cuts) == [("file", name.decode(), one) for name, one in parts]


@given(st.binary(max_size=200), st.sampled_from([b"", b"--edge\r\n", b"--edge\r\nContent-Disposition: "]), CUTS)
def test_bytes_that_are_not_a_form_are_the_callers_error(data: bytes, before: bytes, cuts: list[int]) -> None:
    with pytest.raises(E2bError) as caught:
        read(before + data, cuts)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "multipart/form-data", "multipart/form-data; boundary=", "multipart/mixed; boundary=edge",
     "multipart/form-data; boundary*=x''%ff", "multipart/form-data; boundary=" + "e" * 300, ";;;=", "\xff"],
)  # fmt: skip
def test_another_content_type_is_refused(kind: str) -> None:
    with pytest.raises(E2bError) as caught:
        read(form((b"a", b"b")), kind=kind)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"--edge",
        b"--other\r\n\r\n--other--",
        PART % (b"a", b"b"),
        b"--edge\r\nContent-Disposition: form-data; name=file",
        b"--edge\r\n: nothing\r\n\r\nx\r\n--edge--\r\n",
        b"--edge\r\n\r\n\r\n",
        b"--edge\r\nX-Long: " + b"x" * 9000 + b"\r\n\r\nx\r\n--edge--\r\n",
        b"--edge\r\n" + b"X: y\r\n" * 3000 + b"\r\nx\r\n--edge--\r\n",
    ],
    ids=["nothing", "an edge", "another edge", "no end", "no end of the head", "no name", "no end of a part",
         "a long header", "many headers"],
)  # fmt: skip
def test_a_malformed_form_is_refused(data: bytes) -> None:
    with pytest.raises(E2bError) as caught:
        read(data)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("told", "field", "filename"),
    [
        ('form-data; name="file"; filename="/home/user/a b.txt"', "file", "/home/user/a b.txt"),
        ("form-data; name=file; filename=a.txt", "file", "a.txt"),
        (r'form-data; name="file"; filename="a\"b\\c"', "file", 'a"b\\c'),
        ('form-data; filename="x;name=y"; name="file"', "file", "x;name=y"),
        ('form-data; name="file"; filename="../../x"', "file", "../../x"),
        ('form-data; NAME="file"; FileName="hä"', "file", "hä"),
        ("form-data", "", ""),
        ("", "", ""),
        ('form-data; name="', "", ""),
    ],
)
def test_the_full_path_of_a_part_is_its_name(told: str, field: str, filename: str) -> None:
    assert upload.parse_disposition({"content-disposition": told}) in [(field, filename), ('"', filename)]


@pytest.mark.slow
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=3), CUTS)
def test_gzip_data_in_any_pieces_is_unpacked(contents: list[bytes], cuts: list[int]) -> None:
    packed = b"".join(gzip.compress(one, mtime=0) for one in contents)
    assert b"".join(unpacked(packed, cuts)) == b"".join(contents)


def test_highly_compressed_data_is_unpacked_in_pieces() -> None:
    pieces = unpacked(gzip.compress(bytes(10 << 20), mtime=0))
    assert max(map(len, pieces)) <= upload.PIECE
    assert sum(map(len, pieces)) == 10 << 20


@pytest.mark.parametrize(
    "data",
    [b"", b"plain", gzip.compress(b"x" * 99, mtime=0)[:-1], gzip.compress(b"x", mtime=0)[:-8] + bytes(8)],
    ids=["nothing", "plain", "cut", "another sum"],
)
def test_data_that_is_not_gzip_is_refused(data: bytes) -> None:
    with pytest.raises(E2bError, match="gzip"):
        unpacked(data)


def test_a_file_whose_sender_disconnects_is_an_error() -> None:
    async def found() -> list[bytes]:
        return [piece async for piece in upload.read_body(asked(b"half", whole=False))]

    with pytest.raises(E2bError, match="disconnected"):
        run(found())


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, {}),
        ({"X-Metadata-Key": "Value"}, {"key": "Value"}),
        ({"X-Metadata-A": "", "Other": "x"}, {"a": ""}),
        ({"X-Metadata-" + "k" * 246: "v"}, {"k" * 246: "v"}),
        ({"X-Metadata-" + "k" * 247: "v"}, None),
        ({"X-Metadata-": "v"}, None),
        ({"X-Metadata-A": "tab\there"}, None),
        ({"X-Metadata-A": "h\xe4"}, None),
        ({"X-Metadata-A/B": "v"}, None),
        ({"X-Metadata-A": "v" * 4095}, {"a": "v" * 4095}),
        ({"X-Metadata-A": "v" * 4096}, None),
    ],
)
def test_notes_are_short_and_printable(headers: dict[str, str], found: dict[str, str] | None) -> None:
    if found is None:
        with pytest.raises(E2bError, match="metadata"):
            upload.parse_metadata(Headers(headers))
    else:
        assert upload.parse_metadata(Headers(headers)) == found
