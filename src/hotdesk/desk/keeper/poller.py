"""Poll many file descriptors, few of which change between turns."""

from __future__ import annotations

import select
from collections.abc import Mapping
from contextlib import suppress


class Ears:
    """The file descriptors that are polled."""

    def __init__(self) -> None:
        self.poll = select.epoll()
        self.registered: dict[int, object] = {}

    def turn_to(self, descriptors: Mapping[int, object]) -> None:
        """Poll exactly these descriptors, each with its object: the number of a closed one may have been reused."""
        for fd, whose in self.registered.items():
            if descriptors.get(fd) is not whose:
                with suppress(OSError):
                    self.poll.unregister(fd)
        for fd, whose in descriptors.items():
            if self.registered.get(fd) is not whose:
                self.poll.register(fd, select.EPOLLIN)
        self.registered = dict(descriptors)

    def hear(self, seconds: float) -> set[int]:
        """Wait for input; return the readable descriptors."""
        return {fd for fd, _ in self.poll.poll(seconds + 0.001, len(self.registered) or 1)}
