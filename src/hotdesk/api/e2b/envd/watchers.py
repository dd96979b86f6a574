"""Watched folders of a sandbox; changes are reported in E2B's format."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from hotdesk.api.e2b.envd.connect import Message
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Change, Watch

MAX_WATCHERS = 64
"""Watchers one sandbox may have."""
TYPES = {
    "create": "EVENT_TYPE_CREATE",
    "write": "EVENT_TYPE_WRITE",
    "remove": "EVENT_TYPE_REMOVE",
    "rename": "EVENT_TYPE_RENAME",
    "chmod": "EVENT_TYPE_CHMOD",
}
_DESCRIBED = frozenset({"create", "write", "chmod"})
"""Kinds of changes after which the path still exists."""

Describe: TypeAlias = Callable[[str], Awaitable[Message | None]]
"""Describes a path; `None` if it does not exist any more."""


@dataclass(frozen=True, slots=True)
class FolderWatcher:
    watch: Watch
    path: str
    entries: bool
    """Whether events describe the entry that changed."""

    async def tell(self, changes: list[Change], describe: Describe) -> list[Message]:
        """Return changes as events of E2B; other kinds of changes are left out."""
        return [await self.make_event(one, describe) for one in changes if one.kind in TYPES]

    async def make_event(self, change: Change, describe: Describe) -> Message:
        event: Message = {"name": change.path, "type": TYPES[change.kind]}
        if self.entries and change.kind in _DESCRIBED:
            found = await describe(f"{self.path.rstrip('/')}/{change.path}")
            if found is not None:
                event["entry"] = found
        return event
