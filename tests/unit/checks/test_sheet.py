"""Tests of the check of workbooks: evidence from real files, and a table of faults."""

from __future__ import annotations

import copy
import json
import math
import platform
import re
import runpy
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotdesk.checks import find
from hotdesk.checks.inside.sheet_look import look
from hotdesk.checks.seam import Evidence
from hotdesk.checks.sheet import MOST_ADDED, SheetCheck
from hotdesk.checks.xlsx.colour import is_colour
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
CHECK = SheetCheck.from_expect(EXPECT)
EXAMPLE = Path(__file__).parents[3] / "examples/invoices-small/reconcile.py"


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "invoices.json").write_text(json.dumps(ORDERS))
    (tmp_path / "orders.json").write_text(json.dumps({each["Order"]: each["Ordered"] for each in ORDERS}))
    runpy.run_path(str(EXAMPLE))["write"]()
    return tmp_path / "Discrepancy_Report.xlsx"


@pytest.fixture
def seen(report: Path) -> dict[str, Any]:
    return json.loads(json.dumps(look(str(report))))  # type: ignore[no-any-return]


def evidence(cells: object) -> Evidence:
    sheet = {"name": "x", "cells": cells, "hidden": False, "hidden_rows": 0, "hidden_columns": 0}
    return Evidence(json.dumps({"sheets": [sheet], "tools": {"Python": "3"}}).encode())


def judged(seen: object) -> tuple[bool, str]:
    verdict = CHECK.judge(Evidence(json.dumps(seen).encode()))
    return verdict.passed, "; ".join(verdict.findings)


def test_a_workbook_that_works_passes(seen: dict[str, Any]) -> None:
    assert judged(seen) == (
        True,
        "6 columns, 3 rows; 4 formulas, recalculated; rows are red where Difference is not 0, and only there",
    )
    vendor = next(cell for cell in seen["sheets"][0]["cells"] if cell["at"] == "C2")
    assert vendor == {"at": "C2", "value": "A & B <c>", "formula": "", "fill": "", "error": False}


def test_evidence_is_described_for_a_certificate(seen: dict[str, Any]) -> None:
    verdict = CHECK.judge(Evidence(json.dumps(seen).encode()))
    assert verdict.values == {"rows": 3, "cells": 26, "formulas": 4}
    assert verdict.tools == {"Python": platform.python_version()}
    assert verdict.looked_for == (
        *("opens", "columns", "rows", "shown", "errors", "calculated", "fresh"),
        *("colours", "total"),
    )


Change = Callable[[dict[str, dict[str, Any]]], object]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda at: at["A1"].update(value="Number"), "columns x!1:1: the headings Invoice, Order|'Number', 'Order'"),
        (lambda at: at["A1"].update(value="\x1b[31m"), r"columns x!1:1: the headings Invoice|'\x1b[31m'"),
        (lambda at: [at.pop(key) for key in [*at] if key.endswith("5")], "rows x: 3 rows|2 rows"),
        (lambda at: at.pop("A3"), "rows x!A3: a value in the first cell of every row|an empty cell"),
        (lambda at: at["F3"].update(value=0.0), "fresh x!F3: the saved value 10.25, the result of `=D3-E3`|0"),
        (lambda at: at["F5"].update(value=1.0), "fresh x!F5: the saved value 9.25, the result of `=SUM(F2:F4)`|1"),
        (
            lambda at: at["F5"].update(formula="SUM(F2:F3)", value=10.25),
            "total x!F5: a formula that reads all rows of Difference and gives 9.25|10.25",
        ),
        (
            lambda at: at["F5"].update(formula=""),
            "total x!F5: a formula that reads all rows of Difference and gives 9.25|9.25 without a formula",
        ),
        (lambda at: at["F3"].update(formula="WEBSERVICE(1)"), "fresh x!F3: a sum of one column|`=WEBSERVICE(1)`"),
        (lambda at: at["F3"].update(formula="other!D3-E3"), "fresh x!F3: a sum of one column|`=other!D3-E3`"),
        (lambda at: at["F3"].update(formula="@D3"), "fresh x!F3: a sum of one column|`=@D3`"),
        (lambda at: at["F5"].update(formula="SUM(E2:F4)"), "fresh x!F5: a sum of one column|`=SUM(E2:F4)`"),
        (lambda at: at["F5"].update(value=None), "calculated x!F5: a value saved with the formula|no value"),
        (lambda at: at["C3"].update(error=True, value="#REF!"), "errors x!C3: a value|#REF!"),
        (
            lambda at: at.update(twice=at["C3"]),
            "opens : a workbook|a problem: the first sheet has nothing in row 1, or two cells at the same position",
        ),
        (
            lambda at: at["F2"].update(value=float("nan"), formula=""),
            "opens : a valid result from the desk that checked this file|an invalid one (it is not JSON)",
        ),
        (lambda at: at["B3"].update(fill=""), "colours x!3:3: a red row, because Difference is 10.25|5 of 6"),
        (lambda at: at["B3"].update(fill="FF00FF00"), "colours x!3:3: a red row|5 of 6 cells red"),
        (
            lambda at: [at[f"{c}2"].update(fill="FFFF0000") for c in "ABCDEF"],
            "colours x!2:2: a row that is not|6 of",
        ),
        (lambda at: at["F2"].update(value="none", formula=""), "colours x!F2: a number in column Difference|'none'"),
    ],
)
def test_each_fault_is_found(seen: dict[str, Any], change: Change, why: str) -> None:
    cells = {cell["at"]: cell for cell in copy.deepcopy(seen)["sheets"][0]["cells"]}
    change(cells)
    verdict = CHECK.judge(evidence([*cells.values()]))
    expected, _, found = why.partition("|")
    told = [(f"{each.rule} {each.where}: {each.expected}", each.found) for each in verdict.faults]
    assert any(one.startswith(expected) and other.startswith(found) for one, other in told), told
    assert {each.rule for each in verdict.faults} <= set(verdict.looked_for)


HIDDEN = {
    "sheet": ("xl/workbook.xml", "<sheet ", '<sheet state="veryHidden" ', "a hidden sheet"),
    "rows": ("xl/worksheets/sheet1.xml", '<row r="3"', '<row r="3" hidden="1"', "1 hidden"),
    "rows ": ("xl/worksheets/sheet1.xml", '<row r="3"', '<row r="3" ht="0" customHeight="1"', "1 hidden"),
    "columns": (
        "xl/worksheets/sheet1.xml",
        "<sheetData",
        '<cols><col min="2" max="2" hidden="1"/></cols><sheetData',
        "",
    ),
}


@pytest.mark.parametrize("what", HIDDEN)
def test_hidden_parts_are_faults(report: Path, what: str) -> None:
    part, old, new, found = HIDDEN[what]
    with zipfile.ZipFile(report) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    assert parts[part].count(old.encode()) == 1
    parts[part] = parts[part].replace(old.encode(), new.encode())
    with zipfile.ZipFile(report, "w") as file:
        for name, data in parts.items():
            file.writestr(name, data)
    verdict = CHECK.judge(Evidence(json.dumps(look(str(report))).encode()))
    faults = [(each.rule, each.expected, each.found) for each in verdict.faults]
    assert faults == [("shown", f"no hidden {what.strip()}", found or "1 hidden")]


def test_expensive_sums_are_refused() -> None:
    rows = math.isqrt(MOST_ADDED) + 2
    cells = [{"at": f"A{row}", "value": 0.0, "formula": f"SUM(A1:A{rows})"} for row in range(2, rows + 2)]
    check = SheetCheck.from_expect({"columns": ["A"], "rows": rows})
    verdict = check.judge(evidence([{**CELL, "value": "A"}, *({**CELL, **each} for each in cells)]))
    assert "the sums of the sheet read more than" in verdict.faults[0].found
    assert verdict.faults[0].remedy == "Reduce the content of the file to within this limit."


def test_a_sum_that_no_number_can_hold_is_a_fault_and_no_error(seen: dict[str, Any]) -> None:
    for cell in seen["sheets"][0]["cells"]:
        if cell["at"] in ("D2", "D3"):
            cell["value"] = 1.7e308
        if cell["at"] == "F4":
            cell["formula"] = "SUM(D2:D3)"
    assert "F4: expected the saved value inf, the result of `=SUM(D2:D3)`, found -1" in judged(seen)[1]


CELL = {"at": "A1", "value": 1.0, "formula": "", "fill": "", "error": False}


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"no JSON",
        b"\xff",
        b"[" * 100_000,
        b"1" * 5000,
        b"null",
        b"[]",
        b'{"sheets":[]}',
        *(
            evidence(cells).report
            for cells in (
                None,
                [CELL][:0],
                [CELL, CELL],
                [{**CELL, "at": "A2"}],
                [{**CELL, "at": "A1x"}],
                [{**CELL, "at": "A1:A2"}],
                [{**CELL, "at": "x!A1"}],
                [{**CELL, "at": "A٣"}],
                [{**CELL, "value": float("nan")}],
                [{**CELL, "value": float("inf")}],
                [{**CELL, "value": 1}],
                [{**CELL, "value": "x" * 501}],
                [{**CELL, "error": 1}],
                [{"at": "A1"}],
                [None],
                [{**CELL, "at": f"A{row}"} for row in range(1, 20_003)],
                [CELL, {**CELL, "at": "A1048576"}],
            )
        ),
        evidence([CELL]).report.replace(b'"3"', b"3"),
    ],
)
def test_malformed_evidence_is_a_failed_check_and_no_error(told: bytes) -> None:
    only = SheetCheck.from_expect({"columns": ["1.0"], "rows": 0})
    assert only.judge(evidence([CELL])).passed
    assert [each.rule for each in only.judge(Evidence(told)).faults] == ["opens"]


def test_a_file_that_is_not_a_workbook_is_reported_as_such(tmp_path: Path) -> None:
    file = tmp_path / "a.xlsx"
    file.write_bytes(b"not a zip")
    assert judged(look(str(file))) == (
        False,
        "expected a workbook, found a problem: the file cannot be opened as a workbook: BadZipFile: File is not a zip "
        "file. Save the file as an .xlsx workbook that LibreOffice can open.",
    )
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("xl/_rels/workbook.xml.rels", b" " * (17 << 20))
    assert "xl/_rels/workbook.xml.rels in the workbook unpacks to more than 16 MiB" in judged(look(str(file)))[1]


@pytest.mark.parametrize("value", ["<v></v>", "<v/>", ""])
def test_a_formula_without_a_calculated_value_is_reported(report: Path, tmp_path: Path, value: str) -> None:
    other = tmp_path / "other.xlsx"
    with zipfile.ZipFile(report) as source, zipfile.ZipFile(other, "w") as made:
        for name in source.namelist():
            text = source.read(name).decode()
            made.writestr(name, re.sub(r"(<f>SUM\(.*?</f>)<v>.*?</v>", rf"\g<1>{value}", text))
    expected = "expected a value saved with the formula, found no value: the formula was never calculated"
    assert f"!F5: {expected}" in judged(look(str(other)))[1]


def altered(report: Path, part: str, old: str, new: str, **more: str) -> dict[str, Any]:
    other = report.with_name("other.xlsx")
    with zipfile.ZipFile(report) as source, zipfile.ZipFile(other, "w") as made:
        for name in source.namelist():
            text = source.read(name).decode()
            assert name != part or old in text
            made.writestr(name, text.replace(old, new) if name == part else text)
        for name, text in more.items():
            made.writestr(name.replace("__", "/") + ".xml", text)
    return look(str(other))


def test_only_the_workbook_part_an_office_opens_is_read(report: Path) -> None:
    seen = altered(report, "_rels/.rels", "xl/workbook.xml", "xl/other.xml", xl__other="<workbook/>")
    assert "not at its standard location: /xl/workbook.xml" in judged(seen)[1]
    seen = altered(report, "xl/_rels/workbook.xml.rels", "styles.xml", "other.xml", xl__other="<styleSheet/>")
    assert "not at its standard location: /xl/styles.xml" in judged(seen)[1]


def test_a_relation_that_leads_to_two_places_is_not_followed(report: Path) -> None:
    twice = '<Relationship Id="{0}" Type="x/worksheet" Target="worksheets/other.xml"/></Relationships>'
    with zipfile.ZipFile(report) as source:
        first = re.findall(r'Id="(\w+)"', source.read("xl/_rels/workbook.xml.rels").decode())[0]
    seen = altered(report, "xl/_rels/workbook.xml.rels", "</Relationships>", twice.format(first))
    assert "two relationships of the workbook have the same Id" in judged(seen)[1]


def test_cells_no_office_shows_are_ignored(report: Path) -> None:
    hidden = '<extLst><ext><row r="9"><c r="A9" t="inlineStr"><is><t>I9</t></is></c></row></ext></extLst></worksheet>'
    cells: Any = altered(report, "xl/worksheets/sheet1.xml", "</worksheet>", hidden)["sheets"]
    assert "A9" not in {cell["at"] for cell in cells[0]["cells"]}


def test_phonetic_hints_are_not_part_of_a_text(report: Path) -> None:
    said = "<is><t>I</t><rPh sb='0' eb='1'><t>1</t></rPh></is>"
    cells: Any = altered(report, "xl/worksheets/sheet1.xml", "<is><t>I1</t></is>", said)["sheets"]
    assert next(cell for cell in cells[0]["cells"] if cell["at"] == "A2")["value"] == "I"


def test_shared_strings_are_resolved(report: Path, tmp_path: Path) -> None:
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
        ({"colour": "red"}, "expect has no option 'colour'; its options are columns, rows, red_where, total"),
        ({"columns": "Invoice"}, "a list of headings"),
        ({"columns": []}, "a list of headings"),
        ({"rows": True}, "rows must be a whole number"),
        ({"rows": -1}, "rows must be a whole number"),
        ({"red_where": "Colour"}, "red_where names the column 'Colour', which `columns` does not list; write one of "),
        ({"total": 5}, "total names the column '5', which `columns` does not list"),
    ],
)
def test_invalid_expectations_are_refused(change: dict[str, object], why: str) -> None:
    with pytest.raises(BriefError, match=why):
        find("sheet", {**EXPECT, **change})


def test_a_check_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BriefError, match=r"unknown check 'dox'; the checks are .*sheet"):
        find("dox", {})


@pytest.mark.parametrize(
    ("fill", "red"),
    [("FF0000", True), ("FFC7CE", True), ("FFFFFF", False), ("000000", False), ("FFFF99", False), ("", False)],
)
def test_red_is_what_looks_red(fill: str, red: bool) -> None:
    assert is_colour(fill, "red") is red


def test_an_invalid_colour_is_no_colour(seen: dict[str, Any]) -> None:
    for cell in seen["sheets"][0]["cells"]:
        cell["fill"] = cell["fill"][2:]
    assert "0 of 6 cells red" in judged(seen)[1]
