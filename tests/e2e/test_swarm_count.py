"""Test of a swarm with many items, each at its own desk, within limits of time, memory and journal.

HOTDESK_SWARM_ITEMS=10000 pytest tests/e2e/test_swarm_count.py
"""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path

import pytest
from bench.swarm import measure_own

from hotdesk.config import Config
from hotdesk.drive.journal import FILE, read
from hotdesk.event import Burnt, Opened
from tests.e2e.swarm_processes import SwarmProcess, find_parts, write_brief

COUNTS = tuple(int(each) for each in os.environ.get("HOTDESK_SWARM_ITEMS", "1000").split(","))
pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(300 + max(COUNTS))]
SECONDS_EACH = 0.25
"""Seconds for each item on a machine with other work; 15 minutes for 10,000 items are 0.09."""
JOURNAL_EACH = 3 * 1024
OWNER_BYTES = 512 << 20


@pytest.mark.parametrize("count", COUNTS)
def test_every_item_has_its_own_desk_and_stays_within_the_promised_limits(
    count: int, settings: Config, tmp_path: Path
) -> None:
    swarm = SwarmProcess(settings, write_brief(tmp_path, count))
    journal = settings.lib / "keys" / FILE
    began, peak, before = time.monotonic(), 0, resource.getrusage(resource.RUSAGE_CHILDREN)
    used: dict[str, float] = {}
    free = least = measure_free()
    with swarm.process() as process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout):
            swarm.job = swarm.job or json.loads(line)["data"].get("job", "")
            if number % 50 == 0:
                parts = find_parts(process.pid)
                peak, least = max(peak, sum(map(measure_memory, parts.values()))), min(least, measure_free())
                used |= {name: measure_own(pid) or used.get(name, 0.0) for name, pid in parts.items()}
    took = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert process.returncode == 0, (tmp_path / "said").read_text()[-2000:]
    records = swarm.list_records()
    desks = {each.desk for each in records}
    assert len(records) == len(desks) == count
    clean = {each.clean for each in records}
    assert not desks & clean
    opened = {row.chain for row in read(journal, names=[Opened.__name__])}
    burnt = {row.chain for row in read(journal, names=[Burnt.__name__])}
    assert desks | clean <= opened & burnt
    size = sum(path.stat().st_size for path in journal.parent.glob(f"{FILE}*")) / count
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    shares = ", ".join(f"{name} {1000 * seconds / count:.1f}" for name, seconds in used.items())
    print(
        f"{count} items: {took:.1f} s, {count / took:.1f} a second, {1000 * cpu / count:.1f} ms of processor an item "
        f"({shares}), {size / 1024:.2f} KiB of journal an item, {peak >> 20} MiB at most in owner, keeper, door and "
        f"keys, {free - least >> 20} MiB of the machine's memory with all desks"
    )
    assert took < 20 + SECONDS_EACH * count
    assert size < JOURNAL_EACH + (1 << 20) / count
    assert peak < OWNER_BYTES
    assert json.loads((swarm.out / "total.json").read_bytes()) == {"total": sum(len(f"word{n}") for n in range(count))}


def measure_free() -> int:
    """Return the bytes of memory available on this machine."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) << 10


def measure_memory(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in fields.splitlines() if line.startswith("Private_"))
