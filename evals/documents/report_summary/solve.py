"""The reference solution's program at its desk: read the report page by page, and write the summary."""

from __future__ import annotations

import re
from datetime import datetime

import docx  # type: ignore[import-not-found]
import pdfplumber  # type: ignore[import-not-found]

THOUSAND, MILLION = 1000, 1_000_000


def main() -> None:
    """Write Summary.docx."""
    with pdfplumber.open("report.pdf") as pdf:
        pages = [page.extract_text() for page in pdf.pages]
    flat = [" ".join(page.split()) for page in pages]
    book = docx.Document()
    book.add_heading("Purpose", 1)
    utility = find(r"\. ((?:\w+ )*Water) supplies", flat[2])[1]
    book.add_paragraph(f"This document summarises the annual report of {utility} on the year 2024.")
    book.add_heading("Key figures", 1)
    rows = [("Figure", "2023", "2024", "Page"), *key_figures(flat)]
    table = book.add_table(0, 4)
    for row in rows:
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = str(text)
    book.add_heading("Risks", 1)
    for number, name in re.findall(r"(K-\d+) (.+?) high\b", pages[9]):
        book.add_paragraph(f"{number} {name}", style="List Bullet")
    book.add_heading("Recommendations", 1)
    withdrawn = find(r"Recommendation (R\d+) is withdrawn", flat[10])[1]
    found = re.findall(r"Recommendation (R\d+): (.+?) should (.+?) by (\d+ \w+ \d{4})\.", " ".join(flat))
    for number, unit, action, due in sorted(found):
        if number != withdrawn:
            book.add_paragraph(f"{number}: {unit}, {iso(due)}: {action}.", style="List Bullet")
    book.add_heading("Outlook", 1)
    following = find(r"planned for (\d+ \w+ \d+)", flat[11])[1]
    book.add_paragraph(f"The next report is planned for {following}.")
    book.save("Summary.docx")


def key_figures(pages: list[str]) -> list[tuple[str, str, str, int]]:
    """Read the six figures, each in its unit."""
    revenue = find(r"Revenue ([\d,]+) ([\d,]+)", pages[3])
    costs = find(r"after EUR ([\d,]+) in 2023", pages[4])
    corrected = find(r"operating costs in 2024 were EUR ([\d,]+)", pages[10])
    capital = find(r"from EUR ([\d.]+) million in 2023 to EUR ([\d.]+) million", pages[6])
    water = find(r"Water delivered \(thousand m3\) [\d,]+ ([\d,]+) ([\d,]+)", pages[5])
    leakage = find(r"Leakage rate \(%\) [\d.]+ ([\d.]+) ([\d.]+)", pages[5])
    employees = find(r"Employees (\d+) (\d+)", pages[7])
    return [
        ("Revenue", whole(revenue[2], THOUSAND), whole(revenue[1], THOUSAND), 4),
        ("Operating costs", costs[1], corrected[1], 11),
        ("Capital expenditure", whole(capital[1], MILLION), whole(capital[2], MILLION), 7),
        ("Water delivered", whole(water[1], THOUSAND), whole(water[2], THOUSAND), 6),
        ("Leakage rate", f"{leakage[1]} %", f"{leakage[2]} %", 6),
        ("Employees", employees[1], employees[2], 8),
    ]


def find(pattern: str, text: str) -> re.Match[str]:
    """Return the match; fail if there is none."""
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"the report does not say {pattern}")
    return match


def whole(text: str, unit: int) -> str:
    """Write a figure in full."""
    return f"{round(float(text.replace(',', '')) * unit):,}"


def iso(text: str) -> str:
    """Write a date as YYYY-MM-DD."""
    return datetime.strptime(text, "%d %B %Y").date().isoformat()


if __name__ == "__main__":
    main()
