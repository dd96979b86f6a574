"""Parses a desk's report about a file with pages strictly, because the desk may be compromised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import Annotated, Literal, TypeAlias

from hotdesk.checks.evidence import MAX_TEXT_CHARS, MOST_PAGES, read_json, read_text
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.dataclass import dataclass
from hotdesk.strict import ROW, Alias, Length, Otherwise, Range, compile_reader

MOST_LINES = 2000
"""Maximum lines of one page."""
MOST_EACH = 500
"""Maximum pictures, links or fonts of one page, and of some lists of a file."""
_MOST_OF_ALL = 4000
"""Maximum entries of the other lists of a file."""
_MAX_FRAME_TEXT_CHARS = 5000
"""Maximum characters of one frame's text."""
FARTHEST = 1e6
"""Largest valid coordinate, in points."""
FAR = Otherwise("a position is out of range", MalformedReportError)


def _limit_length(count: int, name: str) -> Length:
    return Length(count, why=f"the file has too many {name}: at most {count} can be checked")


Point: TypeAlias = Annotated[float, Range(-FARTHEST, FARTHEST), FAR, float]
Number: TypeAlias = Annotated[float, float]
Numbers: TypeAlias = Annotated[tuple[Number | None, ...], Length(_MOST_OF_ALL)]
Short: TypeAlias = Annotated[str, read_text]
Word: TypeAlias = Annotated[str, partial(read_text, longest=80)]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on a page, in points from its upper left corner."""

    left: Point
    top: Point
    right: Point
    bottom: Point

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def area(self) -> float:
        return self.width * self.height

    def intersect(self, other: Box) -> Box:
        """Return the common area, which is empty if they do not intersect."""
        left, top = max(self.left, other.left), max(self.top, other.top)
        return Box(left, top, max(left, min(self.right, other.right)), max(top, min(self.bottom, other.bottom)))

    def __str__(self) -> str:
        return f"{self.left:.0f}, {self.top:.0f} pt"


def _require_upright(box: Box) -> Box:
    if box.right < box.left or box.bottom < box.top:
        raise MalformedReportError("a box has a negative size")
    return box


Place: TypeAlias = Annotated[Box, ROW, _require_upright]


@dataclass(frozen=True, slots=True)
class TextLine:
    """Text on one line without a large gap."""

    box: Place
    text: Annotated[str, Length(MAX_TEXT_CHARS)]
    how: Literal["", "turned", "hidden"] = ""
    """`turned` if at an angle, `hidden` if not painted."""


@dataclass(frozen=True, slots=True)
class Drawing:
    box: Place
    problem: Short
    plain: bool
    """Whether it has a single colour."""
    own: bool
    """Whether it belongs to the file; office programs also draw shadows as pictures."""


@dataclass(frozen=True, slots=True)
class PageLink:
    box: Place
    to: Short


Lines: TypeAlias = Annotated[
    tuple[Annotated[TextLine, ROW, Otherwise("invalid line", MalformedReportError)], ...],
    _limit_length(MOST_LINES, "lines"),
]


def _require_size(size: tuple[float, float]) -> tuple[float, float]:
    if min(size) <= 0:
        raise MalformedReportError("a page has no size")
    return size


@dataclass(frozen=True, slots=True)
class PageContent:
    size: Annotated[tuple[Point, Point], _require_size]
    """Width and height."""
    lines: Lines
    pictures: Annotated[tuple[Drawing, ...], _limit_length(MOST_EACH, "pictures")] = ()
    links: Annotated[tuple[Annotated[PageLink, ROW], ...], _limit_length(MOST_EACH, "links")] = ()
    unmapped: int = 0
    """Number of characters without a Unicode mapping."""
    fonts: Annotated[tuple[tuple[Word, bool], ...], _limit_length(MOST_EACH, "fonts")] = ()
    """Name of each font, and whether it is embedded."""

    @property
    def width(self) -> float:
        return self.size[0]

    @property
    def height(self) -> float:
        return self.size[1]

    @property
    def own_pictures(self) -> tuple[Drawing, ...]:
        return tuple(picture for picture in self.pictures if picture.own)

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines)


@dataclass(frozen=True, slots=True)
class Font:
    """A font that a document names, and the font that replaces it in the desk."""

    name: Short
    drawn: Short


@dataclass(frozen=True, slots=True)
class Medium:
    """Media that a document embeds or links to, with its fault if it has one."""

    name: Short
    where: Short
    problem: Short


@dataclass(frozen=True, slots=True)
class Series:
    """One series of numbers in a chart, as shown in the chart and as stored in its workbook."""

    name: Short
    shown: Numbers
    book: Numbers | None
    """The numbers in the workbook, or `None` if there is none."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart that is not a picture."""

    name: Short
    where: Short
    problem: Short
    series: Annotated[tuple[Series, ...], _limit_length(MOST_EACH, "series")] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """The intended place of content: a shape on a slide, or a cell or text box of fixed height."""

    page: Annotated[int, Range(-1, MOST_PAGES - 1)]
    """Page number from 0, or -1 if unknown."""
    kind: Word
    name: Word
    box: Place
    text: Annotated[str, Length(_MAX_FRAME_TEXT_CHARS)] = ""
    grows: bool = False
    """Whether it grows with its text."""
    empty: bool = False
    """Whether it is an unfilled placeholder of the template."""


@dataclass(frozen=True, slots=True)
class DocumentEvidence:
    """The complete report of a desk about a file."""

    count: Annotated[int, Range(0), Otherwise("no count of pages", MalformedReportError)]
    leaves: Annotated[tuple[PageContent, ...], Alias("pages"), _limit_length(MOST_PAGES, "pages")] = ()
    title: Short = ""
    tools: Annotated[Mapping[Word, Word], Length(20)] = field(default_factory=dict)
    fonts: Annotated[tuple[Annotated[Font, ROW], ...], _limit_length(MOST_EACH, "fonts")] = ()
    media: Annotated[tuple[Annotated[Medium, ROW], ...], _limit_length(_MOST_OF_ALL, "media")] = ()
    charts: Annotated[tuple[Chart, ...], _limit_length(MOST_EACH, "charts")] = ()
    frames: Annotated[
        tuple[Annotated[Frame, Otherwise("invalid frame", MalformedReportError)], ...],
        _limit_length(_MOST_OF_ALL, "frames"),
    ] = ()
    loose: Annotated[tuple[Lines, ...], _limit_length(MOST_PAGES, "pages")] = ()
    """The lines of each page rendered without fixed heights; empty if that was not needed."""
    area: Place | None = None
    """The area of a page for text, if the document declares one."""


def read_report(report: bytes, kind: str) -> DocumentEvidence:
    """Parse a desk's report; raise `ValueError` if it is malformed or the file could not be opened."""
    found = read_json(report)
    if isinstance(found, dict) and "unreadable" in found:
        raise ValueError(f"the file cannot be opened as {kind}: {read_text(found['unreadable'])}")
    evidence: DocumentEvidence = compile_reader(DocumentEvidence, ignore_unknown=True)(found)
    return evidence
