"""Reads a brief's expectations about a file with pages."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, TypeAlias

from hotdesk.brief.faults import ExpectationError, make_unknown_error
from hotdesk.checks.count_range import Span, read_span
from hotdesk.dataclass import dataclass
from hotdesk.strict import By, Length, Otherwise, Range, StrictError, read

MAX_COUNT = 100_000
SOME = Span(1)
EXAMPLES = {
    "pages": "pages = 20, or pages = {min = 5, max = 20}",
    "blank": "blank = [2]",
    "words": 'words = ["Revenue", "Outlook"]',
    "characters": "characters = 100",
    "text": "text = false",
    "scanned": "scanned = true, or scanned = [3, 4]",
    "sources": 'sources = ["https://a.example/report"]',
    "footer": "footer = true",
    "no_footer": "no_footer = [1, 20]",
    "charts": "charts = 3, or charts = {min = 1}",
    "pictures": "pictures = 3, or pictures = {min = 1}",
    "fonts": 'fonts = ["Inter"]',
    "embedded": "embedded = true",
    "title": 'title = "Outlook 2030", or title = true',
    "allow": 'allow = ["TODO"]',
}
"""An example of each option."""


def _require_web(addresses: tuple[str, ...]) -> tuple[str, ...]:
    if not all(each.startswith(("https://", "http://")) for each in addresses):
        raise ValueError("expected a list of addresses that start with https:// or http://")
    return addresses


_Visible: TypeAlias = Annotated[str, re.compile(r"(?s).*\S.*")]
Words: TypeAlias = Annotated[tuple[_Visible, ...], Length(sys.maxsize, 1), Otherwise("expected a list of texts")]
Numbers: TypeAlias = Annotated[
    frozenset[Annotated[int, Range(1, MAX_COUNT)]], Otherwise("expected a list of page numbers from 1")
]
_Switch: TypeAlias = Annotated[bool, Otherwise("expected true or false")]
Count: TypeAlias = Annotated[Span | None, By(read_span)]


@dataclass(frozen=True, slots=True)
class PageExpectations:
    """Expectations of a file with pages. Every field has a default."""

    pages: Annotated[Span, By(read_span)] = SOME
    blank: Numbers = frozenset()
    """Pages that may be blank."""
    words: Words = ()
    characters: Annotated[int, Range(0, MAX_COUNT), Otherwise(f"expected a whole number from 0 to {MAX_COUNT}")] = 0
    """Minimum letters and digits of every page that is neither allowed to be blank nor scanned."""
    text: _Switch = True
    """Whether text must not be a picture."""
    scanned: Annotated[bool | Numbers, Otherwise("expected true, or a list of page numbers from 1")] = False
    """Whether pages, or which ones, may be pictures of text."""
    sources: Annotated[Words, _require_web] = ()
    """Addresses to which links in a footer may lead."""
    footer: _Switch = False
    """Whether every page must have such a link."""
    no_footer: Numbers = frozenset()
    """Pages that need no such link."""
    charts: Count = None
    pictures: Count = None
    fonts: Words = ()
    """Fonts that need not be embedded or installed."""
    embedded: _Switch = False
    """Whether a PDF must embed even the standard fonts."""
    title: Annotated[_Visible | bool, Otherwise("expected a title, or true for any title")] = False
    """The required title in the file's properties, or `True` for any title."""
    allow: Words = ()
    """Text that looks like a template's but is intended."""

    @classmethod
    def from_expect(cls, kind: str, expect: Mapping[str, object]) -> PageExpectations:
        if unknown := sorted(set(expect) - {each.name for each in fields(cls)}):
            raise make_unknown_error(kind, unknown[0], sorted(EXAMPLES))
        try:
            expectations = read(cls, dict(expect))
        except StrictError as e:
            name = str(e.path[0])
            raise ExpectationError(f"{kind}: invalid {name}: {e.why}; write {EXAMPLES[name]}", e.path) from None
        if expectations.footer and not expectations.sources:
            raise ExpectationError(
                f"{kind}: footer = true needs a list of sources; write {EXAMPLES['sources']}", ("footer",)
            )
        return expectations

    def may_be_scanned(self, page: int) -> bool:
        return self.scanned if isinstance(self.scanned, bool) else page in self.scanned
