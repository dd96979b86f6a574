"""Is it a working workbook: evidence from real files, and judgement over a table of faults."""

from __future__ import annotations

import copy
import json
import re
import runpy
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotdesk.checks import find
from hotdesk.checks.xlsx import LARGEST, XlsxCheck, is_red
from hotdesk.checks.xlsx_inside import look
from hotdesk.errors import BriefError

EXPECT: dict[str, object] = {
    "columns": ["Invoice", "Order", "Vendor", "Invoiced", "Ordered", "Difference"],
    "rows": 3,
    "red_where": "Difference",
    "total": "Difference",
}
ORDERS = [
    {"Invoice": "I1", "Order": "P1", "Vendor": "A & B <c>", "Invoiced": 10.10, "Ordered": 10.10},
    {"Invoice": "I2", "Order": "P2", "Vendor": "B", "Invoiced": 30.5, "Ordered": 20.25},
    {"Invoice": "I3", "Order": "P3", "Vendor": "C", "Invoiced": 7, "Ordered": 8},
]
CHECK = XlsxCheck.expecting(EXPECT)
EXAMPLE = Path(__file__).parents[3] / "examples/invoices-small/reconcile.py"


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the example write a workbook."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "invoices.json").write_text(json.dumps(ORDERS))
    (tmp_path / "orders.json").write_text(json.dumps({each["Order"]: each["Ordered"] for each in ORDERS}))
    runpy.run_path(str(EXAMPLE))["write"]()
    return tmp_path / "Discrepancy_Report.xlsx"


@pytest.fixture
def seen(report: Path) -> dict[str, Any]:
    """Give what is seen of it."""
    return json.loads(json.dumps(look(str(report))))  # type: ignore[no-any-return]


def judged(seen: object) -> tuple[bool, str]:
    """Judge evidence."""
    verdict = CHECK.judge(json.dumps(seen).encode())
    return verdict.passed, "; ".join(verdict.findings)


def test_a_workbook_that_works_passes(seen: dict[str, Any]) -> None:
    assert judged(seen) == (
        True,
        "6 columns, 3 rows; 4 formulas, calculated again; red where Difference is not 0, and only there",
    )
    vendor = next(cell for cell in seen["sheets"][0]["cells"] if cell["at"] == "C2")
    assert vendor == {"at": "C2", "value": "A & B <c>", "formula": "", "fill": "", "error": False}


Change = Callable[[dict[str, dict[str, Any]]], object]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda at: at["A1"].update(value="Number"), "the columns are Number, Order"),
        (lambda at: [at.pop(key) for key in [*at] if key.endswith("5")], "there are 2 rows, not 3"),
        (lambda at: at.pop("A3"), "row 3 has no Invoice"),
        (lambda at: at["F3"].update(value=0.0), "F3 shows 0.0, which is not what D3-E3 gives"),
        (lambda at: at["F5"].update(value=1.0), "F5 shows 1.0, which is not what SUM(F2:F4) gives"),
        (lambda at: at["F5"].update(formula="SUM(F2:F3)", value=10.25), "F5 is not the sum of Difference"),
        (lambda at: at["F5"].update(formula=""), "F5 is not the sum of Difference"),
        (lambda at: at["F3"].update(formula="WEBSERVICE(1)"), "not what WEBSERVICE(1) gives"),
        (lambda at: at["C3"].update(error=True, value="#REF!"), "C3 shows #REF!"),
        (lambda at: at.update(twice=at["C3"]), "two cells in one place"),
        (lambda at: at["F2"].update(value=float("nan"), formula=""), "no number that can be"),
        (lambda at: at["B3"].update(fill=""), "row 3 is not red, and its Difference is 10.25"),
        (lambda at: at["B3"].update(fill="FF00FF00"), "row 3 is not red"),
        (lambda at: [at[f"{c}2"].update(fill="FFFF0000") for c in "ABCDEF"], "row 2 is red, and its Difference is 0"),
        (lambda at: at["F2"].update(value="none", formula=""), "row 2 has no number in Difference"),
        (lambda at: at["A1"].update(value="\x1b[31m"), r"the columns are \x1b[31m"),
    ],
)
def test_each_fault_is_found(seen: dict[str, Any], change: Change, why: str) -> None:
    cells = {cell["at"]: cell for cell in copy.deepcopy(seen)["sheets"][0]["cells"]}
    change(cells)
    passed, told = judged({"sheets": [{"name": "x", "cells": [*cells.values()]}]})
    assert not passed
    assert why in told


CELL = {"at": "A1", "value": 1.0, "formula": "", "fill": "", "error": False}


@pytest.mark.parametrize(
    "evidence",
    [
        b"",
        b"no JSON",
        b"\xff",
        b"[" * 100_000,
        b"1" * 5000,
        b"x" * LARGEST,
        b"null",
        b"[]",
        b'{"sheets":[]}',
        b'{"sheets":[{"cells":[]}]}',
        b'{"sheets":[{"cells":{}}]}',
        *(
            json.dumps({"sheets": [{"cells": cells}]}).encode()
            for cells in (
                [CELL, CELL],
                [{**CELL, "at": "A2"}],
                [{**CELL, "at": "A1x"}],
                [{**CELL, "at": "A٣"}],
                [{**CELL, "value": float("nan")}],
                [{**CELL, "value": float("inf")}],
                [{**CELL, "value": 1}],
                [{**CELL, "value": "x" * 501}],
                [{**CELL, "error": 1}],
                [{"at": "A1"}],
                [None],
                [{**CELL, "at": f"A{row}"} for row in range(1, 20_003)],
            )
        ),
    ],
)
def test_evidence_that_makes_no_sense_is_a_failed_check_and_no_error(evidence: bytes) -> None:
    assert not CHECK.judge(evidence).passed


def test_a_file_that_is_no_workbook_is_told_as_such(tmp_path: Path) -> None:
    file = tmp_path / "a.xlsx"
    file.write_bytes(b"not a zip")
    assert judged(look(str(file))) == (False, "it cannot be opened as a workbook: BadZipFile: File is not a zip file")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("xl/_rels/workbook.xml.rels", b" " * (17 << 20))
    assert "is too large" in judged(look(str(file)))[1]


@pytest.mark.parametrize("value", ["<v></v>", "<v/>", ""])
def test_a_formula_nobody_calculated_is_told_as_such(report: Path, tmp_path: Path, value: str) -> None:
    other = tmp_path / "other.xlsx"
    with zipfile.ZipFile(report) as source, zipfile.ZipFile(other, "w") as made:
        for name in source.namelist():
            text = source.read(name).decode()
            made.writestr(name, re.sub(r"(<f>SUM\(.*?</f>)<v>.*?</v>", rf"\g<1>{value}", text))
    assert judged(look(str(other))) == (False, "F5 holds SUM(F2:F4) and no value: it was never calculated")


def test_texts_that_cells_share_are_found(report: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.xlsx"
    with zipfile.ZipFile(report) as source, zipfile.ZipFile(other, "w") as made:
        for name in source.namelist():
            text = source.read(name).decode()
            inline = '<c r="A2" s="0" t="inlineStr"><is><t>I1</t></is></c>'
            made.writestr(name, text.replace(inline, '<c r="A2" s="0" t="s"><v>1</v></c>'))
        main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        shared = f'<sst xmlns="{main}"><si><t>x</t></si><si><r><t>I</t></r><r><t>9</t></r></si></sst>'
        made.writestr("xl/sharedStrings.xml", shared)
    sheets: Any = look(str(other))["sheets"]
    assert next(cell for cell in sheets[0]["cells"] if cell["at"] == "A2")["value"] == "I9"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"colour": "red"}, "cannot expect 'colour'; write expect ="),
        ({"columns": "Invoice"}, "a list of their heads"),
        ({"columns": []}, "a list of their heads"),
        ({"rows": True}, "rows, a number"),
        ({"rows": -1}, "rows, a number"),
        ({"red_where": "Colour"}, "red_where to be one of its columns"),
        ({"total": 5}, "total to be one of its columns"),
    ],
)
def test_what_cannot_be_expected_is_refused(change: dict[str, object], why: str) -> None:
    with pytest.raises(BriefError, match=why):
        find("xlsx", {**EXPECT, **change})


def test_a_check_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BriefError, match="there is no check 'docx'; there are xlsx"):
        find("docx", {})


@pytest.mark.parametrize(
    ("fill", "red"),
    [("FFFF0000", True), ("FFFFC7CE", True), ("FFFFFFFF", False), ("FF000000", False), ("FFFF99", False), ("", False)],
)
def test_red_is_what_looks_red(fill: str, red: bool) -> None:
    assert is_red(fill) is red
