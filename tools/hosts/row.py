"""One row of the table while its steps run: results so far, and the machine's state after each of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tools.hosts import state
from tools.hosts.machines import Machine
from tools.hosts.results import MachineResult, StepResult
from tools.hosts.state import RowState
from tools.hosts.steps import Step, StepError, Visit

BOOT = "boot"


@dataclass(slots=True)
class Row:
    """The steps of one machine."""

    folder: Path
    state: RowState
    """The state with which it begins, later the one after the last step."""
    keep: bool = False
    """Whether the states of all steps are kept."""
    done: list[StepResult] = field(default_factory=list)
    began: float = 0.0

    def __post_init__(self) -> None:
        self.began = time.monotonic() - self.state.seconds
        self.done.extend(self.state.steps)

    def take(self, steps: Iterable[Step], visit: Visit) -> None:
        """Run the steps that are not done, in order; a failed step does not stop the others, unless they need it."""
        if not self.done:
            cpu_seconds = visit.session.read_cpu_seconds()
            self.add(note(BOOT, self.began, "the agent answers", cpu_seconds=cpu_seconds), visit)
        for step in steps:
            if step.name in {each.name for each in self.done}:
                continue
            began, used = time.monotonic(), visit.session.read_cpu_seconds()
            try:
                text, passed = step.act(visit), True
            except StepError as e:
                text, passed = str(e), False
            cpu_seconds = visit.session.read_cpu_seconds() - used
            self.add(note(step.name, began, text, passed=passed, cpu_seconds=cpu_seconds), visit)
            if step.is_needed and not passed:
                return

    def add(self, result: StepResult, visit: Visit) -> None:
        """Print a result, and save it with the machine's state; that time is not the row's."""
        self.done.append(result)
        times = f"{result.seconds:6.1f} s, {result.cpu_seconds:.1f} s of processor"
        print(f"  {result.name:12} {times}  {result.text[:300]}", flush=True)
        began = time.monotonic()
        facts = (dict(visit.facts), visit.key)
        fresh = RowState(self.state.key, result.name, visit.session.boot, began - self.began, tuple(self.done), *facts)
        visit.session.save(fresh.snapshot)
        visit.session.delete(state.save(self.folder, fresh, keep=self.keep))
        self.state, self.began = fresh, self.began + time.monotonic() - began

    def conclude(self, machine: Machine, expected: Iterable[Step]) -> MachineResult:
        """Return the row's result."""
        names = {each.name for each in self.done}
        missing = tuple(step.name for step in expected if step.name not in names)
        now, seconds = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic() - self.began
        key, facts = self.state.key, self.state.facts
        return MachineResult(machine.name, key, now, seconds, facts, tuple(self.done), missing)


def note(name: str, began: float, text: str, *, passed: bool = True, cpu_seconds: float = 0.0) -> StepResult:
    return StepResult(name, passed, round(time.monotonic() - began, 1), text, round(cpu_seconds, 1))
