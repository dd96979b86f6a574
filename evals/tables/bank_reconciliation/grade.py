"""Grade the reconciliation: every difference, the total and the balances, after the workbook is calculated again."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]

DELIVERED = Path("delivered/Reconciliation.xlsx")


def main() -> None:
    """Print the result."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    try:
        values = openpyxl.load_workbook(recalculate(), data_only=True)
        faults = find_faults(truth, values, openpyxl.load_workbook(DELIVERED))
    except Exception as e:  # noqa: BLE001 - whatever a file does to its parser is a fault of the file
        faults = [f"Reconciliation.xlsx cannot be read: {e!r}."]
    print(json.dumps({"passed": not faults, "faults": faults[:20]}))


def recalculate() -> Path:
    """Drop the values that were saved, and have LibreOffice calculate every formula."""
    Path("calculated").mkdir()
    openpyxl.load_workbook(DELIVERED).save("plain.xlsx")
    argv = ["soffice", "--headless", "--convert-to", "xlsx", "--outdir", "calculated", "plain.xlsx"]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)
    return Path("calculated/plain.xlsx")


def read_table(book: Any, sheet: str) -> list[dict[str, Any]]:
    """Read a sheet as rows by the names of its columns."""
    head, *rows = book[sheet].iter_rows(values_only=True)
    names = [str(cell or "").strip().lower() for cell in head]
    return [dict(zip(names, row, strict=True)) for row in rows if any(cell is not None for cell in row)]


def find_faults(truth: dict[str, Any], values: Any, formulas: Any) -> list[str]:
    """Compare both sheets with the truth."""
    if missing := {"Differences", "Balances"} - set(values.sheetnames):
        return [f"There is no sheet {name}." for name in sorted(missing)]
    table, texts = read_table(values, "Differences"), read_table(formulas, "Differences")
    rows, expected = [row for row in table if row["reference"]], truth["differences"]
    keys = [(row["account"], written(row["reference"])) for row in rows]
    if keys != [(each["account"], each["reference"]) for each in expected]:
        wanted = [each["reference"] for each in expected]
        return [f"The differences are {[key[1] for key in keys]}; {wanted} are expected, in this order."]
    faults = []
    for row, each in zip(rows, expected, strict=True):
        if str(row["kind"]).strip().lower() != each["kind"]:
            faults.append(f"{each['reference']}: the kind is {each['kind']}, not {row['kind']}.")
        for name, wanted in (("bank", each["bank"]), ("ledger", each["ledger"])):
            if cents(row[name]) != wanted:
                faults.append(f"{each['reference']}, {name}: {wanted / 100:.2f} is expected, not {row[name]}.")
        if cents(row["difference"]) != each["bank"] - each["ledger"]:
            faults.append(f"{each['reference']}: the difference is not Bank minus Ledger.")
    texts += read_table(formulas, "Balances")
    if any(not str(row["difference"]).startswith("=") for row in texts):
        faults.append("A difference or the total is a typed number, not a formula.")
    total = sum(each["bank"] - each["ledger"] for each in expected)
    if len(table) != len(rows) + 1 or cents(table[-1]["difference"]) != total:
        faults.append(f"The last row is not the total of {total / 100:.2f}.")
    return faults + grade_balances(truth, read_table(values, "Balances"))


def grade_balances(truth: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    """Compare the balances."""
    found = {row["account"]: [cents(row[name]) for name in ("bank", "ledger", "difference")] for row in rows}
    wanted = {account: [bank, ledger, bank - ledger] for account, (bank, ledger) in truth["balances"].items()}
    return [
        f"{account}: the balances in cents are {wanted[account]}, not {found.get(account)}."
        for account in wanted
        if found.get(account) != wanted[account]
    ]


def written(text: object) -> str:
    """Write a reference as the ledger does."""
    return "RE-" + re.sub(r"\D", "", str(text))


def cents(value: object) -> int | None:
    """Read an amount; an empty cell is 0."""
    return round(float(value) * 100) if isinstance(value, int | float) else 0 if value is None else None


if __name__ == "__main__":
    main()
