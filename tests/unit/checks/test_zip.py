"""Tests of the check of archives: evidence from real files, and each fault the check claims to find."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.checks import find
from hotdesk.checks.inside.zip_look import look
from hotdesk.checks.seam import Evidence, Verdict
from hotdesk.checks.zip import ZipCheck
from hotdesk.errors import BriefError

EXPECT: dict[str, object] = {
    "members": ["a.txt", "b/c.txt"], "only": True, "count": 2, "sizes": {"a.txt": {"min": 1, "max": 9}}
}  # fmt: skip


def packed(*members: tuple[str, str], link: str = "") -> bytes:
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w") as file:
        warnings.simplefilter("ignore")
        for name, text in members:
            file.writestr(name, text)
        if link:
            info = zipfile.ZipInfo(link)
            info.external_attr = 0o120777 << 16
            file.writestr(info, "/etc/passwd")
    return made.getvalue()


GOOD = packed(("a.txt", "hello"), ("b/c.txt", "x"))


def seen(folder: Path, data: bytes, expect: dict[str, object] | None = None) -> Verdict:
    (folder / "a.zip").write_bytes(data)
    told = json.dumps(look(str(folder / "a.zip"))).encode()
    return ZipCheck.from_expect(EXPECT if expect is None else expect).judge(Evidence(told))


def test_a_correct_archive_passes(tmp_path: Path) -> None:
    verdict = seen(tmp_path, GOOD)
    assert verdict.passed
    assert verdict.findings == ("2 members, 6 bytes, every checksum matches",)


@pytest.mark.parametrize(
    ("data", "rule", "why"),
    [
        (packed(("a.txt", "hello")), "members", "b/c.txt: expected a member of this name, found no such member"),
        (packed(("a.txt", "hello")), "count", "expected 2 members, found 1"),
        (packed(("a.txt", "hello"), ("b/c.txt", ""), ("d", "")), "members", "d: expected only the required members"),
        (packed(("a.txt", "hello" * 9), ("b/c.txt", "x")), "sizes", "a.txt: expected 1 to 9 bytes, found 45"),
        (GOOD.replace(b"hello", b"hallo"), "whole", "a.txt: expected bytes that match their checksum"),
        (packed(("../a.txt", "x")), "names", "../a.txt: expected a relative name"),
        (packed(("/a.txt", "x")), "names", "/a.txt: expected a relative name"),
        (packed(("..\\a.txt", "x")), "names", "expected a relative name"),
        (packed(("a.txt", "x"), ("A.txt", "y")), "names", "A.txt: expected unique names"),
        (packed(("a.txt", "x"), ("a.txt", "y")), "names", "a.txt: expected unique names"),
        (packed(link="a"), "names", "a: expected a file, found link"),
        (GOOD[:-30], "opens", "BadZipFile"),
        (packed(), "opens", "empty"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, data: bytes, rule: str, why: str) -> None:
    verdict = seen(tmp_path, data)
    assert rule in {fault.rule for fault in verdict.faults}
    assert why in "; ".join(verdict.findings)


@pytest.mark.parametrize("expect", [{"members": "a"}, {"only": 1}, {"count": -1}, {"sizes": {"a": "b"}}, {"x": 1}])
def test_invalid_expectations_are_refused(expect: dict[str, object]) -> None:
    with pytest.raises(BriefError, match=r"zip:? .*(write expect = |its options are )"):
        find("zip", expect)


ONE = st.none() | st.booleans() | st.integers() | st.floats() | st.text("a/.\x1b", max_size=5)


@settings(deadline=None)
@given(st.lists(st.lists(ONE, max_size=5) | ONE, max_size=4))
def test_no_evidence_raises(members: list[object]) -> None:
    verdict = ZipCheck.from_expect(EXPECT).judge(Evidence(json.dumps({"members": members}).encode()))
    assert not verdict.passed
    assert all(finding.isprintable() and len(finding) < 1000 for finding in verdict.findings)
