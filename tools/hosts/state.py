"""The state of a row after a finished step: its results so far, and the whole machine, as a snapshot by the emulator.

A row that is interrupted continues after the last step that it finished, if it still tries the same. The record names
the snapshot and is written after it, so that a row killed while it saves continues from the snapshot before.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.hosts.results import StepResult

RECORD = "state.json"
CONCLUDED = "concluded"
"""A file that marks a row whose states are kept although it has finished."""


@dataclass(frozen=True, slots=True)
class RowState:
    """What a row needs to continue after a step."""

    key: str
    """Identifies what is tried, as in the results."""
    snapshot: str
    """The name of the machine's snapshot: the last step."""
    boot: str
    """The machine's boot id."""
    seconds: float
    """The time that the row took so far."""
    steps: tuple[StepResult, ...]
    facts: dict[str, str] = field(default_factory=dict)
    api_key: str = ""


def load(folder: Path, key: str) -> RowState | None:
    """Return the last state of an interrupted row that tries the same, if there is one."""
    if (folder / CONCLUDED).exists():
        return None
    state = max(read(folder).values(), key=lambda each: len(each.steps), default=None)
    return state if state is not None and state.key == key else None


def load_before(folder: Path, key: str, step: str, names: list[str]) -> RowState:
    """Return the state with which a step of a row that was kept begins; `names` are all steps in order."""
    states = read(folder)
    if any(each.key != key for each in states.values()):
        raise SystemExit(f"{folder.name} was saved with other code: run it with --keep --again.")
    for name in reversed(names[: names.index(step)]):
        if name in states:
            return states[name]
    raise SystemExit(f"{folder.name} has no saved state before {step}: run it with --keep.")


def save(folder: Path, state: RowState, *, keep: bool) -> list[str]:
    """Add a state to the record; return the snapshots that are no longer needed, none of them if all are kept."""
    before = read(folder)
    stale = [] if keep else [name for name in before if name != state.snapshot]
    states = {name: each for name, each in before.items() if name not in stale} | {state.snapshot: state}
    fresh = folder / f"{RECORD}.new"
    fresh.write_text(json.dumps([asdict(each) for each in states.values()], indent=1))
    fresh.replace(folder / RECORD)
    return stale


def read(folder: Path) -> dict[str, RowState]:
    """Read the record; an unreadable one counts as empty."""
    try:
        return {each["snapshot"]: parse(each) for each in json.loads((folder / RECORD).read_text())}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def parse(data: dict[str, Any]) -> RowState:
    return RowState(**{**data, "steps": tuple(StepResult(**each) for each in data["steps"])})
