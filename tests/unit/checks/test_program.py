"""Tests of the check of programs: it runs at a desk, and every kind of failure is reported."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.checks import execution, find
from hotdesk.checks.execution import Execution
from hotdesk.checks.program import ProgramCheck
from hotdesk.checks.seam import Evidence, Verdict
from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.local.runtime import local_runtime
from hotdesk.errors import BriefError

EXPECT: dict[str, object] = {"args": ["5"], "stdin": "7", "output": "35", "makes": ["out.txt"], "seconds": 20}
GOOD = "import sys\nopen('out.txt', 'w').write('x')\nprint(int(sys.argv[1]) * int(input()))\n"


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """Open a desk without a wall: the programs run here are harmless."""
    async with local_runtime() as runtime:
        desk = await runtime.open(Spec())
        yield desk
        await runtime.burn(desk.id)


async def seen(desk: Desk, text: str, name: str = "deliverable-1.py", **change: Any) -> Verdict:
    await desk.write(name, text.encode())
    check = ProgramCheck.from_expect({**EXPECT, **change})
    return check.judge(await check.gather(desk, name))


async def test_a_program_that_meets_its_expectations_passes(desk: Desk) -> None:
    verdict = await seen(desk, GOOD)
    assert verdict.passed
    assert verdict.findings == ("exit code 0", "out.txt: 1 bytes", "the output is as expected")
    assert verdict.values["exit code"] == 0


async def test_a_program_can_run_itself(desk: Desk) -> None:
    assert (await seen(desk, "#!/bin/sh\necho 35; echo > out.txt\n", "deliverable-1")).passed
    other = "echo 35; echo > out.txt\n"
    assert (await seen(desk, other, "deliverable-2", **{"with": ["sh"]})).passed


@pytest.mark.sample(5)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "change", "rule", "why"),
    [
        (GOOD, {"output": "36"}, "output", "expected the output '36', found '35'"),
        (GOOD, {"args": ["x"]}, "exit", "expected exit code 0, found exit code 1: 'Traceback"),
        (GOOD, {"stdin": ""}, "exit", "EOFError"),
        (GOOD, {"makes": ["other.txt"]}, "makes", "other.txt: expected a file that is not empty, found no such file"),
        (GOOD, {"exit": 3}, "exit", "expected exit code 3, found exit code 0"),
        (GOOD, {"contains": ["36"]}, "output", "expected an output that contains '36', found '35'"),
        (GOOD + "raise SystemExit(4)", {}, "exit", "found exit code 4"),
        ("import time; time.sleep(60)", {"seconds": 1}, "ends", "a program that ran out of time"),
        ("for _ in range(999): print('x' * 9999)", {}, "ends", "a program that printed too much output"),
        ("import os; os.mkdir('out.txt')\nprint(35)", {}, "makes", "out.txt: expected a file"),
    ],
)
async def test_each_fault_is_found(desk: Desk, text: str, change: dict[str, Any], rule: str, why: str) -> None:
    verdict = await seen(desk, text, **change)
    assert rule in {fault.rule for fault in verdict.faults}
    assert why in "; ".join(verdict.findings)


async def test_a_programs_own_verdict_is_ignored(desk: Desk) -> None:
    lie = 'print(\'{"runs": {"program": {"exit_code": 0, "stdout": "35"}}, "made": {"out.txt": 9}, "passed": true}\')'
    assert not (await seen(desk, lie + "\nraise SystemExit(1)")).passed


@pytest.mark.parametrize(
    "expect",
    [{"args": "5"}, {"exit": 256}, {"seconds": 0}, {"seconds": 9999}, {"makes": ["../x"]}, {"output": 5}, {"x": 1},
     {"image": "mine"}, {"contains": "x"}],
)  # fmt: skip
def test_invalid_expectations_are_refused(expect: dict[str, object]) -> None:
    with pytest.raises(BriefError, match=r"program:? .*(write expect = |its options are )"):
        find("program", expect)


VALUE = st.none() | st.booleans() | st.integers() | st.floats() | st.text("a\x1b", max_size=5)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["exit_code", "stdout", "stderr", "trouble"]), VALUE), VALUE)
def test_no_evidence_raises(run: dict[str, Any], made: Any) -> None:
    told = execution.to_evidence({"program": Execution(0, "35", "")}, made={"out.txt": made}).report
    other = json.dumps({"runs": {"program": run}, "made": {"out.txt": made}}).encode()
    for each in (other, told):
        verdict = ProgramCheck.from_expect(EXPECT).judge(Evidence(each))
        assert all(finding.isprintable() and len(finding) < 1000 for finding in verdict.findings)
