"""The server: composes its parts, listens, and shuts down gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import uvicorn
from anyio.abc import TaskGroup
from fastapi import FastAPI

from hotdesk import __version__
from hotdesk.api import local, privileges, telemetry, tenants
from hotdesk.api.acme.server_side import CertificateRenewal, start_renewal
from hotdesk.api.caller import DEFAULT_TENANT
from hotdesk.api.cluster_host import list_node_ports, open_nodes
from hotdesk.api.e2b import clock, metrics
from hotdesk.api.e2b.builds.service import TemplateBuilds
from hotdesk.api.e2b.control.control import ControlPlane
from hotdesk.api.e2b.control.secrets import E2bSecrets
from hotdesk.api.e2b.control.snapshots import TenantSnapshots
from hotdesk.api.e2b.defaults import compute_defaults
from hotdesk.api.e2b.envd.signed_files import SignedFiles
from hotdesk.api.e2b.hibernate import SavedSandboxes
from hotdesk.api.e2b.live import LiveRecords
from hotdesk.api.e2b.ports.traffic import Traffic
from hotdesk.api.e2b.responses import log
from hotdesk.api.e2b.sandboxes import Sandboxes
from hotdesk.api.e2b.volumes.content import VolumeContent
from hotdesk.api.e2b.volumes.registry import VolumeRegistry
from hotdesk.api.garbage import SurvivorFreezer
from hotdesk.api.http import stalls
from hotdesk.api.http.body_limits import MAX_BODY_BYTES
from hotdesk.api.http.dispatch import Front, ServerParts
from hotdesk.api.http.hsts import Strict
from hotdesk.api.http.http2.connection import NegotiatedProtocol
from hotdesk.api.http.metrics_middleware import Measured
from hotdesk.api.http.protocol import Protocol
from hotdesk.api.http.websocket import WebSocketProtocol
from hotdesk.api.keys import ApiKeys
from hotdesk.api.launch.launcher_client import open_launcher
from hotdesk.api.log import LOG
from hotdesk.api.mcp.desk_limits import build_policy
from hotdesk.api.mcp.lazy import LazyMcp
from hotdesk.api.native.access.browsers import Browsers
from hotdesk.api.native.app import build_app, build_routes, write_schema
from hotdesk.api.native.context import Native
from hotdesk.api.native.jobs.requests import Jobs
from hotdesk.api.native.jobs.retention import Retention
from hotdesk.api.native.jobs.templates import list_places
from hotdesk.api.native.metrics import Measures
from hotdesk.api.quotas import Quotas
from hotdesk.api.reload import Reloading, make_certificate_loader
from hotdesk.api.scopes import run_in_thread
from hotdesk.api.sd_notify import Notice
from hotdesk.api.server_lock import hold_state
from hotdesk.api.settings import Serving
from hotdesk.api.tenants import Tenants
from hotdesk.api.wall_survey import WallSurvey
from hotdesk.api.walls import TenantWalls
from hotdesk.api.web.content import Content
from hotdesk.api.web.page import WebPage
from hotdesk.cluster.nodes import Nodes
from hotdesk.config import Config, get_tenant_settings, load
from hotdesk.desk.wall.registry import survey
from hotdesk.errors import HotdeskError

WARM = 4
"""Tenants that are opened when the server starts; others are opened at their first request."""
GRACE = 3
"""Seconds that responses under way get when the server stops."""
_AT_A_TIME = 64
"""Connections accepted in one turn of the loop: out of descriptors, asyncio retries and logs as often."""
BACKLOG = 1024
"""Connections that may wait to be accepted."""


class Listening(uvicorn.Server):
    """One listener; its owner handles signals."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answers = anyio.Event()
        """Set once it answers."""
        self.over = anyio.Event()
        """Set once it has ended."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answers.set()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        finally:
            self.over.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers: the owner of the listener handles signals."""
        yield


@asynccontextmanager
async def _compose_app(
    settings: Config, serving: Serving, stopping: anyio.Event | None = None, reloading: Reloading | None = None
) -> AsyncIterator[Measured]:
    """Yield the application; at its end desks are burnt, and sandboxes are left if the settings say so."""
    reloading = reloading or Reloading(serving)
    keys = ApiKeys(settings.lib / "serve")
    content = Content(serving.domain)
    page = WebPage(content, settings.lib, next(iter(serving.names), "127.0.0.1"))
    templates = list_places(settings, serving.templates)
    quotas = Quotas(serving.quota)
    catalog = survey(settings)  # not in a thread, which would keep its privileges
    walls = TenantWalls(catalog, settings.limits.wall, serving.wall, serving.tenants, keys.count_tenants)
    async with (
        telemetry.open_telemetry() as exporter,
        local.listening(settings, opens_desks=not serving.nodes) as calls,
        open_launcher(settings, templates, serving.models) as launcher,
        open_nodes(serving, walls) as nodes,
        tenants.open_tenants(settings, launcher, quotas, walls, nodes) as registry,
        anyio.create_task_group() as tasks,
    ):
        privileges.give_up(settings, ports=list_node_ports(serving))
        if calls is not None:
            tasks.start_soon(local.serve, calls, registry)
        sandboxes = Sandboxes(serving, tasks, await run_in_thread(compute_defaults, serving))
        snapshots = TenantSnapshots(launcher, sandboxes)
        sandboxes.saved = saved = SavedSandboxes(sandboxes, snapshots, registry)
        saved.find()
        tasks.start_soon(saved.run)
        await _find_live(nodes, tasks, sandboxes, saved, registry)
        volumes = VolumeRegistry(registry, sandboxes)
        volumes.load()
        browsers = Browsers(keys)
        shared = Native(
            serving, keys, registry, browsers, Jobs(launcher), content.offer, templates, measures=Measures(exporter)
        )
        reloading.add(lambda found: _set_live(found, sandboxes, shared, quotas, walls))
        mcp = LazyMcp(keys, registry, build_policy(serving, sandboxes.defaults.scope), tasks, serving.mcp_grace)
        _look_after(tasks, sandboxes, snapshots, stopping or anyio.Event())
        retention = Retention(settings, shared)
        reloading.add(lambda found: retention.ask())
        reloading.machine_holders.append(retention.change_settings)
        tasks.start_soon(retention.run)
        tasks.start_soon(warm, keys, registry, sandboxes)
        if nodes is None:
            _survey_walls(settings, walls, reloading, tasks, lambda: tasks.start_soon(warm, keys, registry, sandboxes))
            tasks.start_soon(bury, settings, registry)
        tasks.start_soon(volumes.run)
        tasks.start_soon(volumes.processes.run)
        content_api = VolumeContent(volumes, quotas)
        builds = TemplateBuilds(launcher, sandboxes, snapshots)
        tasks.start_soon(builds.run)
        secrets = E2bSecrets(launcher)
        control = ControlPlane(keys, registry, sandboxes, snapshots, volumes, content_api, secrets, builds)
        native = build_app(shared)
        await anyio.to_thread.run_sync(build_routes, native)
        tasks.start_soon(describe, native)
        traffic = Traffic(sandboxes, quotas)
        parts = ServerParts(control, traffic, SignedFiles(traffic), native, page, mcp)
        yield Measured(Front(serving, parts, keys, quotas, browsers), shared.measures)
        await _end_sandboxes(sandboxes, saved, leave=reloading.serving.shutdown == "leave")
        tasks.cancel_scope.cancel()


async def _find_live(
    nodes: Nodes | None, tasks: TaskGroup, sandboxes: Sandboxes, saved: SavedSandboxes, registry: Tenants
) -> None:
    """Find the nodes, and the desks that an earlier server has there, before the first request."""
    if nodes is None:
        return
    tasks.start_soon(nodes.run)
    sandboxes.live = LiveRecords(sandboxes, saved, registry)
    await sandboxes.live.restore()
    tasks.start_soon(sandboxes.live.run)


async def _end_sandboxes(sandboxes: Sandboxes, saved: SavedSandboxes, *, leave: bool) -> None:
    """Leave sandboxes to the next server, or burn those that cannot outlive this one."""
    if sandboxes.live is not None:
        for sandbox in [] if leave else list(sandboxes.by_id.values()):
            await sandboxes.kill(sandbox)
    elif leave:
        await saved.leave()
    else:
        await saved.burn_paused()


def _set_live(serving: Serving, sandboxes: Sandboxes, shared: Native, quotas: Quotas, walls: TenantWalls) -> None:
    sandboxes.serving = shared.serving = serving
    quotas.limits = serving.quota
    walls.usual, walls.own = serving.wall, serving.tenants


def _survey_walls(
    settings: Config, walls: TenantWalls, reloading: Reloading, tasks: TaskGroup, changed: Callable[[], object]
) -> None:
    """Survey this machine's walls periodically and after each reload."""
    surveyor = WallSurvey(settings, walls, changed)
    reloading.add(lambda found: surveyor.ask())
    tasks.start_soon(surveyor.run)


def _look_after(tasks: TaskGroup, sandboxes: Sandboxes, snapshots: TenantSnapshots, stopping: anyio.Event) -> None:
    tasks.start_soon(clock.run, sandboxes)
    tasks.start_soon(metrics.run, sandboxes)
    tasks.start_soon(snapshots.run)
    tasks.start_soon(_cut_at_end, sandboxes, stopping)


async def _cut_at_end(sandboxes: Sandboxes, stopping: anyio.Event) -> None:
    """Cut all streams once the server is asked to stop, repeatedly, because new ones may begin."""
    await stopping.wait()
    while True:
        sandboxes.cut_all()
        await anyio.sleep(0.1)


async def warm(keys: ApiKeys, registry: Tenants, sandboxes: Sandboxes) -> None:
    keys.refresh()
    for name in sorted({key.tenant for key in keys.by_id.values()})[:WARM]:
        try:
            tenant = await registry.get_tenant(name)
            for image, wall in sandboxes.defaults.ready:
                sandboxes.stock(tenant, image, wall)
        except (HotdeskError, OSError) as e:
            log(e)


async def describe(native: FastAPI) -> None:
    """Build the API's description early; then exclude permanent objects from garbage collection."""
    await anyio.to_thread.run_sync(write_schema, native)
    gc.freeze()


async def bury(settings: Config, registry: Tenants) -> None:
    """Open the tenants of a killed server that left desks: a tenant's new keeper burns them."""
    for name in _list_tenants_with_desks(settings):
        try:
            await registry.get_tenant(name)
        except (HotdeskError, OSError) as e:
            log(e)


def _list_tenants_with_desks(settings: Config) -> list[str]:
    names = [DEFAULT_TENANT, *sorted(each.name for each in (settings.run / "tenants").glob("*"))]
    return [name for name in names if any((get_tenant_settings(settings, name).run / "desks").glob("*"))]


def _build_listener(app: Measured, serving: Serving, *, tls: bool) -> Listening:
    files = {"ssl_certfile": serving.certificate, "ssl_keyfile": serving.private_key} if tls else {}
    served = Strict(app, serving.names) if tls else app
    protocol = NegotiatedProtocol if tls and serving.http2 else Protocol
    config = uvicorn.Config(
        served, http=protocol, ws=WebSocketProtocol, loop="none", lifespan="off", log_config=None, log_level="error",
        ws_max_size=MAX_BODY_BYTES, access_log=False, server_header=False, date_header=False, timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE, proxy_headers=False, backlog=_AT_A_TIME, **files,  # type: ignore[arg-type]
    )  # fmt: skip
    config.load()
    if config.ssl is not None and serving.http2:
        config.ssl.set_alpn_protocols(["h2", "http/1.1"])
    return Listening(config)


async def serve(
    settings: Config,
    reloading: Reloading,
    plain: socket.socket,
    tls: socket.socket | None,
    stopping: anyio.Event,
    challenges: socket.socket | None = None,
) -> None:
    """Serve until asked to stop: then refuse new connections, cut streams, and burn desks or leave sandboxes."""
    notice, serving = Notice(), reloading.serving
    LOG.as_json = serving.log == "json"
    reloading.follow_machine(settings, load)
    asyncio.get_running_loop().set_exception_handler(complain)
    async with (
        hold_state(settings),
        _renewing(serving, challenges) as renewal,
        _compose_app(settings, serving, stopping, reloading) as app,
        anyio.create_task_group() as tasks,
    ):
        listeners = {_build_listener(app, serving, tls=False): plain}
        if tls is not None:
            secured = _build_listener(app, serving, tls=True)
            listeners[secured] = tls
            assert secured.config.ssl is not None
            reloading.add(make_certificate_loader(secured.config.ssl))
            if renewal is not None and serving.certificate is not None:
                tasks.start_soon(renewal.run, secured.config.ssl, serving.certificate)
        for listener, sock in listeners.items():
            tasks.start_soon(listener.serve, [sock])
        for listener, sock in listeners.items():
            await listener.answers.wait()
            sock.listen(BACKLOG)
        freezer = SurvivorFreezer()
        freezer.start()  # a collection that walks every module stops the event loop for a tenth of a second
        notice.tell("READY=1")
        LOG.write(
            "start",
            version=__version__,
            host=serving.host,
            port=serving.port,
            tls_port=serving.tls_port,
        )
        tasks.start_soon(reloading.run)
        with stalls.watch_if_enabled():
            await stopping.wait()
        freezer.stop()
        notice.tell("STOPPING=1")
        LOG.write("stop", sandboxes=reloading.serving.shutdown)
        await _stop_listeners(listeners)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _renewing(serving: Serving, challenges: socket.socket | None) -> AsyncIterator[CertificateRenewal | None]:
    """Start the ACME process, if configured, before privileges are dropped."""
    if challenges is None:
        yield None
        return
    with challenges:
        renewal = start_renewal(serving, challenges)
    try:
        yield renewal
    finally:
        await renewal.close()


def complain(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log errors of the event loop; a lack of file descriptors is logged only once in a while."""
    if context.get("message") == "socket.accept() out of system resource":
        why = "no connection can be accepted: too many files are open; raise the limit (`ulimit -n`, LimitNOFILE)"
        LOG.write_seldom("descriptors", why)
    else:
        loop.default_exception_handler(context)


async def _stop_listeners(listeners: Iterable[Listening]) -> None:
    """End every listener: running responses get a grace period."""
    for listener in listeners:
        listener.should_exit = True
    for listener in listeners:
        await listener.over.wait()
