"""An owner whose desks are on nodes. Its keys process and its screen readers run here, without privilege.

The vault, the journal of owners' and people's actions, and the key that signs certificates are here. Doors, their keys
and keepers are on the nodes; the events they record there are fetched by `pull.py`.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from hotdesk.brief import describe_scope, rule_text
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.cluster.certificates import AUTHORITY, make_tls_context
from hotdesk.cluster.discovery import parse_discovery
from hotdesk.cluster.nodes import Nodes
from hotdesk.cluster.pull import parse_pulled
from hotdesk.cluster.runtime import OWNER_SHAPE, ClusterRuntime, get_control_path
from hotdesk.config import DEFAULT_TENANT, Config, find_node_identity
from hotdesk.desk.image.description import ImageFacts
from hotdesk.desk.keeper.parts_keeper import launch
from hotdesk.desk.keeper.spawn import Started, pair
from hotdesk.desk.owner.control import serve_control
from hotdesk.desk.owner.keeper_client import KeeperClient
from hotdesk.desk.owner.parts import KeeperParts
from hotdesk.desk.owner.remote import remote_runtime
from hotdesk.desk.seam import Desk, DeskId, Spec
from hotdesk.drive.chain import Row
from hotdesk.errors import BriefError, DeskGone, HostError, HotdeskError
from hotdesk.event import Asked
from hotdesk.hands.screen.readers import Seats
from hotdesk.host import Host
from hotdesk.ipc.tasks import Background, background
from hotdesk.keys.doors import Doors
from hotdesk.linux.sockets import is_answered
from hotdesk.walls import NOMINAL_CATALOG, WallCatalog

_QUESTION_INTERVAL_S = 0.5
_FIND_SECONDS = 15.0
"""Seconds a job waits for a node to answer."""
StartParts = Callable[[], Awaitable[Started]]
"""Starts the process that starts keys and readers (`desk/keeper/parts_keeper.py`)."""


def start_parts(settings: Config, authority: Path) -> Started:
    """Start the process that starts keys and readers for this process."""
    ours, theirs = pair()
    with theirs:
        return Started(ours, launch(settings, authority, theirs))


class HomeParts:
    """Starts keys and readers through a child process, which is started again when it has ended."""

    def __init__(self, start: StartParts, tasks: Background) -> None:
        self.start = start
        self.tasks = tasks
        self.keeper: KeeperClient | None = None
        self.starting = anyio.Lock()

    async def ensure(self) -> KeeperParts:
        """Return the child process's interface; start the process if necessary."""
        async with self.starting:
            if self.keeper is None or self.keeper.failure is not None:
                self.keeper = KeeperClient(await self.start())
                self.tasks.start(self.keeper.run)
            return KeeperParts(self.keeper)

    async def start_keys(self) -> tuple[int, int]:
        return await (await self.ensure()).start_keys()

    async def start_door(self, desk: DeskId) -> None:
        """Do nothing: a desk's door runs on the desk's node."""

    async def start_reader(self, name: DeskId) -> tuple[int, int]:
        return await (await self.ensure()).start_reader(name)

    async def end_reader(self, name: DeskId) -> None:
        await (await self.ensure()).end_reader(name)

    async def close(self) -> None:
        if self.keeper is not None:
            with anyio.CancelScope(shield=True):
                await self.keeper.close()


class ClusterDoors(Doors):
    """The doors of an owner whose desks are on nodes: calls that concern a door are sent to its node."""

    def __init__(self, settings: Config, parts: HomeParts, tasks: Background, cluster: ClusterRuntime) -> None:
        super().__init__(settings, parts, tasks)
        self.cluster = cluster

    async def enter_step(self, desk: DeskId, step: str) -> None:
        await self.cluster.enter_step(desk, step)

    async def change_scope(self, desk: DeskId, scope: Scope, by: str) -> None:
        await self.cluster.change_scope(desk, self.require_within_ceiling(scope), by)

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str) -> None:
        await self.cluster.allow(desk, [rule_text(each) for each in self.parse_allowed(rules)], by)

    async def answer(self, number: str, approved: bool, by: str, digest: str = "") -> Asked:
        """Answer a pending request through its node. With `digest`, only if the request is unchanged."""
        found = [question for question in self.list_questions() if question.id == number]
        if not found:
            raise BriefError(f"no request {number!r} is pending; `hotdesk approve` lists pending requests")
        if digest and found[0].digest != digest:
            raise BriefError(f"request {number!r} is not the one you were shown; read it again, then answer")
        answered = await self.cluster.answer_question(found[0], approved, by)
        self.questions.pop(number, None)
        return answered

    async def follow_questions(self) -> None:
        """Poll the nodes for pending requests of desks at their doors."""
        while True:
            await anyio.sleep(_QUESTION_INTERVAL_S)
            found = await self.cluster.list_questions()
            fresh = [each for each in found if each.id not in self.questions]
            self.questions = {each.id: (time.monotonic() + each.seconds, each) for each in found}
            for each in fresh:
                self.on_question(each)

    async def seal(self, scope: Scope, statement: Mapping[str, object]) -> bytes:
        """Have keys seal the vault's secrets of a scope for a node's keys."""
        fields = {name: statement.get(name) for name in ("key", "certificate", "signature", "sealing", "signed")}
        brought = dict.fromkeys(scope.values, "")  # the names of the secrets only
        request = {"scope": describe_scope(scope), "values": brought, **fields}
        return base64.b64decode(str((await (await self.meet()).ask("seal", "", **request))["sealed"]))

    def note_pulled(self, rows: Sequence[Row]) -> frozenset[str]:
        """Have keys record events of nodes that the nodes' keys signed; they are on disk when this returns.

        Return the names of those that this version does not know, or not all of their fields.
        """
        if self.keys is None:
            raise HostError("events of nodes cannot be recorded, because this process has no journal")
        pulled = parse_pulled(rows)
        if pulled.events:
            self.keys.wait("pulled", events=list(pulled.events))
        return pulled.newer

    async def take_proof(self, desk: DeskId) -> None:
        """Give keys the signed event of a desk's opening from its node."""
        proof = await self.cluster.fetch_proof(desk)
        fields = {name: proof.get(name) for name in ("row", "key", "certificate", "signature")}
        await (await self.meet()).ask("opened on a node", desk, **fields)


class ClusterMachine(Host):
    """An owner whose desks are on nodes; `Host` is one whose desks are on this machine."""

    nodes: Nodes
    tenant: str = DEFAULT_TENANT
    cluster: ClusterRuntime
    cluster_doors: ClusterDoors
    tasks: Background

    async def start_parts(self) -> Started:
        """Start the process that starts keys and readers."""
        identity = find_node_identity(self.config)
        assert identity is not None
        return start_parts(self.config, identity / AUTHORITY)

    async def __aenter__(self) -> ClusterMachine:
        self.image_facts: dict[str, ImageFacts] = {}
        await self.stack.__aenter__()
        try:
            self.tasks = await self.stack.enter_async_context(background())
            self.parts = parts = HomeParts(self.start_parts, self.tasks)
            self.stack.push_async_callback(parts.close)
            self.runtime = self.cluster = ClusterRuntime(self.config, self.nodes, self.tenant, self.tasks)
            self.stack.callback(self.cluster.close)
            self.cluster.departed = self.release_desk
            self.cluster_doors = ClusterDoors(self.config, parts, self.tasks, self.cluster)
            self.cluster.seal = self.cluster_doors.seal
            self.stack.callback(self.cluster_doors.close)
            self.tasks.start(self.cluster_doors.follow_questions)
            _remove_dead_sockets(self.config)
            calls = serve_control(
                self.cluster,
                get_control_path(self.config, self.cluster.owner),
                lambda: self.doors,
                people=self.choose_screen_services,
                personal=self.mark_personal,
            )
            await self.stack.enter_async_context(calls)
        except BaseException as e:
            await self.stack.__aexit__(type(e), e, e.__traceback__)
            raise
        return self

    @property
    def walls(self) -> WallCatalog:
        """Return every wall; whether a node has it is checked when a desk is opened."""
        return NOMINAL_CATALOG

    @property
    def doors(self) -> ClusterDoors:
        """Return the doors of these desks, and the keys process here."""
        return self.cluster_doors

    @property
    def seats(self) -> Seats:
        """Return access to the screens and browsers of these desks."""
        if self._seats is None:
            self._seats = created = Seats(self.cluster_doors.parts, self.tasks)
            self.stack.callback(created.close)
        return self._seats

    def get_image_facts(self, name: str) -> ImageFacts:
        """Return what nodes reported about an image, or empty facts."""
        return self.image_facts.get(name, ImageFacts())

    async def learn_images(self) -> None:
        """Fetch the facts of all images that nodes list."""
        for name in {each for node in self.nodes.by_name.values() for each in node.report.images}:
            self.image_facts[name] = await self.cluster.fetch_image_facts(name)

    def has_screen(self, name: str) -> bool:
        """Return whether an image has a screen on any node; true if no node lists it, as one that was removed."""
        reports = [each.report for each in self.nodes.by_name.values()]
        return any(name in each.screens for each in reports) or not any(name in each.images for each in reports)

    def has_ended(self, desk: DeskId) -> bool:
        """Return whether a desk ended, by itself or with its node."""
        return desk not in self.cluster.desks

    def has(self, desk: DeskId) -> bool:
        """Return whether a desk is open, as far as this process knows."""
        return desk in self.cluster.desks

    def keep_ready(self, spec: Spec, count: int, *, proven: bool = False) -> None:
        """Have every node keep `count` desks ready."""
        self.cluster.keep_ready(self.cluster.route(spec), count, proven=proven)

    async def open(self, spec: Spec | None = None, scope: Scope = CLOSED) -> Desk:
        """Open a desk on a node. For a clean desk, give keys the signed event of its opening."""
        scope = self.cluster_doors.require_within_ceiling(scope)
        desk = await super().open(spec, scope)
        if spec is not None and spec.sterile and scope == CLOSED:
            try:
                await self.cluster_doors.take_proof(desk.id)
            except BaseException:
                with anyio.CancelScope(shield=True), suppress(HotdeskError):
                    await self.burn(desk.id)
                raise
        return desk

    async def wake(self, desk: DeskId, scope: Scope = CLOSED) -> Desk:
        """Raise: desks on nodes cannot be hibernated."""
        return await self.cluster.wake(desk, scope)

    async def find(self, desk: DeskId) -> Desk:
        """Return an open desk by id, whichever process of this server opened it."""
        with suppress(DeskGone):
            return await self.cluster.find(desk)
        path = await self.find_owner(desk)
        return await (await self.stack.enter_async_context(remote_runtime(path))).find(desk)

    async def find_owner(self, desk: DeskId) -> Path:
        """Return the control socket of the process that owns a desk."""
        if desk in self.cluster.desks:
            return get_control_path(self.config, self.cluster.owner)
        owner = str((await self.cluster.find_record(desk)).get("owner", ""))
        if not OWNER_SHAPE.fullmatch(owner):
            raise DeskGone(f"desk {desk} is gone: no process of this server owns it; open another desk")
        return get_control_path(self.config, owner)

    async def list_desks(self) -> list[dict[str, object]]:
        return await self.cluster.list_desks()


class ClusterJobMachine(ClusterMachine):
    """The machine of a job of a server: it finds nodes by itself."""

    def __init__(self, settings: Config, nodes: Nodes) -> None:
        super().__init__(settings)
        self.nodes = nodes
        self.tenant = os.environ.get("HOTDESK_TENANT", DEFAULT_TENANT)

    async def __aenter__(self) -> ClusterJobMachine:
        await super().__aenter__()
        await self.parts.ensure()  # start the child process before this process is confined
        return self

    def list_ports(self) -> set[int]:
        """Return the ports of all nodes, for this process's confinement."""
        return {each.port for each in self.nodes.discoveries}

    async def find_nodes(self) -> None:
        """Start looking for nodes; return once one answers, raise `HostError` if none does in time."""
        self.tasks.start(self.nodes.run)
        with anyio.move_on_after(_FIND_SECONDS):
            while not self.nodes.by_name:
                await self.nodes.changed.wait()
        if not self.nodes.by_name:
            raise HostError("no node responds; check `[serve] nodes`, and that `hotdesk node run` is running there")
        await self.learn_images()


@asynccontextmanager
async def open_cluster_machine(settings: Config, log: Callable[[Exception], None]) -> AsyncIterator[ClusterJobMachine]:
    """Yield an owner whose desks are on the nodes in the server's settings. Call `find_nodes` first."""
    identity, listed = find_node_identity(settings), settings.serve.get("nodes")
    assert identity is not None
    assert isinstance(listed, list)
    async with background() as tasks:
        context = make_tls_context(identity, "server")
        nodes = Nodes([parse_discovery(str(each)) for each in listed], context, tasks, log)
        try:
            async with ClusterJobMachine(settings, nodes) as machine:
                yield machine
        finally:
            nodes.close()


def _remove_dead_sockets(settings: Config) -> None:
    """Remove the control sockets of processes that were killed."""
    for path in (settings.run / "control").glob("*-*.sock"):
        if OWNER_SHAPE.fullmatch(path.stem) and not is_answered(path):
            with suppress(OSError):
                path.unlink()
