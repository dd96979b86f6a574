"""Tests of how a verdict tells a malformed inspection report from a file that cannot be read."""

from __future__ import annotations

import json

import pytest

from hotdesk.checks import csv
from hotdesk.checks.evidence import make_unreadable_verdict
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.pages.document import read_report
from hotdesk.checks.seam import Evidence, Verdict


def get_found(verdict: Verdict) -> str:
    return verdict.faults[0].found


def test_a_malformed_report_is_no_fault_of_the_file() -> None:
    verdict = make_unreadable_verdict((), "a table", MalformedReportError("invalid rows"), "Write a table.")
    assert get_found(verdict) == "an invalid one (invalid rows)"
    assert verdict.faults[0].remedy == "Deliver the file again."


def test_a_problem_is_one_of_the_file_whatever_its_text_quotes() -> None:
    """A file can choose what the error about it quotes, such as a name inside it."""
    error = ValueError("the member 'malformed inspection report: x' is encrypted")
    verdict = make_unreadable_verdict((), "an archive", error, "Write an archive.")
    assert get_found(verdict).startswith("a problem: the member")
    assert verdict.faults[0].remedy == "Write an archive."


def test_what_an_inspection_program_reports_about_a_file_is_its_fault() -> None:
    report = json.dumps({"unreadable": "malformed inspection report: x"}).encode()
    verdict = csv.CsvCheck().judge(Evidence(report))
    assert get_found(verdict).startswith("a problem: ")


def test_an_invalid_part_of_a_document_is_a_malformed_report() -> None:
    with pytest.raises(MalformedReportError) as refused:
        read_report(b'{"count": -1}', "PDF")
    assert refused.value.why == "no count of pages"
