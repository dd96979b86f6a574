"""The clock of a server's sandboxes: ends or pauses expired ones, releases ended ones, keeps hibernated ones."""

from __future__ import annotations

import time

import anyio

from hotdesk.api.e2b.responses import E2bError, log
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes, cut, has_ended
from hotdesk.errors import HotdeskError

_MAX_INTERVAL_S = 1.0
"""Maximum seconds between two checks."""


async def run(sandboxes: Sandboxes) -> None:
    ending: set[str] = set()
    while True:
        now = time.time()
        for sandbox in list(sandboxes.by_id.values()):
            if not sandbox.turning.locked() and release(sandboxes, sandbox):
                continue
            if sandbox.state == "running" and sandbox.ends <= now and sandbox.id not in ending:
                ending.add(sandbox.id)
                sandboxes.tasks.start_soon(finish, sandboxes, sandbox, ending)
        sandboxes.soonest = anyio.Event()
        with anyio.move_on_after(wait(sandboxes, time.time())):
            await sandboxes.soonest.wait()


def release(sandboxes: Sandboxes, sandbox: Sandbox) -> bool:
    """Release a sandbox that ended, unless it continues from disk; return whether it ended."""
    sandboxes.retain(sandbox)
    if not has_ended(sandbox):
        return False
    if sandbox.opened is None:
        sandboxes.tasks.start_soon(sandboxes.kill, sandbox)
    else:
        sandboxes.by_id.pop(sandbox.id, None)
        cut(sandbox)
    return True


def wait(sandboxes: Sandboxes, now: float) -> float:
    due = (each.ends for each in sandboxes.by_id.values() if each.state == "running" and each.ends > now)
    return max(0.01, min(min(due, default=now + _MAX_INTERVAL_S) - now, _MAX_INTERVAL_S))


async def finish(sandboxes: Sandboxes, sandbox: Sandbox, ending: set[str]) -> None:
    """End or pause an expired sandbox, unless its time was extended meanwhile; a failure is retried."""
    try:
        await sandboxes.finish(sandbox, due=True)
    except E2bError:
        pass  # it was paused or killed meanwhile, or did not stop
    except (HotdeskError, OSError) as e:
        log(e)
    finally:
        ending.discard(sandbox.id)
