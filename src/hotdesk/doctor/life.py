"""Measures of how a desk is frozen, ends at its deadline and burns, observed from the host."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.doctor.limits import SHORT
from hotdesk.doctor.measure import Finding, JudgedMeasure, Measure, report_failure, report_flaws, report_pass
from hotdesk.doctor.view import read, read_mounts
from hotdesk.linux import uids
from hotdesk.linux.cgroup import Cgroup
from hotdesk.linux.pace import scale_seconds
from hotdesk.linux.processes import read_status

LOOK = 0.15
"""Seconds a ticking program is observed."""
ENOUGH = 3
"""Context switches that show that a program runs."""
GRACE_S = 5.0
"""Seconds beyond a deadline, or after a burn, after which remains count as left behind."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """How often a ticking program ran before, during and after its desk was frozen."""

    before: int
    frozen: bool
    """Whether the kernel reported the desk as frozen."""
    during: int
    after: int


@dataclass(frozen=True, slots=True)
class DeadlineOutcome:
    """How long a desk with a deadline lasted in seconds; `None` if it lasted too long."""

    seconds: float | None
    deadline: float = SHORT.deadline


@dataclass(frozen=True, slots=True)
class Traces:
    """Places to search for remains of a desk."""

    desk: str
    base: int
    keeper: int
    settings: Config
    cgroup: Cgroup


async def freeze(cgroup: Cgroup, pid: int) -> Frozen:
    before = await _count_ticks(pid)
    cgroup.freeze(True)
    try:
        frozen = await wait_until(lambda: _is_frozen(cgroup), scale_seconds(GRACE_S))
        start = count(pid)
        await anyio.sleep(LOOK)
        during = count(pid) - start
    finally:
        cgroup.freeze(False)
    return Frozen(before, frozen, during, await _count_ticks(pid))


async def _count_ticks(pid: int) -> int:
    """Return how often a process ran while it was observed; longer on a busy machine, until it ran a few times."""
    start = count(pid)
    await anyio.sleep(LOOK)
    await wait_until(lambda: count(pid) - start > ENOUGH, scale_seconds(GRACE_S))
    return count(pid) - start


def _is_frozen(cgroup: Cgroup) -> bool:
    folder = cgroup.get_folder("freezer")
    return read(folder / "freezer.state") == "FROZEN" or "frozen 1" in read(folder / "cgroup.events")


def count(pid: int) -> int:
    return int(read_status(pid)["voluntary_ctxt_switches"])


async def outlive(settings: Config, desk: str, opened: float, deadline: float) -> DeadlineOutcome:
    """Wait until a desk has disappeared because of its deadline."""
    folder = settings.run / "desks" / desk
    gone = await wait_until(lambda: not folder.exists(), deadline + scale_seconds(GRACE_S))
    return DeadlineOutcome(time.monotonic() - opened if gone else None, deadline)


async def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        await anyio.sleep(0.02)
    return True


async def search(traces: Traces) -> list[str]:
    """List the remains of a burnt desk, after waiting for the kernel to clean up."""
    await wait_until(lambda: not list(_find_leftovers(traces)), scale_seconds(GRACE_S))
    return list(_find_leftovers(traces))


def _find_leftovers(traces: Traces) -> Iterator[str]:
    settings, desk = traces.settings, traces.desk
    yield from (f"process {pid}" for pid in _iterate_processes(traces.base))
    yield from (f"cgroup {folder}" for folder in traces.cgroup.folders.values() if folder.exists())
    yield from (
        f"{folder}" for folder in (settings.run / "desks" / desk, settings.run / "runtime" / desk) if folder.exists()
    )
    mounts = read_mounts(read(Path(f"/proc/{traces.keeper}/mountinfo")))
    yield from (f"mount {each.at}" for each in mounts if desk in each.at)
    if os.path.exists(f"/proc/{traces.keeper}/root{settings.run}/pool/{desk}"):
        yield "the desk's disk in the disk pool"
    claim = uids.CLAIMS / str((traces.base - uids.FIRST) // uids.WIDTH)
    if claim.is_symlink() and os.readlink(claim).endswith(f"/{desk}"):
        yield "the reservation of the desk's user ids"


def _iterate_processes(base: int) -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if base <= int(read_status(int(name))["Uid"].split()[0]) < base + uids.WIDTH:
                    yield int(name)


# -- judgements ------------------------------------------------------------------------------------------------


def judge_freeze(outcome: Frozen) -> Finding:
    if not outcome.before:
        return report_failure("the test program did not run before the freeze")
    flaws = [] if outcome.frozen else ["the cgroup of the desk did not freeze"]
    flaws += [f"the program kept running: {outcome.during} context switches while frozen"] if outcome.during else []
    flaws += ["the program did not continue after the thaw"] if not outcome.after else []
    return report_flaws(
        flaws, f"the program made {outcome.before} context switches before, none while frozen and {outcome.after} after"
    )


def judge_deadline(outcome: DeadlineOutcome) -> Finding:
    if outcome.seconds is None:
        return report_failure(
            f"the desk was still open {scale_seconds(GRACE_S):.0f} s after its deadline of {outcome.deadline:g} s; "
            "doctor burnt it"
        )
    if outcome.seconds < outcome.deadline / 2:
        return report_failure(
            f"the desk was gone after {outcome.seconds:.1f} s, before its deadline of {outcome.deadline:g} s"
        )
    return report_pass(f"a busy desk with a deadline of {outcome.deadline:g} s was gone after {outcome.seconds:.1f} s")


def judge_burn(leftovers: list[str]) -> Finding:
    return report_flaws(leftovers, "no process, cgroup, mount, file, disk or reservation of user ids was left behind")


FREEZE = JudgedMeasure(
    Measure(
        "freeze",
        "life",
        "a desk can be frozen at any time",
        "tested from the host: count context switches of a program in the desk before, while frozen and after",
        "boot a kernel with CONFIG_CGROUP_FREEZER; /proc/cgroups lists the freezer",
    ),
    judge_freeze,
)
DEADLINE = JudgedMeasure(
    Measure(
        "deadline",
        "life",
        "a desk is burnt at its deadline even if it is busy",
        "tested from the host: watch the desk's state folder while a program in the desk keeps a CPU busy",
        "check whether the keeper process of the desk is stopped; `sudo hotdesk gc` removes the desk",
    ),
    judge_deadline,
)
BURNT = JudgedMeasure(
    Measure(
        "burnt",
        "life",
        "a burn leaves nothing behind",
        "tested from the host: search /proc, cgroups, state folders, mounts, the disk pool and reservations of user "
        "ids",
        "run `sudo hotdesk gc`, then see `sudo hotdesk ps`",
    ),
    judge_burn,
)
