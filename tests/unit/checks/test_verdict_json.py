"""Tests of stored verdicts, including those of older releases."""

from __future__ import annotations

import json

from hotdesk.checks.seam import Fault, Verdict
from hotdesk.checks.verdict_json import from_json, make_stored_verdict, to_json

FAULT = Fault("rows", "Data!A2", "3 rows", "2", "Write them.")


def test_a_verdict_is_read_back_with_remedies_and_omissions() -> None:
    stored = make_stored_verdict(Verdict(("rows",), (FAULT,), more=7), "xlsx", "office", {"rows": 3}, ())
    assert from_json(to_json(stored)) == stored
    assert stored.findings == ("Data!A2: expected 3 rows, found 2. Write them.", "and 7 more faults")


def test_a_verdict_of_an_older_release_is_read() -> None:
    older = json.loads(to_json(make_stored_verdict(Verdict(("rows",), (FAULT,)), "xlsx", "office", {}, ())))
    del older["more"]
    for fault in older["faults"]:
        del fault["remedy"]
    read = from_json(json.dumps(older).encode())
    assert (read.more, read.faults[0].remedy) == (0, "")
    assert read.findings == ("Data!A2: expected 3 rows, found 2",)
    assert not read.passed


def test_a_passed_verdict_lists_what_was_confirmed() -> None:
    stored = make_stored_verdict(Verdict(("rows",), (), ("3 rows",)), "xlsx", "office", {}, ())
    assert (stored.passed, stored.findings) == (True, ("3 rows",))
