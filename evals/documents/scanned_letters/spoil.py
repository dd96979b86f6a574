"""Write wrong but plausible deliveries."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

Row = dict[str, str]


def main() -> None:
    """Write every variant."""
    letters = {each["file"]: each for each in json.loads(Path("hidden/truth.json").read_text())["letters"]}
    with Path("delivered/register.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    twice = next(each for each in letters.values() if each["twice"])
    write("net-amount", [{**row, "Amount": f"{letters[row['File']]['net'] / 100:.2f}"} for row in rows])
    write("your-reference", [{**rows[0], "Reference": letters[rows[0]["File"]]["yours"]}, *rows[1:]])
    doubled = [copy for row in rows for copy in repeat(row, twice)]
    write("listed-twice", doubled)
    write("letter-missed", rows[:3] + rows[4:])
    write("day-and-month-swapped", [{**row, "Date": swap(row["Date"])} for row in rows])
    digit = "7" if rows[2]["Reference"][-1] != "7" else "1"
    write("digit-misread", [*rows[:2], {**rows[2], "Reference": rows[2]["Reference"][:-1] + digit}, *rows[3:]])


def repeat(row: Row, twice: dict[str, Any]) -> list[Row]:
    """Return a row, and once more for the second scan of its letter."""
    return [row, {**row, "File": twice["twice"][0]}] if row["File"] == twice["file"] else [row]


def swap(day: str) -> str:
    """Read the month as the day where that gives a date."""
    year, month, day = day.split("-")
    return f"{year}-{day}-{month}" if int(day) <= 12 else f"{year}-{month}-{day}"


def write(name: str, rows: list[Row]) -> None:
    """Write a variant."""
    folder = Path("spoilt", name)
    folder.mkdir(parents=True)
    with (folder / "register.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
