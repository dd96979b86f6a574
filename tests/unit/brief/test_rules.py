"""Tests of the example that a fault of a rule gets."""

from __future__ import annotations

import pytest

from hotdesk.brief.remedy import RemedyError
from hotdesk.brief.rules import add_example, parse_rule
from hotdesk.errors import BriefError


def test_a_fault_without_a_remedy_gets_an_example_whatever_it_quotes() -> None:
    assert add_example(ValueError("'a; write b' is no host"), "X") == "'a; write b' is no host; write it like X"


def test_a_fault_with_a_remedy_gets_no_example() -> None:
    assert add_example(RemedyError("it is odd: leave it out"), "X") == "it is odd: leave it out"
    assert add_example(BriefError("it is odd: leave it out"), "X") == "it is odd: leave it out"


@pytest.mark.parametrize(
    ("text", "has_example"),
    [("GET 1.2.3", False), ("GET x.test/a/../b", False), ("GET x.test up=", False), ("GET", True), ("GET x:0/", True)],
)
def test_a_refused_rule_has_a_remedy_or_an_example(text: str, has_example: bool) -> None:
    with pytest.raises(BriefError) as refused:
        parse_rule(text)
    assert ("; write it like " in str(refused.value)) == has_example
