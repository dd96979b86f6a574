"""Read a desk's report about a file with pages strictly: the desk may be compromised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import Annotated, Literal, TypeAlias

from hotdesk.checks.evidence import MAX_TEXT_CHARS, MOST_PAGES, read_json, read_text
from hotdesk.dataclass import dataclass
from hotdesk.strict import ROW, Alias, Length, Otherwise, Range, compile_reader

MOST_LINES = 2000
"""Of one page."""
MOST_EACH = 500
"""Of anything else there is several of on a page."""
_MOST_OF_ALL = 4000
"""Of anything else there is several of in a file."""
_MAX_FRAME_TEXT_CHARS = 5000
"""Characters of the longest text of one box."""
FARTHEST = 1e6
"""Points beyond which nothing can be."""
FAR = Otherwise("malformed inspection report: a position is out of range")


def _limit_length(count: int, name: str) -> Length:
    return Length(count, why=f"the file has too many {name}: at most {count} can be checked")


Point: TypeAlias = Annotated[float, Range(-FARTHEST, FARTHEST), FAR, float]
Number: TypeAlias = Annotated[float, float]
Numbers: TypeAlias = Annotated[tuple[Number | None, ...], Length(_MOST_OF_ALL)]
Short: TypeAlias = Annotated[str, read_text]
Word: TypeAlias = Annotated[str, partial(read_text, longest=80)]


@dataclass(frozen=True, slots=True)
class Box:
    """A place on a page, in points from its upper left corner."""

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
        """Return what both cover; empty when they are apart."""
        left, top = max(self.left, other.left), max(self.top, other.top)
        return Box(left, top, max(left, min(self.right, other.right)), max(top, min(self.bottom, other.bottom)))

    def __str__(self) -> str:
        return f"{self.left:.0f}, {self.top:.0f} pt"


def _require_upright(box: Box) -> Box:
    if box.right < box.left or box.bottom < box.top:
        raise ValueError("malformed inspection report: a box has a negative size")
    return box


Place: TypeAlias = Annotated[Box, ROW, _require_upright]


@dataclass(frozen=True, slots=True)
class TextLine:
    """Words on one line without a gap."""

    box: Place
    text: Annotated[str, Length(MAX_TEXT_CHARS)]
    how: Literal["", "turned", "hidden"] = ""
    """`turned` when askew, `hidden` when not painted."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture on a page."""

    box: Place
    problem: Short
    plain: bool
    """Whether it is of a single colour."""
    own: bool
    """Whether it is the file's; an office draws shadows as pictures too."""


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link on a page."""

    box: Place
    to: Short


Lines: TypeAlias = Annotated[
    tuple[Annotated[TextLine, ROW, Otherwise("malformed inspection report: invalid line")], ...],
    _limit_length(MOST_LINES, "lines"),
]


def _require_size(size: tuple[float, float]) -> tuple[float, float]:
    if min(size) <= 0:
        raise ValueError("malformed inspection report: a page has no size")
    return size


@dataclass(frozen=True, slots=True)
class PageContent:
    """The content of one page."""

    size: Annotated[tuple[Point, Point], _require_size]
    """Width and height."""
    lines: Lines
    pictures: Annotated[tuple[Drawing, ...], _limit_length(MOST_EACH, "pictures")] = ()
    links: Annotated[tuple[Annotated[PageLink, ROW], ...], _limit_length(MOST_EACH, "links")] = ()
    unmapped: int = 0
    """Characters that stand for nothing anybody knows."""
    fonts: Annotated[tuple[tuple[Word, bool], ...], _limit_length(MOST_EACH, "fonts")] = ()
    """Each by its name, and whether it is embedded."""

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
    """A font that a document names, and the one the desk draws it with."""

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
    """One row of numbers in a chart, as the chart and as its workbook have it."""

    name: Short
    shown: Numbers
    book: Numbers | None
    """None: it has no workbook."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart that is no picture."""

    name: Short
    where: Short
    problem: Short
    series: Annotated[tuple[Series, ...], _limit_length(MOST_EACH, "series")] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """The intended place of content: a shape of a slide, a cell or a text box of fixed height."""

    page: Annotated[int, Range(-1, MOST_PAGES - 1)]
    """From 0; -1: no one knows."""
    kind: Word
    name: Word
    box: Place
    text: Annotated[str, Length(_MAX_FRAME_TEXT_CHARS)] = ""
    grows: bool = False
    """Whether it follows its text."""
    empty: bool = False
    """Whether it is an unfilled placeholder of the template."""


@dataclass(frozen=True, slots=True)
class DocumentEvidence:
    """Everything a desk reported about a file."""

    count: Annotated[int, Range(0), Otherwise("malformed inspection report: no count of pages")]
    leaves: Annotated[tuple[PageContent, ...], Alias("pages"), _limit_length(MOST_PAGES, "pages")] = ()
    title: Short = ""
    tools: Annotated[Mapping[Word, Word], Length(20)] = field(default_factory=dict)
    fonts: Annotated[tuple[Annotated[Font, ROW], ...], _limit_length(MOST_EACH, "fonts")] = ()
    media: Annotated[tuple[Annotated[Medium, ROW], ...], _limit_length(_MOST_OF_ALL, "media")] = ()
    charts: Annotated[tuple[Chart, ...], _limit_length(MOST_EACH, "charts")] = ()
    frames: Annotated[
        tuple[Annotated[Frame, Otherwise("malformed inspection report: invalid frame")], ...],
        _limit_length(_MOST_OF_ALL, "frames"),
    ] = ()
    loose: Annotated[tuple[Lines, ...], _limit_length(MOST_PAGES, "pages")] = ()
    """The lines of each page when no box is of fixed height; empty: none was."""
    area: Place | None = None
    """Where text may stand on a page, when a document says so."""


def read_report(report: bytes, kind: str) -> DocumentEvidence:
    """Read a desk's report; `ValueError` for anything that was not requested."""
    found = read_json(report)
    if isinstance(found, dict) and "unreadable" in found:
        raise ValueError(f"the file cannot be opened as {kind}: {read_text(found['unreadable'])}")
    evidence: DocumentEvidence = compile_reader(DocumentEvidence, ignore_unknown=True)(found)
    return evidence
