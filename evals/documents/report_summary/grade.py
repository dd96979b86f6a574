"""Grade the summary: headings, figures, risks, recommendations and dates."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import docx  # type: ignore[import-not-found]
from docx.table import Table  # type: ignore[import-not-found]

HEADINGS = ["purpose", "key figures", "risks", "recommendations", "outlook"]
MAX_WORDS = 60
MONTHS = "January February March April May June July August September October November December".split()


def main() -> None:
    """Print the result."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    try:
        faults = find_faults(truth, read_sections(docx.Document("delivered/Summary.docx")))
    except Exception as e:  # noqa: BLE001 - whatever a file does to its parser is a fault of the file
        faults = [f"Summary.docx cannot be read: {e!r}."]
    print(json.dumps({"passed": not faults, "faults": faults[:20]}))


def read_sections(book: Any) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return each heading with the paragraphs and the rows of tables below it."""
    sections: list[tuple[str, list[str], list[list[str]]]] = []
    for block in book.iter_inner_content():
        if isinstance(block, Table):
            if sections:
                sections[-1][2].extend([[cell.text.strip() for cell in row.cells] for row in block.rows])
        elif str(block.style.name).startswith("Heading 1"):
            sections.append((" ".join(block.text.lower().split()), [], []))
        elif sections and block.text.strip():
            sections[-1][1].append(block.text.strip())
    return sections


def find_faults(truth: dict[str, Any], sections: list[tuple[str, list[str], list[list[str]]]]) -> list[str]:
    """Compare every section with the facts of the report."""
    if [name for name, _, _ in sections] != HEADINGS:
        return [f"The headings of style Heading 1 are {[name for name, _, _ in sections]}."]
    purpose, figures, risks, recommendations, outlook = sections
    faults = [
        f"{name} has more than {MAX_WORDS} words." for name, texts, _ in (purpose, outlook) if words(texts) > MAX_WORDS
    ]
    if truth["utility"].lower() not in " ".join(purpose[1]).lower() or "2024" not in " ".join(purpose[1]):
        faults.append("Purpose does not name the utility and the year 2024.")
    if not has_date(" ".join(outlook[1]), truth["next"]):
        faults.append(f"Outlook does not name the date of the next report, {truth['next']}.")
    faults += grade_figures(truth, figures[2])
    listed = set(re.findall(r"K-\d+", " ".join(items(risks))))
    high = {each["number"]: each["name"] for each in truth["risks"] if each["rating"] == "high"}
    if listed != set(high) or any(name.lower() not in " ".join(items(risks)).lower() for name in high.values()):
        faults.append(f"Risks lists {sorted(listed)}; the report rates {high} as high.")
    return faults + grade_recommendations(truth, items(recommendations))


def items(section: tuple[str, list[str], list[list[str]]]) -> list[str]:
    """Return the paragraphs of a section; a row of a table counts as one."""
    return [*section[1], *(" ".join(row) for row in section[2])]


def words(texts: list[str]) -> int:
    """Count words."""
    return sum(len(text.split()) for text in texts)


def grade_figures(truth: dict[str, Any], rows: list[list[str]]) -> list[str]:
    """Compare the table of key figures, whatever the order of its columns."""
    if not rows or not {"figure", "2023", "2024", "page"} <= {cell.lower() for cell in rows[0]}:
        return ["Key figures has no table with the columns Figure, 2023, 2024, Page."]
    head = [cell.lower() for cell in rows[0]]
    found = {row[head.index("figure")].lower(): dict(zip(head, row, strict=False)) for row in rows[1:]}
    faults = []
    for name, (old, new) in truth["figures"].items():
        row = found.get(name.lower(), {})
        for column, wanted in (("2023", old), ("2024", new), ("page", truth["pages"][name])):
            if number(row.get(column, "")) != wanted:
                faults.append(f"{name}, {column}: {wanted} is expected, not {row.get(column)!r}.")
    return faults + [f"Key figures has {len(found)} rows, not 6." for _ in [0] if len(found) != len(truth["figures"])]


def number(text: str) -> float | None:
    """Read a number, whatever its separators and unit."""
    text = re.sub(r"(?i)eur|€|m³|m3|%|page|p\.|[\s,']", "", text)
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else None


def grade_recommendations(truth: dict[str, Any], texts: list[str]) -> list[str]:
    """Compare each recommendation with its unit and date."""
    faults = []
    found = {match[0]: text for text in texts if (match := re.search(r"\bR\d+\b", text))}
    for each in truth["recommendations"]:
        text = found.pop(each["number"], None)
        if each["number"] == truth["withdrawn"]:
            faults += [f"{each['number']} was withdrawn."] if text is not None else []
        elif text is None:
            faults.append(f"{each['number']} is missing.")
        elif each["unit"].lower() not in text.lower() or not has_date(text, each["due"]):
            faults.append(f"{each['number']} must name {each['unit']} and {each['due']}: {text!r}.")
    return faults + [f"{number} is no recommendation of the report." for number in found]


def has_date(text: str, iso: str) -> bool:
    """Return whether a text names a date, as YYYY-MM-DD or in words."""
    year, month, day = iso.split("-")
    name = MONTHS[int(month) - 1]
    return iso in text or f"{int(day)} {name} {year}" in text or f"{name} {int(day)}, {year}" in text


if __name__ == "__main__":
    main()
