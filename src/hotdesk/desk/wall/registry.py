"""The walls a keeper can use, by name. `local` is not among them: it has no keeper.

A wall is one entry of `KINDS`: how to create it, and how to check whether this machine supports it. No other code of
the keeper uses the names of walls.
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
    """A kind of wall that this version knows."""

    name: str
    make: Callable[[Config], Wall]
    """Creates a keeper's wall; called once, and only if the wall is available."""
    look: Callable[[Config], WallStatus]
    """Checks whether it is available here. It is called for every desk that is proven, so it must be fast."""


KINDS: dict[str, WallKind] = {
    ContainerWall.name: WallKind(ContainerWall.name, ContainerWall, container.look),
    GvisorWall.name: WallKind(GvisorWall.name, GvisorWall, gvisor.look),
    MicrovmWall.name: WallKind(MicrovmWall.name, MicrovmWall, microvm.look),
}
"""The kinds of walls by name."""


def register(kind: WallKind) -> None:
    KINDS[kind.name] = kind


def survey(settings: Config) -> WallCatalog:
    """Return the status of every wall on this machine; walls this version cannot create are included as unavailable."""
    statuses = [look_at(name, settings) for name in {**dict.fromkeys(NAMES[1:]), **KINDS}]
    return WallCatalog({each.name: each for each in statuses})


def look_at(name: str, settings: Config) -> WallStatus:
    if (kind := KINDS.get(name)) is not None:
        return kind.look(settings)
    return WallCatalog().find(name)


class Walls:
    """The walls of one keeper, each created on first use."""

    def __init__(self, settings: Config) -> None:
        self.settings = settings
        self.by_name: dict[str, Wall] = {}

    def find(self, name: str) -> Wall:
        """Return a wall by name, never a weaker one instead; raise an error if it is not available."""
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
        """Return the facts about a proven desk's wall: its kind, and the program that set it up."""
        status = look_at(wall.name, self.settings)
        return WallProof(wall.name, wall.traits.kernel, wall.traits.is_boundary, status.version, status.platform)
