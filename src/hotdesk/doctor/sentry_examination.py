"""Examine desks on a sentry: checked from both sides, frozen, filled, exhausted and burnt."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from hotdesk.config import MIB
from hotdesk.desk.seam import Spec
from hotdesk.doctor import life, limits, sentry
from hotdesk.doctor.examiner import Examiner, open_examined
from hotdesk.doctor.life import GRACE_S, Traces, wait_until
from hotdesk.doctor.measure import Finding, JudgedMeasure, Result, SilentProbeError, give_up, judge, report_failure
from hotdesk.doctor.probes import LIMIT, REPLY_TIMEOUT_S, build_command, build_sentry_probe, listening, read_result
from hotdesk.doctor.sentry import OVER, TIGHT, Exhausted, FilledDisk, SandboxFreeze
from hotdesk.doctor.sentry_view import get_desk_root, look_at_sandbox
from hotdesk.errors import DeskGone
from hotdesk.linux.cgroup import Cgroup
from hotdesk.linux.openat2 import RootDirectory
from hotdesk.linux.pace import scale_seconds

_PATIENT = Spec(memory=256 * MIB, disk=64 * MIB, cpus=1.0, pids=64, deadline=120, idle=120)
_PROBE_TIMEOUT_S = 30.0
_WATCH_S = 0.3
"""Seconds a spinning program is observed."""
_MANY_PROGRAMS = 256
"""Programs a desk limited to 16 tries to start: each takes several threads on the host, as does the sentry."""
_MUCH_MEMORY = 1024 * MIB
"""Enough bytes of memory for the programs that can start."""

_Work: TypeAlias = Callable[[Examiner, list[Result]], Awaitable[None]]
_WalledWork: TypeAlias = Callable[[str, Examiner, list[Result]], Awaitable[None]]
_Fallback: TypeAlias = Callable[[Finding], Iterator[Result]]


def iterate_parts(wall: str) -> Iterator[tuple[_Work, _Fallback]]:
    whole: tuple[JudgedMeasure[Any], ...] = (
        *sentry.VIEW_CHECKS,
        *sentry.PROBE_CHECKS,
        sentry.FREEZE,
        sentry.DISK,
        sentry.BURNT,
    )
    works: tuple[tuple[_WalledWork, tuple[JudgedMeasure[Any], ...]], ...] = (
        (_examine_whole, whole),
        (_fill_memory, (sentry.MEMORY,)),
        (_fork, (sentry.PROCESSES,)),
    )
    for work, checks in works:
        yield partial(_run_behind, wall, work), partial(_give_up, wall, checks)


async def _run_behind(wall: str, work: _WalledWork, examiner: Examiner, results: list[Result]) -> None:
    found: list[Result] = []
    try:
        await work(wall, examiner, found)
    finally:
        results += [replace(each, wall=wall) for each in found]


def _give_up(wall: str, checks: tuple[JudgedMeasure[Any], ...], finding: Finding) -> Iterator[Result]:
    for each in give_up(checks, finding):
        yield replace(each, wall=wall)


async def _examine_whole(wall: str, examiner: Examiner, results: list[Result]) -> None:
    host, timeout = examiner.host, examiner.scale_seconds(_PROBE_TIMEOUT_S)
    async with open_examined(examiner, replace(_PATIENT, disk=TIGHT.disk, wall=wall)) as it:
        results += judge(sentry.VIEW_CHECKS, look_at_sandbox(host.config, it.desk.id, it.facts, it.cgroup))
        with listening() as (port, name):
            command = build_sentry_probe(port, name, examiner.scale_seconds(REPLY_TIMEOUT_S))
            done = await it.desk.run(command, timeout=timeout, output_limit=LIMIT)
        try:
            results += judge(sentry.PROBE_CHECKS, read_result(done))
        except SilentProbeError as e:
            results += give_up(sentry.PROBE_CHECKS, report_failure(f"the test program in the desk did not report: {e}"))
        filled = await it.desk.run(
            build_command(limits.FILL, most=OVER * TIGHT.disk), timeout=timeout, output_limit=LIMIT
        )
        results += judge([sentry.DISK], FilledDisk(filled, _measure_fill(get_desk_root(host.config, it.facts))))
        await it.desk.start(limits.SPIN, stdin=False)
        results += judge([sentry.FREEZE], await _freeze(it.cgroup))
    base, keeper = (int(str(it.facts[name])) for name in ("base", "keeper"))
    results += judge([sentry.BURNT], await life.search(Traces(it.desk.id, base, keeper, host.config, it.cgroup)))


def _measure_fill(root: Path) -> int:
    with RootDirectory(root) as place:
        fd = place.open(b"tmp/fill", os.O_PATH | os.O_NOFOLLOW)
        try:
            return os.fstat(fd).st_size
        finally:
            os.close(fd)


async def _freeze(cgroup: Cgroup) -> SandboxFreeze:
    before = await _count_until_used(cgroup)
    cgroup.freeze(True)
    try:
        frozen = await wait_until(cgroup.is_frozen, scale_seconds(GRACE_S))
        start = cgroup.read_cpu_seconds()
        await anyio.sleep(_WATCH_S)
        during = cgroup.read_cpu_seconds() - start
    finally:
        cgroup.freeze(False)
    return SandboxFreeze(before, frozen, during, await _count_until_used(cgroup))


async def _count_until_used(cgroup: Cgroup) -> float:
    """Return the processor seconds used while it was observed; longer on a busy machine, until there are some."""
    start = cgroup.read_cpu_seconds()
    await anyio.sleep(_WATCH_S)
    await wait_until(lambda: cgroup.read_cpu_seconds() > start, scale_seconds(GRACE_S))
    return cgroup.read_cpu_seconds() - start


async def _fill_memory(wall: str, examiner: Examiner, results: list[Result]) -> None:
    await _exhaust(TIGHT, wall, examiner, results, sentry.MEMORY, limits.BOMB, OVER * TIGHT.memory, "out of memory")


async def _fork(wall: str, examiner: Examiner, results: list[Result]) -> None:
    spec = replace(TIGHT, memory=_MUCH_MEMORY)
    await _exhaust(spec, wall, examiner, results, sentry.PROCESSES, limits.FORK, _MANY_PROGRAMS, "out of processes")


async def _exhaust(
    spec: Spec,
    wall: str,
    examiner: Examiner,
    results: list[Result],
    check: JudgedMeasure[Exhausted],
    code: str,
    most: int,
    expected: str,
) -> None:
    """Make a desk exceed its limits; judge how it ended."""
    async with open_examined(examiner, replace(spec, wall=wall)) as it:
        end = ""
        try:
            await it.desk.run(
                build_command(code, most=most), timeout=examiner.scale_seconds(_PROBE_TIMEOUT_S), output_limit=LIMIT
            )
        except DeskGone as e:
            end = str(e)
        results += judge([check], Exhausted(end, expected))
