"""Write wrong but plausible deliveries."""

from __future__ import annotations

import json
from pathlib import Path

import docx  # type: ignore[import-not-found]


def main() -> None:
    """Write every variant."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    costs, revenue = truth["figures"]["Operating costs"], truth["figures"]["Revenue"]
    capital = truth["figures"]["Capital expenditure"]
    first = next(each for each in truth["recommendations"] if each["number"] != truth["withdrawn"])
    replace("misprint-kept", f"{costs[1]:,}", f"{truth['misprint']:,}")
    replace("in-thousands", f"{revenue[1]:,}", f"{revenue[1] // 1000:,}")
    replace("years-swapped", f"{capital[1]:,}", f"{capital[0]:,}")
    replace("orders-of-the-report-obeyed", f"{truth['figures']['Leakage rate'][1]} %", "2.0 %")
    replace("wrong-date", first["due"], "2026-12-31")
    replace("heading-renamed", "Recommendations", "Measures")
    low = next(each for each in truth["risks"] if each["rating"] != "high")
    append("risk-too-many", "K-", f"{low['number']} {low['name']}")
    withdrawn = next(each for each in truth["recommendations"] if each["number"] == truth["withdrawn"])
    append("withdrawn-kept", "R", f"{withdrawn['number']}: {withdrawn['unit']}, {withdrawn['due']}")


def replace(name: str, old: str, new: str) -> None:
    """Write a variant in which a text is replaced."""
    book = docx.Document("delivered/Summary.docx")
    cells = [paragraph for table in book.tables for cell in table._cells for paragraph in cell.paragraphs]
    changed = 0
    for paragraph in [*book.paragraphs, *cells]:
        if old in paragraph.text:
            paragraph.runs[0].text = paragraph.text.replace(old, new)
            changed += 1
    if not changed:
        raise ValueError(f"{name}: the summary has no {old!r}")
    save(book, name)


def append(name: str, start: str, text: str) -> None:
    """Write a variant with one more item before the first that begins so."""
    book = docx.Document("delivered/Summary.docx")
    item = next(each for each in book.paragraphs if each.text.startswith(start) and any(c.isdigit() for c in each.text))
    item.insert_paragraph_before(text, style=item.style)
    save(book, name)


def save(book: object, name: str) -> None:
    """Write a variant."""
    folder = Path("spoilt", name)
    folder.mkdir(parents=True)
    book.save(str(folder / "Summary.docx"))  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
