"""Checks that every program reads an archive in the same way. Runs inside a clean desk."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator

from hotdesk.checks.inside.active_found import Found, TooMuchError

MAX_MEMBER_BYTES = 128 << 20
"""Maximum bytes of an unpacked member."""
MOST_PARTS = 20_000
RATIO = 300
"""Maximum compression ratio of a member that is larger than `SMALL`."""
SMALL = 8 << 20
MAX_PART_BYTES = 1 << 20
END = b"PK\x05\x06"
LOCAL = struct.Struct("<4sHHHHHIIIHH")
ENDED = struct.Struct("<4sHHHHIIH")
EXTRA = struct.Struct("<HH")
WIDE = struct.Struct("<4sQHHIIQQQQ")
LOCATOR = struct.Struct("<4sIQI")
SIGNIFICANT_FLAGS = 0x2849
"""Flags that change how a member is read: encrypted, sizes after the data, UTF-8 names, encrypted directory."""
SIZES_FOLLOW = 8
WIDE_SIZES = 1
"""Extra field with sizes of 64 bits."""
PLAIN_EXTRA = frozenset({0x0001, 0x000A, 0x5455, 0x5855, 0x7855, 0x7875, 0xA220, 0xCAFE})
"""Extra fields that only have times, owners, sizes or padding."""
OTHER_NAME = 0x7075
"""Extra field with a second name, which some programs use instead of the first."""
LINK = 0o120000
ESCAPED = re.compile(r"%[0-9a-fA-F]{2}")
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    OSError,
    ValueError,
)


def open_archive(data: bytes, found: Found, where: str) -> zipfile.ZipFile | None:
    try:
        file = zipfile.ZipFile(io.BytesIO(data))
        inspect_names(file, found, where)
        _inspect_layout(data, file, found, where)
    except BROKEN as e:
        found.add("unreadable", where, f"an archive that cannot be opened: {e}")
        return None
    return file


def inspect_names(file: zipfile.ZipFile, found: Found, where: str) -> None:
    by_folded_name: dict[str, str] = {}
    for name in file.namelist():
        if name.casefold() in by_folded_name:
            same = "twice" if by_folded_name[name.casefold()] == name else "twice, with different case"
            found.add("ambiguous-archive", where + name, f"a name that appears {same}")
        by_folded_name[name.casefold()] = name
        if _leads_out(name):
            found.add(
                "ambiguous-archive",
                where + name,
                "a name that leads out of the archive's folder, or has invalid characters",
            )
    for info in file.infolist():
        if info.external_attr >> 16 & 0o170000 == LINK:
            found.add("ambiguous-archive", where + info.filename, "a link to another file")
        if "\0" in info.orig_filename:
            found.add(
                "ambiguous-archive", where + info.filename, "a name with a zero byte, at which some programs end it"
            )
        if info.is_dir() and (info.file_size or info.compress_size > 2):
            found.add("ambiguous-archive", where + info.filename, "a folder with data")
        if info.comment:
            found.add("ambiguous-archive", where + info.filename, "a comment on a member")


def _leads_out(name: str) -> bool:
    """Return whether a name is anything but a plain path below the archive's folder."""
    parts = name.removesuffix("/").split("/")
    strange = "\\" in name or ":" in name or not name.isprintable() or ESCAPED.search(name)
    return bool(strange) or any(part in ("", ".", "..") for part in parts)


def _inspect_layout(data: bytes, file: zipfile.ZipFile, found: Found, where: str) -> None:
    """Find bytes that belong to no member or to two: before, between and after the members."""
    end = data.rfind(END)
    if end < 0:
        raise zipfile.BadZipFile("the archive is incomplete: its end-of-central-directory record is missing")
    *_, comment = ENDED.unpack_from(data, end)
    if end + ENDED.size != len(data):
        trailer = "a comment" if comment and end + ENDED.size + comment == len(data) else "data"
        found.add("ambiguous-archive", where, f"{trailer} after the end of the archive")
    if not _is_consistent(data, end, file):
        found.add("ambiguous-archive", where, "an end record that does not describe the archive's directory")
    if data.count(END) > 1 and data.find(END) != end and _is_directory(data, data.find(END)):
        found.add("ambiguous-archive", where, "a second archive inside the same file")
    at = loose = 0
    for info in sorted(file.infolist(), key=lambda each: each.header_offset):
        signature, _, flags, method, _, _, *sizes, name_size, more = LOCAL.unpack_from(data, info.header_offset)
        if signature != b"PK\x03\x04":
            raise zipfile.BadZipFile("a file in the archive is not at the offset given in the archive's directory")
        begun = info.header_offset + LOCAL.size
        name, local = data[begun : begun + name_size], data[begun + name_size : begun + name_size + more]
        if what := _describe_difference(info, flags, method, tuple(sizes), name, local):
            found.add("ambiguous-archive", where + info.filename, what)
        for fields in (info.extra, local):
            if what := _describe_strange_field(fields, name):
                found.add("ambiguous-archive", where + info.filename, what)
        if not at <= info.header_offset <= at + loose:
            found.add(
                "ambiguous-archive",
                where + info.filename,
                "bytes before this member that belong to no member, or to two members",
            )
        at = info.header_offset + LOCAL.size + name_size + more + info.compress_size
        loose = 24 if info.flag_bits & 8 else 0  # sizes that follow the member's data
    if file.infolist() and not at <= file.start_dir <= at + loose:
        found.add("ambiguous-archive", where, "bytes between the members and the directory of the archive")


def _is_consistent(data: bytes, end: int, file: zipfile.ZipFile) -> bool:
    """Return whether the end records state the directory's real place, size and number of members."""
    _, disk, first, *stated, _ = ENDED.unpack_from(data, end)
    count, size = len(file.infolist()), end - file.start_dir
    at = end - LOCATOR.size
    wide = at >= WIDE.size and data.startswith(b"PK\x06\x07", at)
    if wide:
        size -= LOCATOR.size + WIDE.size
    actual = (count, count, size, file.start_dir)
    if not wide:
        return disk == first == 0 and tuple(stated) == actual
    record = WIDE.unpack_from(data, at - WIDE.size)
    located = LOCATOR.unpack_from(data, at)[1:] == (0, at - WIDE.size, 1)
    ones = (0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    same = all(value in (real, one) for value, real, one in zip(stated, actual, ones, strict=True))
    return located and same and record[:2] == (b"PK\x06\x06", WIDE.size - 12) and record[4:] == (0, 0, *actual)


def _describe_difference(
    info: zipfile.ZipInfo, flags: int, method: int, sizes: tuple[int, ...], name: bytes, local: bytes
) -> str:
    """Describe what the header before a member states otherwise than the directory."""
    if (flags ^ info.flag_bits) & SIGNIFICANT_FLAGS or method != info.compress_type:
        return "a header that reads this member in another way than the archive's directory does"
    encoding = "utf-8" if flags & 0x800 else "cp437"
    if name != info.orig_filename.encode(encoding, "replace"):
        return "another name in the header than in the archive's directory"
    follow = flags & SIZES_FOLLOW
    if follow and method == zipfile.ZIP_STORED and info.compress_size:
        return "stored data whose size some programs do not know"
    crc, packed, size = sizes
    if packed == size == 0xFFFFFFFF and len(wide := _find_field(local, WIDE_SIZES)) >= 16:
        size, packed = struct.unpack_from("<QQ", wide)
    expected = (info.CRC, info.compress_size, info.file_size)
    if not all(
        value == real or (follow and value == 0) for value, real in zip((crc, packed, size), expected, strict=True)
    ):
        return "another size or checksum in the header than in the archive's directory"
    return ""


def _find_field(extra: bytes, number: int) -> bytes:
    at = 0
    while at + EXTRA.size <= len(extra):
        kind, size = EXTRA.unpack_from(extra, at)
        if kind == number:
            return extra[at + EXTRA.size : at + EXTRA.size + size]
        at += EXTRA.size + size
    return b""


def _describe_strange_field(extra: bytes, name: bytes) -> str:
    at = 0
    while at + EXTRA.size <= len(extra):
        kind, size = EXTRA.unpack_from(extra, at)
        value, at = extra[at + EXTRA.size : at + EXTRA.size + size], at + EXTRA.size + size
        if kind == OTHER_NAME and value[5:] != name:
            return f"a second name, which some programs use: {value[5:105].decode('utf-8', 'replace')}"
        if kind not in (*PLAIN_EXTRA, OTHER_NAME):
            return f"an extra field that cannot be inspected: {kind:#06x}"
    return "" if not extra[at:].strip(b"\0") and at <= len(extra) else "truncated extra fields"


def _is_directory(data: bytes, at: int) -> bool:
    """Return whether the bytes before a possible end record are a directory of members."""
    if at + ENDED.size > len(data):
        return False
    _, disk, first, here, there, size, offset, _ = ENDED.unpack_from(data, at)
    return (
        disk == first == 0 and here == there and size + offset <= at and data[at - size :][:4] in (b"PK\x01\x02", END)
    )


def unpack_members(file: zipfile.ZipFile, found: Found, where: str) -> Iterator[tuple[str, bytes]]:
    infos = [info for info in file.infolist() if not info.is_dir()]
    if len(infos) > MOST_PARTS:
        found.add("archive-bomb", where, f"{len(infos)} members")
    for info in infos[:MOST_PARTS]:
        at = where + info.filename
        found.parts += 1
        if info.flag_bits & 0x41:
            found.add("encrypted", at, "a member that needs a password")
        elif _is_bomb(info):
            found.add("archive-bomb", at, f"{info.file_size} bytes packed into {info.compress_size}")
        else:
            data = _unpack_member(file, info, found, at)
            if data is not None:
                yield info.filename, data


def _is_bomb(info: zipfile.ZipInfo) -> bool:
    packed = max(info.compress_size, 1)
    return info.file_size > MAX_MEMBER_BYTES or (info.file_size > SMALL and info.file_size / packed > RATIO)


def _unpack_member(file: zipfile.ZipFile, info: zipfile.ZipInfo, found: Found, at: str) -> bytes | None:
    """Return a member's data, or `None` if it cannot be unpacked."""
    try:
        with file.open(info) as source:
            data = source.read(min(MAX_MEMBER_BYTES, found.remaining) + 1)
            found.spend(len(data))
            if source.read(1):
                found.add("archive-bomb", at, "more data than its declared size")
                return None
        if info.compress_type == zipfile.ZIP_DEFLATED and not _ends_exactly(file, info):
            found.add("ambiguous-archive", at, "compressed data that ends before or after its declared size")
    except TooMuchError:
        raise
    except BROKEN as e:
        found.add("unreadable", at, f"a member that cannot be unpacked: {e}")
        return None
    return data


def _ends_exactly(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> bool:
    """Return whether the compressed data are all of a member, and unpack to its declared size.

    Python stops at the declared size. A program that reads a stream goes on to the end of the compressed data, and
    looks for the next member there.
    """
    source = file.fp
    assert source is not None
    source.seek(info.header_offset)
    *_, name_size, more = LOCAL.unpack(source.read(LOCAL.size))
    source.seek(name_size + more, 1)
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    remaining, size = info.compress_size, 0
    while remaining > 0 and not inflating.eof and size <= info.file_size:
        part = source.read(min(remaining, 1 << 16))
        remaining -= len(part)
        if not part:
            return False
        while size <= info.file_size:
            size += len(inflating.decompress(part, MAX_PART_BYTES))
            part = inflating.unconsumed_tail
            if not part:
                break
    return inflating.eof and not remaining and not inflating.unused_data and size == info.file_size
