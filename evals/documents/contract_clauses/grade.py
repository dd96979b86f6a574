"""Grade the table of clauses: every value, page and quotation."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

MAX_QUOTE = 400
"""Characters of a quotation: a sentence, not a page."""


def main() -> None:
    """Print the result."""
    truth = json.loads(Path("hidden/truth.json").read_text())["rows"]
    try:
        faults = find_faults(truth, read_rows(Path("delivered/clauses.csv")))
    except (OSError, ValueError, KeyError, csv.Error) as e:
        faults = [f"clauses.csv cannot be read as a table with the columns of the brief: {e!r}."]
    print(json.dumps({"passed": not faults, "faults": faults[:20]}))


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a table with any delimiter; names of columns become lower case."""
    text = path.read_text(encoding="utf-8-sig")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    rows = csv.DictReader(text.splitlines(keepends=True), delimiter=delimiter)
    return [{str(name).strip().lower(): str(value or "").strip() for name, value in row.items()} for row in rows]


def find_faults(truth: list[dict[str, Any]], rows: list[dict[str, str]]) -> list[str]:
    """Compare every clause with the truth."""
    faults = [] if len(rows) == len(truth) else [f"The table has {len(rows)} rows; {len(truth)} are expected."]
    found = {(row["file"].rpartition("/")[2].lower(), row["clause"].lower()): row for row in rows}
    for wanted in truth:
        row, name = found.get((wanted["file"], wanted["clause"])), f"{wanted['file']}, {wanted['clause']}"
        if row is None:
            faults.append(f"{name}: there is no row.")
            continue
        if not same_value(row["value"], wanted["value"]):
            faults.append(f"{name}: the value is {wanted['value']}, not {row['value']!r}.")
        if row["page"] != str(wanted["page"]):
            faults.append(f"{name}: the sentence stands on page {wanted['page']}, not {row['page']!r}.")
        if not is_quoted(row["quote"], wanted):
            faults.append(f"{name}: the quotation is not the sentence of the contract: {row['quote'][:80]!r}.")
    return faults


def same_value(value: str, wanted: object) -> bool:
    """Compare a number whatever its separators and units, and a country by its name."""
    if isinstance(wanted, str):
        return re.sub(r"^(the )?(republic of )?", "", value.lower()).strip(" .") == wanted.lower()
    digits = re.sub(r"\.0+$", "", re.sub(r"(?i)eur|days|months|[€,\s]", "", value))
    return digits == str(wanted)


def is_quoted(quote: str, wanted: dict[str, Any]) -> bool:
    """Return whether a quotation is the sentence, or a part of it that carries the value, with no word changed."""
    given, sentence = normalise(quote), normalise(wanted["sentence"])
    return normalise(wanted["core"]) in given and (given in sentence or sentence in given) and len(quote) <= MAX_QUOTE


def normalise(text: str) -> str:
    """Return a text with uniform spacing, case and quotation marks."""
    text = re.sub(r"[\u2018\u2019]", "'", text).lower()
    return " ".join(re.sub(r"[\u201c\u201d\"]", "", text).split()).strip(" .")


if __name__ == "__main__":
    main()
