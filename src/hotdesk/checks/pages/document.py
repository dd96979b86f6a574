"""What a desk told of a file with pages, read strictly: the desk may have been turned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from hotdesk.checks.evidence import LONGEST, MOST_PAGES, read_json, told_number, told_text

MOST_LINES = 2000
"""Of one page."""
MOST_EACH = 500
"""Of anything else there is several of on a page."""
MOST_OF_ALL = 4000
"""Of anything else there is several of in a file."""
LONGEST_TEXT = 5000
"""Characters of the longest text of one box."""
FARTHEST = 1e6
"""Points beyond which nothing can be."""
Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Box:
    """A place on a page, in points from its upper left corner."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """Say how wide it is."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Say how high it is."""
        return self.bottom - self.top

    @property
    def area(self) -> float:
        """Say how much it covers."""
        return self.width * self.height

    def common(self, other: Box) -> Box:
        """Give what both cover; empty when they are apart."""
        left, top = max(self.left, other.left), max(self.top, other.top)
        return Box(left, top, max(left, min(self.right, other.right)), max(top, min(self.bottom, other.bottom)))

    def __str__(self) -> str:
        return f"{self.left:.0f}, {self.top:.0f} pt"


@dataclass(frozen=True, slots=True)
class TextLine:
    """Some words that stand in one line without a gap."""

    box: Box
    text: str
    how: str = ""
    """`turned` when askew, `hidden` when not painted."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture on a page."""

    box: Box
    problem: str = ""
    plain: bool = False
    """Whether it is of a single colour."""
    own: bool = True
    """Whether it is the file's; an office draws shadows as pictures too."""


@dataclass(frozen=True, slots=True)
class PageLink:
    """Something on a page that leads elsewhere."""

    box: Box
    to: str


@dataclass(frozen=True, slots=True)
class PageContent:
    """What stands on one page."""

    width: float
    height: float
    lines: tuple[TextLine, ...] = ()
    pictures: tuple[Drawing, ...] = ()
    links: tuple[PageLink, ...] = ()
    unmapped: int = 0
    """Characters that stand for nothing anybody knows."""
    fonts: tuple[tuple[str, bool], ...] = ()
    """Each by its name, and whether it is embedded."""

    @property
    def own_pictures(self) -> tuple[Drawing, ...]:
        """Give the pictures that are the file's."""
        return tuple(picture for picture in self.pictures if picture.own)

    @property
    def text(self) -> str:
        """Give all that can be read on it."""
        return " ".join(line.text for line in self.lines)


@dataclass(frozen=True, slots=True)
class Font:
    """A font that a document names, and the one the desk draws it with."""

    name: str
    drawn: str


@dataclass(frozen=True, slots=True)
class Medium:
    """Something a document holds or leads to, with what is wrong with it."""

    name: str
    where: str
    problem: str


@dataclass(frozen=True, slots=True)
class Series:
    """One row of numbers in a chart, as the chart and as its workbook have it."""

    name: str
    shown: tuple[float | None, ...]
    book: tuple[float | None, ...] | None
    """None: it has no workbook."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart that is no picture."""

    name: str
    where: str
    problem: str
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """Where something is meant to stand: a shape of a slide, a cell or a text box of fixed height."""

    page: int
    """From 0; -1: nobody knows."""
    kind: str
    name: str
    box: Box
    text: str = ""
    grows: bool = False
    """Whether it follows its text."""
    empty: bool = False
    """Whether it is a place of the template's that nobody filled."""


@dataclass(frozen=True, slots=True)
class DocumentEvidence:
    """Everything told of a file."""

    count: int
    leaves: tuple[PageContent, ...]
    title: str
    tools: Mapping[str, str]
    fonts: tuple[Font, ...] = ()
    media: tuple[Medium, ...] = ()
    charts: tuple[Chart, ...] = ()
    frames: tuple[Frame, ...] = ()
    loose: tuple[tuple[TextLine, ...], ...] = ()
    """The lines of each page when no box is of fixed height; empty: none was."""
    area: Box | None = None
    """Where text may stand on a page, when a document says so."""


def read_told(told: bytes, kind: str) -> DocumentEvidence:
    """Read what the desk told; `ValueError` for anything it was not asked for."""
    found = read_json(told)
    if not isinstance(found, dict):
        raise ValueError("nothing was told of it")
    if "unreadable" in found:
        raise ValueError(f"it cannot be opened as {kind}: {told_text(found['unreadable'])}")
    count = found.get("count")
    if type(count) is not int or count < 0:
        raise ValueError("nobody counted its pages")
    return DocumentEvidence(
        count=count,
        leaves=several(found, "pages", read_leaf, MOST_PAGES),
        title=told_text(found.get("title", "")),
        tools=read_tools(found.get("tools", {})),
        fonts=several(found, "fonts", lambda each: Font(*texts(each, 2)), MOST_EACH),
        media=several(found, "media", lambda each: Medium(*texts(each, 3))),
        charts=several(found, "charts", read_chart, MOST_EACH),
        frames=several(found, "frames", read_frame),
        loose=several(found, "loose", read_lines, MOST_PAGES),
        area=read_box(found["area"]) if found.get("area") else None,
    )


def several(
    held: Mapping[Any, object], name: str, read: Callable[[object], Thing], most: int = MOST_OF_ALL
) -> tuple[Thing, ...]:
    """Read a list, of so many things at most."""
    listed = held.get(name, [])
    if not isinstance(listed, list):
        raise ValueError(f"its {name} are no list")
    if len(listed) > most:
        raise ValueError(f"it has more {name} than the {most} that can be looked at")
    return tuple(read(each) for each in listed)


def texts(told: object, count: int) -> list[str]:
    """Read so many texts."""
    if not isinstance(told, list) or len(told) != count:
        raise ValueError("what should be some texts is none")
    return [told_text(each) for each in told]


def read_tools(told: object) -> dict[str, str]:
    """Read what looked."""
    if not isinstance(told, dict) or len(told) > 20:
        raise ValueError("nobody said what looked")
    return {told_text(name, 80): told_text(version, 80) for name, version in told.items()}


def read_leaf(told: object) -> PageContent:
    """Read one page."""
    match told:
        case {"size": [width, height], "unmapped": int(unmapped), **rest} if min(length(width), length(height)) > 0:
            pass
        case _:
            raise ValueError("a page has no size")
    return PageContent(
        length(width), length(height), read_lines(rest.get("lines")),
        several(rest, "pictures", read_drawing, MOST_EACH), several(rest, "links", read_link, MOST_EACH),
        unmapped, several(rest, "fonts", read_font, MOST_EACH),
    )  # fmt: skip


def read_lines(told: object) -> tuple[TextLine, ...]:
    """Read the lines of a page."""
    return several({"lines": told}, "lines", read_line, MOST_LINES)


def read_line(told: object) -> TextLine:
    """Read one line."""
    match told:
        case [box, str(text), ("" | "turned" | "hidden") as how] if len(text) <= LONGEST:
            return TextLine(read_box(box), text, how)
    raise ValueError("a line is not what a line is")


def read_drawing(told: object) -> Drawing:
    """Read one picture."""
    match told:
        case {"box": box, "problem": str(problem), "plain": bool(plain), "own": bool(own)}:
            return Drawing(read_box(box), told_text(problem), plain, own)
    raise ValueError("a picture is not what a picture is")


def read_link(told: object) -> PageLink:
    """Read one link."""
    match told:
        case [box, str(to)]:
            return PageLink(read_box(box), told_text(to))
    raise ValueError("a link is not what a link is")


def read_font(told: object) -> tuple[str, bool]:
    """Read one font of a page."""
    match told:
        case [str(name), bool(embedded)]:
            return told_text(name, 80), embedded
    raise ValueError("a font is not what a font is")


def read_chart(told: object) -> Chart:
    """Read one chart."""
    match told:
        case {"name": name, "where": where, "problem": problem, **rest}:
            series = several(rest, "series", read_series, MOST_EACH)
            return Chart(told_text(name), told_text(where), told_text(problem), series)
    raise ValueError("a chart is not what a chart is")


def read_series(told: object) -> Series:
    """Read one row of numbers."""
    match told:
        case {"name": name, "shown": list(shown), "book": (list() | None) as book}:
            return Series(told_text(name), numbers(shown), None if book is None else numbers(book))
    raise ValueError("a chart's numbers are none")


def numbers(told: list[object]) -> tuple[float | None, ...]:
    """Read some numbers, with gaps."""
    if len(told) > MOST_OF_ALL:
        raise ValueError("a chart has too many numbers")
    return tuple(None if each is None else told_number(each) for each in told)


def read_frame(told: object) -> Frame:
    """Read one frame."""
    match told:
        case {
            "page": int(page), "kind": kind, "name": name, "box": box, "text": str(text), "grows": bool(grows),
            "empty": bool(empty),
        } if -1 <= page < MOST_PAGES and len(text) <= LONGEST_TEXT:  # fmt: skip
            return Frame(page, told_text(kind, 80), told_text(name, 80), read_box(box), text, grows, empty)
    raise ValueError("a frame is not what a frame is")


def read_box(told: object) -> Box:
    """Read a place."""
    if not isinstance(told, list) or len(told) != 4:
        raise ValueError("something is nowhere")
    left, top, right, bottom = map(length, told)
    if right < left or bottom < top:
        raise ValueError("something is inside out")
    return Box(left, top, right, bottom)


def length(told: object) -> float:
    """Read a length."""
    if abs(found := told_number(told)) > FARTHEST:
        raise ValueError("something is farther away than anything can be")
    return found
