"""Write wrong but plausible outcomes: each is a file with a state of the site."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

HEAD = ["email", "first_name", "last_name", "country"]


def main() -> None:
    """Write every variant."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    rows, number = truth["rows"], truth["list"]
    against = [each for each in truth["members"] if each["objects"] and each["active"] and each["consent"]]
    objecting = [[each["email"].lower(), each["first"], each["last"], "FR"] for each in against]
    write("imported-twice", rows, [number, number])
    write("not-imported", rows, [])
    write("last-year", rows, [f"L{int(number[1:]) - 1}"])
    write("objections-ignored", rows + objecting, [number])
    write("second-page-of-objections-missed", rows + objecting[-1:], [number])
    write("encoding-mistaken", [[row[0], garble(row[1]), garble(row[2]), row[3]] for row in rows], [number])
    write("row-missed", rows[:-1], [number])
    write("names-swapped", [[row[0], row[2], row[1], row[3]] for row in rows], [number])
    write("file-differs", rows[1:], [number], imported=rows)


def garble(text: str) -> str:
    """Return a text as it looks when its encoding was mistaken."""
    return text.encode().decode("iso-8859-1")


def write(name: str, rows: list[list[str]], lists: list[str], imported: list[list[str]] | None = None) -> None:
    """Write a variant: a file, and an import of it into each of some lists."""
    folder = Path("spoilt", name)
    folder.mkdir(parents=True)
    with (folder / "import.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=";").writerows([HEAD, *rows])
    state: dict[str, Any] = {"imports": [{"list": each, "rows": imported or rows} for each in lists]}
    (folder / "site.json").write_text(json.dumps(state))


if __name__ == "__main__":
    main()
