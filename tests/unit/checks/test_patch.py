"""Tests of the check of patches: tests fail before, pass after, and nothing else is touched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.checks import execution, find
from hotdesk.checks.evidence import MOST_FAULTS
from hotdesk.checks.execution import Execution
from hotdesk.checks.patch import PatchCheck, is_any
from hotdesk.checks.seam import Evidence, Verdict
from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.local.runtime import local_runtime
from hotdesk.errors import BriefError

EXPECT: dict[str, object] = {
    "repository": "repo",
    "tests": ["python3", "-m", "unittest", "-v"],
    "allowed": ["src/*"],
    "red": ["test_sum"],
}
CODE = "def add(a, b):\n    return a - b\n"
TESTS = """import unittest
from src.code import add


class Tests(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(add(1, 2), 3)

    def test_nothing(self):
        self.assertEqual(add(0, 0), 0)
"""
MENDED = """--- a/src/code.py
+++ b/src/code.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""
NEW = "--- /dev/null\n+++ b/{}\n@@ -0,0 +1 @@\n+x = 1\n"
INSTEAD = NEW.replace("x = 1", "import os; os._exit(0)")
"""A module that is loaded instead of Python's own and exits before any test has failed."""
LINK = NEW.format("src/link").replace("---", "diff --git a/src/link b/src/link\nnew file mode 120000\n---", 1)
TESTLESS = """--- a/test_code.py
+++ b/test_code.py
@@ -6,4 +6,4 @@
     def test_sum(self):
-        self.assertEqual(add(1, 2), 3)
+        self.assertEqual(add(1, 2), -1)

     def test_nothing(self):
"""


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """Open a desk without a wall, with a repository whose test fails."""
    async with local_runtime() as runtime:
        desk = await runtime.open(Spec())
        for name, text in (("src/__init__.py", ""), ("src/code.py", CODE), ("test_code.py", TESTS)):
            await desk.write(f"beside/repo/{name}", text.encode())
        yield desk
        await runtime.burn(desk.id)


async def seen(desk: Desk, patch: str, **change: object) -> Verdict:
    await desk.write("deliverable-1.patch", patch.encode())
    check = PatchCheck.from_expect({**EXPECT, **change})
    return check.judge(await check.gather(desk, "deliverable-1.patch"))


@pytest.mark.slow
async def test_a_patch_that_fixes_the_tests_passes(desk: Desk) -> None:
    verdict = await seen(desk, MENDED)
    assert verdict.faults == ()
    assert verdict.passed
    assert (verdict.values["exit code before"], verdict.values["exit code after"]) == (1, 0)
    assert verdict.values["changed"] == "M src/code.py"
    assert PatchCheck.from_expect(EXPECT).beside == ("repo",)


@pytest.mark.slow
async def test_a_failing_test_is_quoted_once_without_the_markers_of_its_traceback(desk: Desk) -> None:
    verdict = await seen(desk, MENDED.replace("a + b", "b - a"), red=["test_sum"])
    assert [line for line in verdict.findings if "~~" in line or "^^" in line] == []
    assert [line.count("AssertionError: 1 != 3") for line in verdict.findings] == [1, 0]
    assert "exit code 1" in verdict.findings[1]


@pytest.mark.sample(6)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("patch", "change", "rule", "why"),
    [
        ("no patch", {}, "applies", "expected a patch that git can apply"),
        (MENDED.replace("a - b", "a * b"), {}, "applies", "patch does not apply"),
        (MENDED.replace("a + b", "b - a"), {}, "green after", "expected tests that pass with the change"),
        (MENDED + NEW.format("other.py"), {}, "allowed", "other.py: expected changes to src/* only"),
        (
            MENDED + TESTLESS,
            {"allowed": []},
            "tests unchanged",
            "test_code.py: expected unchanged tests and test configuration",
        ),
        (
            TESTLESS,
            {"allowed": []},
            "tests unchanged",
            "test_code.py: expected unchanged tests and test configuration",
        ),
        (MENDED + NEW.format("sitecustomize.py"), {"allowed": []}, "tests unchanged", "sitecustomize.py"),
        (MENDED + NEW.format("conftest.py"), {"allowed": []}, "tests unchanged", "conftest.py"),
        (INSTEAD.format("traceback.py"), {"allowed": []}, "tests unchanged", "traceback.py"),
        (INSTEAD.format("argparse/__init__.py"), {"allowed": []}, "tests unchanged", "argparse/__init__.py"),
        (MENDED + LINK, {}, "plain files", "src/link: expected a regular file"),
        (NEW.format("../out.py"), {"allowed": []}, "applies", "invalid path"),
        (NEW.format(".git/hooks/x"), {"allowed": []}, "applies", "invalid path"),
        (MENDED, {"red": ["test_nothing"]}, "red before", "test_nothing: expected a test that fails without"),
        (MENDED, {"tests": ["true"]}, "red before", "expected tests that fail without the change, found exit code 0"),
        (MENDED, {"tests": ["no-such-program"]}, "red before", "found exit code 127"),
    ],
)
async def test_each_fault_is_found(desk: Desk, patch: str, change: dict[str, object], rule: str, why: str) -> None:
    verdict = await seen(desk, patch, **change)
    assert rule in {fault.rule for fault in verdict.faults}
    assert why in "; ".join(verdict.findings)


@pytest.mark.slow
async def test_tests_may_be_changed_where_the_brief_says_so(desk: Desk) -> None:
    assert (await seen(desk, TESTLESS, allowed=[], may_change_tests=True)).passed


@pytest.mark.parametrize(
    ("path", "patterns", "told"),
    [
        ("src/a/b.py", ["src"], True), ("src/a/b.py", ["src/*"], True), ("srcs/a.py", ["src"], False),
        ("a.py", ["*.py"], True), ("SRC/a.py", ["src/*"], False),
    ],
)  # fmt: skip
def test_a_pattern_includes_everything_below_it(path: str, patterns: list[str], told: bool) -> None:
    assert is_any(path, patterns) is told


@pytest.mark.parametrize(
    "expect",
    [{}, {"repository": "repo"}, {"tests": ["true"]}, {"repository": "../x", "tests": ["true"]}, {**EXPECT, "x": 1}],
)
def test_invalid_expectations_are_refused(expect: dict[str, object]) -> None:
    with pytest.raises(BriefError, match=r"patch:? .*(write expect = |its options are )"):
        find("patch", expect)


STEPS = ("copies", "applies", "changed", "before", "after")
RUN = st.builds(Execution, st.integers(-9, 300), st.text("a:1 M\0\x1b\n", max_size=9), st.text("a\x1b", max_size=5))


@pytest.mark.slow
@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(STEPS), RUN))
def test_no_evidence_raises(seen: dict[str, Any]) -> None:
    verdict = PatchCheck.from_expect(EXPECT).judge(Evidence(execution.to_evidence(seen).report))
    assert not verdict.passed
    assert all(finding.isprintable() and len(finding) < 1500 for finding in verdict.findings)


def test_a_patch_of_every_file_gives_a_short_message() -> None:
    listed = "".join(f":000000 100644 0 0 A\0after/tests/{each}.py\0" for each in range(5000))
    seen = {name: Execution(0, "", "") for name in ("copies", "applies", "before", "after")}
    verdict = PatchCheck("repo", ("true",)).judge(execution.to_evidence({**seen, "changed": Execution(1, listed, "")}))
    assert 0 < len(verdict.faults) <= MOST_FAULTS
