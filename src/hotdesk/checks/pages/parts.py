"""Rules for the parts of a file with pages: fonts exist, pictures are not blank, charts match their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hotdesk.checks.pages.document import Chart, DocumentEvidence, PageContent
from hotdesk.checks.pages.expect import PageExpectations
from hotdesk.checks.pages.layout import quote_start
from hotdesk.checks.seam import Fault
from hotdesk.dataclass import dataclass

_EVERYWHERE = frozenset(
    {"Symbol", "ZapfDingbats"}
    | {f"Helvetica{each}" for each in ("", "-Bold", "-Oblique", "-BoldOblique")}
    | {f"Courier{each}" for each in ("", "-Bold", "-Oblique", "-BoldOblique")}
    | {f"Times-{each}" for each in ("Roman", "Bold", "Italic", "BoldItalic")}
)
"""The standard fonts that every PDF reader has."""
_ALIKE = {
    "arial": "liberation sans", "helvetica": "liberation sans", "times new roman": "liberation serif",
    "times": "liberation serif", "courier new": "liberation mono", "courier": "liberation mono",
    "calibri": "carlito", "calibri light": "carlito", "cambria": "caladea",
}  # fmt: skip
"""Fonts and their metric-compatible replacements."""
SIGNS = frozenset({"symbol", "wingdings", "wingdings 2", "wingdings 3", "webdings", "opensymbol"})
"""Symbol fonts, for which office programs have their own replacements."""
_MIN_PICTURE_SHARE = 0.01
"""Share of a page above which a picture of one colour is a fault."""
CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class DocumentParts:
    """The parts of a file: fonts, media and charts."""

    want: PageExpectations
    document: DocumentEvidence
    word: str = "page"

    def fonts(self) -> Iterator[Fault]:
        reported = set()
        for place, leaf in enumerate(self.document.leaves):
            for name, embedded in leaf.fonts:
                if not embedded and not self.is_known(name) and name not in reported:
                    reported.add(name)
                    found = f"{quote_start(name)}, which is not embedded"
                    yield Fault("fonts", f"{self.word} {place + 1}", "every font embedded", found)
        for font in self.document.fonts:
            if font.name not in self.want.fonts and not _is_alike(font.name, font.drawn):
                found = f"{quote_start(font.name)}, which is replaced by {quote_start(font.drawn)}"
                yield Fault("fonts", "", "an installed font, or one with the same letter widths", found)

    def is_known(self, name: str) -> bool:
        return name in self.want.fonts or (name in _EVERYWHERE and not self.want.embedded)

    def media(self) -> Iterator[Fault]:
        for medium in self.document.media:
            yield Fault("media", medium.where, f"{quote_start(medium.name)} complete inside the file", medium.problem)
        for place, leaf in enumerate(self.document.leaves):
            for picture in leaf.own_pictures:
                where = f"{self.word} {place + 1}, at {picture.box}"
                if picture.problem:
                    yield Fault("media", where, "a picture", picture.problem)
                elif picture.plain and picture.box.area > _MIN_PICTURE_SHARE * leaf.width * leaf.height:
                    yield Fault("media", where, "a picture that is not blank", "a picture of a single colour")
        yield from self.check_count("media", "pictures", count_pictures(self.document.leaves))

    def charts(self) -> Iterator[Fault]:
        """Find charts without numbers, and charts that differ from their workbook."""
        for chart in self.document.charts:
            where = f"{chart.where}, {quote_start(chart.name)}"
            if chart.problem:
                yield Fault("charts", where, "a chart", chart.problem)
            elif not any(number is not None for series in chart.series for number in series.shown):
                yield Fault("charts", where, "a chart with numbers", "none")
            else:
                yield from _find_differing_series(chart, where)
        yield from self.check_count("charts", "charts", len(self.document.charts))

    def check_count(self, rule: str, what: str, found: int) -> Iterator[Fault]:
        expected = self.want.charts if what == "charts" else self.want.pictures
        if expected is not None and found not in expected:
            yield Fault(rule, "", f"{expected} {what}", str(found))


def _find_differing_series(chart: Chart, where: str) -> Iterator[Fault]:
    for series in chart.series:
        if not any(number is not None for number in series.shown):
            yield Fault("charts", where, f"numbers in {quote_start(series.name)}", "none")
        elif series.book is not None and not _has_same_numbers(series.shown, series.book):
            at = next(
                (n for n, pair in enumerate(_pair_numbers(series.shown, series.book)) if not _is_same_number(*pair)), 0
            )
            shown, stored = _pair_numbers(series.shown, series.book)[at]
            found = f"{_format_number(shown)} where the workbook has {_format_number(stored)}, at point {at + 1}"
            yield Fault("charts", where, f"{quote_start(series.name)} as in the chart's workbook", found)


Numbers = tuple[float | None, ...]


def _pair_numbers(shown: Numbers, book: Numbers) -> list[tuple[float | None, float | None]]:
    """Pair the numbers by position; the shorter list is padded with `None`."""
    most = max(len(shown), len(book))
    return list(zip(shown + (None,) * (most - len(shown)), book + (None,) * (most - len(book)), strict=True))


def _has_same_numbers(shown: Numbers, book: Numbers) -> bool:
    return all(_is_same_number(*pair) for pair in _pair_numbers(shown, book))


def _is_same_number(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=CLOSE, abs_tol=1e-9)


def _format_number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:g}"


def _is_alike(name: str, drawn: str) -> bool:
    """Return whether a font is rendered as itself or as a font with the same widths."""
    folded, found = name.casefold(), [each.strip() for each in drawn.casefold().split(",")]
    return folded in SIGNS or folded in found or _ALIKE.get(folded) in found


def count_pictures(leaves: tuple[PageContent, ...]) -> int:
    return sum(len(leaf.own_pictures) for leaf in leaves)
