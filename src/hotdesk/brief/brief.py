"""The brief of one job, as data: goal, inputs, deliverables, where it may go, with which secrets, for how long.

`reading` makes it from TOML, JSON and Python; `ceiling` holds it against what the operator allows.
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
"""What begins the name of an input that the drive keeps: `drive:NAME`, `drive:NAME@VERSION`."""
ITEM = "item:"
"""What begins the name of an input that is another file for each item of a swarm: `item:item.pdf`."""
MEMORY = "memory"
"""The folder of a desk's home that has what earlier jobs left, and the drive's that keeps it."""


@dataclass(frozen=True, slots=True)
class RequiredCheck:
    """One check a deliverable must pass."""

    check: str
    expect: Mapping[str, object] = field(default_factory=dict)
    """What that check shall find; its own business."""


@dataclass(frozen=True, slots=True)
class Deliverable:
    """One file the job is for."""

    path: str
    """Below the desk's home folder."""
    kind: str
    """What it is: its suffix, unless the brief says otherwise."""
    checks: tuple[RequiredCheck, ...] = ()
    """All it must pass. None: the brief asks for none, and nothing can be said of it but that it is there."""
    active: tuple[str, ...] = ()
    """What it may do beyond being read, by the words of the check `active-content`: `macros`, `external-links`, …"""


@dataclass(frozen=True, slots=True)
class JobBudget:
    """The limits of a job; None means unlimited. Its time limit is the brief's `seconds`."""

    tokens: int | None = None
    """That models read and write, in all."""
    dollars: float | None = None
    """Where a price is known; a model without one stops at the other limits."""
    acts: int | None = None
    """Uses of tools."""


@dataclass(frozen=True, slots=True)
class DeskSize:
    """The size of the desk."""

    cpus: float = 2.0
    memory: int = 2 << 30
    disk: int = 16 << 30


@dataclass(frozen=True, slots=True)
class Models:
    """The models that plan and act: names such as `anthropic:MODEL`, each list in the order they are tried."""

    plan: tuple[str, ...] = ()
    act: tuple[str, ...] = ()
    """Empty: whoever plans."""


@dataclass(frozen=True, slots=True)
class Each:
    """The items of a swarm, and what one of them may use."""

    over: str
    """Files beside the brief, as a glob; or a `.csv` file whose rows, or a `.txt` file whose lines are the items."""
    key: str = ""
    """The column that names a row; empty: rows are numbered."""
    batch: int = 1
    """Rows or lines that make one item."""
    seconds: float = 300.0
    """How long one item may take."""
    attempts: int = 2
    """How often an item is tried before it is in quarantine."""
    budget: JobBudget = JobBudget()
    """What one item may use."""
    quarantine: float = 0.1
    """The share of items that may be in quarantine; beyond it the swarm pauses before its report is built."""


@dataclass(frozen=True, slots=True)
class Reduce:
    """The report that is built from the verified results of all items. Its desk has no network in any brief."""

    goal: str
    deliverables: tuple[Deliverable, ...]
    image: str = "base"
    seconds: float = 900.0


Approve: TypeAlias = Literal["auto", "plan", "risky", "every"]
"""Who admits a plan: whoever wrote the brief, by writing it; a person; a person where something is at stake; a person,
and each step, too."""


@dataclass(frozen=True, slots=True)
class Brief:
    """The scope of work: goal, inputs, deliverables and limits."""

    goal: str
    deliverables: tuple[Deliverable, ...]
    folder: Path
    """Where the brief lies, and its inputs with it."""
    digest: str
    """SHA-256 of the brief as it was read."""
    inputs: tuple[str, ...] = ()
    """Files and folders beside the brief, copied into the desk's home folder under the same names; and names of the
    drive's, `drive:NAME` or `drive:NAME@VERSION`, as they are written."""
    scope: Scope = CLOSED
    image: str = "base"
    seconds: float = 900.0
    """How long it may take, from its first desk to its last."""
    look: str = ""
    """The model that may be shown pictures of the desk's, as `anthropic:MODEL`; empty: none."""
    approve: Approve = "auto"
    """Who admits a plan."""
    tools: tuple[str, ...] = ()
    """Names of tools that may be used, `browser_*` for every one so called; empty: all."""
    wall: str = "container"
    """The least that stands between its desks and this machine."""
    sensitive_wall: str = ""
    """The least around desks of steps that hold secrets or read foreign files; empty: as for others."""
    least_wall: str = ""
    """The least that whoever starts the job demands, beside the brief; empty: nothing."""
    verify_wall: str = ""
    """What stands around the desks its deliverables are looked at in, once that is settled; empty: `wall`."""
    walls: WallCatalog = NOMINAL_CATALOG
    """How strong walls are where it is carried out, and which there are: known once `routing` has settled its walls."""
    size: DeskSize = DeskSize()
    budget: JobBudget = JobBudget()
    models: Models = Models()
    memory: str = ""
    """The memory that its jobs share with each other, and with those of other briefs that name it; empty: none."""
    wait: float = 86400.0
    """Seconds a person's answer is waited for; then it is no."""
    each: Each | None = None
    """The items it is carried out for, one at a time and each at a desk of its own; None: it is one job."""
    reduce: Reduce | None = None
    """What becomes of the results of all items."""
    frozen: bool = False
    """Whether its permissions are final once the plan is approved."""
    explicit: frozenset[str] = frozenset()
    """Which fields the brief itself has; the others are defaults, and give way to the operator's ceiling."""


def locate_input(name: str) -> str:
    """Return where an input lies in the desk's home folder: the drive's under its name there, without a version."""
    name = name.removeprefix(ITEM)
    return name.removeprefix(DRIVE).partition("@")[0] if name.startswith(DRIVE) else name
