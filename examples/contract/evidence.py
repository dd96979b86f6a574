"""A custom check for this brief: is each quote on the page that the clause names? Runs in a clean desk.

python3 evidence.py CLAUSES < GIVEN, beside the contract; prints faults, passed claims and what was found.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LEAST = 20
"""Minimum characters of a quote, so that it proves something."""


def main() -> None:
    """Look up every quote, and print the findings."""
    given = json.load(sys.stdin)
    clauses = json.loads(Path(sys.argv[1]).read_text())["clauses"]
    pages = read(f"beside/{given['contract']}")
    faults = [fault for clause in clauses for fault in looked_up(clause, pages)]
    held = [] if faults else [f"{len(clauses)} quotes stand on their pages, of {len(pages)}"]
    print(json.dumps({"faults": faults, "held": held, "values": {"pages": len(pages), "quotes": len(clauses)}}))


def read(path: str) -> list[str]:
    """Return the text of each page, without line breaks."""
    done = subprocess.run(["pdftotext", "-layout", path, "-"], capture_output=True, check=True)
    return [" ".join(page.split()) for page in done.stdout.decode().split("\f")[:-1]]


def looked_up(clause: dict[str, object], pages: list[str]) -> list[dict[str, str]]:
    """List what is wrong with one quote."""
    name, page, quote = str(clause["clause"]), int(str(clause["page"])), str(clause["quote"])
    where, there = f"{name}, page {page}", [number for number, text in enumerate(pages, 1) if quote in text]
    if len(quote) < LEAST:
        return [{"where": where, "expected": "a sentence", "found": quote}]
    if there != [page]:
        found = f"{quote!r}, which stands on {f'page {there}' if there else 'no page'}"
        return [{"where": where, "expected": "words of that page", "found": found}]
    return []


if __name__ == "__main__":
    main()
