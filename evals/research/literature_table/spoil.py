"""Write wrong tables that the grader must fail: a criterion ignored, hours kept, another week, one page missed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

SITE = "https://library.example.test"
HEADS = ("Author", "Year", "Analysed", "Effect", "Link")


def main() -> None:
    """Write spoilt/VARIANT/literature.csv."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    rows, articles = truth["rows"], truth["articles"]

    def with_kind(kind: str) -> list[list[Any]]:
        wrong = [as_row(article, "analysed") for article in articles if article["kind"] == kind]
        return sorted([*rows, *wrong], key=lambda row: (row[1], row[0]))

    by_link = {SITE + article["path"]: article for article in articles}
    write("retracted-included", with_kind("retracted"))
    write("enrolled-counted", with_kind("small after loss"))
    write("preprint-included", with_kind("preprint"))
    write("enrolled-given", [as_row(by_link[row[4]], "enrolled") for row in rows])
    write("last-page-missed", rows[:-1])
    write("hours-kept", [[*row[:3], f"{row[3] / 60:.3f}", row[4]] for row in rows])
    write("unsorted", rows[::-1])
    write("identifier-linked", [[*row[:4], row[4].replace("library", "doi")] for row in rows])


def as_row(article: dict[str, Any], count: str) -> list[Any]:
    """Return an article's row with one count of participants or the other."""
    return [article["author"], article["year"], article[count], article["weeks"]["12"], SITE + article["path"]]


def write(name: str, rows: list[list[Any]]) -> None:
    """Write one variant."""
    Path("spoilt", name).mkdir(parents=True)
    with Path("spoilt", name, "literature.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([HEADS, *rows])


if __name__ == "__main__":
    main()
