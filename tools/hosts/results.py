"""The results of the machines: one JSON file for all, one line for each. A machine that passed is not tried again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.hosts.machines import Machine

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step."""

    name: str
    passed: bool
    seconds: float
    text: str


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

    def __str__(self) -> str:
        minutes = f"{self.seconds / 60:.1f} min"
        facts = self.facts
        what = f"{facts.get('arch', '?')}, kernel {facts.get('kernel', '?')}, {facts.get('cgroup', '?')}"
        if self.passed:
            return f"{self.name:28} passed  {minutes:>8}  {what}, {len(self.steps)} steps"
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
    machines = [{"passed": result.passed, **asdict(result)} for _, result in sorted(results.items())]
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"schema": SCHEMA, "machines": machines}, indent=1) + "\n")
    fresh.replace(path)
