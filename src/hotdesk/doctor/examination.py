"""The order of an examination: the machine, then several desks in parallel, then the remains of one."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import field, replace
from pathlib import Path
from typing import TypeAlias

import anyio

from hotdesk.config import MIB, Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk, Done, Process, Spec
from hotdesk.doctor import (
    cache,
    host_needs,
    inside,
    life,
    limits,
    machine,
    outside,
    sentry,
    sentry_examination,
    view,
    walls,
)
from hotdesk.doctor.examiner import Examiner, open_examined
from hotdesk.doctor.host_needs import HOST_MEASURES, HostReport, judge_host
from hotdesk.doctor.life import BURNT, DEADLINE, FREEZE, Traces
from hotdesk.doctor.limits import CPU, SHORT, SIGNALLED, SMALL, Signals
from hotdesk.doctor.machine import MachineFacts
from hotdesk.doctor.measure import (
    THEMES,
    Finding,
    Measure,
    Result,
    SilentProbeError,
    give_up,
    judge,
    report_failure,
    report_untested,
)
from hotdesk.doctor.probes import (
    LIMIT,
    REPLY_TIMEOUT_S,
    SIGNALS,
    STAY,
    ProbeResult,
    build_command,
    listening,
    probe,
    read_result,
)
from hotdesk.doctor.walls import ExaminedWall
from hotdesk.errors import DeskError, HotdeskError, make_printable
from hotdesk.host import Host
from hotdesk.linux.cgroup import Cgroup
from hotdesk.linux.processes import read_status

_PATIENT = Spec(memory=256 * MIB, disk=64 * MIB, cpus=2.0, pids=64, deadline=120, idle=120)
_EXAMINATION_TIMEOUT_S = 30.0
_USUAL_OPENING_S = 0.25
"""Maximum seconds for opening and burning the first desk on a machine of usual speed."""
_MAX_PACE = 20.0
_NEEDS_ROOT = "only root can open desks and examine them from the host; run `sudo hotdesk doctor` to test them too"
ROOTED = Spec(memory=128 * MIB, disk=16 * MIB, pids=32, deadline=60, idle=60, root=True)
PLAIN = Spec(memory=64 * MIB, disk=16 * MIB, pids=24, deadline=60, idle=60)
Fallback: TypeAlias = Callable[[Finding], Iterator[Result]]


Work: TypeAlias = Callable[[Examiner, list[Result]], Awaitable[None]]


@dataclass(slots=True)
class Examination:
    """The results, and the reason if no desk could be opened."""

    facts: MachineFacts
    results: list[Result] = field(default_factory=list)
    unopened: str | None = None
    walls: list[ExaminedWall] = field(default_factory=list)
    """Sorted from the weakest to the strongest."""
    host: HostReport | None = None

    def sort_results(self) -> list[Result]:
        """Return the results by theme, in an order that does not depend on which desk was faster."""
        themes, names = list(THEMES), [each.name for each in (*MEASURES, *sentry.MEASURES)]
        return sorted(self.results, key=lambda each: (themes.index(each.measure.theme), names.index(each.measure.name)))


def look_at_machine(settings: Config) -> Examination:
    """Check everything that needs no desk. Must be called before any thread or event loop is started."""
    facts, host = machine.look(settings), host_needs.look(settings)
    results = [*judge(machine.CHECKS, facts), *judge_host(host), *judge(cache.CHECKS, cache.look())]
    return Examination(facts, results, walls=walls.look(settings), host=host)


async def examine(settings: Config, found: Examination, only: str = "") -> None:
    """Examine desks opened for the purpose, and burn them. Without root, no desk is opened.

    `only` limits the examination to desks behind one wall.
    """
    if os.geteuid() != 0:
        found.unopened = _NEEDS_ROOT
        found.results += give_up(machine.STORES, report_untested("only root can read this; run `sudo hotdesk doctor`"))
        found.results += _skip_desks(report_untested("no desk was opened"))
        return
    try:
        async with Host(settings, control=False) as host:
            began = time.monotonic()
            await host.burn((await host.open(SMALL)).id)  # if no desk can be opened, this raises the reason
            examiner = Examiner(host, compute_pace(time.monotonic() - began))
            chosen = [each for each in found.walls if each.status.is_available and only in ("", each.status.name)]
            async with anyio.create_task_group() as tasks:
                for wall in chosen:
                    tasks.start_soon(walls.measure_idle, host, wall)
                    for work, without in _list_parts(wall):
                        tasks.start_soon(attempt, examiner, work, without, found)
                        wall.is_examined = True
    except HotdeskError as e:
        found.unopened = make_printable(str(e))
        found.results += _skip_desks(report_untested("no desk could be opened"))
    found.results += judge(machine.STORES, machine.look_at_stores(settings))


def _list_parts(wall: ExaminedWall) -> Iterable[tuple[Work, Fallback]]:
    if wall.status.traits.kernel == "sentry":
        return sentry_examination.iterate_parts(wall.status.name)
    return PARTS if wall.status.name == SMALL.wall else ()


def compute_pace(opening: float) -> float:
    """Return how many times slower than usual this machine is, from the seconds for opening and burning a desk."""
    return min(max(1.0, math.ceil(opening / _USUAL_OPENING_S)), _MAX_PACE)


async def attempt(examiner: Examiner, work: Work, without: Fallback, found: Examination) -> None:
    """Examine one desk; if it is lost on the way, the measures without a result count as failed."""
    results: list[Result] = []
    try:
        with anyio.fail_after(examiner.scale_seconds(_EXAMINATION_TIMEOUT_S)):
            await work(examiner, results)
    except (HotdeskError, OSError, SilentProbeError, TimeoutError) as e:
        measured = {result.measure for result in results}
        why = f"the desk failed earlier: {e}" if str(e) else "the tests before it took too long"
        lost = report_failure(f"this test was not made, because {why}")
        results += [result for result in without(lost) if result.measure not in measured]
    found.results += results


# -- the desk that is examined ----------------------------------------------------------------------------------


async def _examine_patient(examiner: Examiner, results: list[Result]) -> None:
    host = examiner.host
    async with open_examined(examiner, _PATIENT) as it:
        before = _count_queued_signals()
        process, result = await _start_staying_program(it.desk, examiner.scale_seconds(_EXAMINATION_TIMEOUT_S / 2))
        results += judge([SIGNALLED], Signals(result, _count_queued_signals() - before))
        results += judge(outside.CHECKS, view.look(host.config, it.desk.id, it.facts, it.cgroup))
        results += judge([FREEZE], await life.freeze(it.cgroup, _on_host(it.cgroup, process.pid)))
        with listening() as (port, name):
            timeout, patience = map(examiner.scale_seconds, (_EXAMINATION_TIMEOUT_S, REPLY_TIMEOUT_S))
            done = await it.desk.run(probe(port, name, patience), timeout=timeout, output_limit=LIMIT)
        try:
            results += judge(inside.CHECKS, read_result(done))
        except SilentProbeError as e:
            results += give_up(inside.CHECKS, report_failure(f"the test program in the desk did not report: {e}"))
    base, keeper = (int(str(it.facts[name])) for name in ("base", "keeper"))
    results += judge([BURNT], await life.search(Traces(it.desk.id, base, keeper, host.config, it.cgroup)))


async def _start_staying_program(desk: Desk, timeout: float) -> tuple[Process, ProbeResult]:
    process = await desk.start(build_command(STAY, signals=SIGNALS), stdin=False)
    output = b""
    with anyio.move_on_after(timeout):
        async for stream, data in process.output():
            output += data if stream == "stdout" else b""
            if b"\n" in output or len(output) > LIMIT:
                break
    return process, _read_first_line(output)


def _read_first_line(output: bytes) -> ProbeResult:
    return read_result(Done(0, output.partition(b"\n")[0]))


def _count_queued_signals() -> int:
    return int(read_status(os.getpid())["SigQ"].split("/")[0])


def _on_host(cgroup: Cgroup, inner: int) -> int:
    for pid in cgroup.list_pids():
        if read_status(pid)["NSpid"].split()[-1] == str(inner):
            return pid
    raise DeskError(f"process {inner} is not in the desk's cgroup")


# -- the desks that exceed their limits -------------------------------------------------------------------------


async def _examine_small(examiner: Examiner, results: list[Result]) -> None:
    async with open_examined(examiner, SMALL) as it:
        kind = _find_disk_kind(examiner.host.config, it.facts)
        timeout = examiner.scale_seconds(limits.PROBE_TIMEOUT_S)
        results += judge(limits.CHECKS, await limits.exhaust(it.desk, it.cgroup, it.first, kind, timeout))


def _find_disk_kind(settings: Config, facts: dict[str, object]) -> str:
    mounts = list(view.read_mounts(Path(f"/proc/{facts['keeper']}/mountinfo").read_text()))
    places = (f"{settings.run}/private/{facts['id']}/disk", f"{settings.run}/pool")
    return next((each.kind for place in places for each in mounts if each.at == place), "unknown")


async def _examine_short(examiner: Examiner, results: list[Result]) -> None:
    deadline = examiner.stretch(SHORT).deadline
    async with open_examined(examiner, SHORT) as it:
        start = time.monotonic()
        await it.desk.start(limits.SPIN, stdin=False)
        await anyio.sleep(max(0.0, start + deadline * 0.6 - time.monotonic()))
        results += judge([CPU], limits.look_at_spinning(it.cgroup))
        results += judge([DEADLINE], await life.outlive(examiner.host.config, it.desk.id, start, deadline))


async def _examine_root(examiner: Examiner, results: list[Result]) -> None:
    async with open_examined(examiner, ROOTED) as it:
        await it.desk.start(["sleep", "60"], user="root", stdin=False)
        results += judge([outside.ROOTED], view.look_at_root(it.facts, it.cgroup))


async def _examine_verifying(examiner: Examiner, results: list[Result]) -> None:
    host, sterile = examiner.host, replace(PLAIN, sterile=True)
    async with open_examined(examiner, PLAIN) as one, open_examined(examiner, sterile) as other:
        mounts = Path(f"/proc/{one.facts['keeper']}/mountinfo").read_text()
        rooms = [host.config.run / "private" / it.desk.id for it in (one, other)]
        results += judge([cache.APART], cache.Apart(*(cache.find_superblocks(mounts, room) for room in rooms)))


# -- without desks ----------------------------------------------------------------------------------------------


def _skip_patient(finding: Finding) -> Iterator[Result]:
    yield from give_up(outside.CHECKS, finding)
    yield from give_up(inside.CHECKS, finding)
    for check in (SIGNALLED, FREEZE, BURNT):
        yield Result(check.measure, finding)


def _skip_small(finding: Finding) -> Iterator[Result]:
    yield from give_up(limits.CHECKS, finding)


def _skip_short(finding: Finding) -> Iterator[Result]:
    for check in (CPU, DEADLINE):
        yield Result(check.measure, finding)


def _skip_root(finding: Finding) -> Iterator[Result]:
    yield Result(outside.ROOTED.measure, finding)


def _skip_verifying(finding: Finding) -> Iterator[Result]:
    yield Result(cache.APART.measure, finding)


def _skip_desks(finding: Finding) -> Iterator[Result]:
    for _, without in PARTS:
        yield from without(finding)


PARTS: tuple[tuple[Work, Fallback], ...] = (
    (_examine_patient, _skip_patient),
    (_examine_root, _skip_root),
    (_examine_small, _skip_small),
    (_examine_short, _skip_short),
    (_examine_verifying, _skip_verifying),
)
"""The parts that run in parallel, each in a desk of its own, with the fallback if that desk is lost."""
MEASURES: tuple[Measure, ...] = (
    *(check.measure for check in machine.CHECKS),
    *HOST_MEASURES.values(),
    *(check.measure for check in cache.CHECKS),
    *(check.measure for check in machine.STORES),
    *(result.measure for result in _skip_desks(report_untested(""))),
)
"""Every measure for desks on the host's kernel, once."""
