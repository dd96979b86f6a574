"""Width of text on a terminal; cutting, wrapping and colours. All output to a terminal passes through here.

Text from elsewhere is escaped here, so that a terminal gets no control bytes but hotdesk's own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.errors import escape_character, make_printable

STYLES = {"good": "32", "bad": "31", "warn": "33", "now": "1;36", "strong": "1", "dim": "2", "": ""}
"""ANSI codes of each style."""
_MARKS_IN_A_ROW = 2
"""Maximum combining marks of one letter: more would be drawn over neighbouring lines."""
ASCII = str.maketrans(
    {"✓": "+", "▸": ">", "·": "-", "✗": "x", "↺": "<", "…": "~", "─": "-", "│": "|", "╭": "+", "╰": "+"}
)
"""Replacements of hotdesk's own symbols for an ASCII terminal."""
OWN = re.compile(r"\x1b\[[0-9;]*m")
"""An ANSI style as hotdesk writes it."""
Span: TypeAlias = tuple[str, str]
"""A style's name and unescaped text."""
Line: TypeAlias = Sequence[Span]


@dataclass(frozen=True, slots=True)
class TerminalTraits:
    """The abilities of a terminal."""

    colours: bool = False
    unicode: bool = True

    def clean(self, text: str) -> str:
        """Escape text so that it cannot control the terminal."""
        if not self.unicode:
            text = text.translate(ASCII)
            return make_printable(text).encode("ascii", "backslashreplace").decode()
        return make_printable(text) if text.isascii() else "".join(_escape_excess_marks(make_printable(text)))

    def paint(self, line: Line, width: int | None = None) -> str:
        spans = [(style, self.clean(text)) for style, text in line]
        if width is not None:
            spans = _cut_spans(spans, width, "…" if self.unicode else "~")
        return "".join(self.apply_style(style, text) for style, text in spans if text)

    def apply_style(self, style: str, text: str) -> str:
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.colours and style else text


def measure_visible_width(painted: str) -> int:
    return measure_width(OWN.sub("", painted))


def _escape_excess_marks(text: str) -> Iterator[str]:
    """Yield a text's characters, with excess combining marks escaped."""
    marks = 0
    for c in text:
        marks = marks + 1 if _measure_character_width(c) == 0 else 0
        yield c if marks <= _MARKS_IN_A_ROW else escape_character(c)


@lru_cache(4096)
def _measure_character_width(character: str) -> int:
    """Return the columns of a printable character; if unsure, the larger number."""
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def measure_width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_measure_character_width, text))


def cut(text: str, width: int, sign: str = "…") -> str:
    """Cut clean text to a width and mark the cut with `sign`."""
    if measure_width(text) <= width:
        return text
    return "" if width < 1 else take_head(text, width - 1) + sign


def take_head(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    count, used = 0, 0
    for c in text:
        used += _measure_character_width(c)
        if used > width:
            break
        count += 1
    return text[:count]


def _cut_spans(spans: Iterable[Span], width: int, sign: str) -> list[Span]:
    spans = list(spans)
    if sum(measure_width(text) for _, text in spans) <= width:
        return spans
    fitting: list[Span] = []
    for style, text in spans:
        if measure_width(text) >= width:
            return [*fitting, (style, take_head(text, width - 1) + sign if width > 0 else "")]
        fitting.append((style, text))
        width -= measure_width(text)
    return fitting


def wrap(text: str, width: int) -> list[str]:
    """Wrap clean text into lines of a width, at spaces where possible."""
    lines = []
    while measure_width(text) > width > 1:
        line = take_head(text, width)
        space = line.rfind(" ")
        line = line[: space + 1] if space > width // 2 else line
        lines.append(line.rstrip(" "))
        text = text[len(line) :]
    return [*lines, text]
