"""The walls a keeper can put around desks, by name. `local` is not among them: it has no keeper.

A wall is one entry of `KINDS`: how it is made, and how to find out whether this machine can put it up. Nothing else
names it.
"""

from __future__ import annotations

from collections.abc import Callable

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.wall.container import status as container
from hotdesk.desk.wall.container.wall import ContainerWall
from hotdesk.desk.wall.gvisor import status as gvisor
from hotdesk.desk.wall.gvisor.wall import GvisorWall
from hotdesk.desk.wall.microvm import status as microvm
from hotdesk.desk.wall.microvm.wall import MicrovmWall
from hotdesk.desk.wall.seam import Wall
from hotdesk.errors import HostError, WallError
from hotdesk.walls import NAMES, TRAITS, WallCatalog, WallProof, WallStatus, explain_missing


@dataclass(frozen=True, slots=True)
class WallKind:
    """One kind of wall that this version knows."""

    name: str
    make: Callable[[Config], Wall]
    """Makes a keeper's wall; called once, and only where it is available."""
    look: Callable[[Config], WallStatus]
    """Finds out whether it can be put up here. It is called for every desk that is proven, so it is quick."""


KINDS: dict[str, WallKind] = {
    ContainerWall.name: WallKind(ContainerWall.name, ContainerWall, container.look),
    GvisorWall.name: WallKind(GvisorWall.name, GvisorWall, gvisor.look),
    MicrovmWall.name: WallKind(MicrovmWall.name, MicrovmWall, microvm.look),
}
"""By name."""


def register(kind: WallKind) -> None:
    KINDS[kind.name] = kind


def survey(settings: Config) -> WallCatalog:
    """Find out which walls this machine has; those that this version cannot put up are among them, unavailable."""
    statuses = [look_at(name, settings) for name in {**dict.fromkeys(NAMES[1:]), **KINDS}]
    return WallCatalog({each.name: each for each in statuses})


def look_at(name: str, settings: Config) -> WallStatus:
    if (kind := KINDS.get(name)) is not None:
        return kind.look(settings)
    return WallCatalog().find(name)


class Walls:
    """The walls of one keeper, each made on first need."""

    def __init__(self, settings: Config) -> None:
        self.settings = settings
        self.by_name: dict[str, Wall] = {}

    def find(self, name: str) -> Wall:
        """Return a wall; never a weaker one in its place."""
        if (wall := self.by_name.get(name)) is not None:
            return wall
        if name not in KINDS and name not in TRAITS:
            raise HostError(f"unknown wall {name[:40]!r}")
        status = look_at(name, self.settings)
        if not status.is_available:
            there = ", ".join(survey(self.settings).list_available())
            raise WallError(f"{explain_missing(status)}; available walls: {there or 'none'}")
        self.by_name[name] = KINDS[name].make(self.settings)
        return self.by_name[name]

    def describe(self, wall: Wall) -> WallProof:
        """Return the description of a proven desk: its wall, and the program that made it."""
        status = look_at(wall.name, self.settings)
        return WallProof(wall.name, wall.traits.kernel, wall.traits.is_boundary, status.version, status.platform)
