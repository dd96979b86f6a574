"""What a brain is: it plans steps, and takes each with hands it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hotdesk.desk.seam import Done
from hotdesk.tool import Observation


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a worker means to do."""

    name: str
    """Of letters, digits, `.`, `_` and `-`: rules and grants of a brief may hold for this step only."""
    what: str
    """In a sentence, for people."""


class Hands(Protocol):
    """What a brain can do at a desk. Everything they give back is the desk's word."""

    async def run(self, argv: Sequence[str], *, timeout: float | None = None) -> Done:
        """Run a program to its end. A program that fails or is missing is a result."""
        ...

    async def read(self, path: str) -> bytes:
        """Give a file's bytes; `FileError` when there is none, or it is too large."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Write a file, making its folders."""
        ...

    async def use(self, tool: str, /, **arguments: object) -> Observation:
        """Use a tool by name. What it could not do is in the observation; a tool never fails otherwise."""
        ...


class Brain(Protocol):
    """Who plans and acts."""

    def plan(self, goal: str) -> tuple[Step, ...]:
        """Say what shall be done, in order, before there is a desk. `BriefError` when it cannot be planned."""
        ...

    async def act(self, step: Step, hands: Hands) -> Done:
        """Take one step of the plan; give how its last program ended. A step that failed is a result."""
        ...
