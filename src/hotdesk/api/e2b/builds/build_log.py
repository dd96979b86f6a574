"""The log of one build: what programs print, in bounded lines."""

from __future__ import annotations

import re
from dataclasses import field
from datetime import UTC, datetime
from typing import Literal

from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable

Level = Literal["debug", "info", "warn", "error"]
LEVELS: tuple[Level, ...] = ("debug", "info", "warn", "error")
MAX_ENTRIES = 20_000
MAX_BYTES = 8 << 20
MAX_LINE = 4000
PAGE = 100
"""Entries of one response."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""Terminal control sequences."""
_TAIL = 20
"""Entries that are repeated with the reason of a failure."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of the log."""

    timestamp: str
    level: Level
    message: str
    step: str

    @property
    def view(self) -> dict[str, object]:
        entry: dict[str, object] = {"timestamp": self.timestamp, "level": self.level, "message": self.message}
        return entry | ({"step": self.step} if self.step else {})


@dataclass(slots=True)
class BuildLog:
    """All lines of a build, up to a limit; later ones are not stored."""

    entries: list[LogEntry] = field(default_factory=list)
    size: int = 0
    full: bool = False

    def write(self, message: str, level: Level = "info", step: str = "") -> None:
        if self.full:
            return
        text = clean_line(message)
        self.size += len(text)
        if self.size > MAX_BYTES or len(self.entries) >= MAX_ENTRIES:
            self.full, level, text = True, "warn", "The log is full. Further output of this build is not stored."
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        self.entries.append(LogEntry(now, level, text, step))

    def read_page(self, offset: int, level: Level = "debug") -> list[dict[str, object]]:
        lowest = LEVELS.index(level)
        found = [each for each in self.entries if LEVELS.index(each.level) >= lowest] if lowest else self.entries
        return [each.view for each in found[offset : offset + PAGE]]

    def get_tail(self, step: str) -> list[dict[str, object]]:
        return [each.view for each in self.entries if each.step == step][-_TAIL:]


def clean_line(text: str) -> str:
    """Return a line without terminal control characters, shortened if it is too long."""
    shown = make_printable(_ESCAPES.sub("", text[: 4 * MAX_LINE]).expandtabs(4))
    return shown if len(shown) <= MAX_LINE else shown[:MAX_LINE] + "…"


@dataclass(slots=True)
class LineSplitter:
    """Splits a program's output into lines as it arrives."""

    rest: bytes = b""

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that are complete; a line that is too long is split."""
        *lines, self.rest = re.split(rb"\r\n|\n|\r", self.rest + data)
        while len(self.rest) > MAX_LINE:
            lines.append(self.rest[:MAX_LINE])
            self.rest = self.rest[MAX_LINE:]
        return [line.decode("utf-8", "replace") for line in lines if line]

    def finish(self) -> list[str]:
        rest, self.rest = self.rest, b""
        return [rest.decode("utf-8", "replace")] if rest else []
