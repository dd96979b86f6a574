"""Disk use charged to a desk beside its own layer: what it inherits, and what its snapshots hold.

The kernel's simple quotas charge a subvolume with what it wrote. Each time a layer is made of a snapshot it is another
subvolume, another *life*, and what earlier lives wrote stays for as long as the layer or a snapshot shows it.
"""

from __future__ import annotations

import threading
from itertools import count

_ADOPTED = -2
"""The life of what another keeper counted."""


class Charges:
    """Bytes that layers and snapshots show of each life, by name; a snapshot's begins with its desk's and a dot."""

    def __init__(self) -> None:
        self.shown: dict[str, dict[int, int]] = {}
        self.lives: dict[str, int] = {}
        """The life each desk's layer is in."""
        self.numbers = count()
        self.lock = threading.Lock()
        """Snapshots are taken in threads."""

    def begin(self, desk: str, source: str | None = None) -> None:
        with self.lock:
            self.shown[desk] = dict(self.shown.get(source, {})) if source else {}
            self.lives[desk] = next(self.numbers)

    def keep(self, desk: str, name: str, own: int) -> None:
        with self.lock:
            self.shown[name] = {**self.shown.get(desk, {}), self.lives.get(desk, -1): own}

    def adopt(self, name: str, size: int) -> None:
        """Take down a snapshot that another keeper took: all of its lives are one here."""
        with self.lock:
            self.shown[name] = {_ADOPTED: size}

    def drop(self, name: str) -> None:
        with self.lock:
            self.shown.pop(name, None)
            self.lives.pop(name, None)

    def sum_other_lives(self, desk: str) -> int:
        """Add up what a desk holds beside what its layer wrote in this life: of each other life the most shown."""
        sizes: dict[int, int] = {}
        with self.lock:
            family = [shown for name, shown in self.shown.items() if name.partition(".")[0] == desk]
        for shown in family:
            for life, size in shown.items():
                sizes[life] = max(size, sizes.get(life, 0))
        sizes.pop(self.lives.get(desk, -1), None)
        return sum(sizes.values())
