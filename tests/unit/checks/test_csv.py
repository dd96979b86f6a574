"""Tests of the check of CSV files: evidence from real files, and each fault the check claims to find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.checks import find
from hotdesk.checks.csv import CsvCheck
from hotdesk.checks.inside.csv_look import look
from hotdesk.checks.seam import Evidence, Verdict
from hotdesk.errors import BriefError

GOOD = "Order,Vendor,Amount\nP1,A & B,10.10\nP2,C,-20.25\nP3,C,3e1\n"
SOURCE = "Id,Total\n1,19.85\n2,\n"
EXPECT: dict[str, object] = {
    "columns": ["Order", "Vendor", "Amount"],
    "rows": 3,
    "numeric": ["Amount"],
    "unique": ["Order"],
    "source": "orders.csv",
    "sums": {"Amount": "Total"},
}


def seen(folder: Path, text: str | bytes, expect: dict[str, object] | None = None, source: str = SOURCE) -> Verdict:
    (folder / "a.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    (folder / "orders.csv").write_text(source)
    check = CsvCheck.from_expect(EXPECT if expect is None else expect)
    told = look(str(folder / "a.csv"), str(folder / "orders.csv") if check.source else "", check.delimiter)
    return check.judge(Evidence(json.dumps(told).encode()))


def test_a_correct_table_passes(tmp_path: Path) -> None:
    verdict = seen(tmp_path, GOOD)
    assert verdict.passed
    assert verdict.findings == ("3 columns, 3 rows", "Amount adds up")
    assert verdict.values == {"rows": 3, "columns": "Order, Vendor, Amount", "sum of Amount": "19.85"}
    assert CsvCheck.from_expect(EXPECT).beside == ("orders.csv",)


@pytest.mark.parametrize(
    ("old", "new", "rule", "why"),
    [
        (
            "Order,Vendor",
            "Number,Vendor",
            "columns",
            "line 1: expected the headings Order, Vendor, Amount, found 'Number'",
        ),
        ("P2,C,-20.25", "P2,C", "width", "line 3: expected 3 cells, found 2"),
        ("P3,C,3e1\n", "", "rows", "expected 3 rows, found 2"),
        ("P3,C,3e1\n", "P3,C,3e1\nP4,D,0\n", "rows", "expected 3 rows, found 4"),
        ("10.10", "ten", "numeric", "line 2, Amount: expected a number, found 'ten'"),
        ("10.10", "10,10", "width", "line 2: expected 3 cells, found 4"),
        ("10.10", "", "numeric", "line 2, Amount: expected a number, found nothing"),
        ("10.10", "nan", "numeric", "expected a number, found 'nan'"),
        ("P3", "P1", "unique", "line 4, Order: expected unique values, found 'P1', which is also in line 2"),
        ("10.10", "10.11", "sums", "Amount: expected a sum of 19.85, found 19.86"),
        ("A & B", "=1+1", "formulas", "line 2: expected no cell that a spreadsheet would calculate, found '=1+1'"),
        ("A & B", "@x", "formulas", "found '@x'"),
        ("A & B", "-x", "formulas", "found '-x'"),
        ("A & B", '"\t=1"', "formulas", r"found '\t=1'"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, old: str, new: str, rule: str, why: str) -> None:
    verdict = seen(tmp_path, GOOD.replace(old, new))
    assert rule in {fault.rule for fault in verdict.faults}
    assert why in "; ".join(verdict.findings)


@pytest.mark.parametrize("data", [b"a,b\n\xff,1\n", b"", b'a\n"open\n', b"a\0b,c\n1,2\n", b"\n\n"])
def test_an_invalid_table_is_reported_as_such(tmp_path: Path, data: bytes) -> None:
    verdict = seen(tmp_path, data, {})
    assert [fault.rule for fault in verdict.faults] == ["opens"]


@pytest.mark.parametrize(
    ("expect", "text", "passes"),
    [
        ({"rows": {"min": 2}}, "a\n1\n2\n", True),
        ({"rows": {"min": 3}}, "a\n1\n2\n", False),
        ({"rows": {"max": 1}}, "a\n1\n2\n", False),
        ({"delimiter": ";", "columns": ["a", "b"]}, "a;b\n1;2\n", True),
        ({"columns": ["a", "b"]}, "a;b\n1;2\n", False),
        ({"sums": {"a": 3}}, "a\n1\n2\n", True),
        ({"sums": {"a": 4}}, "a\n1\n2\n", False),
        ({"sums": {"a": 3}}, "b\n1\n2\n", False),
        ({"formulas": True}, "a\n=1\n", True),
        ({}, "a,a\n1,2\n", False),
        ({}, "\ufeffa,b\n1,2\n", True),
        ({"sums": {"a": "none"}, "source": "orders.csv"}, "a\n1\n", False),
        ({"sums": {"a": "Id"}, "source": "orders.csv"}, "a\n3\n", True),
    ],
)
def test_only_what_the_brief_expects_is_judged(
    tmp_path: Path, expect: dict[str, object], text: str, passes: bool
) -> None:
    assert seen(tmp_path, text, expect).passed is passes


@pytest.mark.parametrize(
    "expect",
    [
        {"rows": -1}, {"rows": True}, {"rows": {"least": 1}}, {"rows": {"min": 3, "max": 2}}, {"columns": "a"},
        {"sums": {"a": "b"}}, {"sums": {"a": True}}, {"source": "../x"}, {"source": "/x"}, {"delimiter": ""},
        {"numeric": ["b"], "columns": ["a"]}, {"formulas": 1}, {"color": 1},
    ],
)  # fmt: skip
def test_invalid_expectations_are_refused(expect: dict[str, object]) -> None:
    with pytest.raises(BriefError, match=r"csv:? .*(write expect = |its options are |write one of )"):
        find("csv", expect)


TOLD = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text("a1=\x1b", max_size=5),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@settings(deadline=None)
@given(TOLD, TOLD)
def test_no_evidence_raises(rows: Any, source: Any) -> None:
    verdict = CsvCheck.from_expect(EXPECT).judge(Evidence(json.dumps({"rows": rows, "source": source}).encode()))
    assert all(finding.isprintable() and len(finding) < 1000 for finding in verdict.findings)


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_lines_end_as_in_a_spreadsheet(tmp_path: Path, mark: str) -> None:
    (tmp_path / "a.csv").write_text(f"a,b{mark}1,2{mark}3,4\n", encoding="utf-8", newline="")
    assert look(str(tmp_path / "a.csv"), "", ",")["rows"] == [["a", f"b{mark}1", f"2{mark}3", "4"]]
