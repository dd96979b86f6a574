"""Writes a report next to the results. It replaces an earlier report, but never another file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from pathlib import Path

from hotdesk.errors import BriefError, make_printable
from hotdesk.job.report.collect import gather
from hotdesk.job.report.page import render_page
from hotdesk.job.results import Out

NAME, OTHERWISE = "report.html", "job-report.html"
MAX_REPORT_BYTES = 32 << 20
"""Maximum bytes of a file that is read to see whether it is an earlier report."""
MARK = re.compile(rb"(.*)<!-- hotdesk report ([0-9a-f]{64}) -->\n", re.DOTALL)


def make(journal: Path, jobs: Path, job: str, *, beside: bool = False) -> bytes:
    """Make the report of a job: HTML that ends with a hash, by which hotdesk recognizes its own reports.

    With `beside`, it links to the result files beside it.
    """
    gathered = gather(journal, jobs, job)
    gathered.beside = beside
    data = render_page(gathered).encode()
    return data + f"<!-- hotdesk report {hashlib.sha256(data).hexdigest()} -->\n".encode()


def is_ours(data: bytes) -> bool:
    """Return whether a file is a report that was not changed since hotdesk wrote it."""
    found = MARK.fullmatch(data)
    return found is not None and hashlib.sha256(found[1]).hexdigest().encode() == found[2]


def name_beside(results: Collection[str]) -> str:
    """Return a name for the report that is not the name of a result."""
    used = {path.split("/")[0] for path in results}
    return NAME if NAME not in used else OTHERWISE


def write(out: Out, name: str, data: bytes) -> Path:
    """Write a report among the results; raise `BriefError` if its name is taken by another or a changed file."""
    there = out.read_existing(name, MAX_REPORT_BYTES)
    if there is not None and not is_ours(there):
        raise BriefError(
            f"{make_printable(str(out.folder / name))} exists already and was changed since hotdesk wrote it; "
            "move it away, or choose another file"
        )
    ours = hashlib.sha256(there or b"").hexdigest()
    return out.copy(name, [data], lambda sha256: sha256 == ours)
