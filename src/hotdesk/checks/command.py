"""Does a command that the brief names succeed beside the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from hotdesk.checks import execution
from hotdesk.checks.evidence import unreadable
from hotdesk.checks.execution import Ending
from hotdesk.checks.expectations import Expect
from hotdesk.checks.seam import Evidence, Verdict
from hotdesk.desk.seam import Desk

KEYS = (*Ending.KEYS, "run", "stdin", "seconds", "beside", "image")
EXAMPLE = '{run = ["python3", "-m", "json.tool", "{file}"], contains = ["total"]}'
LOOKED_FOR = ("starts", "ends", "exit", "output")
FILE = "{file}"
"""What stands for the file in a command."""


@dataclass(frozen=True, slots=True)
class CommandCheck:
    """A command, and how it shall end."""

    alone: ClassVar[bool] = True
    argv: tuple[str, ...]
    ending: Ending
    stdin: str
    seconds: float
    beside: tuple[str, ...]
    image: str

    @classmethod
    def expecting(cls, expect: Mapping[str, object]) -> CommandCheck:
        """Read what a brief expects."""
        told = Expect("command", expect, KEYS, EXAMPLE)
        argv, seconds = told.texts("run", needed=True), told.number("seconds", execution.SECONDS, 0.1, 600)
        return cls(argv, Ending.read(told), told.text("stdin"), seconds, told.places("beside"), told.image())

    @property
    def not_checked(self) -> tuple[str, ...]:
        """Say what nobody looked at."""
        return ("anything that the command does not look at",)

    async def gather(self, desk: Desk, path: str) -> Evidence:
        """Run the command; one beside a file that is not there looks at nothing."""
        there = await desk.run(["test", "-s", path], timeout=10)
        argv = [each.replace(FILE, path) for each in self.argv]
        done = await execution.run(desk, argv, stdin=self.stdin, seconds=self.seconds)
        return execution.told({"command": done}, there=there.ok)

    def judge(self, evidence: Evidence) -> Verdict:
        """Judge how it ended."""
        try:
            found, more = execution.read_runs(evidence, ["command"])
            if more.get("there") is not True:
                raise ValueError("there is no file, or an empty one")
        except (ValueError, RecursionError) as e:
            return unreadable(LOOKED_FOR, "a file that a command can be run beside", e)
        run = found["command"]
        return Verdict(LOOKED_FOR, tuple(self.ending.faults(run)), (f"exit code {run.exit_code}",), run.values)
