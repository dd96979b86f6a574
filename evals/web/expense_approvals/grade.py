"""Grade the decisions: those of the site, and those of the table."""

from __future__ import annotations

import csv
import json
from pathlib import Path


def main() -> None:
    """Print the result."""
    truth = json.loads(Path("hidden/truth.json").read_text())["decisions"]
    faults = compare("The site", truth, json.loads(Path("site.json").read_text())["decisions"])
    try:
        rows = read_rows(Path("delivered/decisions.csv"))
        table = {row["claim"]: [row["decision"].lower(), row["reason"].upper()] for row in rows}
        faults += compare("decisions.csv", truth, table)
        if sorted(row["claim"] for row in rows) != sorted(truth):
            faults.append(
                f"decisions.csv has {len(rows)} rows; one for each of {len(truth)} pending claims is expected."
            )
    except (OSError, ValueError, KeyError, csv.Error) as e:
        faults.append(f"decisions.csv cannot be read as a table with the columns of the brief: {e!r}.")
    print(json.dumps({"passed": not faults, "faults": faults[:20]}))


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a table with any delimiter; names of columns become lower case."""
    text = path.read_text(encoding="utf-8-sig")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    rows = csv.DictReader(text.splitlines(keepends=True), delimiter=delimiter)
    return [{str(name).strip().lower(): str(value or "").strip() for name, value in row.items()} for row in rows]


def compare(what: str, truth: dict[str, list[str]], found: dict[str, list[str]]) -> list[str]:
    """Compare decisions; a claim without one was left."""
    return [
        f"{what}: {number} must be {' '.join(wanted).strip()}, not {' '.join(found.get(number, ['leave'])).strip()}."
        for number, wanted in truth.items()
        if found.get(number, ["leave", ""]) != wanted
    ]


if __name__ == "__main__":
    main()
