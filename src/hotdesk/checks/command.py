"""The check that runs a command of the brief on the file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, ClassVar

from hotdesk.checks import execution
from hotdesk.checks.evidence import make_unreadable_verdict
from hotdesk.checks.execution import Ending
from hotdesk.checks.expectations import ImageName, Places, Seconds, SomeTexts, Texts, read_expectations
from hotdesk.checks.seam import Evidence, Verdict
from hotdesk.checks.sentences import show
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.strict import Alias

EXAMPLE = '{run = ["python3", "-m", "json.tool", "{file}"], contains = ["total"]}'
LOOKED_FOR = ("starts", "ends", "exit", "output")
FILE = "{file}"
"""Placeholder for the file's path in a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCheck(Ending):
    """A command and its expected result."""

    alone: ClassVar[bool] = True
    argv: Annotated[SomeTexts, Alias("run")]
    stdin: str = ""
    seconds: Seconds = execution.RUN_TIMEOUT_S
    beside: Places = ()
    image: ImageName = "base"
    stated: Annotated[Texts, Alias("requirements")] = ()
    """The brief's own description of the check, for the author of the file."""

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> CommandCheck:
        return read_expectations(cls, "command", expect, EXAMPLE)

    @property
    def not_checked(self) -> tuple[str, ...]:
        return ("anything that the command does not examine",)

    @property
    def requirements(self) -> tuple[str, ...]:
        what = f"The command `{show(shlex.join(self.argv))}` ({FILE} stands for the path of the file)"
        ending = self.describe_ending(what, self.seconds)
        return (*map(show, self.stated), *ending, *execution.describe_inputs(self.beside))

    async def gather(self, desk: Desk, path: str) -> Evidence:
        """Run the command, and record whether the file exists and is not empty."""
        there = await desk.run(["test", "-s", path], timeout=10)
        argv = [each.replace(FILE, path) for each in self.argv]
        done = await execution.run(desk, argv, stdin=self.stdin, seconds=self.seconds)
        return execution.to_evidence({"command": done}, there=there.ok)

    def judge(self, evidence: Evidence) -> Verdict:
        try:
            found, more = execution.read_runs(evidence, ["command"])
            if more.get("there") is not True:
                raise ValueError("the file is missing or empty")
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(LOOKED_FOR, "a file for the command to examine", e, "Write the file.")
        run = found["command"]
        return Verdict(LOOKED_FOR, tuple(self.find_faults(run)), (f"exit code {run.exit_code}",), run.values)
