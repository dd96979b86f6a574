"""Reads the filing's tables at the worker's desk. A footnote behind an amount is an error.

python3 parse.py    reads filing.pdf, writes figures.csv and footnotes.json
"""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path

import pdfplumber  # type: ignore[import-not-found]


def main() -> None:
    """Read every row of every table, and the footnotes below them."""
    rows, notes = [], {}
    with pdfplumber.open("filing.pdf") as filing:
        for place, page in enumerate(filing.pages, 1):
            found = re.findall(r"^\((\d)\) (.+?)(?=^\(\d\) |\Z)", page.extract_text(), re.MULTILINE | re.DOTALL)
            notes.update({number: " ".join(words.split()) for number, words in found})
            for head, *body in page.extract_tables():
                for name, *cells in body:
                    try:
                        rows += [[name, quarter, *amount(cell)] for quarter, cell in zip(head[1:], cells, strict=True)]
                    except ValueError as e:
                        sys.exit(f"filing.pdf, page {place}, {name}: {e}")
    with Path("figures.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerows([("Item", "Quarter", "Amount", "Note"), *rows])
    Path("footnotes.json").write_text(json.dumps(notes))


def amount(text: str) -> tuple[int, str]:
    """Read an amount; in parentheses it is negative."""
    found = re.fullmatch(r"(\()?(\d{1,3}(?:,\d{3})*)(?(1)\))", text)
    if found is None:
        raise ValueError(f"{text!r} is no amount")
    value = int(found[2].replace(",", ""))
    return -value if found[1] else value, ""


if __name__ == "__main__":
    main()
