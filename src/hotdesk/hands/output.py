"""A program's output for a model: cleaned and cut in the middle; the complete output is saved in the desk."""

from __future__ import annotations

import re
from dataclasses import field

from hotdesk.config import MIB
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import FileError, make_printable

MAX_OUTPUT_BYTES = 16 * MIB
"""Bytes of an output that are stored; the rest is counted and dropped."""
SHOWN = 8000
"""Characters of an output's beginning, and of its end, that are shown."""
FOLDER = ".hotdesk/output"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Terminal control sequences: colours, cursor, titles."""


def make_readable(text: str) -> str:
    """Return text without terminal control sequences. Lines and tabs stay; of a progress bar its last state does."""
    lines = _SEQUENCE.sub("", text).split("\n")
    last = (line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return "\n".join(map(escape_line, last))


def escape_line(line: str) -> str:
    """Return one line with every character visible; tabs stay."""
    return "\t".join(map(make_printable, line.split("\t")))


def describe_left_out_picture(size: int, limit: int) -> str:
    return (
        f"The picture was left out: it has {size:,} bytes, and at most {limit:,} can be returned. Take it as jpeg, of "
        "a smaller region or of one element."
    )


@dataclass(slots=True)
class BoundedOutput:
    """A program's output so far, in bounded memory: its beginning, and its very end."""

    limit: int = MAX_OUTPUT_BYTES
    data: bytearray = field(default_factory=bytearray)
    end: bytearray = field(default_factory=bytearray)
    """The latest bytes after the limit."""
    dropped: int = 0
    cut: bool = False
    """Whether more output followed, whose size and end are not known."""

    def add(self, data: bytes | bytearray) -> None:
        room = max(0, self.limit - len(self.data))
        self.data += data[:room]
        self.dropped += len(data[room:])
        self.end += data[room:]
        if len(self.end) > 8 * SHOWN:
            del self.end[: -4 * SHOWN]

    @property
    def size(self) -> int:
        return len(self.data) + self.dropped


class Outputs:
    """Numbers the long outputs of one desk, and saves them there."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.count = 0

    async def shorten(self, output: BoundedOutput) -> str:
        """Return an output as text; of a long one the beginning, the end, and the file with the whole output."""
        text = (output.data + output.end).decode("utf-8", "replace")
        if len(text) <= 2 * SHOWN and not output.dropped:
            shown = make_readable(text)
            if len(shown) <= 4 * SHOWN:
                return shown
        first, last = text[:SHOWN], text[max(SHOWN, len(text) - SHOWN) :]
        left_out = f"… {len(text) - len(first) - len(last):,} characters left out; {await self.keep(output)} …"
        return f"{make_readable(first)[:SHOWN]}\n{left_out}\n{make_readable(last)[-SHOWN:]}"

    async def keep(self, output: BoundedOutput) -> str:
        """Save an output to a file in the desk; describe where, or why that failed."""
        self.count += 1
        path = f"{FOLDER}/{self.count}.txt"
        whole = "the complete output is"
        if output.dropped:
            whole = f"the first {output.limit // MIB} MiB of the output's {output.size:,} bytes are"
        elif output.cut:
            whole = f"the first {output.size:,} bytes of the output are"
        try:
            await self.desk.write(path, bytes(output.data))
        except FileError as e:
            return f"the output could not be saved: {make_printable(str(e))}"
        return f"{whole} in ~/{path}: read the file with file_view or search"
