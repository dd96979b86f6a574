"""Disk usage charged to a desk beside its own layer: inherited data, and data held by its snapshots.

The kernel's simple quotas charge a subvolume only for what was written to it. Each layer made from a snapshot is a new
subvolume, here called a *life*. Data from earlier lives stays on disk for as long as the layer or a snapshot refers to
it.
"""

from __future__ import annotations

import threading
from itertools import count

_ADOPTED = -2
"""The life that stands for all usage counted by another keeper."""


class Charges:
    """Bytes of each life in a layer or snapshot, by name. A snapshot's name begins with its desk's and a dot."""

    def __init__(self) -> None:
        self.shown: dict[str, dict[int, int]] = {}
        self.lives: dict[str, int] = {}
        """The current life of each desk's layer."""
        self.numbers = count()
        self.lock = threading.Lock()
        """Needed because snapshots are taken in threads."""

    def begin(self, desk: str, source: str | None = None) -> None:
        with self.lock:
            self.shown[desk] = dict(self.shown.get(source, {})) if source else {}
            self.lives[desk] = next(self.numbers)

    def keep(self, desk: str, name: str, own: int) -> None:
        with self.lock:
            self.shown[name] = {**self.shown.get(desk, {}), self.lives.get(desk, -1): own}

    def adopt(self, name: str, size: int) -> None:
        """Register a snapshot of another keeper; all its lives count as one here."""
        with self.lock:
            self.shown[name] = {_ADOPTED: size}

    def drop(self, name: str) -> None:
        with self.lock:
            self.shown.pop(name, None)
            self.lives.pop(name, None)

    def sum_other_lives(self, desk: str) -> int:
        """Return the bytes a desk holds beside its layer's writes in this life: the largest size of each other life."""
        sizes: dict[int, int] = {}
        with self.lock:
            family = [shown for name, shown in self.shown.items() if name.partition(".")[0] == desk]
        for shown in family:
            for life, size in shown.items():
                sizes[life] = max(size, sizes.get(life, 0))
        sizes.pop(self.lives.get(desk, -1), None)
        return sum(sizes.values())
