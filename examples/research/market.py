"""Generates two publishers' figures of one market from a seed: the truth of every chart, and how it is drawn."""

from __future__ import annotations

import math
import random
from dataclasses import asdict, dataclass
from typing import Any

MERIDIAN, HARBOUR = "meridian.example.test", "harbour.example.test"
NAMES = {MERIDIAN: "Meridian Insights", HARBOUR: "Harbour Analytics"}
MARKETS = ("Electric bicycles", "Heat pumps", "Home batteries", "Air purifiers", "Robot mowers", "Hearing aids")
YEARS = tuple(str(year) for year in range(2018, 2025))
REGIONS = ("Africa", "Americas", "Asia", "Europe", "Oceania")
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#e07b00", "#008b8b", "#c2185b", "#3f51b5", "#8a5a00")
PAPERS = ("#ffffff", "#ffffff", "#f6f6f2", "#eef1f5", "#fbf7ef")
FONTS = ("DejaVu Sans", "DejaVu Serif", "Liberation Sans", "Liberation Serif", "Carlito")
SPINES = (("left", "bottom"), ("bottom",), ("left", "bottom", "top", "right"))
REPORTS = {
    "market-outlook-2025": (MERIDIAN, "Market outlook 2025", ("size", "price")),
    "regions-and-channels-2025": (MERIDIAN, "Regions and channels 2025", ("regions", "online")),
    "state-of-the-market-2025": (HARBOUR, "State of the market 2025", ("size", "regions")),
    "prices-and-demand-2025": (HARBOUR, "Prices and demand 2025", ("price", "adoption")),
}
"""Each report: its publisher, its title, and the subjects of its charts."""
SUBJECTS = {
    "size": "Market size",
    "price": "Average selling price",
    "regions": "Units sold by region, 2024",
    "online": "Share of sales made online",
    "adoption": "Households that own one",
}


@dataclass(frozen=True, slots=True)
class Style:
    """The style of a chart."""

    kind: str
    """`bar` or `line`."""
    ticks: tuple[float, ...]
    """Numbers of the value axis, including its ends."""
    side: str
    """The side of the value axis."""
    grid: str
    colour: str
    paper: str
    font: str
    size: float
    """Font size in points."""
    spines: tuple[str, ...]
    width: float
    """Width of bars, as a share of their space; or of a line, in points."""
    marker: str
    wide: float
    high: float
    """Height in inches."""
    mark: str
    """Text behind a number of the value axis."""
    title: str
    """Position of the title."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, and the numbers it is drawn from."""

    report: str
    subject: str
    unit: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    style: Style

    @property
    def range(self) -> float:
        """Return the range of the value axis."""
        return self.style.ticks[-1] - self.style.ticks[0]


@dataclass(frozen=True, slots=True)
class Market:
    """A market, as two publishers see it."""

    name: str
    figures: tuple[Figure, ...]

    def as_table(self) -> dict[str, Any]:
        """Return all data for printing the reports."""
        reports = {name: [NAMES[host], title] for name, (host, title, _) in REPORTS.items()}
        return {
            "market": self.name,
            "reports": reports,
            "subjects": SUBJECTS,
            "figures": list(map(asdict, self.figures)),
        }


def generate_market(seed: int) -> Market:
    """Generate a market, and how each publisher draws it."""
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same market
    truth = {
        "size": growing(chance, chance.uniform(4, 30), 1.05, 1.35),
        "price": growing(chance, chance.uniform(400, 2400), 0.94, 1.10),
        "regions": [chance.uniform(120, 900) for _ in REGIONS],
        "online": growing(chance, chance.uniform(12, 20), 1.08, 1.22),
        "adoption": growing(chance, chance.uniform(4, 9), 1.1, 1.3),
    }
    figures = []
    for report, (host, _, subjects) in REPORTS.items():
        for place, subject in enumerate(subjects):
            kind = ("bar", "line")[place] if chance.random() < 0.5 or subject != "size" else "line"
            kind = "bar" if subject == "regions" else "line" if subject == "price" else kind
            seen = [value * chance.uniform(0.93, 1.07) if host == HARBOUR else value for value in truth[subject]]
            figures.append(figure(chance, report, subject, kind, seen))
    return Market(chance.choice(MARKETS), tuple(figures))


def growing(chance: random.Random, first: float, least: float, most: float) -> list[float]:
    """Generate a number for each year."""
    values = [first]
    while len(values) < len(YEARS):
        values.append(values[-1] * chance.uniform(least, most))
    return values


def figure(chance: random.Random, report: str, subject: str, kind: str, seen: list[float]) -> Figure:
    """Return one chart, in the unit its publisher uses."""
    host = REPORTS[report][0]
    units = {"size": "USD bn" if host == MERIDIAN else "USD m", "price": "USD", "regions": "thousand units"}
    unit = units.get(subject, "%")
    scaled = [value * 1000 if unit == "USD m" else value for value in seen]
    values = tuple(round(value, 0 if max(scaled) >= 100 else 2) for value in scaled)
    labels = REGIONS if subject == "regions" else YEARS
    ticks = axis(values, from_zero=subject != "price" and (kind == "bar" or chance.random() < 0.5))
    return Figure(report, subject, unit, labels, values, drawn(chance, kind, ticks, "%" if unit == "%" else ""))


def drawn(chance: random.Random, kind: str, ticks: tuple[float, ...], mark: str) -> Style:
    """Choose the style of a chart."""
    return Style(
        kind=kind,
        ticks=ticks,
        side=chance.choice(("left", "left", "left", "right")),
        grid=chance.choice(("y", "y", "both", "")),
        colour=chance.choice(COLOURS),
        paper=chance.choice(PAPERS),
        font=chance.choice(FONTS),
        size=chance.uniform(9.5, 12),
        spines=chance.choice(SPINES),
        width=chance.uniform(0.35, 0.8) if kind == "bar" else chance.uniform(1.4, 3.2),
        marker=chance.choice(("", "o", "s", "D")) if kind == "line" else "",
        wide=chance.uniform(6.2, 7.6),
        high=chance.uniform(3.2, 4.2),
        mark=mark if chance.random() < 0.6 else "",
        title=chance.choice(("left", "center")),
    )


def axis(values: tuple[float, ...], *, from_zero: bool) -> tuple[float, ...]:
    """Return round ticks around the values, with room beyond them."""
    low, high = min(values), max(values)
    spread = high - low or abs(high)
    start, end = (0.0 if from_zero else max(low - 0.35 * spread, 0.0)), high + 0.12 * spread
    rough = (end - start) / 5
    ten = 10.0 ** math.floor(math.log10(rough))
    step = next(ten * nice for nice in (1, 2, 2.5, 5, 10) if ten * nice >= rough)
    first = math.floor(start / step)
    return tuple(round(step * place, 6) for place in range(first, math.ceil(end / step) + 1))
