"""Charts written as SVG: rows of latencies, bars, and lines, stacked on one sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from bench.report import number

WIDTH = 900
LEFT, RIGHT = 270, 120
"""Space for the names of rows, and for their numbers."""
ROW = 26
INK, FAINT, LINE = "#1f2933", "#66727f", "#dfe4ea"
OURS, THEIRS = "#d9480f", "#5f7d95"
FONT = "font-family=\"'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\""


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a sheet."""

    body: str
    height: int


@dataclass(frozen=True, slots=True)
class Row:
    """A name and its numbers: a median with high percentiles, or one number alone."""

    name: str
    values: tuple[float, ...]
    ours: bool

    @property
    def colour(self) -> str:
        """Return hotdesk's colour, or that of peers."""
        return OURS if self.ours else THEIRS


def text(
    x: float, y: float, words: str, *, size: int = 13, fill: str = INK, anchor: str = "start", more: str = ""
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"'
    return f"<text {place} {more}>{escape(words)}</text>"


def stroke(x1: float, y1: float, x2: float, y2: float, colour: str = LINE, width: float = 1) -> str:
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} stroke="{colour}" stroke-width="{width}"/>'


def dot(x: float, y: float, colour: str, *, radius: float = 5, filled: bool = True) -> str:
    """Draw a dot, or a ring if not `filled`."""
    fill = colour if filled else "#ffffff"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>'


def title(words: str, beneath: str) -> list[str]:
    return [text(24, 26, words, size=16, more='font-weight="600"'), text(24, 45, beneath, size=12, fill=FAINT)]


def decades(values: Sequence[float], least: int = 2) -> list[float]:
    """Return marks of a log scale that cover all values: 1, 2 and 5 of each power of ten, but no more than needed."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    marks = [step * 10.0**power for power in range(low - 1, high + 2) for step in (1, 2, 5)]
    first = max(place for place, mark in enumerate(marks) if mark <= min(values))
    last = min(place for place, mark in enumerate(marks) if mark >= max(values))
    while last - first + 1 < least:
        first, last = max(first - 1, 0), last + 1
    return marks[first : last + 1]


def short(value: float) -> str:
    return f"{value:g}" if value < 1000 else f"{value:,.0f}"


def latencies(words: str, beneath: str, rows: Sequence[Row]) -> Panel:
    """Draw medians as dots, p95 as ticks and p99 as rings, on a log scale of milliseconds."""
    rows = sorted(rows, key=lambda row: row.values[0])
    marks = decades([value for row in rows for value in row.values])
    span = math.log(marks[-1] / marks[0])

    def at(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(value / marks[0]) / span

    top, end = 78, 78 + ROW * len(rows)
    drawn = title(words, beneath)
    for mark in marks:
        drawn.append(stroke(at(mark), top - 12, at(mark), end - 8))
        drawn.append(text(at(mark), top - 17, short(mark), size=11, fill=FAINT, anchor="middle"))
    drawn.append(text(WIDTH - 24, top - 17, "median, ms", size=11, fill=FAINT, anchor="end"))
    for place, row in enumerate(rows):
        y = top + ROW * place + 4
        median, most, last = (at(value) for value in row.values)
        weight = 'font-weight="600"' if row.ours else ""
        drawn.append(text(LEFT - 14, y + 4.5, row.name, anchor="end", fill=row.colour, more=weight))
        drawn += [stroke(median, y, last, y, row.colour, 2), stroke(most, y - 5, most, y + 5, row.colour, 2)]
        drawn += [dot(last, y, row.colour, radius=3.5, filled=False), dot(median, y, row.colour)]
        drawn.append(text(WIDTH - 24, y + 4.5, number(row.values[0]), fill=row.colour, anchor="end", more=weight))
    return Panel("".join(drawn), end + 14)


def bars(words: str, beneath: str, rows: Sequence[Row]) -> Panel:
    """Draw one number for each row as a bar from zero."""
    most, top = max(row.values[0] for row in rows), 62
    drawn = title(words, beneath)
    for place, row in enumerate(rows):
        y = top + ROW * place
        size = (WIDTH - LEFT - RIGHT) * row.values[0] / most
        weight = 'font-weight="600"' if row.ours else ""
        drawn.append(text(LEFT - 14, y + 14, row.name, anchor="end", fill=row.colour, more=weight))
        drawn.append(f'<rect x="{LEFT}" y="{y}" width="{size:.1f}" height="18" rx="2" fill="{row.colour}"/>')
        drawn.append(text(LEFT + size + 8, y + 14, number(row.values[0]), fill=row.colour, more=weight))
    return Panel("".join(drawn), top + ROW * len(rows) + 16)


def lines(words: str, beneath: str, steps: Sequence[str], rows: Sequence[Row]) -> Panel:
    """Draw milliseconds, on a log scale, over `steps`."""
    marks = decades([value for row in rows for value in row.values], least=4)  # flat data must look flat
    top, height, left, right = 74, 210, 80, 210
    span = math.log(marks[-1] / marks[0])

    def across(place: int) -> float:
        return left + 30 + (WIDTH - left - right - 60) * place / max(len(steps) - 1, 1)

    def up(value: float) -> float:
        return top + height - height * math.log(value / marks[0]) / span

    drawn = title(words, beneath)
    for mark in marks:
        drawn.append(stroke(left, up(mark), WIDTH - right, up(mark)))
        drawn.append(text(left - 10, up(mark) + 4, short(mark), size=11, fill=FAINT, anchor="end"))
    drawn.append(text(left - 10, top - 14, "ms", size=11, fill=FAINT, anchor="end"))
    for place, step in enumerate(steps):
        drawn.append(text(across(place), top + height + 20, step, size=12, fill=FAINT, anchor="middle"))
    names = apart([up(row.values[-1]) + 4.5 for row in rows])
    for row, name_at in zip(rows, names, strict=True):
        points = [(across(place), up(value)) for place, value in enumerate(row.values)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{row.colour}" stroke-width="2"/>')
        drawn += [dot(x, y, row.colour, radius=4) for x, y in points]
        weight = 'font-weight="600"' if row.ours else ""
        drawn.append(text(WIDTH - right + 12, name_at, row.name, fill=row.colour, more=weight))
    return Panel("".join(drawn), top + height + 40)


def apart(places: list[float], least: float = 17) -> list[float]:
    """Move overlapping labels apart, keeping their order."""
    order = sorted(range(len(places)), key=places.__getitem__)
    for one, other in pairwise(order):
        places[other] = max(places[other], places[one] + least)
    return places


def sheet(panels: Sequence[Panel], footer: str) -> str:
    drawn, y = [], 8
    for panel in panels:
        drawn.append(f'<g transform="translate(0 {y})">{panel.body}</g>')
        y += panel.height + 12
    drawn.append(text(24, y + 12, footer, size=11, fill=FAINT))
    height = y + 28
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    whole = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>' + "\n".join(drawn)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {FONT}>\n{whole}\n</svg>\n'
