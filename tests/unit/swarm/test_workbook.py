"""Tests of strictly parsing what a desk reports about a workbook."""

from __future__ import annotations

import json

import pytest

from hotdesk.errors import BriefError
from hotdesk.swarm.items import MAX_ITEMS
from hotdesk.swarm.workbook import parse_rows


def say(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_rows_are_read_by_their_headings_and_short_ones_are_filled_up() -> None:
    rows = parse_rows(say(rows=[["number", "name"], ["1", "first"], ["2"]]), "rows.xlsx")
    assert rows == [{"number": "1", "name": "first"}, {"number": "2", "name": ""}]


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (b"", "cannot be read"),
        (b"[1", "cannot be read"),
        (say(rows=[["a"], [1]]), "cannot be read"),
        (say(rows={"a": "b"}), "cannot be read"),
        (say(rows=[["a"]], more=1), "cannot be read"),
        (say(rows=[["a"]] * (MAX_ITEMS + 2)), "cannot be read"),
        (say(unreadable="BadZipFile: \x1b[31m"), r"BadZipFile: \\x1b"),
        (say(rows=[]), "it is empty"),
        (say(rows=[["a", "a"], ["1", "2"]]), "two columns with the same heading"),
        (say(rows=[["a", ""], ["1", "2"]]), "without a heading"),
        (
            say(rows=[["a"], ["1", "2"]]),
            r"row 2 of rows.xlsx \(.*\) has more cells \(2\) than row 1 has headings \(1\)",
        ),
    ],
)
def test_an_invalid_table_is_refused(report: bytes, why: str) -> None:
    with pytest.raises(BriefError, match=why):
        parse_rows(report, "rows.xlsx")
