"""Reads invoices at the worker's desk. It knows one format of amounts; any other is an error."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path


def main() -> None:
    """Read every invoice's fields from the text of its PDF, and write them."""
    found = [fields(path) for path in sorted(Path("invoices").glob("*.pdf"))]
    Path("invoices.json").write_text(json.dumps(found))


def fields(path: Path) -> dict[str, object]:
    """Return the value behind each label."""
    told = dict(line.split(": ", 1) for line in text_lines(path.read_bytes()) if ": " in line)
    try:
        amount = cents(told["Total"].removesuffix(" EUR"))
    except ValueError as e:
        sys.exit(f"{path}: {e}")
    return {"Invoice": told["Invoice"], "Order": told["Order"], "Vendor": told["Vendor"], "Invoiced": amount}


def cents(text: str) -> int:
    """Read an amount."""
    found = re.fullmatch(r"(\d{1,3}(?:,\d{3})*)\.(\d\d)", text)
    if found is None:
        raise ValueError(f"{text!r} is no amount")
    return int(re.sub(r"\D", "", found[1]) + found[2])


def text_lines(data: bytes) -> list[str]:
    """Return the texts a PDF shows with `Tj`, in order; its pages are not compressed."""
    streams = re.findall(rb"stream\r?\n(.*?)endstream", data, re.DOTALL)
    shown = re.findall(rb"\(((?:\\.|[^\\()])*)\)\s*Tj", b"".join(streams), re.DOTALL)
    return [re.sub(rb"\\(.)", rb"\1", text).decode("cp1252") for text in shown]


if __name__ == "__main__":
    main()
