"""Who looks at which desk through this server: by the names they look under, they take the wheel."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hotdesk.api.caller import Caller


@dataclass(slots=True)
class Viewers:
    """Names under which people look at desks, known to the desks' owners and to nobody else."""

    names: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    """By tenant, desk and key; the latest last."""

    @contextmanager
    def looking(self, caller: Caller, desk: str) -> Iterator[str]:
        """Give a new name, for as long as somebody looks."""
        place, name = (caller.tenant, desk, caller.key), secrets.token_hex(16)
        self.names.setdefault(place, []).append(name)
        try:
            yield name
        finally:
            self.names[place].remove(name)
            if not self.names[place]:
                del self.names[place]

    def latest(self, caller: Caller, desk: str) -> str | None:
        """Give the name somebody looks under; None: they do not look."""
        found = self.names.get((caller.tenant, desk, caller.key))
        return found[-1] if found else None
