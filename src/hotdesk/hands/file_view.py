"""Views of a desk's files and folders for a model."""

from __future__ import annotations

import time
from contextlib import aclosing

from hotdesk.config import MIB
from hotdesk.desk.seam import Desk, Entry
from hotdesk.errors import FileError, make_printable
from hotdesk.hands.output import escape_line
from hotdesk.hands.page_view import describe_alternatives, find_kind, show_page
from hotdesk.hands.picture import Sight
from hotdesk.tool import Arguments, Observation, get_integer

SHOWN = 20_000
"""Characters of a file or listing that are shown."""
_LONG_LINE = 1000
SCANNED = 256 * MIB
"""Bytes of a file that are read to find a line."""
LISTED = 2000
_AROUND = 3
"""Lines shown before and after a change."""
_MAGICS: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"%PDF-", 0, "a PDF document"),
    (b"PK\x03\x04", 0, "a ZIP archive or office document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0, "an office document"),
    (b"\x1f\x8b", 0, "a gzip archive"),
    (b"\x7fELF", 0, "a program"),
    (b"SQLite format 3\0", 0, "an SQLite database"),
)


def detect_kind(data: bytes) -> str:
    """Describe a file by its first bytes: the media type of a picture, or a description; empty if unknown."""
    return next((kind for magic, place, kind in _MAGICS if data[place : place + len(magic)] == magic), "")


async def show(desk: Desk, path: str, arguments: Arguments, sight: Sight) -> Observation:
    """Show a file or a folder; a picture or a page as an image, if the model can see images."""
    start, end = get_integer(arguments, "start", 1), get_integer(arguments, "end")
    if end and end < start:
        return Observation(f"end ({end}) must not be smaller than start ({start}).", ok=False)
    try:
        shown = await _show_file(desk, path, start, end)
    except FileError as e:
        if e.reason != "directory":
            raise
    else:
        if isinstance(shown, Observation):
            return shown
        return await _show_other(desk, path, shown, get_integer(arguments, "page", 1), sight)
    return await _show_folder(desk, path, get_integer(arguments, "depth", 1))


async def _show_folder(desk: Desk, path: str, depth: int) -> Observation:
    entries = await desk.list(path, depth=depth, limit=LISTED)
    lines = [describe(entry, path) for entry in entries]
    text, omitted = fit_lines(lines)
    note = f"\n… {omitted:,} more entries; list a subfolder, or use find_files" if omitted else ""
    return Observation(f"{make_printable(path)} has {len(entries):,} entries:\n{text}{note}")


def describe(entry: Entry, top: str) -> str:
    name = make_printable(entry.path.removeprefix(top).lstrip("/"))
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(min(max(entry.modified, 0), 4e9)))
    match entry.kind:
        case "directory":
            return f"{'':>12}  {when}  {name}/"
        case "symlink":
            return f"{'':>12}  {when}  {name} -> {make_printable(entry.target or '')}"
    return f"{entry.size:>12,}  {when}  {name}"


def fit_lines(lines: list[str]) -> tuple[str, int]:
    size = 0
    for count, line in enumerate(lines):
        size += len(line) + 1
        if size > SHOWN:
            return "\n".join(lines[:count]), len(lines) - count
    return "\n".join(lines), 0


async def _show_file(desk: Desk, path: str, start: int, end: int) -> Observation | bytes:
    """Show lines of a text file; return the first bytes of any other file."""
    async with aclosing(desk.read_stream(path)) as stream:
        page = FilePage(start, end)
        async for data in stream:
            if page.is_other(data):
                return bytes(data)
            page.feed(data)
            if page.full:
                break
        page.finish()
    return Observation(page.render(path), ok=page.has_requested_lines(), note=page.note)


async def _show_other(desk: Desk, path: str, data: bytes, page: int, sight: Sight) -> Observation:
    """Show a binary file as an image if it is a picture or has pages; describe any other."""
    described = detect_kind(data)
    size = (await desk.stat(path)).size
    kind = find_kind(path, described)
    if kind is None:
        what = described or "not a text file"
        return Observation(f"{make_printable(path)} is {what} ({size:,} bytes). Open it with a program in the shell.")
    name = f"a picture ({described}, {size:,} bytes)" if kind == "picture" else f"{described} ({size:,} bytes)"
    what = f"{make_printable(path)} is {name}."
    if not sight.sees:
        return Observation(f"{what} {describe_alternatives(kind, sight)}")
    return await show_page(desk, path, kind, page, what)


class FilePage:
    """Collects some lines of a file while it is streamed; without I/O."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.lines: list[str] = []
        self.size = 0
        self.line = 1
        """Number of the next line."""
        self.rest = bytearray()
        self.read = 0
        self.full = False
        self.note = ""

    def is_other(self, data: bytes) -> bool:
        return self.read == 0 and (bool(detect_kind(data)) or b"\0" in data[:8192])

    def feed(self, data: bytes) -> None:
        """Feed more bytes of the file; of a long line only the part to show is stored."""
        self.read += len(data)
        *whole, last = data.split(b"\n")
        for part in whole:
            self.take(self.rest + part)
            self.rest.clear()
            if self.full:
                return
        self.rest += last[: 8 * _LONG_LINE]
        del self.rest[8 * _LONG_LINE :]
        if self.read > SCANNED:
            self.full, self.note = True, f"only the first {SCANNED // MIB} MiB were read; use search for the rest"

    def finish(self) -> None:
        if self.rest and not self.full:
            self.take(self.rest)

    def take(self, data: bytes | bytearray) -> None:
        number, self.line = self.line, self.line + 1
        if number < self.start:
            return
        text = format_line(number, data)
        if self.size + len(text) > SHOWN and self.lines:
            self.full, self.note = True, f"the file continues at line {number}: use start={number}"
            return
        self.lines.append(text)
        self.size += len(text) + 1
        self.full = number == self.end

    def has_requested_lines(self) -> bool:
        return bool(self.lines) or self.line == 1 == self.start

    def render(self, path: str) -> str:
        if self.lines:
            return "\n".join(self.lines)
        if self.has_requested_lines():
            return f"{make_printable(path)} is empty."
        return f"{make_printable(path)} has only {self.line - 1} lines; start is {self.start}."


def format_line(number: int, data: bytes | bytearray) -> str:
    """Show a line as it is: what a terminal would hide or overwrite is escaped, because edits need the exact text."""
    text = escape_line(data.removesuffix(b"\r").decode("utf-8", "replace"))
    return f"{number:>6}\t{text if len(text) <= _LONG_LINE else text[:_LONG_LINE] + '… (line cut)'}"


def find_occurrences(data: bytes, text: bytes) -> list[int]:
    """Return the line number of each occurrence of a text, without overlaps."""
    found, line, place, last = [], 1, data.find(text), 0
    while place >= 0:
        line += data.count(b"\n", last, place)
        found.append(line)
        last, place = place, data.find(text, place + len(text))
    return found


def show_around(data: bytes, line: int, count: int) -> str:
    lines = data.split(b"\n")
    first = max(0, line - 1 - _AROUND)
    shown = [
        format_line(first + place + 1, each) for place, each in enumerate(lines[first : line - 1 + count + _AROUND])
    ]
    text, omitted = fit_lines(shown)
    return f"{text}\n… {omitted:,} more lines" if omitted else text
