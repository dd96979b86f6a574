"""Prints the publishers' reports, in a desk that is not the worker's: charts as pictures, on pages of PDF."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl  # type: ignore[import-not-found]

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter  # type: ignore[import-not-found]
from reportlab.lib.pagesizes import A4  # type: ignore[import-untyped]
from reportlab.lib.utils import ImageReader, simpleSplit  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]

DOTS = 200
"""Dots per inch of a chart."""
WORDS = (
    "This chapter summarises our panel of manufacturers, importers and dealers. Figures are our own estimates, rounded;"
    " where a source revises its numbers we revise ours. The chart on this page may be quoted with its source.",
    "Growth differs from year to year with subsidies, energy prices and the supply of parts. We expect the direction to"
    " hold and its pace to vary. Readers who compare publishers should mind that panels and definitions differ.",
)


def main() -> None:
    """Print every report."""
    told = json.loads(Path("market.json").read_text())
    for name, (publisher, title) in told["reports"].items():
        figures = [each for each in told["figures"] if each["report"] == name]
        report(name, publisher, f"{told['market']}: {title}", figures, told["subjects"])


def report(name: str, publisher: str, title: str, figures: list[dict[str, Any]], subjects: dict[str, str]) -> None:
    """Print one report: a page for each chart."""
    page = Canvas(f"{name}.pdf", pagesize=A4, invariant=True)
    page.setTitle(title)
    page.setAuthor(publisher)
    wide, high = A4
    for number, figure in enumerate(figures, 1):
        page.setFont("Helvetica-Bold", 17)
        page.drawString(56, high - 72, title)
        page.setFont("Helvetica", 10)
        page.drawString(56, high - 90, publisher)
        y = paragraph(page, WORDS[0], high - 122)
        picture, across, down = drawn(figure, f"{subjects[figure['subject']]}, {figure['unit']}")
        scale = min((wide - 112) / across, 1)
        y -= down * scale + 8
        page.drawImage(picture, 56, y, across * scale, down * scale)
        page.setFont("Helvetica-Oblique", 10)
        page.drawString(56, y - 18, f"Figure {number}. {subjects[figure['subject']]} ({figure['unit']})")
        paragraph(page, WORDS[1], y - 44)
        page.setFont("Helvetica", 8)
        page.drawRightString(wide - 56, 40, f"{publisher} - page {number}")
        page.showPage()
    page.save()


def paragraph(page: Canvas, text: str, y: float) -> float:
    """Draw a paragraph; return its lower edge."""
    page.setFont("Times-Roman", 11)
    for line in simpleSplit(text, "Times-Roman", 11, A4[0] - 112):
        page.drawString(56, y, line)
        y -= 15
    return y


def drawn(figure: dict[str, Any], title: str) -> tuple[ImageReader, float, float]:
    """Draw a chart; return the picture and its size in points."""
    style = figure["style"]
    grey = dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), "#555555")
    own = {**grey, "font.family": style["font"], "font.size": style["size"], "figure.facecolor": style["paper"]}
    with plt.rc_context({**own, "axes.facecolor": style["paper"], "text.color": "#222222"}):
        canvas, axes = plt.subplots(figsize=(style["wide"], style["high"]), dpi=DOTS)
        axes.set_axisbelow(True)
        plot(axes, figure)
        axes.set_title(title, loc=style["title"])
        ticks = style["ticks"]
        axes.set_ylim(ticks[0], ticks[-1])
        whole = all(float(tick).is_integer() for tick in ticks)
        form = "{:,.0f}" if whole else "{:,.1f}" if all(float(tick * 10).is_integer() for tick in ticks) else "{:,.2f}"
        axes.set_yticks(ticks)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: form.format(value) + style["mark"]))
        if style["side"] == "right":
            axes.yaxis.tick_right()
        for name, spine in axes.spines.items():
            spine.set_visible(name in style["spines"])
        if style["grid"]:
            axes.grid(visible=True, axis=style["grid"], color="#cccccc", linewidth=0.7)
        canvas.tight_layout()
        buffer = io.BytesIO()
        canvas.savefig(buffer, format="png", dpi=DOTS, facecolor=style["paper"])
        plt.close(canvas)
    buffer.seek(0)
    return ImageReader(buffer), style["wide"] * 72, style["high"] * 72


def plot(axes: Any, figure: dict[str, Any]) -> None:
    """Plot the numbers."""
    style, places = figure["style"], range(len(figure["values"]))
    if style["kind"] == "bar":
        axes.bar(places, figure["values"], width=style["width"], color=style["colour"])
    else:
        axes.plot(places, figure["values"], color=style["colour"], linewidth=style["width"], marker=style["marker"])
    axes.set_xticks(places, figure["labels"])


if __name__ == "__main__":
    main()
