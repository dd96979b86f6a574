"""Open desks for examination, and find their facts on the host."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper import state
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import DeskError
from hotdesk.host import Host
from hotdesk.linux.cgroup import Cgroup, find_hierarchies


@dataclass(frozen=True, slots=True)
class Examiner:
    """Opens desks for examination, and measures how slow this machine is."""

    host: Host
    pace: float = 1.0

    def scale_seconds(self, usual: float) -> float:
        """Return a timeout scaled for slow machines."""
        return usual * self.pace

    def stretch(self, spec: Spec) -> Spec:
        return replace(spec, deadline=self.scale_seconds(spec.deadline), idle=self.scale_seconds(spec.idle))


@dataclass(frozen=True, slots=True)
class ExaminedDesk:
    """An open desk, with its record and cgroup on the host."""

    desk: Desk
    facts: dict[str, object]
    cgroup: Cgroup

    @property
    def first(self) -> int:
        return int(str(self.facts["pid"]))


@contextlib.asynccontextmanager
async def open_examined(examiner: Examiner, spec: Spec) -> AsyncIterator[ExaminedDesk]:
    async with examiner.host.open_desk(examiner.stretch(spec)) as desk:
        facts = state.read_facts(examiner.host.config.run / "desks" / desk.id)
        if facts is None:
            raise DeskError(f"desk {desk.id} has no state file")
        yield ExaminedDesk(desk, facts, Cgroup(find_hierarchies(), desk.id))
