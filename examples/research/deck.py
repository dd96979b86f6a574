"""Makes the worker's deck at its desk: twenty slides, each with its sources in the footer.

python3 deck.py    reads extracted.csv, charts.json, links.json and pictures; writes Market_Research.pptx
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, TypeAlias

from PIL import Image
from pptx import Presentation  # type: ignore[import-not-found]
from pptx.chart.data import CategoryChartData  # type: ignore[import-not-found]
from pptx.dml.color import RGBColor  # type: ignore[import-not-found]
from pptx.enum.chart import XL_CHART_TYPE, XL_LEGEND_POSITION  # type: ignore[import-not-found]
from pptx.enum.text import MSO_ANCHOR, PP_ALIGN  # type: ignore[import-not-found]
from pptx.util import Emu, Inches, Pt  # type: ignore[import-not-found]

Row: TypeAlias = dict[str, str]
WIDE, HIGH, EDGE = 13.333, 7.5, 0.6
"""Inches of a slide, and of its margins."""
TOP, FOOT = 1.45, 6.85
"""Inches from the top to a slide's content, and to its footer."""
INK, GREY, BLUE, RUST = (RGBColor.from_string(code) for code in ("1D2B36", "6B7780", "0B5C7A", "C4622D"))
PALE = RGBColor.from_string("EEF3F6")
FONT = "Liberation Sans"
SPAN = 19
"""Rows of the raw table on one slide."""


class Deck:
    """A deck in the making."""

    def __init__(self, links: dict[str, str]) -> None:
        self.file = Presentation()
        self.file.slide_width, self.file.slide_height = Inches(WIDE), Inches(HIGH)
        self.links = links

    def slide(self, title: str, sources: list[str], subtitle: str = "") -> Any:
        """Add a slide with its title, and its sources in the footer."""
        slide = self.file.slides.add_slide(self.file.slide_layouts[5])
        head = slide.shapes.title
        head.left, head.top, head.width, head.height = (Inches(size) for size in (EDGE, 0.38, WIDE - 2 * EDGE, 0.62))
        head.text_frame.margin_left = 0
        head.text_frame.vertical_anchor = MSO_ANCHOR.MIDDLE
        write(head.text_frame, title, 26, INK, bold=True)
        bar = slide.shapes.add_shape(1, Inches(0), Inches(0.38), Inches(0.16), Inches(0.62))
        bar.fill.solid()
        bar.fill.fore_color.rgb = BLUE
        bar.line.fill.background()
        if subtitle:
            write(box(slide, EDGE, 0.98, WIDE - 2 * EDGE, 0.4), subtitle, 14, GREY)
        self.foot(slide, sources)
        return slide

    def foot(self, slide: Any, sources: list[str]) -> None:
        """Write the footer: links to the sources, and the slide's number."""
        paragraph = box(slide, EDGE, FOOT, WIDE - 2 * EDGE - 0.8, 0.45).paragraphs[0]
        for place, name in enumerate(sources):
            run(
                paragraph,
                "Sources: " if len(sources) > 1 and not place else "Source: " if not place else "  |  ",
                9,
                GREY,
            )
            run(paragraph, self.links[name], 9, BLUE).hyperlink.address = self.links[name]
        number = box(slide, WIDE - EDGE - 0.8, FOOT, 0.8, 0.45)
        write(number, str(len(self.file.slides)), 9, GREY)
        number.paragraphs[0].alignment = PP_ALIGN.RIGHT


def main() -> None:
    """Make the deck."""
    with Path("extracted.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    charts, links = json.loads(Path("charts.json").read_text()), json.loads(Path("links.json").read_text())
    deck = Deck(links)
    market = charts[0]["title"].partition(":")[0]
    opening(deck, market, rows, charts)
    for chart in charts:
        as_published(deck, chart, [row for row in rows if row["Chart"] == chart["chart"]])
    comparisons(deck, rows, charts)
    appendix(deck, rows, charts)
    deck.file.core_properties.title = f"{market}: what two publishers say"
    deck.file.save("Market_Research.pptx")
    print(f"{len(deck.file.slides)} slides")


def opening(deck: Deck, market: str, rows: list[Row], charts: list[dict[str, Any]]) -> None:
    """Make title, summary and sources."""
    everywhere = list(deck.links)
    slide = deck.slide("Market research", everywhere[:2])
    write(box(slide, EDGE, 2.3, WIDE - 2 * EDGE, 1), market, 48, INK, bold=True)
    publishers = list(dict.fromkeys(row["Publisher"] for row in rows))
    write(box(slide, EDGE, 3.4, WIDE - 2 * EDGE, 0.6), f"What {' and '.join(publishers)} say, compared", 22, GREY)
    write(box(slide, EDGE, 4.2, WIDE - 2 * EDGE, 0.6), f"{len(rows)} numbers, read from {len(charts)} charts", 16, BLUE)
    slide = deck.slide("In short", everywhere, "What the charts of both publishers say")
    for place, (value, words) in enumerate(in_short(rows)):
        card(slide, EDGE + (place % 3) * 4.1, 1.7 + (place // 3) * 2.5, value, words)
    slide = deck.slide("Where the numbers are from", everywhere, "Four reports, two publishers; one needs an account")
    for place, publisher in enumerate(publishers):
        left = EDGE + place * 6.2
        fit(slide, f"{publisher.split()[0].lower()}.png", left, TOP, 5.9, 3.4)
        named = [
            f"{chart['title']}, page {chart['page']}: {chart['figure']}"
            for chart in charts
            if chart["publisher"] == publisher
        ]
        text = box(slide, left, 4.85, 5.9, 1.9)
        write(text, publisher, 14, INK, bold=True)
        for line in named:
            run(text.add_paragraph(), line, 11, GREY)


def in_short(rows: list[Row]) -> list[tuple[str, str]]:
    """Return the key figures: size, growth and price, by each publisher."""
    told = []
    for publisher in dict.fromkeys(row["Publisher"] for row in rows):
        sizes, prices = series(rows, publisher, "Market size"), series(rows, publisher, "Average selling price")
        years = list(sizes)
        growth = (sizes[years[-1]] / sizes[years[0]]) ** (1 / (len(years) - 1)) - 1
        told.append((f"USD {sizes[years[-1]]:.1f} bn", f"Market size in {years[-1]}, {publisher}"))
        told.append((f"{growth:+.1%} a year", f"Growth {years[0]} to {years[-1]}, {publisher}"))
        told.append((f"USD {prices[years[-1]]:,.0f}", f"Average selling price in {years[-1]}, {publisher}"))
    return told


def as_published(deck: Deck, chart: dict[str, Any], rows: list[Row]) -> None:
    """Show a chart as it was published, beside the extracted numbers."""
    where = f"{chart['publisher']}, {chart['title']}, page {chart['page']}"
    slide = deck.slide(f"{chart['figure']}, {chart['publisher']}", [chart["report"]], where)
    end = fit(slide, f"charts/{chart['chart']}", EDGE, TOP + 0.1, 8.3, 4.7)
    write(box(slide, EDGE, end + 0.05, 8.3, 0.35), "The chart as it was published", 11, GREY)
    cells = [
        [row["Label"], f"{float(row['Value']):,.4g}" if float(row["Value"]) < 1000 else f"{float(row['Value']):,.0f}"]
        for row in rows
    ]
    table(slide, [["", chart["unit"]], *cells], 9.3, TOP + 0.1, (1.9, 1.5), 13, 0.42)
    write(box(slide, 9.3, TOP + 0.15 + 0.42 * (len(cells) + 1), 3.4, 0.35), "Read from the picture", 11, GREY)


def comparisons(deck: Deck, rows: list[Row], charts: list[dict[str, Any]]) -> None:
    """Compare the publishers: two charts a reader can edit, three drawn."""
    sources = {name: [chart["report"] for chart in charts if chart["figure"] == name] for name in figures(rows)}
    native(deck, rows, sources, "Market size", "USD bn", XL_CHART_TYPE.COLUMN_CLUSTERED)
    pictured(deck, "Average selling price", "price", sources["Average selling price"], "Both publishers, in USD")
    native(
        deck,
        rows,
        sources,
        next(name for name in figures(rows) if "region" in name),
        "thousand units",
        XL_CHART_TYPE.BAR_CLUSTERED,
    )
    pictured(deck, "Growth", "growth", sources["Market size"], "Each publisher's first year is 100")
    pictured(deck, "Drawn again", "redrawn", list(deck.links), "All eight charts, from the numbers that were read")


def pictured(deck: Deck, title: str, name: str, sources: list[str], subtitle: str) -> None:
    """Show a comparison that is a picture."""
    fit(deck.slide(title, sources, subtitle), f"comparisons/{name}.png", EDGE, TOP, WIDE - 2 * EDGE, 5.2)


def native(deck: Deck, rows: list[Row], sources: dict[str, list[str]], name: str, unit: str, kind: int) -> None:
    """Compare by a chart that contains its data."""
    slide = deck.slide(name, sources[name], f"Both publishers, in {unit}")
    data = CategoryChartData(number_format="#,##0.0" if unit == "USD bn" else "#,##0")
    publishers = list(dict.fromkeys(row["Publisher"] for row in rows))
    both = {publisher: series(rows, publisher, name) for publisher in publishers}
    data.categories = list(both[publishers[0]])
    for publisher, values in both.items():
        data.add_series(publisher, list(values.values()))
    frame = slide.shapes.add_chart(kind, Inches(EDGE), Inches(TOP), Inches(WIDE - 2 * EDGE), Inches(5.2), data)
    chart = frame.chart
    chart.font.size, chart.font.name, chart.font.color.rgb = Pt(12), FONT, INK
    chart.has_legend, chart.has_title = True, False
    chart.legend.position, chart.legend.include_in_layout = XL_LEGEND_POSITION.TOP, False
    chart.value_axis.major_gridlines.format.line.color.rgb = RGBColor.from_string("E3E3E3")
    chart.value_axis.format.line.fill.background()
    plot = chart.plots[0]
    plot.gap_width, plot.overlap, plot.has_data_labels = 60, -5, True
    plot.data_labels.font.size, plot.data_labels.number_format = Pt(10), data.number_format
    plot.data_labels.number_format_is_linked = False
    for colour, each in zip((BLUE, RUST), plot.series, strict=True):
        each.format.fill.solid()
        each.format.fill.fore_color.rgb = colour


def appendix(deck: Deck, rows: list[Row], charts: list[dict[str, Any]]) -> None:
    """Explain how the charts were read, and list all extracted numbers."""
    slide = deck.slide(
        "How the charts were read", list(deck.links), "Numbers are within 2 % of what the axis of their chart spans"
    )
    head = ["Chart", "Publisher", "Unit", "Values", "Lowest tick", "Highest tick"]
    body = []
    for chart in charts:
        own = [row for row in rows if row["Chart"] == chart["chart"]]
        ends = [f"{float(own[0][end]):,g}" for end in ("Low", "High")]
        body.append([chart["figure"], chart["publisher"], chart["unit"], str(len(own)), *ends])
    table(slide, [head, *body], EDGE, TOP + 0.1, (3.6, 2.6, 1.9, 1.0, 1.5, 1.5), 13, 0.48)
    parts = [rows[at : at + SPAN] for at in range(0, len(rows), SPAN)]
    for place, part in enumerate(parts, 1):
        here = {row["Chart"] for row in part}
        sources = list(dict.fromkeys(chart["report"] for chart in charts if chart["chart"] in here))
        slide = deck.slide(f"Appendix: extracted.csv, part {place} of {len(parts)}", sources)
        cells = [[row[name] for name in ("Publisher", "Report", "Figure", "Unit", "Label", "Value")] for row in part]
        table(
            slide,
            [["Publisher", "Report", "Figure", "Unit", "Label", "Value"], *cells],
            EDGE,
            1.2,
            (2.0, 4.1, 2.6, 1.4, 1.0, 1.0),
            10,
            0.275,
        )


def figures(rows: list[Row]) -> list[str]:
    """List the subjects of the charts."""
    return list(dict.fromkeys(row["Figure"] for row in rows))


def series(rows: list[Row], publisher: str, name: str) -> dict[str, float]:
    """Return a publisher's values by label; millions as billions, so that both can be compared."""
    own = [row for row in rows if row["Publisher"] == publisher and row["Figure"] == name]
    return {row["Label"]: float(row["Value"]) / (1000 if row["Unit"] == "USD m" else 1) for row in own}


def box(slide: Any, left: float, top: float, wide: float, high: float) -> Any:
    """Add a text box."""
    frame = slide.shapes.add_textbox(Inches(left), Inches(top), Inches(wide), Inches(high)).text_frame
    frame.word_wrap = True
    frame.margin_left = frame.margin_right = 0
    return frame


def write(frame: Any, text: str, size: float, colour: RGBColor, *, bold: bool = False) -> None:
    """Write a text's first paragraph."""
    frame.paragraphs[0].alignment = PP_ALIGN.LEFT
    run(frame.paragraphs[0], text, size, colour).font.bold = bold


def run(paragraph: Any, text: str, size: float, colour: RGBColor) -> Any:
    """Add words to a paragraph."""
    added = paragraph.add_run()
    added.text, added.font.size, added.font.name = text, Pt(size), FONT
    added.font.color.rgb = colour
    return added


def card(slide: Any, left: float, top: float, value: str, words: str) -> None:
    """Show one number in large print."""
    shape = slide.shapes.add_shape(1, Inches(left), Inches(top), Inches(3.9), Inches(2.2))
    shape.fill.solid()
    shape.fill.fore_color.rgb = PALE
    shape.line.fill.background()
    write(box(slide, left + 0.25, top + 0.4, 3.4, 0.8), value, 30, BLUE, bold=True)
    write(box(slide, left + 0.25, top + 1.2, 3.4, 0.8), words, 14, INK)


def fit(slide: Any, path: str, left: float, top: float, wide: float, high: float) -> float:
    """Place a picture as large as fits; return its lower edge."""
    with Image.open(path) as image:
        scale = min(wide / image.width, high / image.height)
        size = Inches(image.width * scale), Inches(image.height * scale)
    slide.shapes.add_picture(path, Inches(left), Inches(top), *size)
    return top + image.height * scale


def table(
    slide: Any, cells: list[list[str]], left: float, top: float, wide: tuple[float, ...], size: float, high: float
) -> None:
    """Add a table: its first row is the header, and numbers are aligned right."""
    room = (Inches(each) for each in (left, top, sum(wide), high * len(cells)))
    made = slide.shapes.add_table(len(cells), len(wide), *room).table
    for column, each in zip(made.columns, wide, strict=True):
        column.width = Inches(each)
    for row, texts in enumerate(cells):
        made.rows[row].height = Inches(high)
        for place, text in enumerate(texts):
            cell = made.cell(row, place)
            cell.fill.solid()
            cell.fill.fore_color.rgb = BLUE if not row else PALE if row % 2 else RGBColor(255, 255, 255)
            cell.margin_top = cell.margin_bottom = Emu(0)
            cell.vertical_anchor = MSO_ANCHOR.MIDDLE
            write(cell.text_frame, text, size, RGBColor(255, 255, 255) if not row else INK, bold=not row)
            if cells[-1][place].replace(",", "").replace(".", "").isdigit():
                cell.text_frame.paragraphs[0].alignment = PP_ALIGN.RIGHT


if __name__ == "__main__":
    main()
