"""Adversarial brains by name: shipped, so that everyone can test what a desk withstands.

`hijacked` attacks whatever it runs on: at a desk without a wall that is this machine. Use it only behind a wall.
"""

from __future__ import annotations

from collections.abc import Callable

from hotdesk.brain.adversaries.clumsy import Clumsy
from hotdesk.brain.adversaries.hijacked import Hijacked
from hotdesk.brain.adversaries.liar import Liar
from hotdesk.brain.models.scripted import ScriptedModel
from hotdesk.errors import BriefError, make_printable

Adversary = Hijacked | Liar | Clumsy
ADVERSARIES: dict[str, Callable[[ScriptedModel | None], Adversary]] = {
    "hijacked": Hijacked,
    "liar": Liar,
    "liar-empty": lambda script: Liar(script, leaves=True),
    "clumsy": Clumsy,
}


def find_adversary(name: str, script: ScriptedModel | None = None) -> Adversary:
    """Return an adversary; with a script it hides behind that script's plan."""
    if name not in ADVERSARIES:
        raise BriefError(f"unknown adversary {make_printable(name[:80])!r}; choose one of {', '.join(ADVERSARIES)}")
    return ADVERSARIES[name](script)
