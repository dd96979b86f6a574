"""The check of a program: run it, and compare its output and files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, ClassVar

from hotdesk.checks import execution
from hotdesk.checks.evidence import make_unreadable_verdict
from hotdesk.checks.execution import Ending
from hotdesk.checks.expectations import ImageName, Places, Seconds, Texts, read_expectations
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.seam import Evidence, Fault, Verdict
from hotdesk.checks.sentences import list_words, quote_words, show
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import FileError, make_printable
from hotdesk.strict import Alias

EXAMPLE = '{args = ["5"], output = "120", seconds = 10}'
LOOKED_FOR = ("starts", "ends", "exit", "output", "makes")
_MAKES = "Make the program write this file into its working folder."
_WITH: Mapping[str, tuple[str, ...]] = {".py": ("python3",), ".sh": ("sh",), ".pl": ("perl",)}
"""Interpreter of each suffix; other programs are executed directly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCheck(Ending):
    """How to run a program, and the expected result."""

    alone: ClassVar[bool] = True
    args: Texts = ()
    stdin: str = ""
    seconds: Seconds = execution.RUN_TIMEOUT_S
    makes: Places = ()
    """Files that it must write, below its working folder."""
    runs_with: Annotated[Texts, Alias("with")] = ()
    beside: Places = ()
    image: ImageName = "base"

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> ProgramCheck:
        return read_expectations(cls, "program", expect, EXAMPLE)

    @property
    def not_checked(self) -> tuple[str, ...]:
        return ("the behaviour of the program with other arguments and input",)

    @property
    def requirements(self) -> tuple[str, ...]:
        args = f" with the arguments {quote_words(self.args)}" if self.args else " without arguments"
        stdin = f' and the input "{show(self.stdin)}"' if self.stdin else ""
        return (
            f"The check runs it{args}{stdin}, in a clean desk without network access.",
            *execution.describe_inputs(self.beside),
            *self.describe_ending("It", self.seconds),
            *([f"It must write {list_words(self.makes)}, not empty, into its working folder."] if self.makes else []),
        )

    async def gather(self, desk: Desk, path: str) -> Evidence:
        place = f"{desk.home}/{path}"
        await desk.run(["chmod", "+x", place], timeout=10)
        argv = [*(self.runs_with or _WITH.get(PurePosixPath(path).suffix, ())), place, *self.args]
        done = await execution.run(desk, argv, stdin=self.stdin, seconds=self.seconds)
        return execution.to_evidence(
            {"program": done}, made={name: await _get_file_size(desk, name) for name in self.makes}
        )

    def judge(self, evidence: Evidence) -> Verdict:
        try:
            run, sizes = self.read(evidence)
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(LOOKED_FOR, "a program that can be run", e, "Write a program that starts.")
        faults = list(self.find_faults(run))
        faults += [
            Fault(
                "makes", make_printable(name[:200]), "a file that is not empty", "no such file, or an empty one", _MAKES
            )
            for name, size in sizes.items()
            if size < 1
        ]
        facts = [f"exit code {run.exit_code}", *(f"{name}: {size} bytes" for name, size in sizes.items())]
        if self.output is not None or self.contains:
            facts.append("the output is as expected")
        return Verdict(LOOKED_FOR, tuple(faults), tuple(map(make_printable, facts)), run.values)

    def read(self, evidence: Evidence) -> tuple[execution.Execution, dict[str, int]]:
        found, more = execution.read_runs(evidence, ["program"])
        sizes = more.get("made")
        if (
            not isinstance(sizes, dict)
            or set(sizes) != set(self.makes)
            or not all(type(each) is int for each in sizes.values())
        ):
            raise MalformedReportError("invalid list of written files")
        return found["program"], sizes


async def _get_file_size(desk: Desk, name: str) -> int:
    """Return the size of a regular file, or -1 if there is none."""
    try:
        entry = await desk.stat(name)
    except FileError:
        return -1
    return entry.size if entry.kind == "file" else -1
