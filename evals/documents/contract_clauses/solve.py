"""The reference solution's program at its desk: find each clause by its wording, and write the table."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pdfplumber  # type: ignore[import-not-found]

PATTERNS = {
    "term": r"[^.]*\binitial term of [^.]*?(?:(\d+) months|\((\d+)\) years)[^.]*\.",
    "notice": r"Either party may terminate this Agreement for convenience [^.]*?(\d+) days' written notice\.",
    "cap": r"The aggregate liability of either party [^.]*?EUR ([\d,]+)( thousand)?\.",
    "law": r"This Agreement is governed by the laws of (\w+)\.",
    "payment": r"The Customer shall pay each undisputed invoice within (\d+) days[^.]*\.",
}


def main() -> None:
    """Write clauses.csv; later statements in a file replace earlier ones."""
    with Path("clauses.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("File", "Clause", "Value", "Page", "Quote"))
        for path in sorted(Path("contracts").glob("*.pdf")):
            for clause, (value, page, quote) in read(path).items():
                table.writerow((path.name, clause, value, page, quote))


def read(path: Path) -> dict[str, tuple[object, int, str]]:
    """Return value, page and sentence of each clause of a contract."""
    found: dict[str, tuple[object, int, str]] = {}
    with pdfplumber.open(path) as pdf:
        for number, page in enumerate(pdf.pages, 1):
            text = " ".join(page.extract_text().split())
            text = re.sub(r"\b(\d+)\.(\d+) ", "", text)  # numbers of paragraphs
            for clause, pattern in PATTERNS.items():
                for match in re.finditer(pattern, text):
                    found[clause] = (value_of(clause, match), number, match[0].strip())
    return found


def value_of(clause: str, match: re.Match[str]) -> object:
    """Return the value that a sentence states, in the unit that the brief asks for."""
    if clause == "term":
        return int(match[1]) if match[1] else int(match[2]) * 12
    if clause == "cap":
        return int(match[1].replace(",", "")) * (1000 if match[2] else 1)
    return match[1] if clause == "law" else int(match[1])


if __name__ == "__main__":
    main()
