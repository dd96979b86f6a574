"""The walls a keeper can put around desks, by name. `local` is not among them: it has no keeper."""

from __future__ import annotations

from hotdesk.config import Config
from hotdesk.desk.wall.container.wall import ContainerWall
from hotdesk.desk.wall.seam import Wall
from hotdesk.errors import HostError


class Walls:
    """The walls of this machine."""

    def __init__(self, settings: Config) -> None:
        available: list[Wall] = [ContainerWall(settings)]
        self.by_name = {wall.name: wall for wall in available}

    def find(self, name: str) -> Wall:
        """Return a wall; never a weaker one in its place."""
        if (wall := self.by_name.get(name)) is None:
            raise HostError(f"the wall {name} is not set up here; this machine has: {', '.join(self.by_name)}")
        return wall
