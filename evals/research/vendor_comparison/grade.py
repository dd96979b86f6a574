"""Compare table and deck with the truth, and open the chart; print one JSON object."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from pptx import Presentation  # type: ignore[import-not-found]

COLUMNS = ("vendor", "currency", "original", "eur", "source")
WITHIN = 0.011


def main() -> None:
    """Print the verdict."""
    expected = json.loads(Path("hidden/truth.json").read_text())["rows"]
    faults = [*find_table_faults(expected), *find_picture_faults(), *find_deck_faults(expected)]
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_table_faults(expected: list[list[Any]]) -> Iterator[str]:
    """Compare the table."""
    try:
        text = Path("delivered/comparison.csv").read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        yield "comparison.csv is missing."
        return
    rows = [{(key or "").strip().lower(): str(value or "").strip() for key, value in row.items()}
            for row in csv.DictReader(text.splitlines())]  # fmt: skip
    if len(rows) != len(expected) or not set(COLUMNS) <= set(rows[0]):
        yield "comparison.csv has other columns, or not three rows."
        return
    for row, (vendor, currency, original, euros, source) in zip(rows, expected, strict=True):
        if row["vendor"] != vendor:
            yield f"{vendor} does not stand at its place: the cheapest comes first."
        elif not abs(number(row["original"]) - original) <= WITHIN or row["currency"] != currency:
            yield f"{vendor}: the cost is {row['original'][:30]} {row['currency'][:10]}, not {original:.2f} {currency}."
        elif not abs(number(row["eur"]) - euros) <= WITHIN:
            yield f"{vendor}: the cost is EUR {row['eur'][:30]}, not {euros:.2f}."
        elif row["source"].rstrip("/") != source:
            yield f"{vendor}: the source is not {source}."


def find_picture_faults() -> Iterator[str]:
    """Open the chart; its content is not judged."""
    try:
        with Image.open("delivered/chart.png") as image:
            image.load()
            if image.format != "PNG" or image.width < 600 or image.height < 400:
                yield "chart.png is no PNG of 600 by 400 pixels or more."
            elif len(image.convert("RGB").resize((200, 200)).getcolors(1 << 16) or []) < 3:
                yield "chart.png shows nothing."
    except OSError:
        yield "chart.png is missing or cannot be opened."


def find_deck_faults(expected: list[list[Any]]) -> Iterator[str]:
    """Compare the deck's line, table and chart."""
    try:
        slides = list(Presentation("delivered/deck.pptx").slides)
    except Exception as error:  # noqa: BLE001 - whatever a broken file does to the parser, it is a broken file
        yield f"deck.pptx is missing or cannot be opened: {type(error).__name__}."
        return
    if len(slides) != 3:
        yield f"deck.pptx has {len(slides)} slides, not 3."
        return
    vendor, euros = expected[0][0], expected[0][3]
    line = re.search(r"Cheapest:\s*(\w+),\s*EUR\s*([\d,. ]+)", text_of(slides[0]))
    if line is None or line[1] != vendor or not abs(number(line[2].strip(" .")) - euros) <= 0.51:
        yield f"Slide 1 does not say `Cheapest: {vendor}, EUR {euros:.0f}`."
    numbers = [number(each.rstrip(".")) for each in re.findall(r"\d[\d,.]*", text_of(slides[1]))]
    for name, currency, original, amount, _ in expected:
        for value, unit in ((original, currency), (amount, "EUR")):
            if not any(abs(each - value) <= WITHIN for each in numbers):
                yield f"Slide 2 does not state {name}'s cost, {unit} {value:.2f}."
    charts = [shape.chart for shape in slides[2].shapes if shape.has_chart]
    truth = {name: amount for name, _, _, amount, _ in expected}
    if len(charts) != 1 or len(list(charts[0].plots[0].series)) != 1:
        yield "Slide 3 does not have one chart of one series."
    else:
        plot = charts[0].plots[0]
        shown = dict(zip(map(str, plot.categories), plot.series[0].values, strict=False))
        if set(shown) != set(truth) or any(abs((shown[name] or 0) - truth[name]) > 1 for name in truth):
            yield "The chart on slide 3 does not show the cost of each vendor in EUR."


def text_of(slide: Any) -> str:
    """Return all text of a slide, tables included."""
    parts = [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]
    for shape in slide.shapes:
        if shape.has_table:
            parts += [cell.text for row in shape.table.rows for cell in row.cells]
    return "\n".join(parts)


def number(text: str) -> float:
    """Return a number; separators of thousands are ignored."""
    try:
        return float(text.replace(",", "").replace(" ", ""))
    except ValueError:
        return float("nan")


if __name__ == "__main__":
    main()
