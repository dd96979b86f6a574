"""Write wrong tables that the grader must fail: notices ignored, a newspaper, thousands kept, and more."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

Row = dict[str, str]


def main() -> None:
    """Write spoilt/VARIANT/capacities.csv."""
    with Path("delivered/capacities.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    pages = json.loads(Path("hidden/truth.json").read_text())["pages"]
    entries = {
        text.partition("<title>")[2].partition(",")[0]: (path, text) for path, text in pages.items() if "/dams/" in path
    }
    articles = {path.rpartition("/")[2]: (path, text) for path, text in pages.items() if "/articles/" in path}

    def use_entry(row: Row) -> Row:
        path, text = entries[row["Reservoir"]]
        figure = re.search(r"([\d.]+) million", text)
        return {**row, "Capacity": figure[1], "Source": f"https://{path}"} if figure else row

    def use_article(row: Row) -> Row:
        path, text = articles[row["Reservoir"].lower().replace(" ", "-")]
        figure = re.search(r"at ([\d.]+) million", text)
        return {**row, "Capacity": figure[1], "Source": f"https://{path}"} if figure else row

    def keep_thousands(row: Row) -> Row:
        return {**row, "Capacity": f"{float(row['Capacity']) * 1000:.2f}"} if "waterboard" in row["Source"] else row

    write("notices-ignored", rows, use_entry)
    write("newspaper", rows, use_article)
    write("thousands-kept", rows, keep_thousands)
    write("one-missed", rows[:-1], lambda row: row)
    write(
        "source-is-the-list",
        rows,
        lambda row: {**row, "Source": re.sub(r"/notices/\d+", "/notices?page=1", row["Source"])},
    )


def write(name: str, rows: list[Row], change: Callable[[Row], Row]) -> None:
    """Write one variant."""
    Path("spoilt", name).mkdir(parents=True)
    with Path("spoilt", name, "capacities.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(map(change, rows))


if __name__ == "__main__":
    main()
