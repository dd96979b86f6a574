"""Certificates of a cluster that end soon: warnings, and new certificates that are loaded without a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import anyio

from hotdesk.cluster.certificates import ClusterContext
from hotdesk.errors import HostError, HotdeskError

OWN = "this machine"
WARN_SECONDS = 30 * 86400.0
"""Seconds before its end from which a certificate is warned of."""
_WARN_AGAIN_S = 86400.0
_LOOK_INTERVAL_S = 10.0


class ExpiryWarnings:
    """Warns of each certificate once a day."""

    def __init__(self) -> None:
        self.warned: dict[str, float] = {}
        """When each was warned of last, as Unix time."""

    def list_due(self, expiries: Mapping[str, float], now: float) -> list[HostError]:
        due = [
            each
            for each, end in expiries.items()
            if end - now < WARN_SECONDS and now - self.warned.get(each, -_WARN_AGAIN_S) >= _WARN_AGAIN_S
        ]
        self.warned = {each: at for each, at in self.warned.items() if each in expiries} | dict.fromkeys(due, now)
        return [HostError(_describe(each, expiries[each], now)) for each in due]


def _describe(owner: str, end: float, now: float) -> str:
    day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(end))
    when = f"ends in {(end - now) / 86400:.0f} days, at {day}" if end > now else f"ended at {day}"
    return (
        f"the cluster certificate of {owner} {when}; then it cannot be used, and desks are lost. Renew it with "
        "`hotdesk node enroll` and --renew, and copy it there; a running process loads it"
    )


async def follow_certificates(
    context: ClusterContext,
    list_expiries: Callable[[], Mapping[str, float]],
    log: Callable[[Exception], None],
    renewed: Callable[[], object] = bool,
) -> None:
    """Load this process's certificate whenever its files change, then call `renewed`; warn of those that end soon."""
    warnings = ExpiryWarnings()
    while True:
        try:
            if context.refresh():
                renewed()
        except (HotdeskError, OSError) as e:
            log(e)
        for warning in warnings.list_due(list_expiries(), time.time()):
            log(warning)
        await anyio.sleep(_LOOK_INTERVAL_S)
