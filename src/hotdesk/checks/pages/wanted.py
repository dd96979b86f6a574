"""What a brief can expect of a file with pages, read strictly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from hotdesk.checks.count_range import Span, read_span
from hotdesk.errors import BriefError, printable

MOST = 100_000
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
"""What is written in a brief, of everything that can be."""


@dataclass(frozen=True, slots=True)
class PageExpectations:
    """What a file with pages shall be. Everything has a meaning when it is not said."""

    pages: Span = SOME
    blank: frozenset[int] = frozenset()
    """Pages that may be blank."""
    words: tuple[str, ...] = ()
    characters: int = 0
    """Letters and digits that every page has at least, but those that may be blank or are scanned."""
    text: bool = True
    """Whether what can be read on a page must be text."""
    scanned: bool | frozenset[int] = False
    """Whether pages, or which, may be pictures of text."""
    sources: tuple[str, ...] = ()
    """Where links in a footer may lead."""
    footer: bool = False
    """Whether every page has such a link."""
    no_footer: frozenset[int] = frozenset()
    """Pages that need none."""
    charts: Span | None = None
    pictures: Span | None = None
    fonts: tuple[str, ...] = ()
    """Fonts that need not be there: whoever reads the file has them."""
    embedded: bool = False
    """Whether a PDF must bring even the fonts that every reader has."""
    title: str | bool = False
    """The title in the file's properties; True: any."""
    allow: tuple[str, ...] = field(default=())
    """What looks left over from a template, and is meant."""

    @classmethod
    def expecting(cls, kind: str, expect: Mapping[str, object]) -> PageExpectations:
        """Read what a brief expects of a kind of file."""
        if unknown := sorted(set(expect) - {each.name for each in fields(cls)}):
            known = ", ".join(sorted(EXAMPLES))
            raise BriefError(f"{kind} cannot expect {printable(unknown[0][:80])!r}; it can expect {known}")
        read = {name: read_one(kind, name, value) for name, value in expect.items()}
        wanted = cls(**read)
        if wanted.footer and not wanted.sources:
            raise BriefError(f"{kind} expects a footer, and no sources it may lead to; write {EXAMPLES['sources']}")
        return wanted

    def may_be_scanned(self, page: int) -> bool:
        """Say whether a page may be a picture of text."""
        return self.scanned if isinstance(self.scanned, bool) else page in self.scanned


def read_one(kind: str, name: str, value: object) -> Any:
    """Read one expectation."""
    try:
        return READERS[name](value)
    except ValueError as e:
        raise BriefError(f"{kind} expects {name}: {e}; write {EXAMPLES[name]}") from None


def number(value: object) -> int:
    """Read a number."""
    if type(value) is not int or not 0 <= value <= MOST:
        raise ValueError(f"a whole number, at most {MOST}")
    return value


def numbers(value: object) -> frozenset[int]:
    """Read numbers of pages."""
    if not isinstance(value, list) or not all(type(each) is int and 0 < each <= MOST for each in value):
        raise ValueError("a list of page numbers, from 1")
    return frozenset(value)


def words(value: object) -> tuple[str, ...]:
    """Read a list of texts."""
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each.strip() for each in value):
        raise ValueError("a list of texts")
    return tuple(value)


def addresses(value: object) -> tuple[str, ...]:
    """Read a list of addresses."""
    found = words(value)
    if not all(each.startswith(("https://", "http://")) for each in found):
        raise ValueError("a list of addresses that begin with https:// or http://")
    return found


def switch(value: object) -> bool:
    """Read yes or no."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def switch_or_pages(value: object) -> bool | frozenset[int]:
    """Read yes, no, or which pages."""
    return value if isinstance(value, bool) else numbers(value)


def switch_or_text(value: object) -> bool | str:
    """Read yes, no, or what."""
    if isinstance(value, str) and value.strip():
        return value
    return switch(value)


READERS: dict[str, Callable[[object], object]] = {
    "pages": read_span, "blank": numbers, "words": words, "characters": number, "text": switch,
    "scanned": switch_or_pages, "sources": addresses, "footer": switch, "no_footer": numbers, "charts": read_span,
    "pictures": read_span, "fonts": words, "embedded": switch, "title": switch_or_text, "allow": words,
}  # fmt: skip
