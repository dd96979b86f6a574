"""The seam of checks: evidence is gathered in a clean desk, and judged on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol, TypeAlias

from hotdesk.checks.fault import Fault as Fault
from hotdesk.checks.summary import summarize
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk

Value: TypeAlias = str | int | float | bool | None
"""What a certificate can say of a file."""


@dataclass(frozen=True, slots=True)
class DrawnPixels:
    """One page as the desk drew it: raw pixels, so that no picture of a desk's making is ever decoded here."""

    width: int
    height: int
    rgb: bytes
    """`width * height * 3` bytes, row by row."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A desk's report on a file. It is untrusted: the desk held a hostile file."""

    report: bytes
    """JSON, at most `evidence.MAX_REPORT_BYTES` bytes; not read yet."""
    pages: tuple[DrawnPixels, ...] = ()
    trouble: str = ""
    """Why the examination did not end by itself, as the host saw it: then it proves nothing, whatever it reported."""
    attempts: int | None = None
    """How often something in the desk tried to send meanwhile, by the kernel's count; None: not counted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a check."""

    looked_for: tuple[str, ...]
    """Every rule that was tried, by name. Nothing looked for is nothing proven: such a verdict is a failed one."""
    faults: tuple[Fault, ...] = ()
    held: tuple[str, ...] = ()
    """What holds, in words for a person; may quote the file."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """What was seen, for the certificate: bounded, typed, printable."""
    tools: Mapping[str, str] = field(default_factory=dict)
    """The programs that examined it, with their versions, as the desk reports."""
    pages: tuple[DrawnPixels, ...] = ()
    """What a person may be shown of the file."""
    more: int = 0
    """How many faults were found beside those that are listed."""

    @property
    def passed(self) -> bool:
        """Return whether the file passed."""
        return bool(self.looked_for) and not self.faults

    @property
    def findings(self) -> tuple[str, ...]:
        """Explain a failure as instructions, or list what holds."""
        return tuple(summarize(self.faults, self.more)) or self.held


class Check(Protocol):
    """Judges whether a file meets its expectations."""

    @property
    def image(self) -> str:
        """Return the image of the desk in which it examines files, whatever image the work was done in."""
        ...

    @property
    def alone(self) -> bool:
        """Return whether it executes the file: its desk is then used for nothing else.

        Files of one job that are only opened share a desk, one after the other.
        """
        ...

    @property
    def beside(self) -> tuple[str, ...]:
        """Return what it needs beside the file, as `beside/PATH`: paths below the brief's folder, or `drive:NAME`."""
        ...

    @property
    def not_checked(self) -> tuple[str, ...]:
        """Describe for a certificate what it does not examine."""
        ...

    @property
    def requirements(self) -> tuple[str, ...]:
        """List what a file must be to pass, for its author: whole sentences that can be followed beforehand.

        They follow from the brief's expectations and from the rules for every file, and state nothing that a verdict
        does not judge.
        """
        ...

    async def gather(self, desk: Desk, path: str) -> Evidence:
        """Examine a file in a clean desk; return the evidence. An unreadable file is evidence, not an error."""
        ...

    def judge(self, evidence: Evidence) -> Verdict:
        """Judge evidence. Pure; evidence that makes no sense is a failed check, never an error."""
        ...
