"""One thing that a check found wrong."""

from __future__ import annotations

from hotdesk.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake, described so that the file's author can fix it."""

    rule: str
    """Which rule it breaks: a word of the check's `looked_for`."""
    where: str
    """Sheet and cell, page, line, member; empty: the file as a whole."""
    expected: str
    found: str
    """What is there instead. May quote the file; short and printable."""
    remedy: str = ""
    """What to do about it, in a sentence of ours; the same for every fault of one kind. Empty: unknown."""

    def __str__(self) -> str:
        text = f"expected {self.expected}, found {self.found}"
        return f"{self.where}: {text}" if self.where else text
