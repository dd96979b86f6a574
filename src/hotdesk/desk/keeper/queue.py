"""The queue of requests to open desks: first come, first served; requests for spare desks come last."""

from __future__ import annotations

from dataclasses import field

from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper.tracked import read_clock
from hotdesk.desk.request import KeeperRequest
from hotdesk.errors import BriefError, HostError

MAX_WAITING = 1024
"""Maximum requests that may wait."""
MAX_WAIT_S = 45.0
"""Seconds a request may wait."""


@dataclass(frozen=True, slots=True)
class QueuedOpen:
    """A waiting request to open a desk."""

    number: int
    request: KeeperRequest
    since: float = field(default_factory=read_clock)

    def check(self) -> None:
        if read_clock() - self.since > MAX_WAIT_S:
            raise HostError(
                f"no desk could be opened within {MAX_WAIT_S:.0f} s; the machine is overloaded, try again later"
            )


class Queue:
    """The requests waiting at one keeper, by desk."""

    def __init__(self) -> None:
        self.waiting: dict[str, QueuedOpen] = {}

    def add(self, number: int, request: KeeperRequest) -> None:
        if request.desk in self.waiting:
            raise BriefError(f"desk {request.desk} is already being opened")
        if len(self.waiting) >= MAX_WAITING:
            raise HostError(f"{MAX_WAITING} desks are already waiting to be opened; open fewer at a time")
        self.waiting[request.desk] = QueuedOpen(number, request)

    def take(self) -> QueuedOpen | None:
        """Remove and return the next request. Those for desks of the pool come after all others."""
        desk = next((desk for desk, each in self.waiting.items() if not each.request.spare), None)
        return self.drop(desk or next(iter(self.waiting), ""))

    def drop(self, desk: str) -> QueuedOpen | None:
        """Remove and return the request for a desk, if it still waits."""
        return self.waiting.pop(desk, None)
