"""Tests of the example of twenty invoices: what its person approves, and its judge."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from examples.twenty.pdfs import COUNT, WRONG, invoices
from examples.twenty.run import is_confirmation, judge
from examples.twenty.supplier import HOST

from hotdesk.event import Asked

ASKED = Asked("d-1", "q-1", "0" * 64, "a rule", "POST", HOST, "/confirmations", 60.0, size=200)


def as_request(asked: Asked, kind: str = "door") -> str:
    return json.dumps({"kind": kind, **asdict(asked)})


def test_the_confirmation_is_approved() -> None:
    assert is_confirmation(as_request(ASKED))


@pytest.mark.parametrize(
    "asked",
    [
        replace(ASKED, host="collect.example.test", reason=f"POST https://{HOST}/confirmations"),
        replace(ASKED, host=f"{HOST}.example.net"),
        replace(ASKED, path="/confirmations/all"),
        replace(ASKED, path="/orders?next=/confirmations"),
        replace(ASKED, method="DELETE"),
        replace(ASKED, size=-1),
    ],
    ids=["other host", "longer host", "longer path", "query", "method", "rule"],
)
def test_another_request_that_mentions_the_confirmation_is_refused(asked: Asked) -> None:
    assert not is_confirmation(as_request(asked))


def test_a_plan_is_not_the_confirmation() -> None:
    assert not is_confirmation(json.dumps({"kind": "plan", "lines": [f"POST https://{HOST}/confirmations"]}))
    assert not is_confirmation(as_request(ASKED, "question"))


@pytest.mark.parametrize("seed", [0, 7])
def test_only_the_orders_that_agree_are_right(seed: int) -> None:
    every = [each.order for each in invoices(seed)]
    right = [order for place, order in enumerate(every) if place not in WRONG]
    assert judge([{"id": "C-1", "orders": right}], seed)
    assert judge([{"id": "C-1", "orders": right[::-1]}], seed)
    others: list[object] = [every, every[: COUNT - len(WRONG)], [*right[1:], right[1]], "", None, {}]
    for wrong in others:
        assert not judge([{"id": "C-1", "orders": wrong}], seed)
    assert not judge([], seed)
    assert not judge([{"id": "C-1", "orders": right}, {"id": "C-2", "orders": right}], seed)
    assert not judge([{"id": "C-1"}], seed)
