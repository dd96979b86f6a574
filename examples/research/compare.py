"""Compares both publishers' figures at the worker's desk, and draws them again.

python3 compare.py    reads extracted.csv, writes comparisons/*.png
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl  # type: ignore[import-not-found]
import pandas as pd  # type: ignore[import-untyped]

mpl.use("Agg")

from matplotlib import pyplot as plt

FOLDER = Path("comparisons")
COLOURS = ("#0b5c7a", "#c4622d")
"""A colour for each publisher, in the order of the table; the deck has the same."""
LOOK = {
    "font.family": "Liberation Sans",
    "font.size": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a8a8a",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e3e3e3",
    "axes.axisbelow": True,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "legend.frameon": False,
}


def main() -> None:
    """Draw the comparisons."""
    FOLDER.mkdir(exist_ok=True)
    table = pd.read_csv("extracted.csv", dtype={"Label": str})
    with plt.rc_context(LOOK):
        price(table[table["Figure"] == "Average selling price"])
        growth(table[table["Figure"] == "Market size"])
        redrawn(table)


def price(table: Any) -> None:
    """Draw the prices of both publishers as lines."""
    canvas, axes = plt.subplots(figsize=(11.6, 4.9))
    for colour, (publisher, rows) in zip(COLOURS, table.groupby("Publisher", sort=False), strict=True):
        axes.plot(rows["Label"], rows["Value"], color=colour, linewidth=2.6, marker="o", label=publisher)
    axes.set_ylabel(f"Average selling price, {table['Unit'].iloc[0]}")
    axes.legend(loc="upper left", ncols=2, bbox_to_anchor=(0, 1.12))
    save(canvas, "price")


def growth(table: Any) -> None:
    """Draw the growth of the market by each publisher, with its own first year as 100."""
    canvas, axes = plt.subplots(figsize=(11.6, 4.9))
    for place, (publisher, rows) in enumerate(table.groupby("Publisher", sort=False)):
        index = 100 * rows["Value"] / rows["Value"].iloc[0]
        places = [at + (place - 0.5) * 0.38 for at in range(len(rows))]
        bars = axes.bar(places, index, width=0.36, color=COLOURS[place], label=publisher)
        axes.bar_label(bars, fmt="%.0f", fontsize=10, color="#444444", padding=2)
    axes.set_xticks(range(len(rows)), rows["Label"])
    axes.set_ylabel(f"Market size, index ({rows['Label'].iloc[0]} = 100)")
    axes.legend(loc="upper left", ncols=2, bbox_to_anchor=(0, 1.12))
    save(canvas, "growth")


def redrawn(table: Any) -> None:
    """Draw every chart again from the extracted numbers."""
    canvas, grid = plt.subplots(2, 4, figsize=(12, 5))
    for axes, (_, rows) in zip(grid.flat, table.groupby("Chart", sort=False), strict=True):
        first = rows.iloc[0]
        colour = COLOURS[list(table["Publisher"].unique()).index(first["Publisher"])]
        (axes.bar if first["Label"].isalpha() else axes.plot)(rows["Label"], rows["Value"], color=colour)
        axes.set_ylim(first["Low"], first["High"])
        axes.set_title(f"{first['Figure']}\n{first['Publisher']}, {first['Unit']}", fontsize=9, loc="left")
        axes.tick_params(labelsize=8, axis="y")
        axes.set_xticks(
            range(len(rows)), [name[-2:] if name.isdigit() else name[:2] for name in rows["Label"]], fontsize=8
        )
    save(canvas, "redrawn")


def save(canvas: Any, name: str) -> None:
    """Write a picture."""
    canvas.tight_layout()
    canvas.savefig(FOLDER / f"{name}.png", dpi=150)
    plt.close(canvas)


if __name__ == "__main__":
    main()
