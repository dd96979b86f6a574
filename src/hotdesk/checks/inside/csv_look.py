"""Reads the cells of a table. Runs inside a clean desk with its own Python; standard library only. Prints JSON."""

from __future__ import annotations

import csv
import io
import json
import sys

MAX_FILE_BYTES = 24 << 20
"""Maximum bytes of a table."""


def read_rows(path: str, delimiter: str) -> list[list[str]]:
    """Return the cells of a table; raise `ValueError` if it is too large or is not a table in UTF-8."""
    with open(path, "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"the file is larger than {MAX_FILE_BYTES >> 20} MiB")
    text = data.decode("utf-8-sig")
    if any(ord(letter) < 32 and letter not in "\t\r\n" for letter in set(text)):
        raise ValueError("the file has control characters, so it is not text")
    csv.field_size_limit(MAX_FILE_BYTES)
    lines = io.StringIO(text, newline="")  # splits lines where spreadsheets do, not at every separator of Unicode
    return [row for row in csv.reader(lines, delimiter=delimiter, strict=True) if row]


def look(path: str, source: str, delimiter: str) -> dict[str, object]:
    """Return the content of a table and of its source, or why they cannot be read."""
    try:
        return {"rows": read_rows(path, delimiter), "source": read_rows(source, ",") if source else []}
    except Exception as e:  # noqa: BLE001 - whatever a broken file does to the parser, it is a broken file
        return {"unreadable": f"{type(e).__name__}: {e}"[:200]}


def main() -> None:
    request = json.load(sys.stdin)
    print(json.dumps(look(request["path"], request["source"], request["delimiter"])))


if __name__ == "__main__":
    main()
