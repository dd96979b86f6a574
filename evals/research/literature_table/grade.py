"""Compare literature.csv with the articles that meet the criteria; print one JSON object."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

COLUMNS = ("author", "year", "analysed", "effect", "link")


def main() -> None:
    """Print the verdict."""
    faults = list(find_faults())
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_faults() -> Iterator[str]:
    """Compare which articles are included, their figures and their order."""
    expected = json.loads(Path("hidden/truth.json").read_text())["rows"]
    rows = read_rows(Path("delivered/literature.csv"))
    if rows is None:
        yield "literature.csv is missing or has other columns."
        return
    links = [link for *_, link in expected]
    for row in rows:
        if row["link"] not in links:
            yield f"{row['link'][:80]!r} does not belong into the table."
    found = {row["link"]: row for row in rows}
    for author, year, analysed, effect, link in expected:
        if link not in found:
            yield f"{link} is missing."
            continue
        row = found[link]
        if (row["author"], number(row["year"]), number(row["analysed"])) != (author, year, analysed):
            yield f"{link}: author, year or participants are not {author}, {year}, {analysed}."
        elif not abs(number(row["effect"]) - effect) <= 0.051:
            yield f"{link}: the effect is {row['effect'][:40]!r}, not {effect:.1f} minutes."
    if [row["link"] for row in rows if row["link"] in links] != links and len(rows) == len(links):
        yield "The rows are not sorted by year and author, or a row is there twice."


def read_rows(path: Path) -> list[dict[str, str]] | None:
    """Return the rows with lower-case heads, or None if the table is malformed."""
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        return None
    rows = [{(key or "").strip().lower(): str(value or "").strip() for key, value in row.items()}
            for row in csv.DictReader(text.splitlines())]  # fmt: skip
    return rows if rows and set(COLUMNS) <= set(rows[0]) else None


def number(text: str) -> float:
    """Return a number; its minus sign may be the typographic one."""
    try:
        return float(text.replace("\u2212", "-").removesuffix("min").strip())
    except ValueError:
        return float("nan")


if __name__ == "__main__":
    main()
