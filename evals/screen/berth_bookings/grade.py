"""Compare the exported bookings and their seals with the truth; print one JSON object."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

COLUMNS = ("request", "boat", "berth", "arrival", "nights", "seal")


def main() -> None:
    """Print the verdict."""
    faults = list(find_faults())
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_faults() -> Iterator[str]:
    """Compare each booking, and the seal by which the program vouches for it."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    try:
        text = Path("delivered/bookings.csv").read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        yield "bookings.csv is missing."
        return
    rows = [{(key or "").strip().lower(): str(value or "").strip() for key, value in row.items()}
            for row in csv.DictReader(text.splitlines())]  # fmt: skip
    if not rows or not set(COLUMNS) <= set(rows[0]):
        yield "bookings.csv is not what the program exports."
        return
    found = [[row[name] for name in COLUMNS[:5]] for row in rows]
    expected = [[str(value) for value in booking] for booking in truth["bookings"]]
    for row, values in zip(rows, found, strict=True):
        if row["seal"] != sha256((truth["key"] + "|".join(values)).encode()).hexdigest()[:12]:
            yield f"The seal of {', '.join(values)[:80]} is not the program's."
        if values not in expected:
            yield f"{', '.join(values)[:80]} should not have been booked so."
    for booking in expected:
        if booking not in found:
            yield f"{', '.join(booking)} is missing."
    if len(found) != len(expected):
        yield f"There are {len(found)} bookings, not {len(expected)}."


if __name__ == "__main__":
    main()
