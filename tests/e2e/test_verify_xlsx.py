"""Tests of verifying real workbooks in a real clean desk: each rule finds the workbook that breaks it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from hotdesk.checks import find
from hotdesk.checks.active import STAYS
from hotdesk.checks.evidence import look
from hotdesk.checks.seam import Evidence, Verdict
from hotdesk.checks.xlsx.check import NEEDS, XlsxCheck
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host
from tests.conftest import settings_in

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

SOURCE = Path(__file__).with_name("workbooks.py")
EXPECT: dict[str, Any] = {
    "sheets": ["Data", "Summary"],
    "columns": ["Invoice", "Invoiced", "Ordered", "Difference"],
    "rows": 6,
    "red_where": "Difference",
    "coloured": {"colour": "red", "rows": [3, 7]},
    "total": "Difference",
    "formulas": ["column Difference", "Summary!B1:B2"],
    "reconcile": [
        {"cell": "Summary!B1", "with": "Data!D8"},
        {"cell": "Summary!B1", "source": "erp.csv", "column": "Difference"},
        {"cell": "Summary!B1", "source": "erp.json", "column": "Difference"},
        {"cell": "Summary!B1", "source": "model.xlsx", "column": "Difference"},
    ],
    "mutate": [
        {"set": "Assumptions!B2", "to": 0.5, "moves": ["Summary!B2"], "stays": ["Summary!B1"]},
        {"set": "Data!B2", "to": 100, "moves": ["Summary!B1:B2"]},
    ],
    "like": "model.xlsx",
}
GOOD = ("good", "condition", "indexed", "theme", "shared", "hidden")
WRONG = {
    "stale": ("fresh", "Data!D3: expected the saved value 10, the result of `=B3-C3`, found 0"),
    "division": ("errors", "Summary!B6: expected a value, found #DIV/0! from `=1/0`"),
    "hidden_error": (
        "errors",
        "Summary!B6: expected a value, found #DIV/0! from `=1/(Data!B2-10)`, after recalculation",
    ),
    "unknown": ("errors", "Summary!B6: expected a value, found #NAME? from `=NOSUCH(1)`, after recalculation"),
    "circle": ("circular", "Summary!B6"),
    "caught_circle": ("circular", "Summary!B6: expected a formula that does not depend on its own cell"),
    "typed": ("families", "Data!D5: expected a formula like that of D4 (`=B4-C4`), found the typed number 0"),
    "unlike": ("families", "Data!D5: expected a formula like that of D4 (`=B4-C4`), found `=B5-C6`"),
    "elsewhere": ("wrong-sheet", "Summary!D4: expected a formula like that of C4"),
    "unused": ("unused", "Assumptions!B3: expected an input that a formula reads, found 0.03"),
    "texts": ("text-numbers", "Data!B4: expected a number, found the text '7'"),
    "heads": ("columns", "Data!1:1"),
    "short": ("rows", "Data: expected 6 rows, found 7"),
    "pale": ("colours", "Data!3:3: expected a red row, because Difference is 10, found 0 of 4"),
    "blue": ("colours", "Data!3:3"),
    "other_condition": ("colours", "Data!2:2: expected a row that is not red, because Difference is 0, found 4 of 4"),
    "half": (
        "total",
        "Data!D8: expected a formula that reads all rows of Difference and gives 9, found 10 by `=SUM(D2:D6)`",
    ),
    "dead": ("mutation", "Summary!B2: expected a different value when Assumptions!B2 is set to 0.5, found 10.8, unch"),
    "hidden_row": ("shown", "Data: expected no hidden rows, found 1"),
    "flat_row": ("shown", "Data: expected no hidden rows, found 1"),
    "hidden_column": ("shown", "Data: expected no hidden columns, found 1"),
    "hidden_sheet": ("shown", "Data: expected no hidden sheet, found a hidden sheet"),
    "chance": ("mutation", "Summary!B2 gives a different result at each calculation"),
    "beside": ("opens", "a main part of the workbook is not at its standard location"),
    "no_chart": ("kept", "Summary: expected charts as in model.xlsx: 1, found 0"),
    "ghost_chart": ("kept", "Summary: expected charts as in model.xlsx: 1, found 0"),
    "uncalculated": ("calculated", "Data!D2: expected a value saved with the formula, found no value"),
    "no_validation": ("kept", "Assumptions: expected data validations as in model.xlsx: 1, found 0"),
    "no_name": ("kept", "the defined name Tax of model.xlsx"),
    "no_sheet": ("sheets", "expected a sheet Summary, found the sheets 'Data', 'Assumptions'"),
    "truncated": ("opens", "the file cannot be opened as a workbook: BadZipFile"),
}


@pytest.fixture(scope="module")
async def desk(home: Path) -> AsyncIterator[Desk]:
    spec = Spec(image="office", sterile=True)
    async with Host(settings_in(home / "xlsx"), control=False) as host, host.open_desk(spec) as desk:
        await desk.write("workbooks.py", SOURCE.read_bytes())
        done = await desk.run(["python3", "-I", "-B", "workbooks.py"], timeout=60)
        assert done.ok, done.stderr.decode()
        yield desk


async def looked(desk: Desk, name: str, expect: dict[str, Any]) -> tuple[Evidence, Verdict]:
    check = find("xlsx", expect)
    evidence = await check.gather(desk, f"{name}.xlsx")
    return evidence, check.judge(evidence)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", GOOD)
async def test_a_workbook_that_works_passes(desk: Desk, name: str) -> None:
    _, verdict = await looked(desk, name, EXPECT)
    assert verdict.faults == ()
    assert verdict.values["formulas"] == 15
    assert verdict.values["hidden sheets"] == ("Assumptions" if name == "hidden" else "")
    assert verdict.values["Summary!B2 when Assumptions!B2 is 0.5"] == pytest.approx(2.7)
    assert verdict.tools["LibreOffice"].startswith("2")
    assert len(verdict.pages) == 3
    assert all(len(set(page.rgb)) > 10 for page in verdict.pages), "a page is blank"


@pytest.mark.sample(12)
@pytest.mark.parametrize(("name", "rule", "why"), [(name, *told) for name, told in WRONG.items()], ids=[*WRONG])
async def test_a_workbook_that_is_wrong_in_one_way_fails_for_it(desk: Desk, name: str, rule: str, why: str) -> None:
    _, verdict = await looked(desk, name, EXPECT)
    assert not verdict.passed
    assert [fault for fault in verdict.faults if fault.rule == rule and why in str(fault)], verdict.faults


@pytest.mark.parametrize(
    ("source", "why"),
    [("wrong.csv", "10, the sum of Difference of wrong.csv over 1 rows"), ("none.csv", "cannot be read")],
)
async def test_a_number_that_differs_from_its_source_fails(desk: Desk, source: str, why: str) -> None:
    expect = {"reconcile": [{"cell": "Summary!B1", "source": source, "column": "Difference"}]}
    _, verdict = await looked(desk, "good", expect)
    assert why in str(verdict.faults)


async def test_verifying_does_not_change_a_file_and_is_repeatable(desk: Desk) -> None:
    before = hashlib.sha256(await desk.read("good.xlsx")).digest()
    one, _ = await looked(desk, "good", EXPECT)
    other, _ = await looked(desk, "good", EXPECT)
    assert json.loads(one.report) == json.loads(other.report)
    assert hashlib.sha256(await desk.read("good.xlsx")).digest() == before


async def test_an_office_that_died_is_started_again_for_the_next_file(desk: Desk) -> None:
    await looked(desk, "good", {})
    await desk.run(["sh", "-c", "kill -9 $(cat .checks/office/pid)"])
    assert (await looked(desk, "good", {}))[1].passed


@pytest.mark.long
async def test_an_office_left_in_the_middle_of_a_file_is_not_used_again(desk: Desk) -> None:
    await looked(desk, "good", {})
    first = await desk.read(".checks/office/pid")
    await desk.write(".checks/office/busy", b"")
    assert (await looked(desk, "good", {}))[1].passed
    assert await desk.read(".checks/office/pid") != first


@pytest.mark.long
async def test_a_check_that_timed_out_leaves_a_working_office_to_the_next(desk: Desk) -> None:
    await looked(desk, "good", {})
    check = XlsxCheck.from_expect({})
    for seconds in (0.1, 0.2, 0.3):
        await look(desk, "xlsx_look", check.request("good.xlsx"), seconds=seconds, needs=NEEDS, stays=STAYS)
    with anyio.fail_after(60):
        assert (await looked(desk, "good", {}))[1].passed
    found = await desk.run(["sh", "-c", "grep -lsa xlsx[_]look /proc/[0-9]*/cmdline | wc -l"])
    assert found.text.strip() == "1", "more than the one that stays is left"
