"""Tests of every kind of check: its requirements, and missing, broken and hostile files."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotdesk.checks import CHECKS, find
from hotdesk.checks.patch import STEPS
from hotdesk.checks.seam import Check, DrawnPixels, Evidence
from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.local.runtime import local_runtime

SAMPLES: dict[str, dict[str, object]] = {
    "docx": {},
    "pdf": {},
    "pptx": {},
    "active-content": {},
    "command": {"run": ["python3", "-m", "json.tool", "{file}"]},
    "csv": {},
    "custom": {"file": "check.py"},
    "json": {},
    "patch": {"repository": "repo", "tests": ["false"]},
    "png": {},
    "program": {},
    "quotes": {"source": "contract.pdf"},
    "zip": {},
    "sheet": {"columns": ["A"], "rows": 0},
    "xlsx": {"columns": ["A"], "rows": 0},
}
"""An example of the requirements of each check."""
RUN = {"exit_code": 0, "stdout": "{}", "stderr": "", "trouble": ""}
LEAF = {"size": [4, 4], "lines": [[[0, 0, 4, 4], "x", ""]], "pictures": [{"box": [0, 0, 2, 2], "problem": "",
        "plain": False, "own": True}], "links": [[[0, 0, 4, 4], "https://a.example"]], "unmapped": 0,
        "fonts": [["Inter", True]]}  # fmt: skip
SERIES = {"name": "x", "shown": [1.0, None], "book": [1.0, None]}
FRAME = {"page": 0, "kind": "text", "name": "x", "box": [0, 0, 4, 4], "text": "x", "grows": False, "empty": False}
LAID = {"count": 1, "pages": [LEAF], "title": "x", "tools": {"PDFium": "1"}, "fonts": [["Inter", "Inter"]], "media": [],
        "charts": [{"name": "x", "where": "page 1", "problem": "", "series": [SERIES]}],
        "frames": [FRAME]}  # fmt: skip
CELLS = [[1, 1, "t", "A", "", ""], [1, 2, "n", 1.0, "1+A3", "FF0000", "n", 1.0], [1, 3, "n", 1.0, "@A2", "", "n", 1.0]]
SHEET = {"name": "x", "hidden": False, "cells": CELLS, "hidden_rows": 0, "charts": 0, "pivots": 0, "validations": 0,
         "formats": 0}  # fmt: skip
BOOK = {"sheets": [SHEET], "names": [["n", "x!A1"]], "tables": [["T", "x", "A1:A2"]], "broken": [], "sums": [],
        "mutations": [], "like": None, "tools": {"LibreOffice": "1", "Python": "3"}}  # fmt: skip
CELL = {"at": "A1", "value": "A", "formula": "", "fill": "", "error": False}
TOLD: dict[str, dict[str, Any]] = {
    "docx": {**LAID, "area": [0, 0, 4, 4], "loose": [[[[0, 0, 4, 4], "x", ""]]]},
    "pdf": LAID,
    "pptx": LAID,
    "active-content": {"kind": "text", "bytes": 1, "parts": 1, "count": 0, "found": [], "tools": {"Python": "3"}},
    "command": {"runs": {"command": RUN}, "there": True},
    "csv": {"rows": [["A", "B"], ["1", "=2"]], "source": []},
    "custom": {"runs": {"check": {**RUN, "stdout": '{"faults": [], "held": ["x"], "values": {"a": 1}}'}}},
    "json": {"document": {"a": [1, "x", None]}},
    "patch": {"runs": {name: {**RUN, "stdout": ""} for name in STEPS}},
    "png": {"width": 4, "height": 4, "format": "PNG"},
    "program": {"runs": {"program": RUN}, "made": {}},
    "quotes": {"pages": 1, "quotes": [["claim 1", 1, 30, True]]},
    "zip": {"members": [["a", 1, True, "file"], ["b/c", 2, True, "file"]]},
    "sheet": {"sheets": [{"name": "x", "cells": [CELL, {**CELL, "at": "A2", "value": 1.0, "formula": "SUM(A3:A4)"}],
                          "hidden": False, "hidden_rows": 0, "hidden_columns": 0}], "tools": {"Python": "3"}},
    "xlsx": BOOK,
}  # fmt: skip
"""An example of the evidence a desk reports to each check, which it can read."""
STRANGE: tuple[object, ...] = (
    None,
    True,
    -1,
    10**400,
    1.7e308,
    float("nan"),
    "",
    "\ud800",
    "\x1b[0m",
    "9" * 600,
    [],
    {},
)
"""Values that have broken parsers before."""
ANYTHING = st.sampled_from(STRANGE) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PAGE = DrawnPixels(4, 4, b"\xff\0\0" * 8 + b"\xff\xff\xff" * 8)


@pytest.fixture(params=CHECKS)
def check(request: pytest.FixtureRequest) -> Check:
    return find(request.param, SAMPLES[request.param])


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """Open a desk without a wall: the files checked here are harmless."""
    async with local_runtime() as runtime:
        desk = await runtime.open(Spec())
        yield desk
        await runtime.burn(desk.id)


def test_requirements_are_complete_sentences(check: Check) -> None:
    assert check.requirements
    for sentence in check.requirements:
        assert sentence.isprintable(), sentence
        assert sentence[0].isupper() or sentence[0] == "`", sentence
        assert sentence.endswith("."), sentence
        assert len(sentence) <= 600, sentence
    assert len(set(check.requirements)) == len(check.requirements)


@pytest.mark.sample(30)
@pytest.mark.parametrize("data", [None, b"", b"\0\xff" * 1000, b"PK\x03\x04" + b"x" * 100])
async def test_a_file_that_is_missing_or_broken_fails_and_is_no_error(
    check: Check, desk: Desk, data: bytes | None
) -> None:
    if data is not None:
        await desk.write("deliverable", data)
    verdict = check.judge(await check.gather(desk, "deliverable"))
    assert not verdict.passed
    assert verdict.findings


@pytest.mark.parametrize(
    "evidence",
    [b"", b"{}", b"null", b"[" * 100_000, b'"' * 9, b"\xff\xfe", b"9" * 5000, b'{"a":' * 5000, b" " * (16 << 20)],
    ids=range(9),
)
def test_evidence_a_hostile_desk_made_up_fails_and_is_no_error(check: Check, evidence: bytes) -> None:
    verdict = check.judge(Evidence(evidence))
    assert not verdict.passed
    assert all(finding.isprintable() and len(finding) <= 1000 for finding in verdict.findings)
    assert check.judge(Evidence(evidence)) == verdict


def places(told: object) -> list[tuple[Any, Any]]:
    """Return every place in the evidence where a value is: its container, and its key."""
    keys = told if isinstance(told, dict) else range(len(told)) if isinstance(told, list) else ()
    return [place for key in keys for place in ((told, key), *places(told[key]))]  # type: ignore[index]


@pytest.mark.parametrize("name", CHECKS)
def test_every_possible_report_can_be_read(name: str) -> None:
    verdict = find(name, SAMPLES[name]).judge(Evidence(json.dumps(TOLD[name]).encode(), (PAGE,)))
    assert "opens" not in {fault.rule for fault in verdict.faults}, verdict.findings


def see(check: Check, told: object, pages: tuple[DrawnPixels, ...]) -> None:
    verdict = check.judge(Evidence(json.dumps(told).encode(), pages))
    assert verdict.looked_for
    assert all(finding.isprintable() and len(finding) <= 1100 for finding in verdict.findings)
    json.dumps(dict(verdict.values), allow_nan=False)


@pytest.mark.parametrize("name", CHECKS)
def test_evidence_with_one_malformed_place_is_judged_without_an_error(name: str) -> None:
    check, told = find(name, SAMPLES[name]), copy.deepcopy(TOLD[name])
    for holder, key in places(told):
        was = holder[key]
        for holder[key] in STRANGE:
            see(check, told, (PAGE,))
        holder[key] = was


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_evidence_with_anything_in_any_place_is_judged_and_is_no_error(
    request: pytest.FixtureRequest, check: Check, data: st.DataObject
) -> None:
    told = copy.deepcopy(TOLD[request.node.callspec.params["check"]])
    for _ in range(data.draw(st.integers(1, 2))):
        holder, key = data.draw(st.sampled_from(places(told)))
        holder[key] = data.draw(ANYTHING)
    see(check, told, data.draw(st.sampled_from([(), (PAGE,), (PAGE, PAGE)])))
