"""Tests of the check that runs a command beside the file."""

from __future__ import annotations

import pytest

from hotdesk.checks import execution, find
from hotdesk.checks.command import CommandCheck
from hotdesk.checks.execution import Execution
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.local.runtime import local_runtime
from hotdesk.errors import BriefError

EXPECT: dict[str, object] = {"run": ["python3", "-m", "json.tool", "{file}"], "contains": ["total"]}
CHECK = CommandCheck.from_expect(EXPECT)


@pytest.mark.slow
async def test_a_command_is_run_beside_the_file() -> None:
    async with local_runtime() as runtime:
        desk = await runtime.open(Spec())
        await desk.write("good.json", b'{"total": 1}')
        await desk.write("poor.json", b'{"sum": 1}')
        await desk.write("bad.json", b"{")
        found = {name: CHECK.judge(await CHECK.gather(desk, f"{name}.json")) for name in ("good", "poor", "bad", "no")}
        always = CommandCheck.from_expect({"run": ["true"]})
        nothing = always.judge(await always.gather(desk, "no.json"))
        await runtime.burn(desk.id)
    assert {name: verdict.passed for name, verdict in found.items()} == {
        "good": True, "poor": False, "bad": False, "no": False
    }  # fmt: skip
    assert found["poor"].faults[0].rule == "output"
    assert found["bad"].faults[0].rule == "exit"
    assert nothing.findings == (
        "expected a file for the command to examine, found a problem: the file is missing or empty. Write the file.",
    )


@pytest.mark.parametrize(
    ("run", "passes"),
    [
        (Execution(0, "a total", ""), True),
        (Execution(1, "a total", ""), False),
        (Execution(127, "total", "no such program"), False),
        (Execution(0, "a sum", ""), False),
        (Execution(0, "", "total"), False),
        (Execution(0, "a total", "", "it was not done in time"), False),
    ],
)
def test_the_exit_of_the_command_decides(run: Execution, passes: bool) -> None:
    assert CHECK.judge(execution.to_evidence({"command": run}, there=True)).passed is passes
    assert not CHECK.judge(execution.to_evidence({"command": run}, there=False)).passed
    assert not CHECK.judge(execution.to_evidence({"other": run}, there=True)).passed


@pytest.mark.parametrize("expect", [{}, {"run": []}, {"run": "true"}, {"run": [1]}, {"run": ["true"], "shell": True}])
def test_invalid_expectations_are_refused(expect: dict[str, object]) -> None:
    with pytest.raises(BriefError, match=r"command:? .*(write expect = |its options are )"):
        find("command", expect)
