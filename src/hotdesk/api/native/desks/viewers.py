"""Viewers of desks through this server, by the names under which they take control of the screen."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from hotdesk.api.caller import Caller
from hotdesk.dataclass import dataclass


@dataclass(slots=True)
class Viewers:
    """Names of viewers at desks, known only to the desks' owners."""

    names: dict[tuple[str, str, str], list[tuple[str, str]]] = field(default_factory=dict)
    """By tenant, desk and key: each viewer's label, chosen by the client, and its name; the latest last."""

    @contextmanager
    def looking(self, caller: Caller, desk: str, name: str, viewer: str) -> Iterator[None]:
        """Register a name while its viewer watches; `viewer` is the client's label for itself."""
        place = (caller.tenant, desk, caller.key)
        self.names.setdefault(place, []).append((viewer, name))
        try:
            yield
        finally:
            self.names[place].remove((viewer, name))
            if not self.names[place]:
                del self.names[place]

    def find_latest(self, caller: Caller, desk: str, viewer: str = "") -> str | None:
        """Return the caller's latest name with that label, or with any; `None` if the caller does not watch."""
        found = self.names.get((caller.tenant, desk, caller.key), [])
        return next((name for label, name in reversed(found) if viewer in ("", label)), None)


def new_name() -> str:
    return secrets.token_hex(16)
