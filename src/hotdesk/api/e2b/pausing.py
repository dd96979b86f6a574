"""Pauses the desk of a sandbox, and tests whether it responds."""

from __future__ import annotations

import anyio

from hotdesk.api.e2b.responses import log, make_not_paused_error
from hotdesk.desk.seam import Desk
from hotdesk.errors import BriefError, DeskError, DeskGone, HotdeskError

_HEALTH_TIMEOUT_S = 5.0
_STOP_TIMEOUT_S = 10.0
"""Seconds a desk may take to stop."""
_STOP_INTERVAL_S = 0.1
"""Seconds between the first two attempts; later pauses double, because each attempt makes the keeper wait 0.25 s."""


async def stop(desk: Desk, *, memory: bool, to_disk: bool = False) -> bool:
    """Pause a desk; retry one that does not stop at once, during a start or a long disk operation.

    If its memory cannot be written to disk it is kept in RAM. Return whether it was written to disk.
    """
    if memory and to_disk:
        try:
            await desk.pause(keep="disk")
            return True
        except DeskGone:
            raise
        except (BriefError, DeskError) as e:
            log(e)
    end, interval = anyio.current_time() + _STOP_TIMEOUT_S, _STOP_INTERVAL_S
    while True:
        try:
            await desk.pause(memory=memory)
            return False
        except DeskGone:
            raise
        except DeskError as e:
            if anyio.current_time() > end:
                raise make_not_paused_error(f"the sandbox did not stop within {_STOP_TIMEOUT_S:.0f} s") from e
            await anyio.sleep(interval)
            interval *= 2


async def is_healthy(desk: Desk) -> bool:
    try:
        with anyio.fail_after(_HEALTH_TIMEOUT_S):
            return (await desk.run(["true"])).exit_code == 0
    except (HotdeskError, TimeoutError) as e:
        log(e)
        return False
