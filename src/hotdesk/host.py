"""One machine: composes keeper, door, keys and tools into `open_desk`."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio

from hotdesk import config
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.desk.image import guest_code, image
from hotdesk.desk.image.description import ImageFacts, read_image_facts
from hotdesk.desk.keeper import state
from hotdesk.desk.keeper.spawn import Started, describe_missing_privilege
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.keeper_client import BURN_SECONDS
from hotdesk.desk.owner.parts import Parts
from hotdesk.desk.owner.pool import Pool
from hotdesk.desk.owner.runtime import SESSION, KeeperRuntime, burn_hibernated, bury, container_runtime
from hotdesk.desk.records import is_hibernated
from hotdesk.desk.seam import Desk, DeskId, Runtime, Spec
from hotdesk.desk.wall.registry import survey
from hotdesk.drive.identity import describe_actor
from hotdesk.errors import BriefError, DeskGone, HostError, ImageError
from hotdesk.event import Event, Note
from hotdesk.ipc.scope_task import Standing
from hotdesk.ipc.tasks import Background
from hotdesk.linux.cgroup import Cgroup, find_hierarchies
from hotdesk.linux.ownership import is_private
from hotdesk.linux.sockets import is_answered
from hotdesk.walls import TRAITS, WallCatalog

if TYPE_CHECKING:
    from hotdesk.desk.owner.control import Leases
    from hotdesk.desk.owner.remote import RemoteHandle, RemoteRuntime
    from hotdesk.hands.remote_tools import Lending
    from hotdesk.hands.screen.reader_client import DeskSeat
    from hotdesk.hands.screen.readers import Seats
    from hotdesk.hands.screen.takeover import Wheel
    from hotdesk.hands.screen.viewers import Watching
    from hotdesk.hands.toolbox import Toolbox
    from hotdesk.keys.doors import Doors
    from hotdesk.tool import Tool, Vision

_READERS = 2


class Host:
    """This machine as used by one owner: `async with Host() as host:`. Its desks are burnt when it closes."""

    def __init__(
        self,
        settings: Config | None = None,
        *,
        control: bool = True,
        keeper: Started | None = None,
        leases: Leases | None = None,
    ) -> None:
        self.config = settings or config.load()
        self.control = control
        self.keeper = keeper
        self.leases = leases
        """Parses requests for desks that last as long as a call; `None`: such requests are not served."""
        self.stack = contextlib.AsyncExitStack()
        self.runtime: Runtime
        self.own_runtime: KeeperRuntime | None = None
        """The runtime with this process's own keeper; `None` for an ordinary user, whose desks a server opens."""
        self.personal: set[DeskId] = set()
        """Desks that people opened for themselves and that no worker has used so far."""
        self._seats: Seats | None = None
        self._watching: Watching | None = None
        self._lending: Lending | None = None
        self.standing: Standing | None = None
        self._walls: WallCatalog | None = None

    def __repr__(self) -> str:
        return f"<Host {self.config.run}>"

    async def start(self) -> Host:
        """Start the host until `close` instead of for a block: for notebooks, where each cell is a task of its own."""
        if self.standing is not None:
            raise BriefError("this Host is already started; call `close` before `start`")
        self.standing = Standing(self)
        await self.standing.wait_until_entered()
        return self

    async def close(self) -> None:
        """Close a started host; its desks are burnt. A second call does nothing."""
        if self.standing is not None:
            await self.standing.close()

    async def __aenter__(self) -> Host:
        await self.stack.__aenter__()
        try:
            if os.geteuid() != 0:
                self.runtime = await self.stack.enter_async_context(_reach(find_server(self.config)))
                return self
            runtime = await self.stack.enter_async_context(
                container_runtime(self.config, self.keeper, self.note, self.supervise)
            )
            self.runtime = self.own_runtime = runtime
            if self.control:
                path = control_path(self.config, os.getpid())
                from hotdesk.desk.owner.control import serve_control  # imports an HTTP parser

                calls = serve_control(
                    runtime,
                    path,
                    lambda: self.doors,
                    people=self.choose_screen_services,
                    personal=self.mark_personal,
                    leases=self.leases,
                )
                await self.stack.enter_async_context(calls)
        except BaseException as e:
            await self.stack.__aexit__(type(e), e, e.__traceback__)
            raise
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.stack.__aexit__(*failure)  # type: ignore[arg-type]

    def get_keeper_runtime(self) -> KeeperRuntime:
        """Return the runtime of the desks this process opens; raise `HostError` if it has no keeper."""
        if self.own_runtime is None:
            raise HostError(
                "this process cannot control the doors, screens and pool of these desks, because another process "
                "opened them; control them from that process"
            )
        return self.own_runtime

    @property
    def walls(self) -> WallCatalog:
        """Return the walls that this machine has and lacks, determined at first use."""
        if self._walls is None:
            self._walls = survey(self.config)
        return self._walls

    def get_image_facts(self, name: str) -> ImageFacts:
        """Return facts about an image in the image store."""
        return read_image_facts(self.config.images, name)

    def supervise(self, parts: Parts, tasks: Background) -> Doors:
        """Make the object that controls the doors of this owner's desks."""
        from hotdesk.keys.doors import Doors  # most owners open no desk with a door

        doors = Doors(self.config, parts, tasks)
        doors.in_use = self.get_keeper_runtime().used.add
        self.stack.callback(doors.close)
        return doors

    @property
    def doors(self) -> Doors:
        """Return the doors of the desks this process opens: steps, grants, questions."""
        return cast("Doors", self.get_keeper_runtime().get_supervisor())

    @property
    def seats(self) -> Seats:
        """Return the connections to screens and browsers of the desks this process opens."""
        runtime = self.get_keeper_runtime()
        if self._seats is None:
            from hotdesk.hands.screen.readers import Seats  # most owners use no screen

            created = Seats(runtime.parts, runtime.tasks)
            runtime.departed = self.release_desk
            self.stack.callback(created.close)
            self._seats = created
        return self._seats

    def get_seat(self, desk: Desk) -> DeskSeat:
        """Return the connection to a desk's screen and browser."""
        return self.seats.of(desk)

    async def hands(
        self, desk: Desk, vision: Vision | None = None, note: Note | None = None, *, exact: bool = False
    ) -> Toolbox:
        """Return all tools for a desk. Each use is recorded in the journal, or passed to `note`.

        `vision` adds questions to a model about pictures; `exact` adds tools for scripts.
        """
        from hotdesk.hands.tools import make_toolbox

        await self.doors.prepare()
        self.personal.discard(desk.id)
        return await make_toolbox(self.get_seat(desk), note or self.note, self.get_wheel(desk), vision, exact=exact)

    def list_worker_tools(self, image: str, vision: Vision | None = None, *, exact: bool = False) -> Sequence[Tool]:
        """List the tools for a desk of an image, before the desk is opened."""
        from hotdesk.hands.tools import list_tools

        return list_tools(screen=self.has_screen(image), vision=vision is not None, exact=exact)

    def has_screen(self, name: str) -> bool:
        """Return whether an image has a screen that hotdesk starts; one started by E2B's program does not count."""
        return image.find(self.config.images, name).has(SESSION)

    def leave(self, desk: DeskId) -> None:
        """End the readers of a desk's screen and browser; the next use starts new ones."""
        if self._seats is not None:
            self._seats.renew(desk)

    @property
    def watching(self) -> Watching:
        """Return the viewers of the desks this process opens, and the people who control them."""
        if self._watching is None:
            from hotdesk.hands.screen.viewers import Watching

            self._watching = Watching(self.seats.of, self.doors.prepare, self.note, self.seats.tasks, self.personal)
        return self._watching

    def choose_screen_services(self, route: str) -> Watching | Lending:
        """Return the object that serves viewers and people in control, or callers of tools for the route `tools`."""
        if route != "tools":
            return self.watching
        if self._lending is None:
            from hotdesk.hands.remote_tools import Lending

            self._lending = Lending(self.hands)
        return self._lending

    def get_wheel(self, desk: Desk) -> Wheel:
        """Return the object that says who controls a desk: its worker, or a person who has taken over."""
        assert isinstance(desk, LinkedDesk)
        return self.watching.get_wheel(desk)

    def mark_personal(self, desk: DeskId) -> None:
        """Note that a person opened a desk for themselves. Its programs are not stopped until a worker uses it."""
        self.personal.add(desk)

    def release_desk(self, desk: DeskId) -> None:
        """Release the resources of a desk that has ended."""
        for each in (self._lending, self._watching, self._seats):
            if each is not None:
                each.leave(desk)

    async def prepare(self) -> None:
        """Start the keys process and open the journal."""
        await self.doors.prepare_journal()

    def note(self, *events: Event) -> None:
        """Record events, all or none; they are on disk when this returns."""
        self.doors.note(*events)

    def certify(self, claim: Mapping[str, object]) -> bytes:
        """Sign a check's evidence; return the certificate. Its event is on disk when this returns."""
        return self.doors.certify(claim)

    def certify_swarm(self, swarm: str) -> bytes:
        """Sign the records of a swarm's items; return the certificate. Its event is on disk when this returns."""
        return self.doors.certify_swarm(swarm)

    def find_secrets(self, data: bytes, scope: Scope) -> tuple[str, ...]:
        """Return the names of the secrets, of live desks and of a scope, that occur in some bytes."""
        return self.doors.find_secrets(data, scope)

    async def enter_step(self, desk: DeskId, step: str) -> None:
        """Switch a desk's door to another step's rules and grants; open connections are cut."""
        await self.doors.enter_step(desk, step)

    async def change_scope(self, desk: DeskId, scope: Scope, by: str = "owner") -> None:
        """Replace a desk's scope: open connections are cut, and `by` is recorded.

        Environment variables inside stay unchanged. A desk that was opened without a door gets none.
        """
        await self.doors.change_scope(desk, scope, by)

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str = "owner") -> None:
        """Add egress rules to a desk; denies of its scope and the operator's ceiling still apply."""
        await self.doors.allow(desk, rules, by)

    async def try_grants(self, scope: Scope) -> tuple[str, ...]:
        """Return for each grant of a scope why it is not available, or an empty string if it is."""
        return await self.doors.try_grants(scope)

    def has_ended(self, desk: DeskId) -> bool:
        """Return whether a desk that this process opened ended by itself, or with its keeper."""
        keeper = self.own_runtime.keeper if self.own_runtime is not None else None
        return keeper is not None and (desk in keeper.ended or keeper.failure is not None)

    def has(self, desk: DeskId) -> bool:
        """Return whether a desk's folder still exists."""
        return (self.config.run / "desks" / desk).exists()

    async def list_desks(self) -> list[dict[str, object]]:
        """List the desks of this state directory, the oldest first, whichever process opened them."""
        return [record for record in state.list_own_desks(self.config) if record["kept"]]

    async def find_owner(self, desk: DeskId) -> Path:
        """Return the control socket of a desk's owner; raise `DeskGone` if there is no such desk."""
        return find_owner_path(self.config, desk)

    @property
    def pool(self) -> Pool:
        """Return the pool of ready desks in this process."""
        return self.get_keeper_runtime().pool

    def keep_ready(self, spec: Spec, count: int, *, proven: bool = False) -> None:
        """Keep `count` desks of a spec ready, so that opening a desk of that image takes milliseconds.

        `proven` desks are for specs with a scope: their door is tested in advance. Desks with a screen are kept with
        the screen started, and with some readers for the first viewers.
        """
        self.pool.keep(self.get_keeper_runtime().route(spec), count, proven=proven)
        if count and self.has_screen(spec.image):
            self.seats.tasks.start(functools.partial(self.seats.keep_ready, _READERS))

    async def open(self, spec: Spec | None = None, scope: Scope = CLOSED) -> Desk:
        """Open a desk until it is burnt, its deadline passes, or this host closes; `scope` lists what it may reach."""
        chosen = spec or Spec()
        if not chosen.by:
            chosen = replace(chosen, by=describe_actor())
        if chosen.sterile or TRAITS[chosen.wall].stage:
            await self.sterilize(chosen.image)
        return await self.runtime.open(chosen, scope)

    @contextlib.asynccontextmanager
    async def open_desk(self, spec: Spec | None = None, scope: Scope = CLOSED) -> AsyncIterator[Desk]:
        """Open a desk for the length of a block."""
        desk = await self.open(spec, scope)
        try:
            yield desk
        finally:
            with anyio.move_on_after(BURN_SECONDS, shield=True):
                await self.burn(desk.id)

    async def wake(self, desk: DeskId, scope: Scope = CLOSED) -> Desk:
        """Resume a hibernated desk, even if its owner is gone; it may reach only what `scope` lists."""
        return await self.get_keeper_runtime().wake(desk, scope)

    async def find(self, desk: DeskId) -> Desk:
        """Return an open desk by id, whichever process of this user opened it."""
        with contextlib.suppress(DeskGone):
            return await self.runtime.find(desk)
        path = find_owner_path(self.config, desk)

        async def reach_owner() -> Runtime:
            return await self.stack.enter_async_context(_reach(path))

        other = await (self.standing.call(reach_owner) if self.standing is not None else reach_owner())
        return await other.find(desk)

    async def burn(self, desk: DeskId) -> None:
        """Destroy a desk and everything in it, whichever process opened it. A second call does nothing."""
        await self.runtime.burn(desk)
        if self.own_runtime is not None and (self.config.run / "desks" / desk).exists():
            await burn(self.config, desk)

    async def sterilize(self, name: str) -> None:
        """Make the missing parts of an image's sterile copy. Without a keeper of its own, this process does nothing."""
        from hotdesk.desk.image import sterilize

        if self.own_runtime is not None:
            picture = image.find(self.config.images, name)
            await anyio.to_thread.run_sync(sterilize.make, self.config.images, picture, lambda line: None)

    async def seal(self, name: str) -> None:
        """Open a desk from an image, test that it works, and store the guest compiled by the image's own Python."""
        picture = image.find(self.config.images, name)
        source = guest_code.read_sources()
        if guest_code.get_folder(self.config.images, picture.digest, source).exists():
            return
        async with self.open_desk(Spec(image=name)) as desk:
            done = await desk.run([picture.python, "-I", "-c", guest_code.COMPILE], timeout=60)
            if not done.ok:
                raise ImageError(
                    f"image {name!r} opens, but its Python cannot compile hotdesk's code "
                    f"({done.stderr[-300:]!r}); build the image again from a recipe with a working Python 3"
                )
            compiled = {name: await desk.read(name, limit=1 << 20) for name in guest_code.SEALED}
        guest_code.keep(self.config.images, picture.digest, source, compiled)


def _reach(path: Path) -> contextlib.AbstractAsyncContextManager[RemoteRuntime]:
    """Connect to another owner's desks through its control socket."""
    from hotdesk.desk.owner.remote import remote_runtime  # importing its HTTP code would cost every other owner 20 ms

    return remote_runtime(path)


@contextlib.asynccontextmanager
async def open_desk(spec: Spec | None = None, scope: Scope = CLOSED) -> AsyncIterator[Desk]:
    """Open a desk on this machine for the length of a block.

    For more than one desk use one `Host`, which starts its keeper once.
    """
    async with Host(control=False) as host, host.open_desk(spec, scope) as desk:
        yield desk


@contextlib.asynccontextmanager
async def borrow(settings: Config, desk: DeskId) -> AsyncIterator[Desk]:
    """Yield a desk that another process owns; the desk stays open when the block ends."""
    path = find_owner_path(settings, desk) if os.geteuid() == 0 else find_server(settings)
    async with _reach(path) as runtime:
        yield await runtime.find(desk)


@contextlib.asynccontextmanager
async def reach(settings: Config, desk: DeskId) -> AsyncIterator[RemoteHandle]:
    """Yield a handle to a desk of another process, without its guest. The desk may be paused, and stays open."""
    path = find_owner_path(settings, desk) if os.geteuid() == 0 else find_server(settings)
    async with _reach(path) as runtime:
        yield runtime.get_handle(desk)


def control_path(settings: Config, owner: int) -> Path:
    """Return the control socket of an owner."""
    return settings.run / "control" / f"{owner}.sock"


def find_owner_path(settings: Config, desk: DeskId) -> Path:
    """Return the control socket of a desk's owner; raise `DeskGone` if there is no such desk."""
    facts = state.read_facts(settings.run / "desks" / desk)
    if facts is None and (is_hibernated(settings.run, desk) or is_hibernated(settings.lib, desk)):
        raise DeskGone(f"desk {desk} is hibernated; resume it with `hotdesk resume {desk}`")
    if facts is None:
        raise DeskGone(f"desk {desk} is not open; `hotdesk ps` lists open desks")
    return control_path(settings, int(str(facts.get("owner", 0))))


def find_server(settings: Config) -> Path:
    """Return the socket of a running server, for users who cannot open desks themselves.

    Without `HOTDESK_SERVER` and `HOTDESK_HOME` the user's own folder may be below /tmp, where others create files.
    """
    own = settings.run / "serve.sock"
    if chosen := os.environ.get("HOTDESK_SERVER"):
        candidates = [Path(chosen)]
    elif os.environ.get("HOTDESK_HOME"):
        candidates = [own]
    else:
        candidates = [own] if is_private(str(own.parent)) else []
        candidates.append(Path("/run/hotdesk/serve.sock"))
    for candidate in candidates:
        if is_answered(candidate):
            return candidate
    raise HostError(describe_missing_privilege(candidates[-1]))


async def burn(settings: Config, desk: DeskId, seconds: float = BURN_SECONDS) -> None:
    """Burn another owner's desk through its files alone: its processes are killed, and its keeper cleans up.

    An ordinary user's desks belong to a server, which burns them.
    """
    if os.geteuid() != 0:
        async with _reach(find_server(settings)) as runtime:
            await runtime.burn(desk)
        return
    folder = settings.run / "desks" / desk
    if not folder.exists():
        if is_hibernated(settings.run, desk) or is_hibernated(settings.lib, desk):
            await burn_hibernated(settings, desk)
        return
    cgroup = Cgroup(find_hierarchies(), desk)
    end = time.monotonic() + seconds
    while folder.exists() and state.has_live_keeper(folder):
        await anyio.to_thread.run_sync(cgroup.kill, 1.0)
        await anyio.sleep(0.01)
        if time.monotonic() > end:
            raise HostError(
                f"desk {desk} could not be burnt within {seconds:.0f} s: its keeper process still runs; "
                f"try again, or see {folder / 'desk.json'}"
            )
    if folder.exists():
        await bury(settings)
        if folder.exists():
            raise HostError(
                f"desk {desk} was ended, but its folder {folder} could not be removed; `hotdesk gc --debug` shows why"
            )
