"""Tests of the requests that an interrupted step may have sent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from hotdesk.drive.journal import FILE, Journal
from hotdesk.drive.signing import load_signer
from hotdesk.event import Event, Exchange, RequestAdmitted
from hotdesk.job.record.possible_writes import list_writes

PLACE = ("https", "erp.test", 443, "/orders")
POST, GET = "POST https://erp.test/orders", "GET https://erp.test/orders"


def admitted(method: str = "POST", body: int = 5, step: str = "book") -> RequestAdmitted:
    return RequestAdmitted("i1", step, "erp.test", method, *PLACE, body)


def ended(
    method: str = "POST",
    up: int = 100,
    body: int = 5,
    status: int = 200,
    verdict: Literal["allow", "deny", "ask"] = "allow",
) -> Exchange:
    return Exchange("i1", "book", verdict, "erp.test", method, *PLACE, status, up, 10, 1, body=body)


@pytest.mark.parametrize(
    ("events", "writes"),
    [
        ([ended()], [POST]),
        ([ended("GET", body=0)], []),
        ([ended("GET", body=9)], [GET]),
        ([ended("GET", body=0, status=101)], [GET]),
        ([ended(up=0, status=503)], []),
        ([admitted()], [POST]),
        ([admitted("GET", 0)], []),
        ([admitted("GET", -1)], [GET]),
        ([admitted(step="other")], []),
        ([admitted(), ended()], [POST]),
        ([admitted(), ended(up=0, status=503)], []),
        ([admitted(), admitted(), ended(up=0, status=503)], [POST]),
        ([ended(up=0, status=429), admitted()], [POST]),
        ([admitted(), ended(up=0, status=429)], [POST]),
        ([admitted(), ended(up=0, status=403, verdict="deny")], [POST]),
        ([admitted(), ended(up=0, status=403, verdict="ask")], [POST]),
        ([ended(up=0, status=503), admitted()], [POST]),
        ([ended(), admitted()], [POST, POST]),
        ([admitted(), ended(status=429)], [POST]),
        ([admitted(), ended(verdict="ask")], [POST]),
    ],
)
def test_a_request_that_was_recorded_before_it_was_sent_counts_unless_its_outcome_says_otherwise(
    tmp_path: Path, events: Sequence[Event], writes: list[str]
) -> None:
    (folder := tmp_path / "keys").mkdir(mode=0o700)
    journal = Journal(folder / FILE, load_signer(folder))
    for event in events:
        journal.add("i1", "node", event, 2000)
    journal.commit()
    journal.close()
    assert list_writes(folder / FILE, ["i1"], "book", 1000) == writes
    assert list_writes(folder / FILE, ["i1"], "book", 3000) == []
