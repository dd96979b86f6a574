"""Files as tools: view, create, replace, insert, undo."""

from __future__ import annotations

import hashlib
from collections import deque
from contextlib import aclosing, suppress

from hotdesk.config import MIB
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import FileError, make_printable
from hotdesk.hands import file_view
from hotdesk.hands.page_view import MAX_PAGES
from hotdesk.hands.paths import make_absolute
from hotdesk.hands.picture import Sight
from hotdesk.tool import Arguments, Observation, Parameter, Tool, get_flag, get_integer, get_text

EDITED = 8 * MIB
"""Bytes of the largest file that can be edited."""
WRITTEN = 1_000_000
"""Characters that one call may write."""
UNDONE = 64
"""Edits that can be undone, of all files together."""
_UNDONE_BYTES = 64 * MIB
MAX_LINES = 1_000_000_000
PATH = Parameter(
    "path", "text", "path of the file; relative paths start in the home folder", required=True, longest=4096
)

_VIEW = Tool(
    "file_view",
    "Show a text file with line numbers, a picture or a page (of a PDF, spreadsheet, document or presentation) as an "
    "image, or list a folder. A long file is shown in part: start and end show more. For other files, type and size "
    "are shown.",
    (
        Parameter("path", "text", "the file or folder", required=True, longest=4096),
        Parameter("start", "integer", "first line", default=1, least=1, most=MAX_LINES),
        Parameter("end", "integer", "last line; default: as many lines as fit", least=1, most=MAX_LINES),
        Parameter("depth", "integer", "for a folder: how many levels to list", default=1, least=1, most=5),
        Parameter("page", "integer", "for a document: the page to show", default=1, least=1, most=MAX_PAGES),
    ),
    {"path": "report/notes.md", "start": 1, "end": 80},
    parallel=True,
)
CREATE = Tool(
    "file_create",
    "Create a file with the given content; missing folders are created. An existing file is replaced only if overwrite "
    "is true.",
    (
        PATH,
        Parameter("content", "text", "the complete text of the file", required=True, longest=WRITTEN),
        Parameter("overwrite", "flag", "replace the file if it exists", default=False),
    ),
    {"path": "notes.md", "content": "# Notes\n"},
)
_REPLACE = Tool(
    "file_replace",
    "Replace a text in a file. `old` must match exactly, including white space, and occur exactly once: include enough "
    "surrounding text to make it unique.",
    (
        PATH,
        Parameter("old", "text", "the exact text to replace", required=True, longest=WRITTEN),
        Parameter("new", "text", "the replacement; empty deletes the text", required=True, longest=WRITTEN),
    ),
    {"path": "notes.md", "old": "# Notes\n", "new": "# Notes of Monday\n"},
)
INSERT = Tool(
    "file_insert",
    "Insert lines into a file after the given line; 0 inserts at the beginning.",
    (
        PATH,
        Parameter("line", "integer", "number of the line to insert after", required=True, least=0, most=MAX_LINES),
        Parameter("text", "text", "the lines to insert", required=True, longest=WRITTEN),
    ),
    {"path": "notes.md", "line": 1, "text": "A new second line.\n"},
)
_UNDO = Tool(
    "file_undo",
    "Undo the last edit that these tools made to a file. Undoing file_create removes the file.",
    (PATH,),
    {"path": "notes.md"},
)


class TooLargeError(FileError):
    """A file is too large to be edited."""


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """The effect of one edit on a file. Two edits with the same effect are different edits."""

    path: str
    before: bytes | None
    """The old content, or `None` if the file did not exist."""
    after: str
    """SHA-256 of the new content."""

    @property
    def size(self) -> int:
        return len(self.before or b"")


class Files:
    tools = (_VIEW, CREATE, _REPLACE, INSERT, _UNDO)

    def __init__(self, desk: Desk, sight: Sight | None = None) -> None:
        self.desk = desk
        self.sight = sight or Sight()
        self.edits: deque[Edit] = deque()

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        path = await self.locate(get_text(arguments, "path"))
        match tool:
            case "file_view":
                return await file_view.show(self.desk, path, arguments, self.sight)
            case "file_create":
                return await self.create(path, arguments)
            case "file_replace":
                return await self.replace(path, arguments)
            case "file_insert":
                return await self.insert(path, arguments)
        return await self.undo(path)

    async def locate(self, name: str) -> str:
        """Return the absolute path; without spaces around it, which small models add, unless such a file exists."""
        path, trimmed = make_absolute(self.desk, name), name.strip()
        if trimmed in ("", name):
            return path
        try:
            await self.desk.stat(path)
        except FileError:
            return make_absolute(self.desk, trimmed)
        return path

    async def create(self, path: str, arguments: Arguments) -> Observation:
        before, is_large = None, False
        try:
            before = await self.read_current(path)
        except TooLargeError:
            is_large = True
        exists = is_large or before is not None
        if exists and not get_flag(arguments, "overwrite"):
            return report_failure(f"{path} already exists. Edit it with file_replace, or set overwrite to true.")
        data = get_text(arguments, "content").encode()
        done = f"{make_printable(path)} was {'replaced' if exists else 'created'}: {len(data):,} bytes."
        if not is_large:
            await self.change(path, before, data)
            return Observation(done)
        await self.desk.write(path, data)
        self.edits = deque(edit for edit in self.edits if edit.path != path)
        return Observation(f"{done} This cannot be undone: the old file had more than {EDITED // MIB} MiB.")

    async def replace(self, path: str, arguments: Arguments) -> Observation:
        data = await self.read(path)
        old, new = (_as_in(data, get_text(arguments, name)) for name in ("old", "new"))
        if not old:
            raise _REPLACE.refuse("old is empty")
        lines = file_view.find_occurrences(data, old)
        if len(lines) != 1:
            return report_failure(_tell_places(path, data, old, lines))
        changed = data.replace(old, new)
        await self.change(path, data, changed)
        part = file_view.show_around(changed, lines[0], new.count(b"\n") + 1)
        return Observation(f"{make_printable(path)} was changed:\n{part}")

    async def insert(self, path: str, arguments: Arguments) -> Observation:
        data = await self.read(path)
        lines, line = _split_lines(data), get_integer(arguments, "line")
        if line > len(lines):
            raise INSERT.refuse(f"line is {line}, but {make_printable(path)} has only {len(lines)} lines")
        end = b"\r\n" if b"\r\n" in data else b"\n"
        text = _as_in(data, get_text(arguments, "text")).removesuffix(end) + end
        if line and not lines[line - 1].endswith(b"\n"):
            lines[line - 1] += end
        changed = b"".join([*lines[:line], text, *lines[line:]])
        await self.change(path, data, changed)
        part = file_view.show_around(changed, line + 1, text.count(b"\n"))
        return Observation(f"{make_printable(path)} was changed:\n{part}")

    async def undo(self, path: str) -> Observation:
        edit = next((edit for edit in reversed(self.edits) if edit.path == path), None)
        if edit is None:
            return report_failure(f"There is no edit of {path} to undo: the file tools made none, or it is too old.")
        current = None
        with suppress(TooLargeError):
            current = await self.read_current(path)
        if current is None or compute_digest(current) != edit.after:
            return report_failure(f"{path} was changed by another program since that edit; nothing was undone.")
        if edit.before is None:
            await self.desk.remove(path)
        else:
            await self.desk.write(path, edit.before)
        with suppress(ValueError):  # another call undid it at the same time
            self.edits.remove(edit)
        what = "was removed" if edit.before is None else "is as it was before the last edit"
        return Observation(f"{make_printable(path)} {what}.")

    async def read_current(self, path: str) -> bytes | None:
        """Return the content of a file, or `None` if it does not exist."""
        try:
            return await self.read(path)
        except FileError as e:
            if e.reason == "missing":
                return None
            raise

    async def read(self, path: str) -> bytes:
        content = bytearray()
        async with aclosing(self.desk.read_stream(path)) as stream:
            async for data in stream:
                content += data
                if len(content) > EDITED:
                    limit = f"{path} has more than {EDITED // MIB} MiB, the limit of the file tools"
                    raise TooLargeError(f"{limit}; change it with a program in the shell", "other")
        return bytes(content)

    async def change(self, path: str, before: bytes | None, after: bytes) -> None:
        await self.desk.write(path, after)
        self.edits.append(Edit(path, before, compute_digest(after)))
        while len(self.edits) > UNDONE or sum(edit.size for edit in self.edits) > _UNDONE_BYTES:
            self.edits.popleft()


def compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _split_lines(data: bytes) -> list[bytes]:
    *whole, last = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([last] if last else [])


def _as_in(data: bytes, text: str) -> bytes:
    """Encode a text with the line ends of the file it is for."""
    if b"\r\n" in data:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    return text.encode()


def report_failure(text: str) -> Observation:
    return Observation(make_printable(text), ok=False)


def _tell_places(path: str, data: bytes, old: bytes, lines: list[int]) -> str:
    """Explain that a text that must occur exactly once does not, and where it occurs."""
    if lines:
        where = ", ".join(map(str, lines[:10])) + (", …" if len(lines) > 10 else "")
        return f"`old` occurs {len(lines)} times in {path}, at lines {where}. Include more surrounding text in `old`."
    first = next((line.strip() for line in old.splitlines() if line.strip()), b"")
    near = file_view.find_occurrences(data, first)[:5] if first else []
    places = ", ".join(map(str, near))
    hint = f" The first line of `old`, apart from white space, is at line {places}." if near else ""
    return f"`old` does not occur in {path}.{hint} Nothing was changed. Read the file with file_view."
