"""The walls of this machine: available ones, reasons for missing ones, and the cost of an idle desk."""

from __future__ import annotations

import time
from dataclasses import replace

import anyio

from hotdesk.config import MIB, Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.registry import survey
from hotdesk.errors import HotdeskError, make_printable
from hotdesk.host import Host
from hotdesk.walls import WallStatus, describe_kernel

YEAR_S = 365.25 * 86400
_IDLE = Spec(memory=256 * MIB, disk=64 * MIB, cpus=1.0, pids=64, deadline=60, idle=60)
_SETTLE_S = 0.5
"""Seconds a desk has to become idle after it was opened."""
_MEASURE_S = 1.5
"""Seconds over which an idle desk's processor time is measured."""


@dataclass(frozen=True, slots=True)
class IdleCost:
    """The resource usage of an idle desk, as the kernel counts it."""

    cpu: float
    """Fraction of one core."""
    memory: int
    """Bytes, including the page cache."""


@dataclass(slots=True)
class ExaminedWall:
    """A wall, and the cost of an idle desk behind it on this machine."""

    status: WallStatus
    idle: IdleCost | None = None
    """The cost, or `None` if no desk was opened behind it."""
    failure: str = ""
    """Why no desk could be opened behind it although it is set up; empty otherwise."""
    is_examined: bool = False
    """Whether measures were tested in desks behind it, and not only its opening and cost."""

    @property
    def age(self) -> float | None:
        """Return the years since its program was built, or `None` if that is unknown."""
        return max(0.0, time.time() - self.status.released) / YEAR_S if self.status.released else None

    def describe(self) -> str:
        status = self.status
        if not status.is_available:
            return "; ".join(filter(None, (f"not available: {status.missing}", status.remedy)))
        month = time.strftime("%B %Y", time.gmtime(status.released))
        age = "" if self.age is None else f"built {month}, {self.age:.1f} years ago"
        program = ", ".join(filter(None, (status.version or "a program of unknown version", age)))
        kernel = describe_kernel(status.traits.kernel, is_boundary=status.traits.is_boundary)
        return "; ".join(filter(None, (kernel, program, status.platform, self.describe_idle())))

    def describe_idle(self) -> str:
        if self.failure:
            return f"DESKS CANNOT BE OPENED: {self.failure}"
        if self.idle is None:
            return ""
        return f"an idle desk uses {self.idle.cpu * 100:.2f} % of a core and {self.idle.memory / MIB:.0f} MiB of memory"


def look(settings: Config) -> list[ExaminedWall]:
    statuses = sorted(survey(settings).statuses.values(), key=lambda each: (each.traits.strength, each.name))
    return [ExaminedWall(each) for each in statuses]


async def measure_idle(host: Host, wall: ExaminedWall) -> None:
    try:
        async with host.open_desk(replace(_IDLE, wall=wall.status.name)) as desk:
            await desk.run(["true"])
            await anyio.sleep(_SETTLE_S)
            before, began = (await desk.usage()).cpu, time.monotonic()
            await anyio.sleep(_MEASURE_S)
            usage = await desk.usage()
            wall.idle = IdleCost(max(0.0, usage.cpu - before) / (time.monotonic() - began), usage.memory)
    except HotdeskError as e:
        wall.failure = make_printable(str(e))[:400]


def as_json(wall: ExaminedWall) -> dict[str, object]:
    status = wall.status
    return {
        "name": status.name,
        "available": status.is_available,
        "missing": status.missing,
        "remedy": status.remedy,
        "kernel": status.traits.kernel,
        "boundary": status.traits.is_boundary,
        "strength": status.traits.strength,
        "program": status.program,
        "version": status.version,
        "platform": status.platform,
        "age_years": None if wall.age is None else round(wall.age, 2),
        "flaws": list(status.flaws),
        "idle_cpu": None if wall.idle is None else round(wall.idle.cpu, 5),
        "idle_memory": None if wall.idle is None else wall.idle.memory,
        "failure": wall.failure,
        "examined": wall.is_examined,
    }
