"""Looks up quotations on their pages. Runs inside a clean desk with its own Python and pdftotext. Prints JSON."""

from __future__ import annotations

import json
import subprocess
import sys

MAX_FILE_BYTES = 16 << 20
MAX_CLAIMS = 1000
PDFTOTEXT_SECONDS = 60


def read_pages(path: str) -> list[str]:
    argv = ["pdftotext", "-layout", "-enc", "UTF-8", path, "-"]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=PDFTOTEXT_SECONDS)
    if done.returncode:
        raise ValueError("pdftotext cannot read the PDF")
    return [" ".join(page.split()) for page in done.stdout.decode("utf-8", "replace").split("\f")[:-1]]


def _build_unique_table(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object; refuse duplicate keys, because parsers differ in which value they use."""
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key appears twice")
    return table


def find_claims(document: object, place: str) -> list[object]:
    for name in filter(None, place.split(".")):
        document = document.get(name) if isinstance(document, dict) else None
    if not isinstance(document, list):
        raise ValueError("the list of claims is missing")
    if len(document) > MAX_CLAIMS:
        raise ValueError(f"the list of claims has more than {MAX_CLAIMS} entries")
    return document


def look_up(number: int, claim: object, pages: list[str]) -> list[object]:
    fields = claim if isinstance(claim, dict) else {}
    page, quote = fields.get("page"), fields.get("quote")
    page = page if isinstance(page, int) and not isinstance(page, bool) else 0
    text = " ".join(quote.split()) if isinstance(quote, str) else ""
    is_there = bool(text) and 1 <= page <= len(pages) and text in pages[page - 1]
    return [f"claim {number}", min(max(page, 0), 1 << 30), len(text), is_there]


def look(path: str, source: str, claims: str) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"the file is larger than {MAX_FILE_BYTES >> 20} MiB")
        entries = find_claims(json.loads(data, object_pairs_hook=_build_unique_table), claims)
        pages = read_pages(source)
        return {"pages": len(pages), "quotes": [look_up(at, each, pages) for at, each in enumerate(entries, 1)]}
    except (Exception, RecursionError) as e:  # noqa: BLE001 - a broken file is a broken file
        return {"unreadable": f"{type(e).__name__}: {e}"[:200]}


def main() -> None:
    request = json.load(sys.stdin)
    print(json.dumps(look(request["path"], request["source"], request["claims"])))


if __name__ == "__main__":
    main()
