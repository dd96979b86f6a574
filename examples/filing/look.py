"""Reads the results at the judge's desk: values, formulas, and which objects the workbook still has.

python3 look.py    reads Model.xlsx, Filing_Summary.pdf and model.xlsx, prints JSON
"""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from typing import Any

import openpyxl  # type: ignore[import-untyped]


def main() -> None:
    """Print the findings."""
    values = openpyxl.load_workbook("Model.xlsx", data_only=True)
    rows = {
        sheet.title: {row[0].value: [cell.value for cell in row[1:6]] for row in sheet.iter_rows(min_row=5)}
        for sheet in values
    }
    said = subprocess.run(
        ["pdftotext", "-layout", "Filing_Summary.pdf", "-"], capture_output=True, check=True, timeout=60
    )
    told = {
        "rows": rows,
        "before": held("model.xlsx"),
        "after": held("Model.xlsx"),
        "pdf": said.stdout.decode()[:50_000],
    }
    print(json.dumps(told, default=str))


def held(path: str) -> dict[str, Any]:
    """Return a workbook's formulas, names, validations and charts."""
    book = openpyxl.load_workbook(path)
    formulas = {
        f"{sheet.title}!{cell.coordinate}": cell.value
        for sheet in book
        for row in sheet
        for cell in row
        if cell.data_type == "f"
    }
    rules = [
        rule.sqref.coord if hasattr(rule.sqref, "coord") else str(rule.sqref)
        for sheet in book
        for rule in sheet.data_validations.dataValidation
    ]
    with zipfile.ZipFile(path) as file:
        drawings = [name for name in file.namelist() if re.fullmatch(r"xl/drawings/drawing\d+\.xml", name)]
        charts = {name: len(re.findall(rb"<c:chart ", file.read(name))) for name in drawings}  # on a sheet
    return {"formulas": formulas, "names": sorted(book.defined_names), "validations": rules, "charts": charts}


if __name__ == "__main__":
    main()
