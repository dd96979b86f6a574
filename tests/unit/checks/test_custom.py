"""Tests of a brief's own check: its output is read as bounded, typed data."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.checks import execution, find
from hotdesk.checks.custom import CustomCheck
from hotdesk.checks.execution import Execution
from hotdesk.checks.seam import Verdict
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.local.runtime import local_runtime
from hotdesk.errors import BriefError

CHECK = CustomCheck.from_expect({"file": "checks/lines.py", "given": {"least": 2}})
GOOD: dict[str, Any] = {
    "faults": [],
    "held": ["3 lines"],
    "values": {"lines": 3, "fine": True, "name": "x", "none": None},
}
FAULT = {"where": "line 2", "expected": "words", "found": "none"}
PROGRAM = """
import json, sys
least = json.load(sys.stdin)["least"]
lines = open(sys.argv[1]).read().splitlines()
faults = [] if len(lines) >= least else [{"where": "", "expected": f"{least} lines", "found": str(len(lines))}]
print(json.dumps({"faults": faults, "held": ["enough lines"], "values": {"lines": len(lines)}}))
"""


def judged(said: object, run: Execution | None = None) -> Verdict:
    text = said if isinstance(said, str) else json.dumps(said)
    return CHECK.judge(execution.to_evidence({"check": run or Execution(0, text, "")}))


@pytest.mark.slow
async def test_a_check_beside_the_brief_is_run_at_the_desk() -> None:
    async with local_runtime() as runtime:
        desk = await runtime.open(Spec())
        await desk.write("beside/checks/lines.py", PROGRAM.encode())
        await desk.write("good.txt", b"a\nb\n")
        await desk.write("bad.txt", b"a\n")
        good, bad = [CHECK.judge(await CHECK.gather(desk, name)) for name in ("good.txt", "bad.txt")]
        missing = CHECK.judge(await CHECK.gather(desk, "missing.txt"))
        await runtime.burn(desk.id)
    assert good.passed
    assert good.findings == ("enough lines",)
    assert good.values == {"lines": 2}
    assert bad.findings == ("expected 2 lines, found 1",)
    assert "FileNotFoundError" in missing.findings[0]
    assert CHECK.beside == ("checks/lines.py",)


def test_a_file_fails_with_findings_and_passes_without() -> None:
    assert judged(GOOD).passed
    verdict = judged({**GOOD, "faults": [FAULT]})
    assert verdict.findings == ("line 2: expected words, found none",)


def test_whole_numbers_are_certified_exactly() -> None:
    verdict = judged({**GOOD, "values": {"id": 12345678901234567, "share": 0.5}})
    assert verdict.passed
    assert [repr(value) for value in verdict.values.values()] == ["12345678901234567", "0.5"]


@pytest.mark.parametrize(
    "said",
    [
        {**GOOD, "values": {"a": 1 << 63}}, "", "passed", "{}", "null", {"passed": True},
        {**GOOD, "passed": True}, {**GOOD, "held": []},
        {**GOOD, "held": [1]}, {**GOOD, "held": "all"}, {**GOOD, "held": ["x"] * 51}, {**GOOD, "values": []},
        {**GOOD, "values": {"a": []}}, {**GOOD, "values": {"a": {}}},
        {**GOOD, "values": dict.fromkeys(map(str, range(51)))},
        {**GOOD, "faults": ["x"]}, {**GOOD, "faults": [{"where": ""}]}, {**GOOD, "faults": [{**FAULT, "where": 1}]},
        json.dumps(GOOD).replace("3,", "NaN,"), json.dumps(GOOD) + json.dumps(GOOD), "[" * 100_000,
    ],
)  # fmt: skip
def test_malformed_output_is_a_failed_check(said: object) -> None:
    verdict = judged(said)
    assert not verdict.passed
    assert verdict.findings


@pytest.mark.parametrize(
    "run", [Execution(1, json.dumps(GOOD), "x"), Execution(0, json.dumps(GOOD), "", "it was not done in time")]
)
def test_output_of_a_check_that_failed_to_run_is_ignored(run: Execution) -> None:
    assert not judged(GOOD, run).passed


@pytest.mark.parametrize(
    "expect",
    [{}, {"file": "check.sh"}, {"file": "../check.py"}, {"file": "c.py", "given": 5}, {"file": "c.py", "x": 1}],
)
def test_invalid_expectations_are_refused(expect: dict[str, object]) -> None:
    with pytest.raises(BriefError, match=r"custom:? .*(write expect = |its options are )"):
        find("custom", expect)


SAID = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text("a\x1b\u202e", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, *FAULT]), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@settings(deadline=None)
@given(SAID, SAID, SAID)
def test_no_output_raises_or_reaches_a_terminal_unescaped(faults: Any, held: Any, values: Any) -> None:
    for said in (faults, {"faults": faults, "held": held, "values": values}):
        assert all(finding.isprintable() and len(finding) < 1000 for finding in judged(said).findings)
