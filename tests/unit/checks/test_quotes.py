"""Tests of the check of claims about a PDF: each quote must be on its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotdesk.checks import find
from hotdesk.checks.inside.quotes_look import find_claims, look, look_up
from hotdesk.checks.quotes import QuotesCheck
from hotdesk.checks.seam import Evidence
from hotdesk.errors import BriefError

CHECK = QuotesCheck("contract.pdf", "clauses", 10)
PAGES = ["The term is 24 months from the date.", "Liability ends at EUR 50,000 in all."]


def judge(*quotes: list[object]) -> tuple[bool, list[str]]:
    verdict = CHECK.judge(Evidence(json.dumps({"pages": 2, "quotes": list(quotes)}).encode()))
    return verdict.passed, [fault.rule for fault in verdict.faults]


def test_a_quote_is_looked_up_on_its_own_page() -> None:
    claim = {"page": 1, "quote": "term  is\n24 months"}
    assert look_up(1, claim, PAGES) == ["claim 1", 1, 17, True]
    assert look_up(1, {**claim, "page": 2}, PAGES)[3] is False
    assert look_up(1, {**claim, "page": True}, PAGES) == ["claim 1", 0, 17, False]
    assert look_up(1, {"page": 3, "quote": ""}, PAGES) == ["claim 1", 3, 0, False]
    assert look_up(1, "nothing", PAGES) == ["claim 1", 0, 0, False]


def test_claims_are_read_from_where_the_brief_says() -> None:
    assert find_claims({"found": {"clauses": [1]}}, "found.clauses") == [1]
    with pytest.raises(ValueError, match="list of claims is missing"):
        find_claims({"found": 1}, "found.clauses")
    assert "unreadable" in look("/nonexistent", "/nonexistent", "clauses")


def test_a_key_that_appears_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"clauses": [], "clauses": [1]}')
    assert "twice" in str(look(str(tmp_path / "a.json"), "/nonexistent", "clauses")["unreadable"])


def test_every_claim_needs_evidence() -> None:
    assert judge(["claim 1", 1, 20, True]) == (True, [])
    assert judge(["claim 1", 1, 20, True], ["claim 2", 2, 20, False]) == (False, ["evidence"])
    assert judge(["claim 1", 1, 5, True]) == (False, ["claims"])
    assert judge(["claim 1", 0, 20, True]) == (False, ["claims"])
    assert judge() == (False, ["claims"])


@pytest.mark.parametrize(
    "report",
    [b"", b"{", b"[]", b'{"pages": 1}', b'{"pages": "x", "quotes": []}', b'{"pages": 1, "quotes": [["a", 1, 2, 1]]}',
     b'{"pages": 1, "quotes": [], "more": 1}', b'{"unreadable": "why"}',
     b'{"pages": 1, "quotes": [["a", 1e999, 2, true]]}'],
)  # fmt: skip
def test_malformed_claims_are_a_failed_check(report: bytes) -> None:
    assert not CHECK.judge(Evidence(report)).passed


def test_expectations_of_a_brief_are_read() -> None:
    assert find("quotes", {"source": "item.pdf"}) == QuotesCheck("item.pdf")
    for wrong in ({}, {"source": "../x.pdf"}, {"source": "a.pdf", "least": 0}, {"source": "a.pdf", "more": 1}):
        with pytest.raises(BriefError, match=r"(write expect = |its options are )"):
            find("quotes", wrong)
    request = CHECK.ask_look("i1/a.json", "i1/beside")
    assert request.request == {"path": "i1/a.json", "source": "i1/beside/contract.pdf", "claims": "clauses"}
