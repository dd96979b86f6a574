"""Evidence of programs run in a clean desk: exit code and output, as the host receives them.

No program of hotdesk is in between, because the tested program could impersonate it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

from hotdesk.checks.evidence import read_json, read_number, read_text
from hotdesk.checks.expectations import Texts
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.seam import Evidence, Fault, Value
from hotdesk.checks.sentences import list_words, show
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk, Done
from hotdesk.errors import make_printable
from hotdesk.strict import Alias, Range

MAX_OUTPUT_BYTES = 1 << 20
"""Maximum bytes of a program's output."""
QUOTED = 300
"""Maximum characters of an output that are shown."""
RUN_TIMEOUT_S = 60.0
REMEDIES: Mapping[str, str] = {
    "ends": "Correct the file until the program ends by itself, within its limits of time, memory and output.",
    "exit": "Run the same command yourself, and correct the cause of the failure.",
    "output": "Run the same command yourself, and correct the file until the output is as expected.",
}
_ENV = {"PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class Execution:
    """The result and output of a program."""

    exit_code: int
    stdout: str
    stderr: str
    trouble: str = ""
    """Reason why it did not end by itself, or `""`."""

    @property
    def values(self) -> Mapping[str, Value]:
        whole = hashlib.sha256(self.stdout.encode("utf-8", "backslashreplace")).hexdigest()
        return {"exit code": self.exit_code, "output": make_printable(self.stdout[:QUOTED]), "output's sha256": whole}


async def run(
    desk: Desk, argv: Sequence[str], *, stdin: str = "", cwd: str | None = None, seconds: float = RUN_TIMEOUT_S
) -> Execution:
    """Run a program in a desk, and take its result from the desk's keeper."""
    done = await desk.run(argv, stdin=stdin.encode(), env=_ENV, cwd=cwd, timeout=seconds, output_limit=MAX_OUTPUT_BYTES)
    return Execution(done.exit_code, as_text(done.stdout), as_text(done.stderr) or done.reason, describe_failure(done))


def as_text(data: bytes) -> str:
    """Decode an output; undecodable bytes are shown as escapes."""
    return data.decode("utf-8", "backslashreplace")


def describe_failure(done: Done) -> str:
    """Explain why a program did not end by itself; return `""` if it did."""
    if done.timed_out:
        return "a program that ran out of time"
    if done.truncated:
        return "a program that printed too much output"
    if done.out_of_memory:
        return "a program that ran out of memory"
    return ""


def to_evidence(runs: Mapping[str, Execution], **more: object) -> Evidence:
    """Encode results as evidence, so that a check judges nothing but evidence."""
    return Evidence(json.dumps({"runs": {name: asdict(each) for name, each in runs.items()}, **more}).encode())


def read_runs(evidence: Evidence, names: Sequence[str]) -> tuple[dict[str, Execution], dict[str, object]]:
    """Parse the evidence strictly; return the named runs, and the other values."""
    match read_json(evidence.report):
        case {"runs": dict(runs), **more} if set(runs) == set(names):
            return {str(name): _read_run(each) for name, each in runs.items()}, {str(key): more[key] for key in more}
        case _:
            raise MalformedReportError


def _read_run(each: object) -> Execution:
    match each:
        case {"exit_code": code, "stdout": str(stdout), "stderr": str(stderr), "trouble": str(trouble)}:
            return Execution(int(read_number(code)), stdout, stderr, read_text(trouble))
        case _:
            raise MalformedReportError("invalid result of a program")


@dataclass(frozen=True, slots=True)
class Ending:
    """The expected result and output of a program."""

    exit_code: Annotated[int, Alias("exit"), Range(0, 255)] = 0
    output: str | None = None
    """The exact output, or `None` for any."""
    contains: Texts = ()

    def describe_ending(self, what: str, seconds: float) -> Iterator[str]:
        yield f"{what} must end by itself within {seconds:g} seconds, with exit code {self.exit_code}."
        if self.output is not None:
            yield (
                f'Its standard output must be exactly "{show(self.output)}".'
                if self.output
                else "It must print nothing."
            )
        for each in self.contains:
            yield f'Its standard output must contain "{show(each)}".'

    def find_faults(self, run: Execution, where: str = "") -> Iterator[Fault]:
        if run.trouble:
            yield Fault("ends", where, "a program that ends by itself", run.trouble, REMEDIES["ends"])
        if run.exit_code != self.exit_code:
            code = f"exit code {run.exit_code}"
            why = f"{code}: {show_output(run.stderr)}" if run.stderr.strip() else code
            yield Fault("exit", where, f"exit code {self.exit_code}", why, REMEDIES["exit"])
        if self.output is not None and run.stdout.rstrip("\n") != self.output.rstrip("\n"):
            expected = f"the output {show_output(self.output)}" if self.output else "no output"
            yield Fault("output", where, expected, show_output(run.stdout), REMEDIES["output"])
        for each in self.contains:
            if each not in run.stdout:
                expected = f"an output that contains {show_output(each)}"
                yield Fault("output", where, expected, show_output(run.stdout), REMEDIES["output"])


def quote_output(text: str) -> str:
    return make_printable(" ".join(text.split())[-QUOTED:])


def show_output(text: str) -> str:
    """Quote the end of an output, which the program chose."""
    return make_printable(repr(" ".join(text.split())[-QUOTED:])) if text.strip() else "nothing"


def describe_inputs(beside: Sequence[str]) -> Iterator[str]:
    if beside:
        yield f"The check provides {list_words(beside)} in the folder beside/."
