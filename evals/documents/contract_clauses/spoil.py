"""Write wrong but plausible deliveries."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

Row = dict[str, str]


def main() -> None:
    """Write every variant."""
    truth = json.loads(Path("hidden/truth.json").read_text())["rows"]
    old = {(each["file"], each["clause"]): str(each["old"]) for each in truth}
    with Path("delivered/clauses.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))

    def printed_page(row: Row) -> Row:
        return {**row, "Page": str(int(row["Page"]) - 1)}

    def before_amendment(row: Row) -> Row:
        return {**row, "Value": old[row["File"], row["Clause"]]}

    def cap_in_thousands(row: Row) -> Row:
        is_short = row["Quote"].endswith("thousand.")
        return {**row, "Value": row["Value"].removesuffix("000")} if is_short else row

    def travel_expenses(row: Row) -> Row:
        is_first = row["Clause"] == "payment" and row["File"].startswith("elstree")
        return {**row, "Value": "45"} if is_first else row

    def own_words(row: Row) -> Row:
        return {**row, "Quote": f"The contract is subject to the laws of {row['Value']}."} if is_law(row) else row

    for change in (printed_page, before_amendment, cap_in_thousands, travel_expenses, own_words):
        write(change.__name__, rows, change)
    write("row_missed", rows[:-1], lambda row: row)


def is_law(row: Row) -> bool:
    """Return whether a row states the governing law."""
    return row["Clause"] == "law"


def write(name: str, rows: list[Row], change: Callable[[Row], Row]) -> None:
    """Write a variant, each row changed."""
    folder = Path("spoilt", name.replace("_", "-"))
    folder.mkdir(parents=True)
    with (folder / "clauses.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(map(change, rows))


if __name__ == "__main__":
    main()
