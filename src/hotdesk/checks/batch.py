"""Files of many makers looked at by one program in one clean desk: each maker's by a fork that has opened nothing else.

Starting Python for each file takes longer than looking at a small one. What comes back is bounded and read as if each
file had been looked at by itself (`evidence.py`); a batch that did not end as it should proves nothing for any of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from hotdesk.checks.evidence import FOLDER, RESIDENT, RUN, bring, describe_failure
from hotdesk.checks.seam import Evidence
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk

MAX_LINE_BYTES = 1 << 20
"""Bytes of what one look says; a file of which there is more to say is looked at by itself."""
MAX_OUTPUT_BYTES = 64 << 20
_SECONDS_EACH = 5.0
_SECONDS_ALL = 60.0


@dataclass(frozen=True, slots=True)
class LookRequest:
    """The program of `inside/` that examines a file, its request, and the other modules it imports."""

    program: str
    request: Mapping[str, object]
    needs: tuple[str, ...] = ()


@runtime_checkable
class BatchedCheck(Protocol):
    """A check whose files can be looked at together with others."""

    def ask_look(self, path: str, beside: str) -> LookRequest | None:
        """Return how to examine a file in a batch; what it needs is in the folder `beside`. None: only by itself."""
        ...


async def look_many(
    desk: Desk, groups: Sequence[Sequence[LookRequest]], remove: Sequence[str] = ()
) -> tuple[list[Evidence], str]:
    """Examine files of many makers; return each look's result in order, and what was wrong with the batch as a whole.

    The files of one maker are one group: a process examines one group only. `remove` names folders to remove
    afterwards, so that later files cannot meet them.
    """
    folder, looks = f"{desk.home}/{FOLDER}", [each for group in groups for each in group]
    modules = dict.fromkeys(name for each in looks for name in (each.program, *each.needs))
    await bring(desk, folder, tuple(dict.fromkeys((RESIDENT, *modules))))
    request = {
        "groups": [[{"program": each.program, "request": dict(each.request)} for each in group] for group in groups],
        "remove": list(remove),
        "seconds": _SECONDS_EACH,
        "most": MAX_LINE_BYTES,
    }
    done = await desk.run(
        ["python3", "-I", "-B", "-c", RUN, folder, RESIDENT],
        stdin=json.dumps(request).encode(),
        timeout=_SECONDS_ALL + _SECONDS_EACH * len(looks),
        output_limit=MAX_OUTPUT_BYTES,
    )
    lines = done.stdout.split(b"\n")
    trouble = describe_failure(done)
    if not trouble and (len(lines) != len(looks) + 1 or lines[-1]):
        trouble = "the inspection of several files did not return a report for each"
    if trouble:
        return [Evidence(b"", trouble=trouble) for _ in looks], trouble
    return [Evidence(line[:MAX_LINE_BYTES]) for line in lines[:-1]], ""
