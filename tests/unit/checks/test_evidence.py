"""Tests of evidence from a desk: it is bounded, whatever it announces."""

from __future__ import annotations

import json
import zlib
from collections import Counter

import pytest

from hotdesk.checks.evidence import MOST_PAGES, MOST_PIXELS, WIDEST, limit_faults, unpack
from hotdesk.checks.seam import DrawnPixels, Fault

RED = zlib.compress(b"\xff\0\0" * 6)
GREEN = zlib.compress(b"\0\xff\0" * 4)


def said(drawn: object, *pages: bytes) -> bytes:
    """Return a program's output: a line, then pixels."""
    return json.dumps({"seen": 1, "drawn": drawn}).encode() + b"\n" + b"".join(pages)


def test_pages_come_as_pixels_in_their_order() -> None:
    seen = unpack(said([[3, 2, len(RED)], [2, 2, len(GREEN)]], RED, GREEN))
    assert seen.pages == (DrawnPixels(3, 2, b"\xff\0\0" * 6), DrawnPixels(2, 2, b"\0\xff\0" * 4))
    assert json.loads(seen.report)["seen"] == 1


BLANK = zlib.compress(bytes(WIDEST * WIDEST * 3))


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(said([[3, 2, len(RED) - 8]], RED), id="cut short"),
        pytest.param(said([[3, 3, len(RED)]], RED), id="larger than it is"),
        pytest.param(said([[3, 2, len(RED)], [2, 2, len(GREEN)]], RED), id="one is missing"),
        pytest.param(said([[0, 2, 5]], RED), id="no width"),
        pytest.param(said([[WIDEST + 1, 1, 5]], RED), id="too wide"),
        pytest.param(said([[3, 2]], RED), id="no size"),
        pytest.param(said([[3.0, 2, 5]], RED), id="no whole number"),
        pytest.param(said([[1, 1, 5]] * (MOST_PAGES + 1), RED), id="too many"),
        pytest.param(said("many", RED), id="no list"),
        pytest.param(said([[3, 2, 6]], b"no zip"), id="not deflated"),
        pytest.param(said([[WIDEST, WIDEST, len(BLANK)]] * (MOST_PIXELS // WIDEST**2 + 1), BLANK), id="too much"),
        pytest.param(b"no JSON\n" + RED, id="nothing announced"),
    ],
)
def test_parts_that_differ_from_their_announcement_are_dropped(evidence: bytes) -> None:
    assert unpack(evidence).pages == ()


def test_no_more_is_inflated_than_was_announced() -> None:
    assert unpack(said([[1, 1, len(BLANK)]], BLANK)).pages == (DrawnPixels(1, 1, bytes(3)),)


def test_faults_are_limited_by_rule_so_that_none_hides_another() -> None:
    rules = [f"rule {number}" for number in range(5)]
    faults, more = limit_faults(
        (Fault(rule, f"line {line}", "a", "b") for rule in rules for line in range(1, 2001)), {"rule 0": "Do it."}
    )
    counts = Counter(fault.rule for fault in faults)
    assert counts == {"rule 0": 1000, "rule 1": 1000, "rule 2": 1000, "rule 3": 10, "rule 4": 10}
    assert len(faults) + more == 10_000
    assert {fault.remedy for fault in faults if fault.rule == "rule 0"} == {"Do it."}
    assert limit_faults([Fault("r", "", "a", "b", "Own.")], {"r": "Other."}) == ((Fault("r", "", "a", "b", "Own."),), 0)
