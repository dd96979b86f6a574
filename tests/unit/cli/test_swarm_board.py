"""Tests of the view of a swarm on a terminal and in a file."""

from __future__ import annotations

import io

from hotdesk.cli.swarm_board import SwarmBoard, format_receipt
from hotdesk.event import ItemEnded, SwarmBegun
from hotdesk.swarm.receipt import SwarmReceipt

HEX = "ab" * 32


def test_text_of_an_item_is_escaped() -> None:
    stream = io.StringIO()
    board = SwarmBoard(stream, lambda: 0.0)
    board.show(SwarmBegun("i5", 2, HEX, HEX))
    board.show(ItemEnded("i5", "c-1", 0, HEX, "quarantined", "i6", "", why="\x1b[2J gone\r"))
    board.show(ItemEnded("i5", "c-2", 1, HEX, "done", "i6", "i7"))
    assert stream.getvalue().splitlines() == [
        f"items    2, sha256 of the list of items {HEX}",
        r"quarantine c-1: \x1b[2J gone\r",
    ]
    board.tick()  # nothing to show before it has begun


def test_a_receipt_reports_what_failed_and_why() -> None:
    failures = (("check", "{item}.json failed its checks", 3), ("time", "its 60 seconds were up", 1))
    receipt = SwarmReceipt("i5", "done", "", 10, 6, 4, failures, 12.5, 1000, 0.25, 40, HEX, "i8", ("register.xlsx",))
    assert format_receipt(receipt) == [
        "swarm    i5: done",
        "items    6 of 10 passed, 4 in quarantine",
        "         3 of check: {item}.json failed its checks",
        "         1 of time: its 60 seconds were up",
        "took     12.5 s, 40 acts, 1,000 tokens, $0.25",
        f"root     {HEX}",
    ]
