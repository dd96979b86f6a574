"""The brief of one job as data: goal, inputs, deliverables, network access, secrets and limits.

`load` reads it from TOML, JSON and Python; `ceiling` compares it with the operator's limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.dataclass import dataclass
from hotdesk.walls import NOMINAL_CATALOG, WallCatalog

DRIVE = "drive:"
"""Prefix of an input that is in the drive: `drive:NAME` or `drive:NAME@VERSION`."""
ITEM = "item:"
"""Prefix of an input that is a different file for each item of a swarm: `item:item.pdf`."""
MEMORY = "memory"
"""Folder of the desk's home that has the items of earlier jobs, and of the drive that stores them."""


@dataclass(frozen=True, slots=True)
class RequiredCheck:
    """One check a deliverable must pass."""

    check: str
    expect: Mapping[str, object] = field(default_factory=dict)
    """Options of the check, which the check itself defines."""


@dataclass(frozen=True, slots=True)
class Deliverable:
    """One file that the job must deliver."""

    path: str
    """Path below the desk's home folder."""
    kind: str
    """Its type: the suffix of its path, unless the brief names another."""
    checks: tuple[RequiredCheck, ...] = ()
    """All checks it must pass. Without any, only its existence is verified."""
    active: tuple[str, ...] = ()
    """Kinds of active content it may have, in the terms of the check `active-content`, such as `macros`."""


@dataclass(frozen=True, slots=True)
class JobBudget:
    """The limits of a job; `None` means unlimited. The time limit is `Brief.seconds`."""

    tokens: int | None = None
    """Tokens that models read and write, in total."""
    dollars: float | None = None
    """Cost in dollars. Models without a known price are stopped only by the other limits."""
    acts: int | None = None
    """Number of tool uses."""


@dataclass(frozen=True, slots=True)
class DeskSize:
    """The size of a desk; memory and disk in bytes."""

    cpus: float = 2.0
    memory: int = 2 << 30
    disk: int = 16 << 30


@dataclass(frozen=True, slots=True)
class Models:
    """The models that plan and act, such as `anthropic:MODEL`, each list in order of preference."""

    plan: tuple[str, ...] = ()
    act: tuple[str, ...] = ()
    """Empty if the planning models also act."""


@dataclass(frozen=True, slots=True)
class Each:
    """The items of a swarm, and the limits of one item."""

    over: str
    """A glob of files beside the brief, or a `.csv` or `.txt` file whose rows or lines are the items."""
    key: str = ""
    """The column that names a row, or `""` to number the rows."""
    batch: int = 1
    """Number of rows or lines in one item."""
    seconds: float = 300.0
    """Seconds one item may take."""
    attempts: int = 2
    """Attempts at an item before it is quarantined."""
    budget: JobBudget = JobBudget()
    """Budget of one item."""
    quarantine: float = 0.1
    """Maximum share of items in quarantine; above it, the swarm pauses before its report is built."""


@dataclass(frozen=True, slots=True)
class Reduce:
    """The report that is built from the verified results of all items. Its desk never has network access."""

    goal: str
    deliverables: tuple[Deliverable, ...]
    image: str = "base"
    seconds: float = 900.0


Approve: TypeAlias = Literal["auto", "plan", "risky", "every"]
"""How plans are approved. `auto`: without a person; `plan`: by a person; `risky`: by a person if something is at
stake; `every`: by a person, and each step too."""


@dataclass(frozen=True, slots=True)
class Brief:
    """The scope of work: goal, inputs, deliverables and limits."""

    goal: str
    deliverables: tuple[Deliverable, ...]
    folder: Path
    """Folder of the brief and its inputs."""
    digest: str
    """SHA-256 of the brief's text."""
    inputs: tuple[str, ...] = ()
    """Files and folders beside the brief, copied to the desk's home folder under the same names, and inputs from the
    drive as they are written: `drive:NAME` or `drive:NAME@VERSION`."""
    scope: Scope = CLOSED
    image: str = "base"
    seconds: float = 900.0
    """Time limit in seconds, from the first desk to the last."""
    look: str = ""
    """The model that may be shown pictures from the desk, as `anthropic:MODEL`, or `""` for none."""
    approve: Approve = "auto"
    """How plans are approved."""
    tools: tuple[str, ...] = ()
    """Names of allowed tools, with `browser_*` for all that begin so, or empty for all tools."""
    wall: str = "container"
    """The weakest wall its desks may have."""
    sensitive_wall: str = ""
    """The weakest wall for desks of steps that use secrets or read untrusted files, or `""` for the same as others."""
    least_wall: str = ""
    """The weakest wall that the job's requester demands in addition to the brief, or `""`."""
    verify_wall: str = ""
    """The wall of the desks in which deliverables are checked, set by `routing`; `""` for `wall`."""
    walls: WallCatalog = NOMINAL_CATALOG
    """The walls of the machine and their strength; known once `routing` has chosen the job's walls."""
    size: DeskSize = DeskSize()
    budget: JobBudget = JobBudget()
    models: Models = Models()
    memory: str = ""
    """Name of the memory that it shares with all jobs and briefs that use the same name, or `""` for none."""
    wait: float = 86400.0
    """Seconds to wait for a person's answer; after that the request is refused."""
    each: Each | None = None
    """The items of a swarm, each worked on at a desk of its own, or `None` for a single job."""
    reduce: Reduce | None = None
    """The report from the results of all items, or `None` for none."""
    frozen: bool = False
    """Whether permissions cannot be extended once the plan is approved."""
    explicit: frozenset[str] = frozenset()
    """Names of the fields that the brief itself sets. The operator's ceiling may lower the others."""


def locate_input(name: str) -> str:
    """Return an input's path in the desk's home folder, without `drive:`, `item:` or a version."""
    name = name.removeprefix(ITEM)
    return name.removeprefix(DRIVE).partition("@")[0] if name.startswith(DRIVE) else name
