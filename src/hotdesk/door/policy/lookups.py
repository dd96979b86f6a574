"""Find out whether a name resolves to a private network: in threads, cached, with a deadline.

A slow resolver delays only the first caller: later ones get the cached result while a thread looks the name up again.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import field
from ipaddress import ip_address
from typing import TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.door.policy.address import check

_LOOKUP_SECONDS = 5.0
"""Seconds that a caller waits for a first lookup."""
FRESH_SECONDS, RETRY_SECONDS = 60.0, 10.0
"""Seconds for which a result, or a failure, is cached."""

Find: TypeAlias = Callable[[str], Iterable[str]]
"""Returns a name's addresses, or raises `OSError`; it may block."""


def _find_addresses(host: str) -> set[str]:
    return {str(each[4][0]) for each in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)}


@dataclass(slots=True)
class LookupEntry:
    """The cached addresses of one name."""

    begun: float
    """When the current or the last lookup began."""
    expires: float
    """When the name must be looked up again."""
    inside: bool = False
    answered: threading.Event = field(default_factory=threading.Event)
    """Set once a lookup has ended, successfully or not."""
    pending: bool = True
    """Whether a lookup is in progress."""


class Lookups:
    """The cache of looked-up names. Thread-safe. It blocks: do not call it in an event loop."""

    def __init__(self, find: Find = _find_addresses, seconds: float = _LOOKUP_SECONDS) -> None:
        self.find = find
        self.seconds = seconds
        self.entries: dict[str, LookupEntry] = {}
        self.lock = threading.Lock()

    def leads_inside(self, host: str) -> bool:
        """Return whether a name resolves to a private network; false if it was not resolved in time."""
        entry = self.begin(host)
        entry.answered.wait(max(0.0, entry.begun + self.seconds - time.monotonic()))
        return entry.inside

    def begin(self, host: str) -> LookupEntry:
        """Start a lookup unless one is in progress or the cached result is fresh."""
        now = time.monotonic()
        with self.lock:
            entry = self.entries.get(host)
            if entry is not None and (entry.pending or entry.expires > now):
                return entry
            if entry is None:
                entry = self.entries[host] = LookupEntry(now, now)
            entry.begun, entry.pending = now, True
        try:
            threading.Thread(target=self.look_up, args=(host, entry), daemon=True, name="lookup").start()
        except RuntimeError:  # no thread could be started
            self.end(entry, None)
        return entry

    def look_up(self, host: str, entry: LookupEntry) -> None:
        """Look up a name; called in a thread of its own."""
        try:
            inside = _is_inside(self.find(host))
        except (OSError, ValueError):
            inside = None
        self.end(entry, inside)

    def end(self, entry: LookupEntry, inside: bool | None) -> None:
        """Store a result; after a failed lookup the previous result stays."""
        with self.lock:
            entry.pending = False
            entry.inside = entry.inside if inside is None else inside
            entry.expires = time.monotonic() + (RETRY_SECONDS if inside is None else FRESH_SECONDS)
        entry.answered.set()


def _is_inside(addresses: Iterable[str]) -> bool:
    found = {ip_address(each) for each in addresses}
    return any(check(each) is not None and check(each, private=True) is None for each in found)


LOOKUPS = Lookups()
"""The lookup cache of this process."""
