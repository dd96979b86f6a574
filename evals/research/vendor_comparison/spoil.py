"""Write wrong deliveries that the grader must fail: a discount missed, list prices, rates inverted, another deck."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

from pptx import Presentation  # type: ignore[import-not-found]
from pptx.chart.data import CategoryChartData  # type: ignore[import-not-found]

HEADS = ("Vendor", "Currency", "Original", "EUR", "Source")


def main() -> None:
    """Write spoilt/VARIANT/ with all three files."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    rows, rates = truth["rows"], truth["rates"]
    write("discount-missed", [scale(row, 1 / 0.9) if row[0] == "Alto" else row for row in rows])
    write("list-prices", [list_priced(row, truth["seats"]) for row in rows])
    write("rates-inverted", [[*row[:3], round(row[2] * rates[row[1]], 2), row[4]] for row in rows])
    write("dearest-first", rows[::-1])
    write("deck-differs", rows)
    change_chart(Path("spoilt/deck-differs/deck.pptx"), truth)
    write("wrong-winner", rows)
    change_line(Path("spoilt/wrong-winner/deck.pptx"), rows)
    write("no-chart", rows)
    Path("spoilt/no-chart/chart.png").write_bytes(b"")


def scale(row: list[Any], factor: float) -> list[Any]:
    """Return a row with another cost."""
    return [*row[:2], round(row[2] * factor, 2), round(row[3] * factor, 2), row[4]]


def list_priced(row: list[Any], seats: int) -> list[Any]:
    """Return a row of Borealis with the public price."""
    return scale(row, 1 + 80 * seats / row[2]) if row[0] == "Borealis" else row


def write(name: str, rows: list[list[Any]]) -> None:
    """Write one variant: the reference deck and chart, and another table."""
    folder = Path("spoilt", name)
    shutil.copytree("delivered", folder)
    with (folder / "comparison.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEADS, *rows])


def change_chart(path: Path, truth: dict[str, Any]) -> None:
    """Give the deck's chart the costs in each vendor's own currency."""
    deck = Presentation(path)
    chart = next(shape.chart for shape in deck.slides[2].shapes if shape.has_chart)
    data = CategoryChartData()
    data.categories = [row[0] for row in truth["rows"]]
    data.add_series("Cost", [row[2] + 100 for row in truth["rows"]])
    chart.replace_data(data)
    deck.save(path)


def change_line(path: Path, rows: list[list[Any]]) -> None:
    """Name the second vendor on the first slide."""
    deck = Presentation(path)
    for shape in deck.slides[0].shapes:
        for paragraph in shape.text_frame.paragraphs if shape.has_text_frame else ():
            for run in paragraph.runs:
                run.text = run.text.replace(f"Cheapest: {rows[0][0]}", f"Cheapest: {rows[1][0]}")
    deck.save(path)


if __name__ == "__main__":
    main()
