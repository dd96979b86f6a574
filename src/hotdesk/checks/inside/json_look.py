"""Reads a JSON document. Runs inside a clean desk with its own Python; standard library only. Prints JSON."""

from __future__ import annotations

import json
import math
import sys

MAX_FILE_BYTES = 24 << 20
"""Maximum bytes of a document."""


def _build_unique_table(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object; refuse duplicate keys, because parsers differ in which value they use."""
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError("a key appears twice: " + next(name for name in names if names.count(name) > 1))
    return table


def _reject_constant(text: str) -> float:
    raise ValueError(text + " is not a JSON number")


def _parse_finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(text + " is too large for a number")
    return number


def look(path: str) -> dict[str, object]:
    """Return a parsed document, or why it cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"the file is larger than {MAX_FILE_BYTES >> 20} MiB")
        text = data.decode("utf-8")
        return {
            "document": json.loads(
                text, object_pairs_hook=_build_unique_table, parse_constant=_reject_constant, parse_float=_parse_finite
            )
        }
    except (Exception, RecursionError) as e:  # noqa: BLE001 - a broken file is a broken file
        return {"unreadable": f"{type(e).__name__}: {e}"[:200]}


def main() -> None:
    print(json.dumps(look(json.load(sys.stdin)["path"])))


if __name__ == "__main__":
    main()
