"""Whether a pool may be used for desks: its last preflight passed on a pod's node, and is not too old."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from hotdesk.desk.pod.preflight import REFUSAL, PreflightReport, describe_faults
from hotdesk.errors import HostError, make_printable

INTERVAL_S = 3600.0
RETRY_S = 60.0
"""Seconds from a preflight that failed to the next one."""
MAX_AGE_S = 1.5 * INTERVAL_S
MAX_OPEN = 2
"""Preflights in a row that may find an open network before open desks are ended; until then no new one is opened."""
ACCEPTED = "desks are opened although their network may be open, because `[pods] accept_open_network` is set"


class PoolTrust:
    """Repeats the preflight of a pool. No desk may be opened there unless `require` and `require_node` return."""

    def __init__(
        self,
        run: Callable[[], Awaitable[PreflightReport]],
        log: Callable[[Exception], None],
        *,
        accepts_open: bool = False,
    ) -> None:
        self.run = run
        self.log = log
        self.accepts_open = accepts_open
        """Whether the operator accepts a pool whose preflight fails; the log and the node's report repeat it."""
        self.passed: float | None = None
        self.nodes: frozenset[str] = frozenset()
        """The nodes on which the last preflight passed."""
        self.reason = "its network has not been tested yet; try again in a minute"
        self.due = anyio.Event()
        self.open_count = 0
        """Preflights in a row that found that desks reach, or are reached by, what they must not."""
        self.on_open: Callable[[str], None] = lambda why: None
        """Called when open desks must end, because their network is open."""

    async def follow(self) -> None:
        """Test the pool now and every hour; every minute while it is not trusted, or if a desk is on a new node."""
        while True:
            self.due = anyio.Event()
            await self.check()
            await anyio.sleep(RETRY_S)
            if self.passed is not None or self.accepts_open:
                with anyio.move_on_after(INTERVAL_S - RETRY_S):
                    await self.due.wait()

    async def check(self) -> None:
        try:
            report = await self.run()
        except Exception as e:  # noqa: BLE001 - whatever a client of Kubernetes raises: an untested pool is not trusted
            self.refuse(f"the preflight failed: {make_printable(str(e)[:4000]) or type(e).__name__}")
            return
        if report.is_trusted:
            self.open_count = 0
            self.passed = anyio.current_time()
            self.nodes = frozenset(row.node for row in report.rows)
        else:
            self.refuse(describe_faults(report))
            self.open_count += report.is_open
            if self.open_count >= MAX_OPEN and not self.accepts_open:
                self.on_open(f"its network is open: {report.faults[0]}")

    def refuse(self, reason: str) -> None:
        """Trust the pool no longer. A reason that was logged last time is not repeated."""
        is_new = reason != self.reason
        self.passed, self.reason, self.nodes = None, reason, frozenset()
        if is_new:
            self.log(HostError(f"{ACCEPTED if self.accepts_open else REFUSAL}: {reason}"))

    @property
    def is_refused(self) -> bool:
        return self.passed is None and not self.accepts_open

    @property
    def has_open_network(self) -> bool:
        """Return whether desks are opened although no preflight passed."""
        return self.passed is None and self.accepts_open

    def require(self) -> None:
        """Raise `HostError` with the reason if the pool is not trusted."""
        if self.accepts_open:
            return
        if self.passed is None:
            raise HostError(f"{REFUSAL}: {self.reason}")
        if anyio.current_time() - self.passed > MAX_AGE_S:
            raise HostError(
                f"{REFUSAL}: its network was last tested more than 90 minutes ago; restart the agent of the pool"
            )

    def require_node(self, node: str) -> None:
        """Raise `HostError` if the last preflight did not include this node, and have it tested soon."""
        if self.accepts_open or node in self.nodes:
            return
        self.due.set()
        raise HostError(f"{REFUSAL}: the network of node {make_printable(node)!r} has not been tested yet; try again")
