"""Findings of active content in a file, and limits of the inspection. Runs inside a clean desk."""

from __future__ import annotations

MAX_FINDINGS = 200
"""Maximum findings of one file that are reported."""
MAX_TEXT_CHARS = 200
"""Maximum characters of a reported text."""
BUDGET = 512 << 20
"""Maximum bytes unpacked from one file in total."""
DEEPEST = 3
"""Maximum depth of files inside files."""


class TooMuchError(Exception):
    """The file unpacks to more than the limit."""


class Found:
    """The findings so far."""

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
