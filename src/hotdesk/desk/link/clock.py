"""A desk's own clock, which stops while its programs are suspended deliberately."""

from __future__ import annotations

import math
from types import TracebackType

import anyio


class DeskClock:
    """Counts the seconds in which a desk's programs could run, and enforces deadlines in this time."""

    def __init__(self) -> None:
        self.stopped_at: float | None = None
        self.lost = 0.0
        """Seconds the clock has been stopped so far."""
        self.scopes: dict[anyio.CancelScope, float] = {}
        """Active deadlines, in this clock's time."""

    def get_time(self) -> float:
        return (anyio.current_time() if self.stopped_at is None else self.stopped_at) - self.lost

    def stop(self) -> None:
        """Stop the clock. Stopping twice is no error."""
        if self.stopped_at is None:
            self.stopped_at = anyio.current_time()
            self.arrange()

    def go_on(self) -> None:
        """Continue. A second call does nothing."""
        if self.stopped_at is not None:
            self.lost += anyio.current_time() - self.stopped_at
            self.stopped_at = None
            self.arrange()

    def until(self, deadline: float) -> Until:
        return Until(self, deadline)

    def get_loop_time(self, deadline: float) -> float:
        return math.inf if self.stopped_at is not None else deadline + self.lost

    def arrange(self) -> None:
        """Convert every deadline to the event loop's time."""
        for scope, deadline in self.scopes.items():
            scope.deadline = self.get_loop_time(deadline)


class Until:
    """A block that is cancelled at a time of a desk's clock."""

    def __init__(self, clock: DeskClock, deadline: float) -> None:
        self.clock = clock
        self.deadline = deadline
        self.scope = anyio.CancelScope()

    def __enter__(self) -> anyio.CancelScope:
        self.scope.deadline = self.clock.get_loop_time(self.deadline)
        self.clock.scopes[self.scope] = self.deadline
        return self.scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        del self.clock.scopes[self.scope]
        return bool(self.scope.__exit__(kind, error, trace))
