"""Tests of describing a deliverable's requirements before it is made."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hotdesk.brief.brief import Deliverable, RequiredCheck
from hotdesk.checks import CHECKS, find
from hotdesk.checks.active import FAMILIES
from hotdesk.checks.active_requirements import REMEDIES
from hotdesk.checks.evidence import OFFICE_PROCESSES
from hotdesk.checks.required import describe_deliverable, list_checks, list_requirements
from hotdesk.checks.seam import count_staying
from hotdesk.errors import BriefError


def deliverable(
    path: str, check: str = "", expect: Mapping[str, object] | None = None, active: tuple[str, ...] = ()
) -> Deliverable:
    checks = (RequiredCheck(check, expect or {}),) if check else ()
    return Deliverable(path, path.rpartition(".")[2], checks, active)


def test_a_deliverable_is_its_path_its_checks_and_a_sentence_a_line() -> None:
    head, *lines = describe_deliverable(deliverable("a.csv", "csv", {"columns": ["A", "B"], "rows": 2})).splitlines()
    assert head == "a.csv (csv)"
    assert all(line.startswith("  - ") for line in lines)
    assert '  - The headings must be exactly these, in this order: "A", "B".' in lines
    assert "  - Below the headings there must be exactly 2 rows." in lines


def test_two_checks_of_a_kind_are_named_once() -> None:
    twice = Deliverable("a.csv", "csv", (RequiredCheck("csv", {"rows": 2}), RequiredCheck("csv", {"columns": ["A"]})))
    assert describe_deliverable(twice).splitlines()[0] == "a.csv (csv)"


def test_a_deliverable_without_checks_has_no_requirements() -> None:
    assert describe_deliverable(deliverable("note.txt")) == "note.txt (no check)"


def test_a_workbook_without_expectations_must_still_be_calculated() -> None:
    required = list_requirements(deliverable("a.xlsx", "xlsx"))
    assert required[0].startswith("Every formula must be saved with its calculated value.")


@pytest.mark.parametrize(
    ("path", "check", "has", "lacks"),
    [
        ("a.xlsx", "xlsx", "macros", "JavaScript"),
        ("a.pdf", "pdf", "JavaScript", "macros"),
        ("a.html", "custom", "scripts", "macros"),
        ("a.png", "png", "PNG", "code"),
        ("a.csv", "csv", "start with =", "macros"),
        ("a.txt", "custom", "bidirectional", "LibreOffice"),
    ],
)
def test_implicit_requirements_are_stated_only_for_their_file_type(path: str, check: str, has: str, lacks: str) -> None:
    expect: dict[str, object] = {"file": "c.py"} if check == "custom" else {}
    text = "\n".join(list_requirements(deliverable(path, check, expect)))
    assert has in text
    assert lacks not in text


def test_allowed_active_content_is_not_forbidden() -> None:
    text = "\n".join(list_requirements(deliverable("a.xlsx", "xlsx", active=("macros", "external-links"))))
    assert "macros" not in text
    assert "linked files" not in text
    assert "without a request to the network" not in text
    assert "DDE" in text


def test_every_kind_of_active_content_has_a_remedy() -> None:
    assert set(FAMILIES) <= set(REMEDIES)


def test_a_table_that_may_have_formulas_is_not_refused_for_them() -> None:
    item = deliverable("a.csv", "csv", {"formulas": True})
    assert list_checks(item)[0] == ("active-content", {"allow": ["formulas"], "code": False})
    assert "start with =" not in "\n".join(list_requirements(item))
    assert list_checks(deliverable("a.csv", "csv", {"formulas": False}))[0][1]["allow"] == []


@pytest.mark.parametrize("suffix", ["tar", "tgz", "tar.gz", "xz"])
def test_an_archive_that_cannot_be_inspected_is_described_as_such(suffix: str) -> None:
    told = "It must be a zip archive: archives of other formats cannot be inspected."
    assert told in list_requirements(deliverable(f"a.{suffix}", "command", {"run": ["true"]}))
    assert told not in list_requirements(deliverable("a.zip", "zip"))
    allowed = deliverable(f"a.{suffix}", "command", {"run": ["true"]}, ("unknown-format",))
    assert told not in list_requirements(allowed)


@pytest.mark.parametrize("other", ["drive:a.csv", "drive:a.csv@2"])
def test_two_inputs_of_a_check_with_one_path_are_refused(other: str) -> None:
    sums = [{"cell": "A!B2", "source": each, "column": "x"} for each in ("a.csv", other)]
    with pytest.raises(BriefError, match="the same path in the clean desk"):
        find("xlsx", {"reconcile": sums})
    assert find("xlsx", {"reconcile": [sums[0], sums[0]]}).beside == ("a.csv",)


def test_a_brief_can_describe_its_own_check() -> None:
    sentence = "Nobody works two days in a row."
    briefs: dict[str, dict[str, object]] = {"custom": {"file": "rested.py"}, "command": {"run": ["true"]}}
    for check, expect in briefs.items():
        required = list_requirements(deliverable("rota.csv", check, {**expect, "requirements": [sentence]}))
        assert required[0] == sentence


def test_every_check_is_described() -> None:
    needed: dict[str, dict[str, object]] = {
        "command": {"run": ["true"]}, "custom": {"file": "c.py"}, "patch": {"repository": "r", "tests": ["true"]},
        "quotes": {"source": "a.pdf"}, "sheet": {"columns": ["A"], "rows": 1},
    }  # fmt: skip
    for name in CHECKS:
        assert len(describe_deliverable(deliverable("a.zip", name, needed.get(name))).splitlines()) > 1


def test_only_checks_that_start_an_office_leave_processes_running() -> None:
    opened = {"allow": [], "code": False, "open": True, "draw": False}
    starting = [find("xlsx", {}), find("docx", {}), find("pptx", {}), find("active-content", opened)]
    assert [count_staying(each) for each in starting] == [OFFICE_PROCESSES] * 4
    others = [find("pdf", {}), find("png", {}), find("active-content", {}), find("program", {"image": "office"})]
    assert [count_staying(each) for each in others] == [0] * 4
