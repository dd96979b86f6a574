"""Which guard stops which attack: how to take each guard out, and the attacks that must then succeed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Removal:
    """One edit that takes a guard, or a part of one, out."""

    file: str
    """Below src/."""
    old: str
    """Found exactly once."""
    new: str


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard, and what it stops."""

    name: str
    removals: tuple[Removal, ...]
    attacks: tuple[str, ...]
    """Tests in this folder; one without its case in brackets means all its cases."""
    only_error: bool = False
    """Without this guard no desk comes up, or none is cleared away: the attack cannot be made, only its error seen."""


GUARDS: tuple[Guard, ...] = ()
NO_GUARD: dict[str, str] = {}
