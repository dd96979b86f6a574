"""A machine without walls, doors or keys, for tests of jobs. It needs the switch that allows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field

from hotdesk.brief import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.image.description import ImageFacts, read_image_facts
from hotdesk.desk.seam import Desk, DeskId, Spec
from hotdesk.desk.wall.local.runtime import LocalRuntime, local_runtime
from hotdesk.drive.journal import FILE, Journal
from hotdesk.drive.signing import load_signer
from hotdesk.event import Event, Note, get_chain
from hotdesk.hands.files import Files
from hotdesk.hands.picture import Sight
from hotdesk.hands.script_tools import Exact
from hotdesk.hands.search import Search
from hotdesk.hands.shell import Shell
from hotdesk.hands.toolbox import Free, Toolbox, WheelState
from hotdesk.hands.tools import list_tools
from hotdesk.hands.vision import VisionTool
from hotdesk.keys.certify import certify
from hotdesk.keys.certify_swarm import certify_swarm
from hotdesk.keys.charter import grant_all
from hotdesk.keys.secret_scan import find_secrets
from hotdesk.linux import private_files
from hotdesk.tool import Hand, Tool, Vision
from hotdesk.walls import NOMINAL_CATALOG, WallCatalog


def free(desk: Desk) -> WheelState:
    return Free()


@dataclass(slots=True)
class LocalMachine:
    """A machine whose desks are directories. This process writes the journal itself."""

    config: Config
    runtime: LocalRuntime
    journal: Journal
    make_wheel: Callable[[Desk], WheelState] = free
    wheels: dict[DeskId, WheelState] = field(default_factory=dict)

    @property
    def walls(self) -> WallCatalog:
        """The catalog that accepts every wall name: a desk here has no wall, so none can be missing."""
        return NOMINAL_CATALOG

    def get_image_facts(self, name: str) -> ImageFacts:
        """Return the stored facts of an image; desks of this machine do not use it."""
        return read_image_facts(self.config.images, name)

    async def prepare(self) -> None:
        """Do nothing: the journal is already open."""

    def note(self, *events: Event) -> None:
        for event in events:
            self.journal.add(get_chain(event), "owner", event)
        self.journal.commit()

    def certify(self, claim: Mapping[str, object]) -> bytes:
        signed = certify(self.journal, claim, walled=False)
        self.journal.commit()
        return signed

    def certify_swarm(self, swarm: str) -> bytes:
        signed = certify_swarm(self.journal, swarm, walled=False)
        self.journal.commit()
        return signed

    def find_secrets(self, data: bytes, scope: Scope) -> tuple[str, ...]:
        """Return the names of the scope's own secrets that occur in `data`; there is no vault to search."""
        brought = [each for each in scope.grants if each.secret in scope.values]
        return find_secrets(data, grant_all(None, brought, scope.values))

    async def open(self, spec: Spec | None = None, scope: Scope = CLOSED) -> Desk:
        """Open a directory as a desk. It has the network access of this machine."""
        return await self.runtime.open(spec or Spec(), scope)

    async def burn(self, desk: DeskId) -> None:
        await self.runtime.burn(desk)

    def has(self, desk: DeskId) -> bool:
        return desk in self.runtime.open_desks

    async def enter_step(self, desk: DeskId, step: str) -> None:
        """Do nothing: there is no door."""

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str) -> None:
        """Do nothing: there is no door."""

    async def try_grants(self, scope: Scope) -> tuple[str, ...]:
        """Return for each grant that secrets are not available here."""
        return tuple("a desk without a wall gets no secrets" for _ in scope.grants)

    def get_wheel(self, desk: Desk) -> WheelState:
        if desk.id not in self.wheels:
            self.wheels[desk.id] = self.make_wheel(desk)
        return self.wheels[desk.id]

    def leave(self, desk: DeskId) -> None:
        """Do nothing: there is no screen."""

    def list_worker_tools(self, image: str, vision: Vision | None = None, *, exact: bool = False) -> Sequence[Tool]:
        return list_tools(screen=False, vision=vision is not None, exact=exact)

    async def hands(
        self, desk: Desk, vision: Vision | None = None, note: Note | None = None, *, exact: bool = False
    ) -> Toolbox:
        """Return the tools that need neither a door nor a screen."""
        sight = Sight(look=vision is not None)
        hands: list[Hand] = [Shell(desk), Files(desk, sight), Search(desk), *([Exact(desk)] if exact else [])]
        if vision is not None:
            hands.append(VisionTool(desk, vision))
        return Toolbox(hands, note or self.note, self.get_wheel(desk), desk.id, sight=sight)


@asynccontextmanager
async def local_machine(
    settings: Config, make_wheel: Callable[[Desk], WheelState] = free
) -> AsyncIterator[LocalMachine]:
    """Yield a machine without walls; its desks are burnt at the end."""
    folder = settings.lib / "keys"
    private_files.make_folder(folder)
    async with local_runtime() as runtime:
        journal = Journal(folder / FILE, load_signer(folder))
        try:
            yield LocalMachine(settings, runtime, journal, make_wheel)
        finally:
            journal.close()
