"""Finds the line of each value in a TOML or JSON text, which their parsers do not report."""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_left
from contextlib import suppress
from typing import TypeAlias

from hotdesk.errors import make_printable

Where: TypeAlias = tuple[str | int, ...]
"""Path of a value: `("deliverables", 0, "path")`."""

MAX_DEPTH = 16
"""Maximum nesting of lists and tables, and maximum parts of a key."""
BLANK = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*+")
STRING = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}'''  # multi-line, with escapes
    r"|'''(?:[^']|'(?!''))*+'{3,5}"  # multi-line, literal
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_SCALAR = re.compile(r"[^,\]}\n#]*+")


class UnparsableTextError(Exception):
    """The text does not parse. Its regular parser gives a better error."""


def find_toml_lines(text: str) -> dict[Where, int]:
    """Return the line of every value; raise `ValueError` if the text is nested too deeply.

    For invalid TOML, return the lines before the fault and leave the error to its parser.
    """
    scan = Scan(text)
    with suppress(UnparsableTextError, IndexError):
        scan.read_document()
    return scan.lines


def find_json_lines(text: str) -> dict[Where, int]:
    """Return the line of every value; also raise `ValueError` for invalid JSON that Python accepts."""
    scan = Scan(text, strict=True)
    with suppress(UnparsableTextError, IndexError):
        scan.skip()
        scan.read_value(())
    return scan.lines


def find_nearest_line(lines: dict[Where, int], where: Where) -> int | None:
    for length in range(len(where), 0, -1):
        if where[:length] in lines:
            return lines[where[:length]]
    return None


class Scan:
    """Scans a text once, in time and memory proportional to its length."""

    def __init__(self, text: str, strict: bool = False) -> None:
        self.text, self.at, self.strict = text, 0, strict
        self.breaks = [match.start() for match in re.finditer("\n", text)]
        self.lines: dict[Where, int] = {}
        self.counts: dict[Where, int] = {}
        """Number of tables in each array of tables so far."""

    def read_document(self) -> None:
        table: Where = ()
        self.skip()
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.read_header()
            else:
                self.pair(table)
            self.skip()

    def read_header(self) -> Where:
        """Read `[table]` or `[[table]]`; return its path."""
        line, several = self.get_line_number(), self.text.startswith("[[", self.at)
        self.at += 2 if several else 1
        keys = self.read_keys()
        where: Where = ()
        self.at += 2 if several else 1
        for number, key in enumerate(keys, 1):
            where = (*where, key)
            self.lines.setdefault(where, line)
            if several and number == len(keys):
                self.counts[where] = self.counts.get(where, 0) + 1
            if where in self.counts:
                where = (*where, self.counts[where] - 1)
                self.lines.setdefault(where, line)
        return where

    def pair(self, table: Where) -> None:
        line = self.get_line_number()
        for key in self.read_keys():
            table = (*table, key)
            if self.strict and table in self.lines:
                raise ValueError(f", line {line}: {make_printable(key[:80])!r} appears twice; remove one of them")
            self.lines.setdefault(table, line)
        self.at += 1  # `=` or `:`
        self.skip()
        self.read_value(table)

    def read_keys(self) -> tuple[str, ...]:
        found: list[str] = []
        while True:
            self.skip()
            found.append(self.read_key())
            self.limit(len(found))
            self.skip()
            if self.text[self.at] != ".":
                return tuple(found)
            self.at += 1

    def read_key(self) -> str:
        if self.text[self.at] not in "\"'":
            return self.take(_BARE_KEY)
        word = self.take(STRING)
        if word[0] == "'":
            return word[1:-1]
        try:
            return str(json.loads(word))
        except ValueError:
            pass
        try:
            return str(tomllib.loads(f"key = {word}")["key"])
        except ValueError:
            raise UnparsableTextError from None

    def read_value(self, where: Where) -> None:
        match self.text[self.at]:
            case '"' | "'":
                self.take(STRING)
            case "[" | "{" as bracket:
                self.read_container(where, bracket)
            case _:
                line, word = self.get_line_number(), self.take(_SCALAR).strip()
                if self.strict and word in _NO_NUMBERS:
                    raise ValueError(f", line {line}: {word} is not valid JSON; write a number")

    def read_container(self, where: Where, bracket: str) -> None:
        """Read an inline list or table; commas count as blanks."""
        self.limit(len(where))
        self.at += 1
        self.skip()
        count = 0
        while self.text[self.at] not in "]}":
            if bracket == "{":
                self.pair(where)
            else:
                self.lines[(*where, count)] = self.get_line_number()
                self.read_value((*where, count))
            count += 1
            self.skip()
        self.at += 1

    def limit(self, depth: int) -> None:
        """Refuse nesting that would make parsers slow or fail."""
        if depth > MAX_DEPTH:
            raise ValueError(
                f", line {self.get_line_number()}: lists or tables are nested deeper than {MAX_DEPTH} levels; use "
                "fewer levels"
            )

    def skip(self) -> None:
        self.take(BLANK)

    def take(self, shape: re.Pattern[str]) -> str:
        found = shape.match(self.text, self.at)
        if found is None:
            raise UnparsableTextError
        self.at = found.end()
        return found.group()

    def get_line_number(self) -> int:
        return bisect_left(self.breaks, self.at) + 1
