"""Sums a column of a file beside a workbook: CSV, JSON or another workbook. Runs inside a clean desk."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import xlsx_raw  # type: ignore[import-not-found]

MAX_FILE_BYTES = 64 << 20
THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?")


def sum_column(path: str, column: str) -> dict[str, object]:
    """Return a column's sum and the count of its numbers, or why there is no sum."""
    try:
        numbers = [_parse_number(each) for each in _read_column(path, column)]
    except Exception as e:  # noqa: BLE001 - whatever a broken source does to the parsers, it is a broken source
        return {"why": f"{type(e).__name__}: {e}"[:500]}
    if not numbers:
        return {"why": f"the source has no column {column}"[:500]}
    return {"sum": math.fsum(numbers), "count": len(numbers)}


def _read_column(path: str, column: str) -> list[object]:
    if Path(path).stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"the source is larger than {MAX_FILE_BYTES >> 20} MiB")
    match Path(path).suffix.lower():
        case ".csv":
            return _of_csv(path, column)
        case ".json":
            data = json.loads(Path(path).read_bytes())
            return [each[column] for each in (data.values() if isinstance(data, dict) else data)]
        case ".xlsx":
            return _of_workbook(path, column)
    raise ValueError("the source is not a CSV, JSON or xlsx file")


def _of_csv(path: str, column: str) -> list[object]:
    with Path(path).open(newline="", encoding="utf-8-sig") as source:
        return [row[column] for row in csv.DictReader(source) if row.get(column)]


def _of_workbook(path: str, column: str) -> list[object]:
    """Read a column of the first sheet that has it, as saved, without totals below it."""
    for sheet in xlsx_raw.tell(path)["sheets"]:
        cells = {(cell[0], cell[1]): cell for cell in sheet["cells"]}
        head = next((at for at, cell in cells.items() if at[1] == 1 and cell[3] == column), None)
        if head is not None:
            below = [cell for at, cell in cells.items() if at[0] == head[0] and at[1] > 1 and cell[2] == "n"]
            return [cell[3] for cell in below if not re.match(r"(SUM|SUBTOTAL|AGGREGATE)\(", cell[4])]
    return []


def _parse_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"the column has the value {value!r}, which is not a number")
    if isinstance(value, str):
        if "," in value and not THOUSANDS.fullmatch(value.strip()):
            raise ValueError(f"the column has the value {value!r}, whose commas are not thousands separators")
        value = value.replace(",", "").strip()
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"the column has the value {value!r}, which is not a number")
    return found
