"""Writes the ten records: `python3 records.py [SEED]` generates them again."""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

CUSTOMERS = (
    "Alder Timber", "Aspen Glass", "Birch Paper", "Cedar Lighting", "Dogwood Office", "Elm Catering", "Fir Printing",
    "Hazel Garden", "Juniper Cloth", "Larch Boats", "Maple Freight", "Oak Workshop", "Pine Books", "Quince Kitchen",
    "Rowan Energy", "Willow Tea",
)  # fmt: skip
COUNT = 10
LAST_DAY = 28
"""Last day of the shortest month, because records are due in any month."""


def write(path: Path, seed: int) -> None:
    """Write who has to pay how much on which day of the month."""
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same records
    days = sorted(chance.sample(range(1, LAST_DAY + 1), COUNT))
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("Day", "Customer", "Amount"))
        for day, customer in zip(days, chance.sample(CUSTOMERS, COUNT), strict=True):
            table.writerow((day, customer, f"{chance.randrange(10_000, 1_000_000) / 100:.2f}"))


if __name__ == "__main__":
    write(Path(__file__).with_name("records.csv"), int(sys.argv[1]) if len(sys.argv) > 1 else 0)
