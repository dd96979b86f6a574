"""Reads the cells of a table. Run inside a clean desk by its own Python, standard library only. Prints JSON."""

from __future__ import annotations

import csv
import io
import json
import sys

MAX_FILE_BYTES = 24 << 20
"""Bytes of the largest table."""


def read_rows(path: str, delimiter: str) -> list[list[str]]:
    """Part a table into cells; `ValueError` when it is none, or no UTF-8."""
    with open(path, "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"the file is larger than {MAX_FILE_BYTES >> 20} MiB")
    text = data.decode("utf-8-sig")
    if any(ord(letter) < 32 and letter not in "\t\r\n" for letter in set(text)):
        raise ValueError("the file has control characters, so it is not text")
    csv.field_size_limit(MAX_FILE_BYTES)
    lines = io.StringIO(text, newline="")  # ends lines where spreadsheets do, and not at every mark that Unicode has
    return [row for row in csv.reader(lines, delimiter=delimiter, strict=True) if row]


def look(path: str, source: str, delimiter: str) -> dict[str, object]:
    """Describe what is in a table and in its source, or why it cannot be opened."""
    try:
        return {"rows": read_rows(path, delimiter), "source": read_rows(source, ",") if source else []}
    except Exception as e:  # noqa: BLE001 - whatever a broken file does to the parser, it is a broken file
        return {"unreadable": f"{type(e).__name__}: {e}"[:200]}


def main() -> None:
    request = json.load(sys.stdin)
    print(json.dumps(look(request["path"], request["source"], request["delimiter"])))


if __name__ == "__main__":
    main()
