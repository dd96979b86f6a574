"""Resource use of sandboxes, sampled from outside and stored for an hour."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import anyio

from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.errors import HotdeskError

_SAMPLE_INTERVAL_S = 5.0
"""Seconds between two samples of a sandbox."""
MAX_AGE_S = 1.0
"""Seconds for which a sample counts as current."""
_MIN_INTERVAL_S = 0.05
"""Minimum seconds between any two samples: if there are many sandboxes, each is sampled less often."""


async def run(sandboxes: Sandboxes) -> None:
    while True:
        end = anyio.current_time() + _SAMPLE_INTERVAL_S
        for sandbox in list(sandboxes.by_id.values()):
            await sample(sandbox)
            await anyio.sleep(_MIN_INTERVAL_S)
        await anyio.sleep_until(end)


async def sample(sandbox: Sandbox) -> None:
    """Measure a sandbox, unless it is paused or has ended."""
    if sandbox.state != "running":
        return
    try:
        used = await sandbox.desk.usage()
    except HotdeskError:
        return
    now, spec = time.time(), sandbox.spec
    before = sandbox.samples[-1] if sandbox.samples else {}
    began, spent = float(str(before.get("at", sandbox.started))), float(str(before.get("cpu", 0.0)))
    share = max(0.0, used.cpu - spent) / max(now - began, 0.001) / spec.cpus
    sandbox.samples.append(
        {
            "at": now,
            "cpu": used.cpu,
            "timestamp": datetime.fromtimestamp(now, UTC).isoformat(),
            "timestampUnix": int(now),
            "cpuCount": max(1, int(spec.cpus)),
            "cpuUsedPct": round(100 * share, 2),
            "memUsed": used.memory,
            "memTotal": spec.memory,
            "memCache": 0,
            "diskUsed": used.disk,
            "diskTotal": spec.disk,
        }
    )


async def list_samples(sandbox: Sandbox, query: Mapping[str, str]) -> list[dict[str, object]]:
    start, end = parse_seconds(query, "start", 0), parse_seconds(query, "end", 1 << 40)
    if start > end:
        raise E2bError(400, "start must not be later than end")
    await refresh(sandbox)
    return [_strip_internals(each) for each in sandbox.samples if start <= int(str(each["timestampUnix"])) <= end]


async def get_newest_sample(sandbox: Sandbox) -> dict[str, object] | None:
    await refresh(sandbox)
    return _strip_internals(sandbox.samples[-1]) if sandbox.samples else None


async def refresh(sandbox: Sandbox) -> None:
    if not sandbox.samples or time.time() - float(str(sandbox.samples[-1]["at"])) > MAX_AGE_S:
        await sample(sandbox)


def _strip_internals(found: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in found.items() if name not in ("at", "cpu")}


def parse_seconds(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not text.isascii() or not text.isdecimal() or len(text) > 13:
        raise E2bError(400, f"{name} must be a Unix time in seconds")
    return int(text)
