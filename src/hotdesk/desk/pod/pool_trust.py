"""Whether a pool may be used for desks: its last preflight passed, and is not too old."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from hotdesk.desk.pod.preflight import REFUSAL, PreflightReport, describe_faults
from hotdesk.errors import HostError, make_printable

INTERVAL_S = 3600.0
RETRY_S = 60.0
"""Seconds from a preflight that failed to the next one."""
MAX_AGE_S = 1.5 * INTERVAL_S


class PoolTrust:
    """Repeats the preflight of a pool. No desk may be opened there unless `require` returns."""

    def __init__(self, run: Callable[[], Awaitable[PreflightReport]], log: Callable[[Exception], None]) -> None:
        self.run = run
        self.log = log
        self.passed: float | None = None
        self.reason = "its network has not been tested yet; try again in a minute"

    async def follow(self) -> None:
        """Test the pool now and every hour, and every minute while it is not trusted."""
        while True:
            await self.check()
            await anyio.sleep(RETRY_S if self.passed is None else INTERVAL_S)

    async def check(self) -> None:
        try:
            report = await self.run()
        except Exception as e:  # noqa: BLE001 - whatever a client of Kubernetes raises: an untested pool is not trusted
            self.refuse(f"the preflight failed: {make_printable(str(e)[:4000]) or type(e).__name__}")
            return
        if report.is_trusted:
            self.passed = anyio.current_time()
        else:
            self.refuse(describe_faults(report))

    def refuse(self, reason: str) -> None:
        self.passed, self.reason = None, reason
        self.log(HostError(f"{REFUSAL}: {reason}"))

    def require(self) -> None:
        """Raise `HostError` with the reason if the pool is not trusted."""
        if self.passed is None:
            raise HostError(f"{REFUSAL}: {self.reason}")
        if anyio.current_time() - self.passed > MAX_AGE_S:
            raise HostError(
                f"{REFUSAL}: its network was last tested more than 90 minutes ago; restart the agent of the pool"
            )
