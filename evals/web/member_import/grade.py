"""Grade the import: one was accepted, into the right list, with the right rows, and the file has the same rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any


def main() -> None:
    """Print the result."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    faults = grade_imports(truth, json.loads(Path("site.json").read_text())["imports"])
    try:
        with Path("delivered/import.csv").open(encoding="utf-8-sig", newline="") as file:
            faults += compare("import.csv", truth["rows"], list(csv.reader(file, delimiter=";"))[1:], in_order=True)
    except (OSError, ValueError, csv.Error) as e:
        faults.append(f"import.csv cannot be read: {e!r}.")
    print(json.dumps({"passed": not faults, "faults": faults[:20]}))


def grade_imports(truth: dict[str, Any], imports: list[dict[str, Any]]) -> list[str]:
    """Compare what the newsletter site has accepted."""
    if len(imports) != 1:
        return [f"The site has accepted {len(imports)} imports; there must be exactly one."]
    faults = [] if imports[0]["list"] == truth["list"] else [f"The import went into the list {imports[0]['list']}."]
    return faults + compare("The import", truth["rows"], imports[0]["rows"], in_order=False)


def compare(what: str, wanted: list[list[str]], rows: list[list[str]], *, in_order: bool) -> list[str]:
    """Compare rows by their addresses."""
    found, expected = {row[0]: row for row in rows if row}, {row[0]: row for row in wanted}
    missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    if missing or extra or len(rows) != len(found):
        counts = f"{len(rows)} rows, {len(wanted)} expected"
        return [f"{what}: {counts}; missing {missing[:5]}, too many {extra[:5]}."]
    faults = [
        f"{what}: {expected[address]} is expected, not {row}."
        for address, row in found.items()
        if row != expected[address]
    ]
    if in_order and not faults and rows != wanted:
        faults.append(f"{what} is not sorted by member number.")
    return faults


if __name__ == "__main__":
    main()
