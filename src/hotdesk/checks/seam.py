"""The seam of checks: evidence is gathered in a clean desk and judged on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol, TypeAlias, runtime_checkable

from hotdesk.checks.fault import Fault as Fault
from hotdesk.checks.summary import summarize
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk

Value: TypeAlias = str | int | float | bool | None
"""A measured value in a certificate."""


@dataclass(frozen=True, slots=True)
class DrawnPixels:
    """One page as rendered in the desk: raw pixels, so that no image file from a desk is decoded on the host."""

    width: int
    height: int
    rgb: bytes
    """`width * height * 3` bytes, row by row."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A desk's report on a file. It is untrusted, because the desk has opened a possibly hostile file."""

    report: bytes
    """Unparsed JSON, at most `evidence.MAX_REPORT_BYTES` bytes."""
    pages: tuple[DrawnPixels, ...] = ()
    trouble: str = ""
    """Why the inspection did not end normally, by the host's observation. If set, the report proves nothing."""
    attempts: int | None = None
    """Number of send attempts in the desk meanwhile, by the kernel's count, or `None` if they were not counted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a check."""

    looked_for: tuple[str, ...]
    """Names of all rules that were applied. A verdict without any has failed."""
    faults: tuple[Fault, ...] = ()
    held: tuple[str, ...] = ()
    """What the check found to be in order, in words for people; it may quote the file."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """Measured values for the certificate: bounded, typed and printable."""
    tools: Mapping[str, str] = field(default_factory=dict)
    """The programs that inspected the file with their versions, as reported by the desk."""
    pages: tuple[DrawnPixels, ...] = ()
    """Rendered pages that people may be shown."""
    more: int = 0
    """Number of faults that are not listed."""

    @property
    def passed(self) -> bool:
        """Return whether the file passed."""
        return bool(self.looked_for) and not self.faults

    @property
    def findings(self) -> tuple[str, ...]:
        """Return the faults as instructions, or the facts that were found to be in order."""
        return tuple(summarize(self.faults, self.more)) or self.held


@runtime_checkable
class StayingCheck(Protocol):
    """A check whose program leaves processes running for later files in a shared desk."""

    @property
    def stays(self) -> int:
        """How many processes may run on after the check."""
        ...


def count_staying(check: object) -> int:
    """Return how many processes a check may leave running; none, if it executes the file in a desk of its own."""
    return check.stays if isinstance(check, StayingCheck) and not getattr(check, "alone", True) else 0


class Check(Protocol):
    """Judges whether a file meets its expectations."""

    @property
    def image(self) -> str:
        """Image of the desk in which it inspects files, whatever image the job itself uses."""
        ...

    @property
    def alone(self) -> bool:
        """Whether it executes the file; the desk is then used for nothing else.

        Files of one job that are only opened share a desk, one after the other.
        """
        ...

    @property
    def beside(self) -> tuple[str, ...]:
        """Extra inputs that it needs at `beside/PATH`: paths below the brief's folder, or `drive:NAME`."""
        ...

    @property
    def not_checked(self) -> tuple[str, ...]:
        """What it does not examine, for the certificate."""
        ...

    @property
    def requirements(self) -> tuple[str, ...]:
        """What a file must be to pass, as complete sentences for its author.

        They follow from the brief's options and from the rules for every file, and state nothing that a verdict does
        not judge.
        """
        ...

    async def gather(self, desk: Desk, path: str) -> Evidence:
        """Inspect a file in a clean desk; return the evidence. An unreadable file is evidence, not an error."""
        ...

    def judge(self, evidence: Evidence) -> Verdict:
        """Judge evidence without I/O. Malformed evidence is a failed check, never an error."""
        ...
