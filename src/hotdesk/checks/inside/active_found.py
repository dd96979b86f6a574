"""Findings of active content in a file, and limits on the search. Run inside a clean desk."""

from __future__ import annotations

MAX_FINDINGS = 200
"""Findings of one file that are told."""
MAX_TEXT_CHARS = 200
"""Characters of the longest text that is told."""
BUDGET = 512 << 20
"""Bytes that are unpacked of one file, in all."""
DEEPEST = 3
"""Files inside files inside the file."""


class TooMuchError(Exception):
    """More would have to be unpacked than one file may cost."""


class Found:
    """Findings, as they are made."""

    def __init__(self) -> None:
        self.things: list[list[str]] = []
        self.count = 0
        self.parts = 0
        self.remaining = BUDGET

    def add(self, family: str, where: str, what: str) -> None:
        self.count += 1
        thing = [family, where[:MAX_TEXT_CHARS], what[:MAX_TEXT_CHARS]]
        if len(self.things) < MAX_FINDINGS and thing not in self.things:
            self.things.append(thing)

    def spend(self, size: int) -> None:
        self.remaining -= size
        if self.remaining < 0:
            raise TooMuchError

    def measure(self, size: int, most: int) -> None:
        if size > min(most, self.remaining):
            raise TooMuchError
