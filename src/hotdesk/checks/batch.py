"""Many files looked at by one program in one clean desk: each by a fork of it that has opened nothing before.

Starting Python for each file takes longer than looking at a small one. What comes back is bounded and read as if each
file had been looked at by itself (`evidence.py`); a batch that did not end as it should proves nothing for any of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hotdesk.checks.evidence import FOLDER, RESIDENT, RUN, bring, trouble_of
from hotdesk.checks.seam import Evidence
from hotdesk.desk.seam import Desk

MAX_LOOKS = 400
"""Looks of one batch."""
MAX_LINE_BYTES = 1 << 20
"""Bytes of what one look says; a file of which there is more to say is looked at by itself."""
MAX_OUTPUT_BYTES = 64 << 20
_SECONDS_EACH = 5.0
_SECONDS_ALL = 60.0


@dataclass(frozen=True, slots=True)
class LookRequest:
    """Which program of `inside/` looks at a file, what it is asked, and which other modules it imports."""

    program: str
    request: Mapping[str, object]
    needs: tuple[str, ...] = ()


@runtime_checkable
class BatchedCheck(Protocol):
    """A check whose files can be looked at together with others."""

    def ask_look(self, path: str, beside: str) -> LookRequest | None:
        """Give how a file is looked at; what it needs lies in the folder `beside`. None: only by itself."""
        ...


async def look_many(desk: Desk, looks: Sequence[LookRequest], remove: Sequence[str] = ()) -> tuple[list[Evidence], str]:
    """Look at many files; give what was seen of each, and what was wrong with the batch as a whole.

    `remove` names folders that are removed once all was looked at: no later file shall meet them.
    """
    folder = f"{desk.home}/{FOLDER}"
    modules = dict.fromkeys(name for each in looks for name in (each.program, *each.needs))
    await bring(desk, folder, tuple(dict.fromkeys((RESIDENT, *modules))))
    request = {
        "looks": [{"program": each.program, "request": dict(each.request)} for each in looks],
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
    trouble = trouble_of(done)
    if not trouble and (len(lines) != len(looks) + 1 or lines[-1]):
        trouble = "what looked at several files did not say something of each"
    if trouble:
        return [Evidence(b"", trouble=trouble) for _ in looks], trouble
    return [Evidence(line[:MAX_LINE_BYTES]) for line in lines[:-1]], ""
