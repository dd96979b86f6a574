"""Keeps full garbage collections short: each stops the interpreter, and so the event loop, until it has finished.

A full collection walks every object that was not frozen. Much of what a server loads late (route models, a tenant's
parts) stays for its whole life. So the objects that survive each of the first full collections are frozen as well. Only
the first ones: a frozen object is never collected again, and a server must not grow for ever.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping

_MAX_FREEZES = 8
"""Full collections after which the survivors are frozen; they become rarer as the heap grows."""


class SurvivorFreezer:
    def __init__(self, freezes: int = _MAX_FREEZES) -> None:
        self.remaining = freezes

    def start(self) -> None:
        """Freeze the objects that exist now, and watch later collections."""
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self.note_collection)

    def stop(self) -> None:
        if self.note_collection in gc.callbacks:
            gc.callbacks.remove(self.note_collection)

    def note_collection(self, phase: str, info: Mapping[str, int]) -> None:
        """Freeze the survivors when a full collection has ended."""
        if phase == "stop" and info["generation"] == 2 and self.remaining > 0:
            self.remaining -= 1
            gc.freeze()
