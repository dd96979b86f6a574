"""What a check is: evidence gathered in a clean desk, judged on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hotdesk.desk.seam import Desk


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a check."""

    passed: bool
    findings: tuple[str, ...]
    """What was found: why it failed, or what holds. May quote the file."""


class Check(Protocol):
    """Says whether a file is what was asked for."""

    @property
    def image(self) -> str:
        """Name the image of the desk it looks in, whatever the work was done at."""
        ...

    async def gather(self, desk: Desk, path: str) -> bytes:
        """Look at a file in a desk that holds nothing else; give what was seen.

        Everything it gives is the word of a desk that held a hostile file. A file that cannot be read is no error.
        """
        ...

    def judge(self, evidence: bytes) -> Verdict:
        """Judge what was seen. Pure; evidence that makes no sense is a failed check, never an error."""
        ...
