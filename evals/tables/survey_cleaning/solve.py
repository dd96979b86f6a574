"""The reference solution's program at its desk: clean both waves by the rules of TASK.md, and summarise them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]

SCALE = (1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5)
COLUMNS = ("Email", "Department", "Age", "Satisfaction", "Wave", "Submitted")


def main() -> None:
    """Write clean.csv and summary.csv."""
    first = openpyxl.load_workbook("wave1.xlsx")["Responses"].iter_rows(2, values_only=True)
    with Path("wave2.csv").open(encoding="utf-8-sig", newline="") as file:
        second = list(csv.reader(file, delimiter=";"))[1:]
    names = read_departments()
    responses = [read(1, row, names) for row in first] + [read(2, row, names) for row in second]
    latest: dict[str, tuple[Any, ...]] = {}
    for each in sorted(responses, key=lambda response: str(response[5])):
        if not each[0].endswith("@test.example"):
            latest[each[0]] = each
    rows = [latest[email] for email in sorted(latest)]
    write("clean.csv", COLUMNS, rows)
    parts = [(name, [row for row in rows if row[1] == name]) for name in sorted({row[1] for row in rows})]
    summary = [summarise(name, part) for name, part in [*parts, ("All", rows)]]
    write("summary.csv", ("Department", "Responses", "Satisfaction", "Age"), summary)


def read_departments() -> dict[str, str]:
    """Read the table of departments in TASK.md."""
    found = {}
    for name, also in re.findall(r"^\| (\w+) \| (.+) \|$", Path("TASK.md").read_text(), re.MULTILINE):
        for each in (name, *also.split(",")):
            found[each.strip().lower()] = name
    return found


def read(wave: int, row: Iterable[Any], names: dict[str, str]) -> tuple[Any, ...]:
    """Read a response."""
    time, _, email, department, age, answer, _ = row
    shape = "%Y-%m-%d %H:%M" if wave == 1 else "%d/%m/%Y %H:%M"
    submitted = datetime.strptime(time, shape).strftime("%Y-%m-%d %H:%M")
    is_known = str(age).isdigit() and 16 <= int(age) <= 99
    score = int(answer) if wave == 1 else SCALE[int(answer)]
    known = int(age) if is_known else ""
    return (email.strip().lower(), names[department.strip().lower()], known, score, wave, submitted)


def summarise(name: str, rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the summary of a department."""
    ages = [row[2] for row in rows if row[2] != ""]
    return (name, len(rows), mean([row[3] for row in rows], "0.01"), mean(ages, "0.1"))


def mean(values: list[int], places: str) -> Decimal:
    """Return a mean, rounded half up."""
    return (Decimal(sum(values)) / len(values)).quantize(Decimal(places), ROUND_HALF_UP)


def write(name: str, head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Write a table."""
    with Path(name).open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


if __name__ == "__main__":
    main()
