"""Looks up whether a name resolves to a private network: in threads, cached, with a deadline.

The answer of a slow resolver is not waited for twice: whoever asks again gets what is known, while a thread asks anew.
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
"""Seconds a first lookup is waited for."""
FRESH_SECONDS, RETRY_SECONDS = 60.0, 10.0
"""Seconds an answer, or that there was none, is taken as it is."""

Find: TypeAlias = Callable[[str], Iterable[str]]
"""Finds a name's addresses, or raises `OSError`; may take its time."""


def _find_addresses(host: str) -> set[str]:
    return {str(each[4][0]) for each in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)}


@dataclass(slots=True)
class LookupEntry:
    """The cached addresses of one name."""

    begun: float
    """When the lookup began that is under way, or was the last."""
    expires: float
    """When it is looked up again."""
    inside: bool = False
    answered: threading.Event = field(default_factory=threading.Event)
    """Set once a lookup has ended, however it did."""
    pending: bool = True
    """Whether a lookup is under way."""


class Lookups:
    """The cache of looked-up names. Thread-safe; it blocks, so no event loop should wait for it."""

    def __init__(self, find: Find = _find_addresses, seconds: float = _LOOKUP_SECONDS) -> None:
        self.find = find
        self.seconds = seconds
        self.entries: dict[str, LookupEntry] = {}
        self.lock = threading.Lock()

    def leads_inside(self, host: str) -> bool:
        """Return whether a name leads to a private network; False if it was not resolved in time."""
        entry = self.begin(host)
        entry.answered.wait(max(0.0, entry.begun + self.seconds - time.monotonic()))
        return entry.inside

    def begin(self, host: str) -> LookupEntry:
        """Start looking a name up, unless that is running or was done a moment ago."""
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
        except RuntimeError:  # no thread is to be had
            self.end(entry, None)
        return entry

    def look_up(self, host: str, entry: LookupEntry) -> None:
        """Look a name up; called in a thread of its own."""
        try:
            inside = _is_inside(self.find(host))
        except (OSError, ValueError):
            inside = None
        self.end(entry, inside)

    def end(self, entry: LookupEntry, inside: bool | None) -> None:
        """Store a result; after a failed lookup the previous one stays."""
        with self.lock:
            entry.pending = False
            entry.inside = entry.inside if inside is None else inside
            entry.expires = time.monotonic() + (RETRY_SECONDS if inside is None else FRESH_SECONDS)
        entry.answered.set()


def _is_inside(addresses: Iterable[str]) -> bool:
    found = {ip_address(each) for each in addresses}
    return any(check(each) is not None and check(each, private=True) is None for each in found)


LOOKUPS = Lookups()
"""The lookups of this process."""
