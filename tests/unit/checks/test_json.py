"""Tests of the check of JSON files: evidence from real files, and each fault the check claims to find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.checks import find
from hotdesk.checks.inside.json_look import look
from hotdesk.checks.json import JsonCheck
from hotdesk.checks.seam import Evidence, Verdict
from hotdesk.errors import BriefError

GOOD: dict[str, Any] = {"total": 3.5, "state": "done", "orders": [{"id": "a", "n": 1}, {"id": "b", "n": 2}]}
EXPECT: dict[str, object] = {
    "required": ["total", "orders[].id"],
    "types": {"total": "number", "orders": "list", "orders[].id": "text", "orders[].n": "integer"},
    "lengths": {"orders": 2, "state": {"min": 1}},
    "values": {"state": "done"},
}


def seen(folder: Path, text: str, expect: dict[str, object] | None = None) -> Verdict:
    (folder / "a.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    told = json.dumps(look(str(folder / "a.json"))).encode()
    return JsonCheck.from_expect(EXPECT if expect is None else expect).judge(Evidence(told))


def test_a_correct_document_passes(tmp_path: Path) -> None:
    verdict = seen(tmp_path, json.dumps(GOOD))
    assert verdict.passed
    assert verdict.findings == ("a table; 9 requirements met",)


@pytest.mark.parametrize(
    ("change", "rule", "why"),
    [
        ({"total": None}, "types", "total: expected a number, found None"),
        ({"total": True}, "types", "total: expected a number, found True"),
        ({"orders": [{"id": "a", "n": 1}, {"n": 1}]}, "required", "orders[1].id: expected a value, found nothing"),
        ({"orders": [{"id": 5, "n": 1}, {"id": "a", "n": 1}]}, "types", "orders[0].id: expected a text, found 5"),
        ({"orders": [{"id": "a", "n": 1.5}] * 2}, "types", "orders[0-1].n (2 places): expected an integer, found 1.5"),
        ({"orders": []}, "lengths", "orders: expected a length of 2, found a list of 0"),
        ({"orders": {}}, "types", "orders: expected a list, found an object"),
        ({"state": ""}, "lengths", "state: expected a length of at least 1, found a text of 0"),
        ({"state": "open"}, "values", "state: expected 'done', found 'open'"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, change: dict[str, object], rule: str, why: str) -> None:
    verdict = seen(tmp_path, json.dumps({**GOOD, **change}))
    assert rule in {fault.rule for fault in verdict.faults}
    assert why in "; ".join(verdict.findings)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "a key appears twice: a"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": -Infinity}', "Infinity is not a JSON number"),
        ('{"a": 1e999}', "too large for a number"),
        ("{'a': 1}", "JSONDecodeError"),
        ('{"a": 1,}', "JSONDecodeError"),
        ('{"a": 1} more', "JSONDecodeError"),
        ("", "JSONDecodeError"),
        ("\ufeff{}", "JSONDecodeError"),
        ('"\udcff"', "UnicodeDecodeError"),
        ("[" * 200_000, "RecursionError"),
    ],
)
def test_text_that_only_some_parsers_accept_is_not_json(tmp_path: Path, text: str, why: str) -> None:
    verdict = seen(tmp_path, text, {})
    assert not verdict.passed
    assert why in "; ".join(verdict.findings)


def test_a_place_may_be_in_a_list_of_lists(tmp_path: Path) -> None:
    assert seen(tmp_path, "[[1], [2, 3]]", {"types": {"[][]": "integer"}}).passed
    assert not seen(tmp_path, "[[1], 2]", {"types": {"[][]": "integer"}}).passed
    assert seen(tmp_path, "true", {"types": {"": "boolean"}}).passed


@pytest.mark.parametrize(
    "expect",
    [{"types": {"a": "date"}}, {"types": []}, {"required": "a"}, {"lengths": {"a": "b"}}, {"values": 5}, {"x": 1}],
)
def test_invalid_expectations_are_refused(expect: dict[str, object]) -> None:
    with pytest.raises(BriefError, match=r"json:? .*(write expect = |its options are )"):
        find("json", expect)


TOLD = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text("a\x1b", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["orders", "total", "state", "id"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(deadline=None)
@given(TOLD)
def test_no_evidence_raises(document: Any) -> None:
    verdict = JsonCheck.from_expect(EXPECT).judge(Evidence(json.dumps({"document": document}).encode()))
    assert all(finding.isprintable() and len(finding) < 1000 for finding in verdict.findings)
