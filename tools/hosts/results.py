"""The results of the machines: one JSON file for all, one line for each. A machine that passed is not tried again.

A machine passes when all its steps do. Whether that took longer than the goal depends on what else the emulating
machine does, so it is recorded beside that: the time, and the processor time that the emulator used.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.hosts.machines import Machine

SCHEMA = 2
GOAL_MINUTES = 15.0
"""The time in which a machine should pass."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step."""

    name: str
    passed: bool
    seconds: float
    text: str
    cpu_seconds: float = 0.0
    """Processor time of the emulator."""


@dataclass(frozen=True, slots=True)
class MachineResult:
    """The result of one machine."""

    name: str
    key: str
    """Identifies what was tried: another wheel, other tests or another row of the table have another key."""
    date: str
    seconds: float
    facts: dict[str, str] = field(default_factory=dict)
    steps: tuple[StepResult, ...] = ()
    missing: tuple[str, ...] = ()
    """Steps that were not reached."""

    @property
    def passed(self) -> bool:
        """Return whether every step was run and passed."""
        return bool(self.steps) and not self.missing and all(step.passed for step in self.steps)

    @property
    def within_goal(self) -> bool:
        """Return whether it passed in the time in which a machine should pass."""
        return self.passed and self.seconds <= GOAL_MINUTES * 60

    @property
    def cpu_seconds(self) -> float:
        """Return the processor time that the emulator used for all steps."""
        return sum(step.cpu_seconds for step in self.steps)

    def __str__(self) -> str:
        minutes = f"{self.seconds / 60:.1f} min"
        facts = self.facts
        what = f"{facts.get('arch', '?')}, kernel {facts.get('kernel', '?')}, {facts.get('cgroup', '?')}"
        if self.passed:
            goal = (
                ""
                if self.within_goal
                else f" (the goal is {GOAL_MINUTES:g}; processor {self.cpu_seconds / 60:.1f} min)"
            )
            return f"{self.name:28} passed  {minutes:>8}{goal}  {what}, {len(self.steps)} steps"
        wrong = [f"{step.name}: {' '.join(step.text.split())[:160]}" for step in self.steps if not step.passed]
        wrong += [f"not reached: {', '.join(self.missing)}"] if self.missing else []
        return f"{self.name:28} FAILED  {minutes:>8}  {what}; {'; '.join(wrong)}"


def key_of(machine: Machine, wheel: str, tests: str, arch: str) -> str:
    """Return the key of a trial."""
    return hashlib.sha256("\0".join((repr(machine), wheel, tests, arch)).encode()).hexdigest()[:16]


def load(path: Path) -> dict[str, MachineResult]:
    """Read the results so far, by name; an unreadable file counts as empty."""
    try:
        data = json.loads(path.read_text())
        return {each["name"]: parse(each) for each in data["machines"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def parse(data: dict[str, Any]) -> MachineResult:
    steps = tuple(StepResult(**each) for each in data["steps"])
    names = ("name", "key", "date", "seconds", "facts")
    return MachineResult(**{name: data[name] for name in names}, steps=steps, missing=tuple(data["missing"]))


def save(path: Path, results: dict[str, MachineResult]) -> None:
    """Write all results atomically."""
    machines = [
        {"passed": result.passed, "within_goal": result.within_goal, **asdict(result)}
        for _, result in sorted(results.items())
    ]
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"schema": SCHEMA, "machines": machines}, indent=1) + "\n")
    fresh.replace(path)
