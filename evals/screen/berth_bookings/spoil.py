"""Write wrong exports that the grader must fail; all but one are sealed as by the program."""

from __future__ import annotations

import csv
import json
from hashlib import sha256
from pathlib import Path
from typing import Any


def main() -> None:
    """Write spoilt/VARIANT/bookings.csv."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    bookings, key, existing = truth["bookings"], truth["key"], truth["existing"]
    last = bookings[-1]
    year, month, day = bookings[existing][3].split("-")
    swapped = [*bookings[existing][:3], f"{year}-{day}-{month}", bookings[existing][4]]
    if day == month:
        swapped[3] = f"{year}-{month}-{int(day) + 1:02d}"
    write("month-and-day-swapped", [*bookings[:existing], swapped, *bookings[existing + 1 :]], key)
    write("this-month-only", [booking for booking in bookings if booking[3].startswith("2026-06")], key)
    write("request-missed", bookings[:-1], key)
    write("repeated-request", [*bookings, ["R9", last[1], "C2", last[3], last[4]]], key)
    write("another-berth", [*bookings[:-1], [*last[:2], "C2" if last[2] != "C2" else "C1", *last[3:]]], key)
    write("seals-made-up", bookings, "guess")


def write(name: str, bookings: list[list[Any]], key: str) -> None:
    """Write one variant."""
    Path("spoilt", name).mkdir(parents=True)
    with Path("spoilt", name, "bookings.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Request", "Boat", "Berth", "Arrival", "Nights", "Seal"])
        for booking in bookings:
            seal = sha256((key + "|".join(map(str, booking))).encode()).hexdigest()[:12]
            writer.writerow([*booking, seal])


if __name__ == "__main__":
    main()
