"""Tests of the research example: its charts, reading them, and its judge."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from examples.research import brain, extract, market
from examples.research.run import judge

SEEDS = range(200)
SOURCE = Path(extract.__file__).read_text()


def table(seed: int, path: Path, change: Callable[[list[list[str]]], object] = len) -> list[str]:
    drawn = market.generate_market(seed)
    rows = [list(extract.COLUMNS)]
    for figure in drawn.figures:
        title, subject = f"{drawn.name}: {market.REPORTS[figure.report][1]}", market.SUBJECTS[figure.subject]
        for label, value in zip(figure.labels, figure.values, strict=True):
            rows.append(["", "", title, subject, figure.unit, label, str(value), "", ""])
    change(rows)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return judge(drawn, path)


def test_every_seed_gives_charts_that_can_be_read_and_one_whose_axis_does_not_begin_at_nothing() -> None:
    for seed in SEEDS:
        figures = market.generate_market(seed).figures
        assert sum(len(figure.values) for figure in figures) == 52
        assert {figure.style.kind for figure in figures} == {"bar", "line"}
        assert any(figure.style.ticks[0] > 0 for figure in figures)
        for figure in figures:
            ticks = figure.style.ticks
            assert 4 <= len(ticks) <= 9
            assert ticks[0] + 0.02 * figure.range < min(figure.values)
            assert max(figure.values) < ticks[-1]


def test_a_seed_gives_the_same_market_and_another_gives_another() -> None:
    assert market.generate_market(7) == market.generate_market(7)
    styles = {figure.style for seed in range(20) for figure in market.generate_market(seed).figures}
    assert len(styles) == 20 * 8
    for what in ("kind", "side", "grid", "colour", "paper", "font", "spines", "marker", "title"):
        assert len({getattr(style, what) for style in styles}) > 1


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.pop(),
        lambda rows: rows.append(rows[-1]),
        lambda rows: rows[5].__setitem__(6, "no number"),
        lambda rows: rows[5].__setitem__(6, "nan"),
        lambda rows: rows[5].__setitem__(5, "1999"),
        lambda rows: rows[5].__setitem__(6, str(float(rows[5][6]) * 1.2)),
        lambda rows: rows.__delitem__(slice(1, None)),
    ],
    ids=["one missing", "one twice", "a word", "not a number", "another year", "far off", "nothing read"],
)
def test_the_judge_finds_values_that_were_not_drawn(
    change: Callable[[list[list[str]]], object], tmp_path: Path
) -> None:
    assert table(3, tmp_path / "extracted.csv", change)


def test_the_judge_accepts_drawn_values_within_a_tolerance(tmp_path: Path) -> None:
    assert not table(3, tmp_path / "extracted.csv")
    span = market.generate_market(3).figures[0].range

    def shift(rows: list[list[str]], by: float) -> None:
        rows[1][6] = str(float(rows[1][6]) + by * span)

    assert not table(3, tmp_path / "extracted.csv", lambda rows: shift(rows, 0.019))
    assert table(3, tmp_path / "extracted.csv", lambda rows: shift(rows, 0.021))
    assert judge(market.generate_market(3), tmp_path / "there-is-none.csv")


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("1,250", 1250), ("12.5%", 12.5), ("80,000", 80000), ("12,5", None), ("USD", None), ("2018", 2018)],
)
def test_numbers_of_an_axis_are_read(text: str, value: float | None) -> None:
    assert extract.number(text) == value


def test_a_number_that_was_misread_is_left_out() -> None:
    words = [
        extract.Word(text, 10, 20 + 50 * place, 30, 12) for place, text in enumerate(("40", "30", "70", "10", "0"))
    ]
    assert [tick.value for tick in extract.value_axis(words)] == [40, 30, 10, 0]


def test_bars_are_read_at_their_tops_and_lines_at_their_middle() -> None:
    bars = np.zeros((100, 100), bool)
    bars[40:90, 10:30] = bars[60:90, 60:80] = True
    assert extract.points(bars, [("a", 20), ("b", 70)]) == [("a", 40), ("b", 60)]
    line = np.zeros((100, 100), bool)
    line[49:52, 5:96] = True
    assert extract.points(line, [("a", 10), ("b", 50), ("c", 90)]) == [("a", 50.5), ("b", 50.5), ("c", 50.5)]
    with pytest.raises(extract.Unreadable, match="2 bars, and 3 names"):
        extract.points(bars, [("a", 20), ("b", 45), ("c", 70)])


def test_only_the_fixed_reader_reads_an_axis_that_does_not_begin_at_zero() -> None:
    elsewhere = [extract.Tick(value, row) for value, row in ((1300, 0), (1100, 50), (900, 100))]
    with pytest.raises(extract.Unreadable, match="the axis says 1100 where 650 would be"):
        extract.scaled(elsewhere)
    assert SOURCE.count(brain.SCALED) == 1
    mended = ModuleType("mended")
    mended.__dict__["__name__"] = extract.__name__
    exec(compile(SOURCE.replace(brain.SCALED, brain.MENDED), "mended", "exec"), mended.__dict__)  # noqa: S102 - our own source
    assert mended.scaled(elsewhere)(25) == pytest.approx(1200)
