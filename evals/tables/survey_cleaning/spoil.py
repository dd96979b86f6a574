"""Write wrong but plausible deliveries."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

Row = dict[str, str]


def main() -> None:
    """Write every variant."""
    rows, summary = read("clean.csv"), read("summary.csv")
    write("scale-not-converted", [{**row, "Satisfaction": "5"} if row["Wave"] == "2" else row for row in rows])
    namesakes = [row for row in rows if not row["Email"].partition("@")[0].endswith("2")]
    write("namesakes-merged", namesakes)
    extra = {**rows[0], "Email": "form1@test.example"}
    write("test-entry-kept", sorted([*rows, extra], key=lambda row: row["Email"]))
    write("row-missed", rows[:20] + rows[21:])
    write("age-kept", [{**row, "Age": row["Age"] or "130"} for row in rows])
    write("day-and-month-swapped", [{**row, "Submitted": swap(row["Submitted"], row["Wave"])} for row in rows])
    last = {**summary[-1], "Responses": str(int(summary[-1]["Responses"]) + 1)}
    write("summary-off-by-one", rows, [*summary[:-1], last])
    write("mean-rounded-down", rows, [{**row, "Satisfaction": row["Satisfaction"][:-1]} for row in summary])


def swap(time: str, wave: str) -> str:
    """Read the day of wave 2 as the month where that gives a date."""
    year, month, rest = time.split("-")
    day, clock = rest.split()
    return f"{year}-{day}-{month} {clock}" if wave == "2" and int(day) <= 12 else time


def read(name: str) -> list[Row]:
    """Read a table."""
    with Path("delivered", name).open(newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, rows: list[Row], summary: list[Row] | None = None) -> None:
    """Write a variant; the summary is that of the reference unless another is given."""
    folder = Path("spoilt", name)
    shutil.copytree("delivered", folder)
    for path, table in (("clean.csv", rows), ("summary.csv", summary or [])):
        if table:
            with (folder / path).open("w", newline="") as file:
                writer = csv.DictWriter(file, list(table[0]))
                writer.writeheader()
                writer.writerows(table)


if __name__ == "__main__":
    main()
