"""The brief's own check: a Python file beside the brief, run only in the desk.

It prints its findings as JSON, which the host reads as typed, bounded data. They are as trustworthy as the desk: a file
that takes over the program there can forge them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, ClassVar

from hotdesk.brief.brief import locate_input
from hotdesk.checks import execution
from hotdesk.checks.evidence import make_unreadable_verdict, read_json, read_number, read_text
from hotdesk.checks.expectations import ImageName, Place, Places, Seconds, Table, Texts, read_expectations
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.seam import Evidence, Fault, Value, Verdict
from hotdesk.checks.sentences import show
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.strict import Alias, Otherwise

EXAMPLE = '{file = "check.py", image = "office", given = {least = 5}}'
_OUTPUT = "the output of the check program"
LOOKED_FOR = ("runs", "holds")
MOST_VALUES = 50
MAX_WHOLE = (1 << 63) - 1
_RUNS = "The brief's check program failed on this file: write a file that the program can read."


@dataclass(frozen=True, slots=True)
class CustomCheck:
    """A check program of the brief."""

    alone: ClassVar[bool] = True
    file: Annotated[Place, re.compile(r"(?s).*\.py"), Otherwise("expected a Python file next to the brief")]
    given: Table = field(default_factory=dict)
    """Input of the program, as JSON on standard input."""
    seconds: Seconds = execution.RUN_TIMEOUT_S
    more: Annotated[Places, Alias("beside")] = ()
    image: ImageName = "base"
    stated: Annotated[Texts, Alias("requirements")] = ()
    """The brief's own description of the check, for the author of the file."""

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> CustomCheck:
        return read_expectations(cls, "custom", expect, EXAMPLE)

    @property
    def beside(self) -> tuple[str, ...]:
        return (self.file, *self.more)

    @property
    def not_checked(self) -> tuple[str, ...]:
        return (f"anything that {self.file} does not examine, and whether the file manipulated it in the same desk",)

    @property
    def requirements(self) -> tuple[str, ...]:
        """The brief's own statements about its check; hotdesk cannot know what the program looks for."""
        given = f", given {show(json.dumps(dict(self.given), default=str))}" if self.given else ""
        return (
            *map(show, self.stated),
            f"The brief's own program {show(self.file)}{given}, must find no fault in the file.",
        )

    async def gather(self, desk: Desk, path: str) -> Evidence:
        argv = ["python3", "-B", f"beside/{locate_input(self.file)}", path]
        stdin = json.dumps(dict(self.given))
        return execution.to_evidence({"check": await execution.run(desk, argv, stdin=stdin, seconds=self.seconds)})

    def judge(self, evidence: Evidence) -> Verdict:
        try:
            found, _ = execution.read_runs(evidence, ["check"])
            run = found["check"]
            if run.trouble or run.exit_code:
                why = run.trouble or f"exit code {run.exit_code}: {execution.show_output(run.stderr)}"
                fault = Fault("runs", self.file, "a check program that ends with exit code 0", why, _RUNS)
                return Verdict(LOOKED_FOR, (fault,))
            faults, facts, values = _read_own_output(run.stdout)
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(
                LOOKED_FOR, 'JSON such as {"faults": [], "held": ["the total is right"], "values": {}}', e
            )
        return Verdict(LOOKED_FOR, faults, facts, values)


def _read_own_output(text: str) -> tuple[tuple[Fault, ...], tuple[str, ...], dict[str, Value]]:
    """Parse the program's output: what would be a malformed report is a fault of the check program."""
    try:
        return read_output(text)
    except MalformedReportError as e:
        raise ValueError(": ".join(filter(None, (f"{_OUTPUT} is malformed", e.why)))) from None


def read_output(text: str) -> tuple[tuple[Fault, ...], tuple[str, ...], dict[str, Value]]:
    """Parse the program's output strictly; raise `ValueError` if it has no entry in `faults` or `held`."""
    match read_json(text.strip().encode(), _OUTPUT):
        case {"faults": list(faults), "held": list(facts), "values": dict(values), **more} if not more:
            if not faults and not facts:
                raise ValueError(f"{_OUTPUT} must have an entry in `faults` or `held`")
            if max(len(faults), len(facts), len(values)) > MOST_VALUES:
                raise ValueError(f"{_OUTPUT} has more than {MOST_VALUES} entries in `faults`, `held` or `values`")
            shown = {read_text(name, 100): read_value(value) for name, value in values.items()}
            return tuple(map(_read_fault, faults)), tuple(map(read_text, facts)), shown
        case _:
            raise ValueError(
                f"{_OUTPUT} must have exactly these keys: the lists `faults` and `held`, and the object `values`"
            )


def _read_fault(value: object) -> Fault:
    match value:
        case {"where": where, "expected": expected, "found": found, **more} if not more:
            return Fault("holds", read_text(where, 200), read_text(expected, 300), read_text(found, 300))
        case _:
            raise ValueError("every entry of `faults` must have exactly the texts `where`, `expected` and `found`")


def read_value(value: object) -> Value:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) > MAX_WHOLE:
            raise ValueError("a number in `values` has more than 63 bits; write it as a text")
        return value
    return read_text(value) if isinstance(value, str) else read_number(value)
