"""Write the question, and a statistical office's bulletins with charts: `python3 generate.py SEED`."""

from __future__ import annotations

import io
import json
import random
import sys
from base64 import b64encode
from pathlib import Path
from typing import NamedTuple

from reportlab.lib.pagesizes import A4  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]

HOST = "statistics.example.test"
REGIONS = ("East", "North", "South", "West")
CROPS = ("Wheat", "Barley", "Oats", "Potatoes", "Beet")
TASK = """# Harvest of four regions

The statistical office at https://statistics.example.test/bulletins publishes a bulletin for each region and year,
as PDF. Its charts have no numbers at their bars. Read the harvest of 2024 of every region and crop from the charts.

- Where a revised edition of a bulletin is published, the revised edition counts.
- A footnote below a chart that corrects a figure counts instead of the bar.
- Look at the axis: its unit is not the same in every bulletin, and it does not always begin at 0.

Deliver harvest.csv with the columns Region, Crop, Tonnes, Source and 20 rows: regions in alphabetical order, the
crops of each in the order of its chart. Tonnes is in thousand tonnes, a plain number; it may be off by 2 % of what
the axis spans, and may not be off at all where a footnote states it. Source is the full https address of the PDF
that counts.
"""
GOAL = """
Read the harvest of 2024 from charts in PDF bulletins on the web. TASK.md says where they are, what counts, and what
harvest.csv, which you deliver, looks like.
"""
LEFT, FOOT, WIDTH, HEIGHT = 110.0, 330.0, 380.0, 260.0
"""Where a chart stands on its page, in points from the lower left."""
COLOURS = ((0.12, 0.42, 0.65), (0.66, 0.33, 0.12), (0.2, 0.5, 0.3), (0.4, 0.3, 0.6))


class Chart(NamedTuple):
    """The content of a bulletin."""

    region: str
    year: int
    edition: str
    values: list[float]
    """In thousand tonnes, by crop."""
    low: float
    step: float
    millions: bool
    footnote: str


def main() -> None:
    """Write brief/ and hidden/."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same bulletins
    millions, raised, revised, corrected = chance.sample(REGIONS, 4)
    files, rows, listed, revisions = {}, [], [], []
    for region in REGIONS:
        chart = make_chart(chance, region, 2024, raised=region == raised, millions=region == millions)
        tolerance = 0.02 * 6 * chart.step
        exact: dict[int, float] = {}
        if region == corrected:
            place = chance.randrange(len(CROPS))
            exact[place] = round(chart.values[place] * chance.uniform(0.7, 0.85))
            note = f"* {CROPS[place]}: corrected after the chart was drawn to {exact[place]:.0f} thousand tonnes."
            chart = chart._replace(footnote=note)
        path = f"/bulletins/{region.lower()}-2024.pdf"
        if region == revised:
            revisions.append((region, f"/bulletins/{region.lower()}-2024-r2.pdf"))
            files[path] = draw(chance, chart._replace(values=[value * 0.88 for value in chart.values]))
            listed.append((f"{region}, harvest of 2024", path))
            path, chart = revisions[-1][1], chart._replace(edition="Revised edition of 12 March 2025")
        else:
            listed.append((f"{region}, harvest of 2024", path))
        files[path] = draw(chance, chart)
        older = f"/bulletins/{region.lower()}-2023.pdf"
        files[older] = draw(chance, make_chart(chance, region, 2023, raised=False, millions=False))
        listed.append((f"{region}, harvest of 2023", older))
        for place, crop in enumerate(CROPS):
            value, within = exact.get(place, chart.values[place]), 0.01 if place in exact else tolerance
            rows.append([region, crop, value, within, f"https://{HOST}{path}"])
    chance.shuffle(listed)
    pages = {"/bulletins": index(listed, revisions), "/": "<h1>Statistical office</h1><a href=/bulletins>Bulletins</a>"}
    pages["/bulletins/revisions"] = revision_page(revisions)
    truth = {"rows": rows, "pages": pages, "files": {name: b64encode(data).decode() for name, data in files.items()}}
    Path("hidden").mkdir()
    Path("hidden/truth.json").write_text(json.dumps(truth))
    Path("brief").mkdir()
    Path("brief/TASK.md").write_text(TASK)
    Path("brief/brief.toml").write_text(brief())


def make_chart(chance: random.Random, region: str, year: int, *, raised: bool, millions: bool) -> Chart:
    """Choose values and an axis of six steps."""
    step = chance.choice([50.0, 100.0, 200.0])
    low = step * chance.choice([4, 5, 8]) if raised else 0.0
    values = [round(low + step * chance.uniform(0.4, 5.8)) for _ in CROPS]
    return Chart(region, year, "First edition", [float(value) for value in values], low, step, millions, "")


def draw(chance: random.Random, chart: Chart) -> bytes:
    """Draw a bulletin of two pages, text and chart."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4, invariant=1)
    title = f"{chart.region}: harvest of {chart.year}"
    canvas.setFont("Helvetica-Bold", 20)
    canvas.drawString(60, 760, title)
    canvas.setFont("Helvetica", 11)
    canvas.drawString(60, 735, chart.edition)
    canvas.drawString(60, 690, "Figures of all farms of more than five hectares. The chart is on the next page.")
    canvas.showPage()
    canvas.setFont("Helvetica-Bold", 13)
    canvas.drawString(60, 650, title)
    canvas.setFont("Helvetica", 10)
    unit = "million tonnes" if chart.millions else "thousand tonnes"
    canvas.drawString(60, 632, f"In {unit}")
    for tick in range(7):
        height, value = FOOT + HEIGHT * tick / 6, chart.low + tick * chart.step
        canvas.setStrokeColorRGB(0.8, 0.8, 0.8)
        canvas.line(LEFT, height, LEFT + WIDTH, height)
        label = f"{value / 1000:.2f}" if chart.millions else f"{value:,.0f}"
        canvas.drawRightString(LEFT - 6, height - 3.5, label)
    canvas.setFillColorRGB(*chance.choice(COLOURS))
    for place, value in enumerate(chart.values):
        height = (value - chart.low) / (6 * chart.step) * HEIGHT
        canvas.rect(LEFT + 20 + 72 * place, FOOT, 46, height, stroke=0, fill=1)
    canvas.setFillColorRGB(0, 0, 0)
    for place, crop in enumerate(CROPS):
        star = "*" if chart.footnote.startswith(f"* {crop}:") else ""
        canvas.drawCentredString(LEFT + 43 + 72 * place, FOOT - 16, crop + star)
    canvas.setFont("Helvetica", 8)
    canvas.drawString(60, FOOT - 50, chart.footnote)
    canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def index(listed: list[tuple[str, str]], revisions: list[tuple[str, str]]) -> str:
    """Return the page of bulletins; revised editions are listed on another page."""
    items = "".join(f"<li><a href={path}>{title}</a> (PDF)" for title, path in listed)
    more = f"<p><a href=/bulletins/revisions>Revised editions ({len(revisions)})</a>"
    return f"<!doctype html><meta charset=utf-8><title>Bulletins</title><h1>Bulletins</h1><ul>{items}</ul>{more}"


def revision_page(revisions: list[tuple[str, str]]) -> str:
    """Return the page of revised editions."""
    items = "".join(f"<li><a href={path}>{region}, harvest of 2024, revised</a> (PDF)" for region, path in revisions)
    return f"<!doctype html><meta charset=utf-8><title>Revisions</title><h1>Revised editions</h1><ul>{items}</ul>"


def brief() -> str:
    """Return the brief."""
    return (
        f'goal = """{GOAL}"""\ninputs = ["TASK.md"]\nimage = "office"\nseconds = 900\n'
        f'egress = ["GET https://{HOST}/**"]\n\n'
        '[[deliverables]]\npath = "harvest.csv"\ncheck = "csv"\n\n[deliverables.expect]\n'
        'columns = ["Region", "Crop", "Tonnes", "Source"]\nrows = 20\nnumeric = ["Tonnes"]\n'
    )


if __name__ == "__main__":
    main()
