"""The sandboxes of a server: desks, with the timeouts, names and tokens that E2B's programs expect."""

from __future__ import annotations

import hmac
import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal

import anyio
from anyio.abc import TaskGroup

from hotdesk.api.e2b import templates
from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.envd.state import EnvdState
from hotdesk.api.e2b.pausing import is_healthy, stop
from hotdesk.api.e2b.ports.shares import Share, derive_key
from hotdesk.api.e2b.responses import (
    E2bError,
    log,
    make_not_found_error,
    make_not_paused_error,
    make_not_running_error,
)
from hotdesk.api.quotas import QuotaError
from hotdesk.api.settings import Serving
from hotdesk.api.tenants import Tenant
from hotdesk.brief.data import Scope
from hotdesk.dataclass import dataclass
from hotdesk.desk.records import is_hibernated
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import DeskError, DeskGone, HotdeskError, ImageError
from hotdesk.walls import TRAITS

if TYPE_CHECKING:
    from hotdesk.api.e2b.hibernate import SavedSandboxes
    from hotdesk.api.e2b.live import LiveRecords

SAMPLES = 720
"""Measurements of a sandbox that are kept: an hour's, at one every five seconds."""
_PAUSE_AGAIN_S = 60.0
"""Seconds that pausing may take after a resume that failed."""
_STOP_RETRY_S = 5.0
"""Seconds after which pausing an expired sandbox is retried, if it did not stop."""


@dataclass(slots=True)
class Sandbox:
    """One desk, as a sandbox of E2B's API."""

    opened: Desk | None
    """Its desk; `None`: an earlier server left it, and it gets a desk when it is resumed."""
    tenant: Tenant
    template: str
    spec: Spec
    scope: Scope
    token: str
    """The token that callers of envd must send; empty if the program requested none."""
    started: float
    ends: float
    """When it expires, as Unix time; for a paused one, when it was paused."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    state: Literal["running", "paused"] = "running"
    traffic_token: str | None = None
    cuts: set[Callable[[], None]] = field(default_factory=set)
    """Functions that cut the streams open to it."""
    timeout: float = 300.0
    """The timeout it was last given, in seconds."""
    auto_pause: bool = False
    """Whether it is paused, not killed, when it expires."""
    auto_pause_memory: bool = True
    auto_resume: bool = False
    """Whether requests to it resume it."""
    pause_mode: Literal["full", "filesystem"] = "full"
    network: Mapping[str, object] | None = None
    """The network options of its program."""
    internet: bool | None = None
    iam: Mapping[str, str] = field(default_factory=dict)
    """Audiences of its workload tokens, by name."""
    room: EnvdState = field(default_factory=EnvdState)
    """The state of envd for it."""
    samples: deque[dict[str, object]] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    turning: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while it is paused, resumed or copied."""
    recording: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while its record of a desk on a node is written."""
    id: str = ""
    """The id of its first desk."""
    user: str = ""
    """Default user of its programs; empty for the server's default."""
    workdir: str = ""
    """Default working folder of its programs; empty for the user's home."""
    saved_image: str = ""
    """The image with its files while it has no desk; empty if there is none."""
    until: float = math.inf
    """When one without a desk expires."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Names of its volumes, by path; their ids are in its spec."""
    shares: dict[str, Share] = field(default_factory=dict)
    """Share links to its ports that this server created."""
    revoked: set[str] = field(default_factory=set)
    """Ids of share links that were revoked."""
    passages: dict[str, set[anyio.CancelScope]] = field(default_factory=dict)
    """Cancel scopes of running requests, by the share link that admitted them."""

    def __post_init__(self) -> None:
        self.id = self.id or self.desk.id

    @property
    def shown_traffic_token(self) -> str | None:
        """Return the token that E2B's programs send to ports, even if only the code interpreter's port needs one."""
        if self.traffic_token or not self.token or templates.parse_image_name(self.template) in templates.PLAIN:
            return self.traffic_token
        return hmac.new(self.token.encode(), b"interpreter", "sha256").hexdigest()

    @property
    def share_key(self) -> bytes:
        """Return the key that signs share links to its ports; empty if it has no token, and so no links."""
        secret = self.token or self.traffic_token
        return derive_key(secret) if secret else b""

    @property
    def desk(self) -> Desk:
        if self.opened is None:
            raise make_not_running_error(self.id)
        return self.opened


@dataclass(frozen=True, slots=True)
class SandboxOrder:
    template: str
    image: str
    timeout: float
    scope: Scope
    metadata: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    secure: bool = True
    private: bool = False
    """Whether its ports require its traffic token."""
    auto_pause: bool = False
    auto_pause_memory: bool = True
    auto_resume: bool = False
    network: Mapping[str, object] | None = None
    internet: bool | None = None
    iam: Mapping[str, str] = field(default_factory=dict)
    """Audiences of its workload tokens, by name."""
    wall: str = ""
    """The wall its program requests; its tenant's may be stronger."""
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Ids of the volumes to mount, by path."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Names of these volumes, by path."""
    cpus: float = 0.0
    """Processors its template requests; 0 for the default."""
    memory: int = 0
    user: str = ""
    workdir: str = ""


class Sandboxes:
    def __init__(self, serving: Serving, tasks: TaskGroup, defaults: Defaults) -> None:
        self.serving = serving
        self.tasks = tasks
        self.defaults = defaults
        self.by_id: dict[str, Sandbox] = {}
        self.soonest = anyio.Event()
        """Set when a sandbox may expire sooner than the clock expects."""
        self.saved: SavedSandboxes | None = None
        """Opens sandboxes that an earlier server left, and removes their records."""
        self.live: LiveRecords | None = None
        """Records sandboxes whose desks are on nodes."""

    async def create(self, tenant: Tenant, order: SandboxOrder, by: str = "") -> Sandbox:
        """Open a sandbox; `by` is the caller's name for the journal."""
        spec = replace(self.make_spec(order.image, order.env, order.wall), by=by, volumes=order.volumes)
        spec = replace(spec, cpus=order.cpus or spec.cpus, memory=order.memory or spec.memory)
        spec = tenant.host.route(spec)
        self.stock(tenant, order.image, order.wall)
        try:
            desk = await tenant.host.open(spec, order.scope)
        except ImageError:
            raise templates.make_missing_template_error(order.template) from None
        except QuotaError as e:
            raise E2bError(429, str(e)) from None
        await self.begin(tenant, [desk], order.image)
        now = get_time()
        sandbox = Sandbox(
            desk, tenant, order.template, spec, order.scope,
            token=secrets.token_hex(32) if order.secure else "",
            started=now, ends=now + order.timeout, metadata=order.metadata, env=order.env,
            traffic_token=secrets.token_hex(32) if order.private else None,
            timeout=order.timeout, auto_pause=order.auto_pause, auto_pause_memory=order.auto_pause_memory,
            auto_resume=order.auto_resume, network=order.network, internet=order.internet, mounts=order.mounts,
            iam=order.iam, user=order.user, workdir=order.workdir,
        )  # fmt: skip
        await self.admit(sandbox)
        return sandbox

    async def record(self, sandbox: Sandbox) -> None:
        """Record a sandbox that outlives this server: with its desk on a node, or on disk."""
        if self.live is not None:
            await self.live.write(sandbox)
        if self.saved is not None:
            await self.saved.record(sandbox)

    async def admit(self, *new: Sandbox) -> None:
        """Add sandboxes; if the record of one whose desk outlives this server cannot be written, all are killed."""
        for each in new:
            self.add(each)
        if self.live is None:
            return
        try:
            for each in new:
                await self.live.write(each)
        except BaseException:
            with anyio.CancelScope(shield=True):
                for each in new:
                    await self.kill(each)
            raise

    async def begin(self, tenant: Tenant, desks: Sequence[Desk], image: str, *, continued: bool = False) -> None:
        """Start the programs that desks' templates promise; if that fails in one, all are burnt.

        In desks whose programs `continued` nothing is started.
        """
        try:
            for desk in desks:
                await (templates.renew_variables if continued else templates.start)(desk, image)
        except BaseException:
            with anyio.CancelScope(shield=True):
                for desk in desks:
                    await tenant.host.burn(desk.id)
            raise

    def make_spec(self, image: str, env: Mapping[str, str], wall: str = "") -> Spec:
        longest = self.serving.longest
        variables = {**self.defaults.env, **env}
        spec = Spec(image=image, env=variables, root=True, deadline=longest, idle=longest)
        return replace(spec, wall=wall) if wall else spec

    def stock(self, tenant: Tenant, image: str, wall: str = "") -> None:
        """Keep desks of an image ready for a tenant, behind its wall, if the operator configured that."""
        count = self.defaults.ready.get((image, wall), 0)
        if not count:
            return
        spec = tenant.host.route(self.make_spec(image, {}, wall))
        if (tenant.host, image, spec.wall) not in self.defaults.stocked:
            self.defaults.stocked.add((tenant.host, image, spec.wall))
            tenant.host.keep_ready(spec, count, proven=self.defaults.reaches)

    def add(self, sandbox: Sandbox) -> None:
        self.by_id[sandbox.id] = sandbox
        self.soonest.set()

    def get(self, tenant: str, sandbox: str) -> Sandbox:
        """Return a tenant's sandbox; 404 for another tenant's, as for an unknown one."""
        found = self.by_id.get(sandbox)
        if found is None and self.live is not None:
            self.live.require_known(sandbox, tenant)
        if found is None or found.tenant.name != tenant or has_ended(found):
            raise make_not_found_error(sandbox)
        return found

    def of(self, tenant: str) -> Iterator[Sandbox]:
        return (each for each in list(self.by_id.values()) if each.tenant.name == tenant and not has_ended(each))

    def retain(self, sandbox: Sandbox) -> None:
        """Keep a sandbox whose desk is left on disk as a record; `resume` opens it again."""
        if self.saved is not None and is_left(sandbox):
            cut(sandbox)
            self.saved.retain(sandbox)

    def stand_on(self, image: str) -> bool:
        return any(image in (each.spec.image, each.saved_image) for each in self.by_id.values())

    async def kill(self, sandbox: Sandbox) -> None:
        """End a sandbox: it is no longer found, its streams are cut, its programs are killed, and its desk is burnt.

        The removal of its files is awaited only if they are elsewhere, too. A desk that cannot be burnt is left to its
        keeper, and reported to the operator.
        """
        self.retain(sandbox)
        if self.by_id.pop(sandbox.id, None) is None:
            return
        cut(sandbox)
        with anyio.CancelScope(shield=True):
            try:
                try:
                    if sandbox.opened is not None:
                        host, desk = sandbox.tenant.host, sandbox.opened.id
                        await (host.burn(desk) if sandbox.saved_image else host.end(desk))
                finally:
                    if self.saved is not None:
                        await self.saved.discard(sandbox)
            except (HotdeskError, OSError) as e:
                log(e)

    async def set_end(self, sandbox: Sandbox, timeout: float) -> None:
        """Set a sandbox's remaining seconds; 0 ends it."""
        if timeout <= 0:
            await self.finish(sandbox)
            return
        sandbox.timeout = timeout
        sandbox.ends = self.cap_end(sandbox, time.time() + timeout)
        self.soonest.set()

    def lengthen(self, sandbox: Sandbox, timeout: float) -> None:
        """Let a sandbox last for at least so many seconds from now."""
        sandbox.ends = max(sandbox.ends, self.cap_end(sandbox, time.time() + timeout))

    def cap_end(self, sandbox: Sandbox, moment: float) -> float:
        return min(moment, sandbox.started + self.serving.longest)

    async def finish(self, sandbox: Sandbox, *, due: bool = False) -> None:
        """Pause or kill an expired sandbox; with `due`, only if it is still expired when that can be done."""
        if not sandbox.auto_pause:
            if not due or sandbox.ends <= time.time():
                await self.kill(sandbox)
        elif sandbox.state == "running":
            await self.pause(sandbox, memory=sandbox.auto_pause_memory, due=due)

    async def pause(self, sandbox: Sandbox, *, memory: bool, healthy: bool = False, due: bool = False) -> None:
        """Pause a sandbox; without `memory` only its files are kept. One that does not stop keeps its end time."""
        async with sandbox.turning:
            self.require(sandbox)
            if due and sandbox.ends > time.time():
                return
            if sandbox.state == "paused":
                if self.saved is not None and sandbox.id in self.saved.outdated:
                    await self.saved.update_record(sandbox)
                raise E2bError(409, f"sandbox '{sandbox.id}' is already paused")
            if healthy and not await is_healthy(sandbox.desk):
                raise make_not_paused_error(f"sandbox '{sandbox.id}' does not respond")
            ends, mode = sandbox.ends, sandbox.pause_mode
            sandbox.state, sandbox.ends = "paused", time.time()
            sandbox.pause_mode = "full" if memory else "filesystem"
            cut(sandbox)
            try:
                is_on_disk = await stop(sandbox.desk, memory=memory, to_disk=can_keep_memory(sandbox))
            except BaseException:
                sandbox.state, sandbox.pause_mode = "running", mode
                sandbox.ends = max(ends, time.time() + _STOP_RETRY_S) if due else ends
                raise
            if is_on_disk and self.saved is not None:
                await self.saved.note_pause(sandbox)

    async def resume(self, sandbox: Sandbox, timeout: float, *, memory: bool = True) -> bool:
        """Resume a paused sandbox, without `memory` from its files alone; return `False` if it was running."""
        async with sandbox.turning:
            self.retain(sandbox)
            self.require(sandbox)
            if sandbox.state == "running":
                return False
            try:
                await self.go_on(sandbox, memory=memory)
            except BaseException:
                if not await self.pause_again(sandbox):
                    self.note_running(sandbox, timeout)
                raise
            self.note_running(sandbox, timeout)
            return True

    async def go_on(self, sandbox: Sandbox, *, memory: bool) -> None:
        drops_memory = not memory and sandbox.pause_mode == "full"
        if sandbox.opened is None:
            assert self.saved is not None
            await self.saved.open(sandbox)
            if not drops_memory:
                return
        if drops_memory:
            await sandbox.desk.pause(memory=False)
            sandbox.pause_mode = "filesystem"
            await self.forget_pause(sandbox)
        await sandbox.desk.resume()
        if sandbox.pause_mode == "filesystem":
            sandbox.room = EnvdState()  # no program from before the pause runs any more
            await templates.start(sandbox.desk, sandbox.spec.image)
        await self.forget_pause(sandbox)

    async def forget_pause(self, sandbox: Sandbox) -> None:
        if sandbox.saved_image and self.saved is not None:
            await self.saved.note_resume(sandbox)

    async def pause_again(self, sandbox: Sandbox) -> bool:
        """Pause the desk of a sandbox that was not resumed; return whether it is paused, or has ended."""
        if sandbox.opened is None or sandbox.tenant.host.has_ended(sandbox.opened.id):
            return True
        is_paused, memory = False, sandbox.pause_mode == "full"
        try:
            with anyio.move_on_after(_PAUSE_AGAIN_S, shield=True):
                is_on_disk = await stop(sandbox.desk, memory=memory, to_disk=can_keep_memory(sandbox))
                is_paused = True
                if is_on_disk and self.saved is not None:
                    await self.saved.note_pause(sandbox)
        except (E2bError, HotdeskError, OSError) as e:
            log(e)
        return is_paused

    def note_running(self, sandbox: Sandbox, timeout: float) -> None:
        sandbox.state, sandbox.timeout = "running", timeout
        sandbox.ends = self.cap_end(sandbox, time.time() + timeout)
        self.soonest.set()

    async def wake(self, sandbox: Sandbox) -> None:
        """Resume a sandbox for a request; without auto-resume it counts as not running."""
        if sandbox.state == "running":
            return
        if not sandbox.auto_resume:
            raise make_not_running_error(sandbox.id)
        await self.resume(sandbox, sandbox.timeout)

    async def fork(self, sandbox: Sandbox, count: int, timeout: float) -> Sequence[Sandbox]:
        """Open copies of a sandbox with its files and with tokens of their own.

        Behind a wall that keeps memory its programs continue in them.
        """
        async with sandbox.turning:
            self.require(sandbox)
            if sandbox.state == "paused":
                raise E2bError(409, f"sandbox '{sandbox.id}' is paused; connect to it first, which resumes it")
            live = can_keep_memory(sandbox)
            try:
                desks = await sandbox.tenant.host.fork(sandbox.desk, count, memory=live)
            except QuotaError as e:
                raise E2bError(429, str(e)) from None
            except DeskGone:
                raise
            except DeskError as e:
                raise E2bError(409, str(e)) from e
        await self.begin(sandbox.tenant, desks, sandbox.spec.image, continued=live)
        now = get_time()
        forks = [
            replace(
                sandbox, opened=desk, id="", token=secrets.token_hex(32) if sandbox.token else "", started=now,
                ends=now + timeout, timeout=timeout, cuts=set(), samples=deque(maxlen=SAMPLES), turning=anyio.Lock(),
                recording=anyio.Lock(),
                shares={}, revoked=set(), passages={},
                traffic_token=secrets.token_hex(32) if sandbox.traffic_token else None, room=EnvdState(),
            )
            for desk in desks
        ]  # fmt: skip
        await self.admit(*forks)
        return forks

    def require(self, sandbox: Sandbox) -> None:
        """Refuse a sandbox that ended while the caller waited."""
        if self.by_id.get(sandbox.id) is not sandbox or has_ended(sandbox):
            raise make_not_found_error(sandbox.id)

    def cut_all(self) -> None:
        for sandbox in self.by_id.values():
            cut(sandbox)


def get_time() -> float:
    """Return the time to the microsecond, as programs receive it: they may query with it."""
    return round(time.time(), 6)


def cut(sandbox: Sandbox) -> None:
    for each in list(sandbox.cuts):
        each()


def has_ended(sandbox: Sandbox) -> bool:
    """Return whether a sandbox's desk ended by itself or with its keeper, or one without a desk has expired.

    A hibernated desk outlives its keeper.
    """
    if sandbox.opened is None:
        return sandbox.until <= time.time()
    return sandbox.tenant.host.has_ended(sandbox.opened.id) and not is_left(sandbox)


def is_left(sandbox: Sandbox) -> bool:
    """Return whether all that is left of a sandbox's desk is on disk, from which it can be resumed."""
    if sandbox.opened is None or sandbox.state != "paused" or not sandbox.saved_image:
        return False
    tenant, desk = sandbox.tenant, sandbox.opened.id
    return tenant.host.has_ended(desk) and is_hibernated(tenant.settings.run, desk)


def can_keep_memory(sandbox: Sandbox) -> bool:
    return TRAITS[sandbox.spec.wall].can_keep_memory and not sandbox.spec.volumes
