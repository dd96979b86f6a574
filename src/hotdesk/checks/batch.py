"""Batched inspection: files of many authors in one clean desk, each author's in a fork that has opened no other file.

Starting Python for each file takes longer than inspecting a small one. The output is bounded and parsed as for a single
file (`evidence.py`). If the batch does not end normally, it proves nothing about any of its files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from hotdesk.checks.evidence import FOLDER, MAX_REPORT_BYTES, RESIDENT, RUN, bring, describe_failure
from hotdesk.checks.seam import Evidence
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk

MAX_LINE_BYTES = 1 << 20
"""Maximum bytes of one report in a batch."""
MAX_OUTPUT_BYTES = 64 << 20
_SECONDS_EACH = 5.0
_SECONDS_ALONE = 90.0
_SECONDS_ALL = 60.0
CUT = b"\t"
"""Mark before a report that a limit cut off; see `inside/resident.py`."""


@dataclass(frozen=True, slots=True)
class LookRequest:
    """The program of `inside/` that inspects a file, its request, and the other modules it imports."""

    program: str
    request: Mapping[str, object]
    needs: tuple[str, ...] = ()


@runtime_checkable
class BatchedCheck(Protocol):
    """A check that can inspect files in a batch."""

    def ask_look(self, path: str, beside: str) -> LookRequest | None:
        """Return the request to inspect a file in a batch, or `None` if it must be inspected alone.

        The check's extra inputs are in the folder `beside`.
        """
        ...


async def look_many(
    desk: Desk, groups: Sequence[Sequence[LookRequest]], remove: Sequence[str] = ()
) -> tuple[list[Evidence], str]:
    """Inspect files of many authors; return the reports in order, and what failed in the batch as a whole.

    The files of one author form a group, which gets a process of its own. Each file has its own limits of time and
    bytes; they are larger if there is only one author. `is_cut` tells whether a report reached one. The folders in
    `remove` are deleted afterwards, so that later files cannot find them.
    """
    seconds, most = (_SECONDS_ALONE, MAX_REPORT_BYTES) if len(groups) == 1 else (_SECONDS_EACH, MAX_LINE_BYTES)
    folder, looks = f"{desk.home}/{FOLDER}", [each for group in groups for each in group]
    modules = dict.fromkeys(name for each in looks for name in (each.program, *each.needs))
    await bring(desk, folder, tuple(dict.fromkeys((RESIDENT, *modules))))
    request = {
        "groups": [[{"program": each.program, "request": dict(each.request)} for each in group] for group in groups],
        "remove": list(remove),
        "seconds": seconds,
        "most": most,
    }
    done = await desk.run(
        ["python3", "-I", "-B", "-c", RUN, folder, RESIDENT],
        stdin=json.dumps(request).encode(),
        timeout=_SECONDS_ALL + seconds * len(looks),
        output_limit=MAX_OUTPUT_BYTES,
    )
    lines = done.stdout.split(b"\n")
    trouble = describe_failure(done)
    if not trouble and (len(lines) != len(looks) + 1 or lines[-1]):
        trouble = "the inspection of several files did not return a report for each"
    if trouble:
        return [Evidence(b"", trouble=trouble) for _ in looks], trouble
    return [Evidence(line[: most + len(CUT)]) for line in lines[:-1]], ""


def is_cut(evidence: Evidence) -> bool:
    """Return whether an inspection reached a limit: alone, with larger limits, it may succeed."""
    return evidence.report.startswith(CUT)
