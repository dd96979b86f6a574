"""Write wrong but plausible deliveries."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

COLUMNS = ("Order", "Supplier", "Date", "Payable")


def main() -> None:
    """Write every variant."""
    orders = json.loads(Path("hidden/truth.json").read_text())["orders"]
    inside = [each for each in orders if "2025-04-01" <= each["date"] <= "2025-06-30"]
    right = [each for each in inside if each["state"] == "Delivered" and not each["replaced"]]
    write("list-price", [{**each, "payable": each["listed"]} for each in right])
    write("state-of-the-list", [each for each in inside if each["shown"] == "Delivered" and not each["replaced"]])
    write("replaced-kept", [each for each in inside if each["state"] == "Delivered"])
    write("first-page-only", right[: len(right) // 5])
    write("quarter-missed", [each for each in orders if each["state"] == "Delivered" and not each["replaced"]])
    write("cent-lost", [{**right[0], "payable": right[0]["payable"] - 1}, *right[1:]])


def write(name: str, orders: list[dict[str, Any]]) -> None:
    """Write a variant."""
    folder = Path("spoilt", name)
    folder.mkdir(parents=True)
    rows = [(each["number"], each["supplier"], each["date"], f"{each['payable'] / 100:.2f}") for each in orders]
    with (folder / "payable.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
