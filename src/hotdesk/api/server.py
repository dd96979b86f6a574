"""The server: composes what answers, listens, and ends gently."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import uvicorn
from anyio.abc import TaskGroup

from hotdesk.api import local, privileges, tenants
from hotdesk.api.e2b import clock, metrics
from hotdesk.api.e2b.answers import log
from hotdesk.api.e2b.control import Control
from hotdesk.api.e2b.defaults import defaults_of
from hotdesk.api.e2b.sandboxes import Sandboxes
from hotdesk.api.e2b.signed import SignedFiles
from hotdesk.api.e2b.snapshots import Snapshots
from hotdesk.api.e2b.traffic import Traffic
from hotdesk.api.front import Front, Parts
from hotdesk.api.keys import Keys
from hotdesk.api.listening import Protocol
from hotdesk.api.mcp.http import Mcp
from hotdesk.api.mcp.policy import policy_of
from hotdesk.api.native.app import native_app
from hotdesk.api.native.browsers import Browsers
from hotdesk.api.native.native import Native
from hotdesk.api.native.requested import Jobs
from hotdesk.api.native.templates import places
from hotdesk.api.quotas import Quotas
from hotdesk.api.serving import Serving
from hotdesk.api.starter import started
from hotdesk.api.tenants import Tenants
from hotdesk.api.web.content import Content
from hotdesk.api.web.page import Page
from hotdesk.config import Config
from hotdesk.errors import HotdeskError

WARM = 4
"""Tenants that are got ready before anybody asks; others are when they first do."""
GRACE = 3
"""Seconds that answers under way get when the server ends."""


class Listening(uvicorn.Server):
    """One listener; signals are its owner's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


@asynccontextmanager
async def composed(settings: Config, serving: Serving, stopping: anyio.Event | None = None) -> AsyncIterator[Front]:
    """Give the application; desks burn with it."""
    keys = Keys(settings.lib / "serve")
    content = Content(serving.domain)
    page = Page(content, settings.lib, next(iter(serving.names), "127.0.0.1"))
    templates = places(settings, serving.templates)
    quotas = Quotas(serving.quota)
    async with (
        local.listening(settings) as calls,
        started(settings, templates) as starter,
        tenants.opened(settings, starter, quotas) as known,
        anyio.create_task_group() as tasks,
    ):
        privileges.give_up(settings)
        starter.quotas = quotas
        tasks.start_soon(local.serve, calls, known)
        sandboxes = Sandboxes(serving, tasks, defaults_of(serving))
        snapshots = Snapshots(starter)
        browsers = Browsers(keys)
        shared = Native(serving, keys, known, browsers, Jobs(starter), content.offer, templates)
        mcp = Mcp(keys, known, policy_of(serving, sandboxes.defaults.scope), tasks, serving.mcp_grace)
        look_after(tasks, sandboxes, snapshots, stopping or anyio.Event())
        tasks.start_soon(warm, keys, known, sandboxes)
        control = Control(keys, known, sandboxes, snapshots)
        parts = Parts(control, Traffic(sandboxes), SignedFiles(sandboxes), native_app(shared), page, mcp)
        yield Front(serving, parts, keys, quotas, browsers)
        tasks.cancel_scope.cancel()


def look_after(tasks: TaskGroup, sandboxes: Sandboxes, snapshots: Snapshots, stopping: anyio.Event) -> None:
    """Begin what goes on for as long as the server runs."""
    tasks.start_soon(clock.run, sandboxes)
    tasks.start_soon(metrics.run, sandboxes)
    tasks.start_soon(snapshots.run)
    tasks.start_soon(cut_at_end, sandboxes, stopping)


async def cut_at_end(sandboxes: Sandboxes, stopping: anyio.Event) -> None:
    """Cut every stream once the server is to stop, for as long as new ones may begin."""
    await stopping.wait()
    while True:
        sandboxes.cut_all()
        await anyio.sleep(0.1)


async def warm(keys: Keys, known: Tenants, sandboxes: Sandboxes) -> None:
    """Have desks ready for the first few who have a key."""
    keys.refresh()
    for name in sorted({key.tenant for key in keys.known.values()})[:WARM]:
        try:
            tenant = await known.tenant(name)
            for image in sandboxes.defaults.ready:
                sandboxes.stock(tenant, image)
        except (HotdeskError, OSError) as e:
            log(e)


def listener_of(app: Front, serving: Serving, *, tls: bool) -> Listening:
    """Give what serves one socket."""
    files = {"ssl_certfile": serving.certificate, "ssl_keyfile": serving.private_key} if tls else {}
    config = uvicorn.Config(
        app, http=Protocol, ws="websockets-sansio", loop="none", lifespan="off", log_config=None, log_level="error",
        access_log=False, server_header=False, date_header=False, timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE, proxy_headers=False, **files,  # type: ignore[arg-type]
    )  # fmt: skip
    config.load()
    return Listening(config)


async def serve(
    settings: Config, serving: Serving, plain: socket.socket, tls: socket.socket | None, stopping: anyio.Event
) -> None:
    """Serve until asked to stop: then nobody is let in, streams are cut, and desks burn."""
    async with composed(settings, serving, stopping) as app, anyio.create_task_group() as tasks:
        listeners = {listener_of(app, serving, tls=False): plain}
        if tls is not None:
            listeners[listener_of(app, serving, tls=True)] = tls
        for listener, sock in listeners.items():
            tasks.start_soon(listener.serve, [sock])
        await stopping.wait()
        for listener in listeners:
            listener.should_exit = True
