"""A fault that a check found."""

from __future__ import annotations

from hotdesk.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, described so that the file's author can correct it."""

    rule: str
    """Name of the violated rule, from the check's `looked_for`."""
    where: str
    """Sheet and cell, page, line or member; `""` for the file as a whole."""
    expected: str
    found: str
    """What was found instead: short and printable, and possibly a quotation from the file."""
    remedy: str = ""
    """What to do about it, in hotdesk's words, the same for every fault of one kind; `""` if unknown."""

    def __str__(self) -> str:
        text = f"expected {self.expected}, found {self.found}"
        return f"{self.where}: {text}" if self.where else text
