"""Inspects a PDF. Runs inside a clean desk. Prints a line of JSON, then the pixels of its pages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import drawn_look  # type: ignore[import-not-found]
import pypdfium2  # type: ignore[import-not-found]

MAX_TITLE_CHARS = 500
BEGINNING, ENDING = b"%PDF-", b"%%EOF"


def _require_complete(path: str) -> None:
    data = Path(path).read_bytes()
    if BEGINNING not in data[:1024]:
        raise ValueError("the file does not start with a PDF header")
    if ENDING not in data[-2048:]:
        raise ValueError("the file is truncated: its end is missing")


def look(path: str) -> tuple[dict[str, object], list[bytes]]:
    """Return the content of a PDF and its page pixels, or why it cannot be opened."""
    try:
        _require_complete(path)
        document, packed = drawn_look.read_pages(path)
        title = str(pypdfium2.PdfDocument(path).get_metadata_dict().get("Title", ""))
    except Exception as e:  # noqa: BLE001 - whatever a broken file does to the parsers, it is a broken file
        return {"unreadable": drawn_look.describe_error(e)}, []
    return {**document, "tools": drawn_look.describe_tools(), "title": title[:MAX_TITLE_CHARS]}, packed


if __name__ == "__main__":
    answer, pages = look(json.load(sys.stdin)["path"])
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + b"".join(pages))
