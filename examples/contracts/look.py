"""Runs at the judge's desk: prints the rows of a register as JSON."""

from __future__ import annotations

import json

from openpyxl import load_workbook  # type: ignore[import-untyped]

book = load_workbook("register.xlsx", read_only=True)
print(
    json.dumps(
        [[list(row) for row in book[name].iter_rows(min_row=2, values_only=True)] for name in ("Register", "Unread")]
    )
)
