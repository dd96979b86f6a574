"""Layout faults of pages: blank, cut off, outside a box, or overlapping."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import islice

from hotdesk.checks.pages.document import Box, DocumentEvidence, Frame, PageContent, TextLine
from hotdesk.checks.pages.expect import PageExpectations
from hotdesk.checks.pages.pixels import EDGES, FEWEST, find_edge_strokes
from hotdesk.checks.seam import DrawnPixels, Fault
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable

NEAR = 1.5
"""Tolerance in points that is not visible."""
FAR = 8.0
"""Tolerance in points beyond a column, because of the padding of table cells."""
_SHORTEST = 3
"""Minimum letters of text that is tested for overlap."""
MOST_COMPARED = 1_000_000
"""Maximum pairs of lines that are compared, to limit the time."""
MOST_SOUGHT = 2_000_000
"""Maximum lines that are searched for the text of shapes, to limit the time."""
_MOST_OF_IT = 0.6
"""Share of a text that must be found; the rest may be rendered differently, such as fields and dates."""
QUOTED = 60
_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Layout:
    """The pages of a file, as reported and as rendered."""

    want: PageExpectations
    document: DocumentEvidence
    pages: Sequence[DrawnPixels]
    blanks: frozenset[int]
    """Blank pages, from 0."""
    word: str = "page"

    def describe_place(self, place: int, box: Box | None = None) -> str:
        return f"{self.word} {place + 1}" + (f", at {box}" if box else "")

    def blank(self) -> Iterator[Fault]:
        for place in sorted(self.blanks):
            if place + 1 not in self.want.blank:
                yield Fault(
                    "blank", self.describe_place(place), f"content on every {self.word}", f"a blank {self.word}"
                )

    def clipped(self) -> Iterator[Fault]:
        for place, leaf in enumerate(self.document.leaves):
            whole = Box(0, 0, leaf.width, leaf.height)
            for line in leaf.lines:
                if not line.how and (side := _find_crossed_edge(line.box, whole, NEAR)):
                    found = f"{quote_start(line.text)}, which extends beyond the {side} edge"
                    yield Fault("clipped", self.describe_place(place, line.box), f"text inside the {self.word}", found)
            for picture in leaf.own_pictures:
                if is_cut(picture.box, whole) and (side := _find_crossed_edge(picture.box, whole, NEAR)):
                    found = f"a picture that extends beyond the {side} edge"
                    yield Fault(
                        "clipped", self.describe_place(place, picture.box), f"pictures inside the {self.word}", found
                    )
            if place < len(self.pages):
                yield from self.find_edge_ink(place, leaf, self.pages[place])

    def find_edge_ink(self, place: int, leaf: PageContent, page: DrawnPixels) -> Iterator[Fault]:
        """Find ink at the edge of a page that is not part of a picture."""
        for name in EDGES:
            along = leaf.height if name in ("left", "right") else leaf.width
            strokes = [
                part * along for part in find_edge_strokes(page, name) if not _is_in_picture(leaf, name, part * along)
            ]
            if len(strokes) >= FEWEST:
                start = "top" if name in ("left", "right") else "left"
                where = f"{self.describe_place(place)}, {name} edge, {strokes[0]:.0f} pt from the {start}"
                yield Fault("clipped", where, "a margin", "text or lines that run off the edge")

    def overlap(self) -> Iterator[Fault]:
        remaining = MOST_COMPARED
        for place, leaf in enumerate(self.document.leaves):
            lines = [line for line in leaf.lines if not line.how and len(_normalize_text(line.text)) >= _SHORTEST]
            for line, other in islice(_iterate_meeting_pairs(lines), remaining):
                remaining -= 1
                if covers(line, other):
                    found = f"{quote_start(other.text)} on top of {quote_start(line.text)}"
                    yield Fault("overlap", self.describe_place(place, other.box), "text that does not overlap", found)
            if remaining <= 0:
                yield Fault(
                    "overlap",
                    self.describe_place(place),
                    "lines that can be compared with each other",
                    "too many lines close together",
                )
                return

    def overflow(self) -> Iterator[Fault]:
        """Find content that does not fit into its intended place."""
        seeking = Seeking()
        for frame in self.document.frames:
            if 0 <= frame.page < len(self.document.leaves):
                yield from self.check_frame(frame, seeking)
            elif frame.kind in ("table", "picture"):
                yield from self.check_width(frame)
            elif frame.text:
                yield from self.check_height(frame, seeking)
        if seeking.remaining <= 0:
            yield Fault("overflow", "", "a number of shapes that can be checked", "too many shapes")
        yield from self.find_margin_text()

    def check_frame(self, frame: Frame, seeking: Seeking) -> Iterator[Fault]:
        leaf = self.document.leaves[frame.page]
        whole = Box(0, 0, leaf.width, leaf.height)
        where = f"{self.describe_place(frame.page, frame.box)}, {frame.kind} {make_printable(frame.name)!r}"
        side = _find_crossed_edge(frame.box, whole, 2 * NEAR)
        if side and _has_content(frame) and (frame.kind != "picture" or is_cut(frame.box, whole)):
            yield Fault(
                "overflow", where, f"shapes inside the {self.word}", f"a shape that extends beyond the {side} edge"
            )
        if frame.kind != "text" or frame.grows or not frame.text.strip():
            return
        drawn = min(
            seeking.find(frame.text, leaf.lines), key=lambda box: _measure_distance(box, frame.box), default=frame.box
        )
        if side := _find_crossed_edge(drawn, frame.box, 2 * NEAR):
            overhang = f"{_measure_overhang(drawn, frame.box):.0f} pt"
            found = f"{quote_start(frame.text)}, which extends {overhang} beyond the {side} edge of the shape"
            yield Fault("overflow", where, "text inside its shape", found)

    def check_width(self, frame: Frame) -> Iterator[Fault]:
        area = self.document.area
        if area is not None and frame.box.width > area.width + 2 * FAR:
            found = f"a width of {frame.box.width:.0f} pt"
            where = f"{frame.kind} {make_printable(frame.name)!r}"
            yield Fault(
                "overflow", where, f"a width of at most {area.width:.0f} pt, the space between the margins", found
            )

    def check_height(self, frame: Frame, seeking: Seeking) -> Iterator[Fault]:
        needed = [box.height for lines in self.document.loose for box in seeking.find(frame.text, lines)]
        if needed and min(needed) > frame.box.height + NEAR:
            found = f"{quote_start(frame.text)}, which needs {min(needed):.0f} pt"
            where = f"{frame.kind} {make_printable(frame.name)!r}"
            yield Fault("overflow", where, f"text that fits into a height of {frame.box.height:.0f} pt", found)

    def find_margin_text(self) -> Iterator[Fault]:
        area = self.document.area
        for place, leaf in enumerate(self.document.leaves):
            for line in leaf.lines:
                if area is not None and not line.how and _is_in_margin(line.box, area, leaf.width):
                    found = f"{quote_start(line.text)} in the right margin"
                    yield Fault("overflow", self.describe_place(place, line.box), "text between the margins", found)


def _is_in_margin(box: Box, area: Box, width: float) -> bool:
    """Return whether a line extends into the right margin without leaving the page."""
    beside = area.right + FAR < box.right <= width + NEAR
    return beside and area.top <= box.top and box.bottom <= area.bottom


def _has_content(frame: Frame) -> bool:
    return frame.kind != "text" or bool(frame.text.strip())


def _find_crossed_edge(box: Box, whole: Box, slack: float) -> str:
    """Return the edge that a box crosses by more than `slack`, or `""` if none."""
    over = {
        "left": whole.left - box.left, "top": whole.top - box.top,
        "right": box.right - whole.right, "bottom": box.bottom - whole.bottom,
    }  # fmt: skip
    side = max(over, key=lambda each: over[each])
    return side if over[side] > slack else ""


def _measure_overhang(box: Box, whole: Box) -> float:
    return max(whole.left - box.left, whole.top - box.top, box.right - whole.right, box.bottom - whole.bottom)


def is_cut(box: Box, whole: Box) -> bool:
    """Return whether a picture is cut off at the edge. One that fills the page counts as background."""
    common = box.intersect(whole)
    return common.area < box.area * 0.98 and common.area < whole.area * 0.99


def _is_in_picture(leaf: PageContent, edge: str, at: float) -> bool:
    for picture in leaf.pictures:
        box = picture.box
        reaches = {
            "left": box.left <= NEAR, "top": box.top <= NEAR,
            "right": box.right >= leaf.width - NEAR, "bottom": box.bottom >= leaf.height - NEAR,
        }[edge]  # fmt: skip
        low, high = (box.top, box.bottom) if edge in ("left", "right") else (box.left, box.right)
        if reaches and low - NEAR <= at <= high + NEAR:
            return True
    return False


def _iterate_meeting_pairs(lines: list[TextLine]) -> Iterator[tuple[TextLine, TextLine]]:
    """Yield the pairs of lines that overlap vertically."""
    lines = sorted(lines, key=lambda line: line.box.top)
    tops = [line.box.top for line in lines]
    for first, line in enumerate(lines):
        for other in range(first + 1, bisect_left(tops, line.box.bottom)):
            yield line, lines[other]


def covers(line: TextLine, other: TextLine) -> bool:
    """Return whether two lines overlap. The same text twice counts as a shadow."""
    if line.box.left >= other.box.right or other.box.left >= line.box.right:
        return False
    common = line.box.intersect(other.box)
    if common.height <= 0.4 * min(line.box.height, other.box.height) or common.width <= 2 * NEAR:
        return False
    least = min(line.box.area, other.box.area)
    return common.area > 0.15 * least and _normalize_text(line.text) != _normalize_text(other.text)


@dataclass(slots=True)
class Seeking:
    """Finds where the text of shapes was rendered, within a budget of lines."""

    remaining: int = MOST_SOUGHT
    """Number of lines that may still be searched."""
    plain_lines: dict[int, list[str]] = field(default_factory=dict)
    """The lines of each page, reduced to letters and digits."""

    def find(self, text: str, lines: tuple[TextLine, ...]) -> list[Box]:
        words, sought = self.normalize_lines(lines), _normalize_text(text)
        self.remaining -= len(words)
        begin = [at for at, each in enumerate(words) if each and sought.startswith(each)] if self.remaining > 0 else []
        found = [self.from_line(at, sought, words) for at in begin]
        return [_compute_bounding_box([lines[at].box for at in each]) for each in found if each]

    def normalize_lines(self, lines: tuple[TextLine, ...]) -> list[str]:
        if id(lines) not in self.plain_lines:
            self.plain_lines[id(lines)] = ["" if line.how else _normalize_text(line.text) for line in lines]
        return self.plain_lines[id(lines)]

    def from_line(self, at: int, sought: str, words: list[str]) -> list[int]:
        """Return the lines that contain a text which starts in line `at`; list markers between them are skipped."""
        done, found = 0, []
        for place in range(at, len(words)):
            self.remaining -= 1
            if words[place] and sought.startswith(words[place], done):
                done += len(words[place])
                found.append(place)
            elif len(words[place]) > _SHORTEST:
                break
            if done == len(sought) or self.remaining <= 0:
                break
        return found if done >= _MOST_OF_IT * len(sought) else []


def _compute_bounding_box(boxes: Sequence[Box]) -> Box:
    return Box(
        min(box.left for box in boxes), min(box.top for box in boxes),
        max(box.right for box in boxes), max(box.bottom for box in boxes),
    )  # fmt: skip


def _measure_distance(box: Box, other: Box) -> float:
    across, down = box.left + box.right - other.left - other.right, box.top + box.bottom - other.top - other.bottom
    return across * across + down * down


def _normalize_text(text: str) -> str:
    return _NO_LETTERS.sub("", text).casefold()


def quote_start(text: str) -> str:
    return repr(make_printable(" ".join(text.split())[:QUOTED]))
