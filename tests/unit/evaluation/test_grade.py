"""Tests of reading a grader's output and laying out deliverables under their paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.errors import BriefError
from hotdesk.evaluation.grade import Grade, lay_out, read_grade


def test_a_grade_is_read() -> None:
    assert read_grade(b'{"passed": true, "faults": []}\n') == Grade(True, ())
    assert read_grade(b'{"passed": false, "faults": ["It is wrong."]}') == Grade(False, ("It is wrong.",))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (b"", "must print one JSON object"),
        (b'{"passed": true, "faults": []}\n{}', "Extra data"),
        (b'{"passed": 1, "faults": []}', "passed: expected true or false"),
        (b'{"passed": true}', "faults: it is missing"),
        (b'{"passed": true, "faults": [], "score": 3}', "unknown key 'score'"),
        (b'{"passed": true, "faults": ["x"]}', "contradicts itself"),
        (b'{"passed": false, "faults": []}', "contradicts itself"),
    ],
)
def test_an_invalid_grade_is_refused(output: bytes, message: str) -> None:
    with pytest.raises(BriefError, match=message):
        read_grade(output)


def test_deliverables_are_laid_out_under_their_paths(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("x")
    lay_out(tmp_path, {"reports/june.txt": str(source)})
    assert (tmp_path / "delivered/reports/june.txt").read_text() == "x"


@pytest.mark.parametrize("path", ["../out.txt", "/etc/out.txt", "a//b"])
def test_a_deliverable_stays_below_its_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "source").write_text("x")
    with pytest.raises(BriefError, match="not a valid drive name"):
        lay_out(tmp_path, {path: str(tmp_path / "source")})


def test_a_deliverable_is_not_copied_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "source").symlink_to("/etc/hostname")
    with pytest.raises(BriefError, match="not a regular file"):
        lay_out(tmp_path, {"a.txt": str(tmp_path / "source")})
