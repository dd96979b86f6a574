"""What the worker means to do: atomic steps, each with what it needs and what it shall leave. Data, no behaviour."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

StepKind: TypeAlias = Literal["work", "program", "choose"]
Risk: TypeAlias = Literal["low", "high"]
Where: TypeAlias = Literal["", "fresh", "same"]
MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that may be chosen: a tool and what it is used with, fixed before anything was read."""

    name: str
    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a worker means to do. What is not listed here it cannot do in this step."""

    name: str
    """Of letters, digits, `.`, `_` and `-`."""
    intent: str
    """In a sentence, for people and for whoever takes it."""
    tools: tuple[str, ...] | None = None
    """Names of tools; `browser_*` is every tool so called. None: all the brief allows."""
    hosts: tuple[str, ...] | None = None
    """Rules as text, method and all: `GET https://erp.example.test/orders/*`. None: all the brief has for this step."""
    grants: tuple[str, ...] | None = None
    """Names of secrets. None: all the brief has for this step."""
    files: tuple[str, ...] = ()
    """What it reads of the home folder: all it finds at a fresh desk."""
    makes: tuple[str, ...] = ()
    """What it leaves in the home folder: all that comes back from a fresh desk. Each must be there at its end."""
    expect: str = ""
    """What will be so when it is done."""
    check: str = ""
    """A shell command that exits 0 when it is so; empty: that what it makes is there is enough."""
    risk: Risk = "low"
    """`high`: the desk is kept as it is before it, and rolled back when it fails."""
    live: bool = False
    """It makes something that no file holds: a login, a started server. Taken again when a job is resumed."""
    keeps: bool = False
    """It goes on where the step before left off: same desk, processes and browser profile stay."""
    desk: Where = ""
    """`fresh`: at a desk of its own; `same`: not, though it has grants and something foreign was read before."""
    kind: StepKind = "work"
    """`program`: runs a program that is part of the plan, and reads nothing; `choose`: picks one of `actions`."""
    program: str = ""
    """Of a `program` step: what a shell is given."""
    actions: tuple[Action, ...] = ()
    """Of a `choose` step."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order."""

    steps: tuple[Step, ...]
    thoughts: str = ""
    """Why so: the planner's words, for people."""

    @property
    def digest(self) -> str:
        """Give what is approved: SHA-256 of everything in it."""
        return hashlib.sha256(to_json(self).encode()).hexdigest()


def to_json(plan: Plan) -> str:
    """Write a plan as one line."""
    return json.dumps(asdict(plan), separators=(",", ":"), sort_keys=True, allow_nan=False)
