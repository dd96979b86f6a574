"""A node of a cluster: lends desks to servers. It drops its privileges like `hotdesk serve`; it has no public API."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from hotdesk.api import privileges, tenants
from hotdesk.api.caller import DEFAULT_TENANT
from hotdesk.api.e2b.responses import log
from hotdesk.api.launch.launcher_client import open_launcher
from hotdesk.api.log import LOG
from hotdesk.api.quotas import Quotas
from hotdesk.api.tenants import Tenants
from hotdesk.api.walls import TenantWalls
from hotdesk.cluster.agent import NodeAgent
from hotdesk.cluster.certificates import ANY_NODE, ClusterContext, make_tls_context, read_name
from hotdesk.cluster.expiry import OWN, follow_certificates
from hotdesk.cluster.names import ORPHAN_SECONDS, check_name
from hotdesk.cluster.report import NodeReport
from hotdesk.cluster.vouching import Voucher
from hotdesk.config import Config, get_tenant_settings
from hotdesk.dataclass import dataclass
from hotdesk.desk.image import image
from hotdesk.desk.keeper import state
from hotdesk.desk.owner.runtime import SESSION
from hotdesk.desk.wall.registry import survey
from hotdesk.errors import BriefError, HotdeskError
from hotdesk.ipc.tasks import background
from hotdesk.walls import TRAITS, WallCatalog

_DRAIN_SECONDS = 30.0
_LOOK_SECONDS = 10.0
"""Seconds for which a list of images is cached."""
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class NodeSettings:
    identity: Path
    name: str = ""
    """The node's name; empty for the name in its certificate. Both must be equal unless the certificate is a pool's."""
    orphan_seconds: float = ORPHAN_SECONDS
    """Seconds that desks stay open without their server."""
    drain_seconds: float = _DRAIN_SECONDS
    """Seconds that open desks get when the agent is asked to stop."""

    def find_name(self) -> str:
        """Return this node's name; `BriefError` if its certificate is for another node."""
        certified = read_name(self.identity, "node")
        if certified == ANY_NODE and not self.name:
            raise BriefError("this node's certificate, from `node enroll --pool`, has no node name; add --name NAME")
        name = check_name(self.name) if self.name else certified
        if certified not in (name, ANY_NODE):
            raise BriefError(
                f"the certificate is for node {certified}, not for {self.name}; pass --name {certified}, or enroll "
                "this node with `hotdesk node enroll`"
            )
        return name


class NodeReporter:
    """Measures the load and resources that this node reports."""

    def __init__(self, settings: Config, name: str, catalog: WallCatalog) -> None:
        self.settings = settings
        self.name = name
        self.walls = tuple(
            each
            for each in catalog.list_available()
            if each in TRAITS and catalog.find(each).traits.strength >= TRAITS[each].strength
        )
        """Walls that are as strong as their names promise; an emulated microVM is not."""
        self.boot = os.urandom(16).hex()
        self.images: tuple[str, ...] = ()
        self.screens: tuple[str, ...] = ()
        self.listed = -_LOOK_SECONDS

    def measure(self, desks: int, cordoned: bool) -> NodeReport:
        if time.monotonic() - self.listed >= _LOOK_SECONDS:
            found = [each for each in image.ls(self.settings.images) if not each.name.startswith("snapshot-")][:400]
            self.images, self.listed = tuple(each.name for each in found), time.monotonic()
            self.screens = tuple(each.name for each in found if each.has(SESSION))
        return NodeReport(
            self.name, self.boot, len(os.sched_getaffinity(0)), max(0, state.measure_available_memory()), desks,
            self.walls, self.images, self.screens, cordoned, tuple(state.find_shortages(self.settings)),
        )  # fmt: skip


async def serve_node(
    settings: Config, node: NodeSettings, listener: socket.socket, stopping: anyio.Event, listening: Callable[[], None]
) -> None:
    """Lend desks until asked to stop; then open no more, and give the open ones a grace period."""
    name, context = node.find_name(), make_tls_context(node.identity, "node")
    vouch = Voucher(node.identity)
    catalog = survey(settings)  # not in a thread, which would keep its privileges
    walls = TenantWalls(catalog, settings.limits.wall)
    async with (
        open_launcher(settings) as launcher,
        tenants.open_tenants(settings, launcher, Quotas(), walls) as registry,
        background() as tasks,
    ):
        privileges.give_up(settings)
        reporter = NodeReporter(settings, name, catalog)
        tasks.start(lambda: follow_own_certificate(context, vouch))
        agent = NodeAgent(name, registry, context, tasks, reporter.measure, log, vouch)
        await _bury(settings, registry)
        await lend(agent, node, listener, stopping, listening, reporter.walls)


async def lend(
    agent: NodeAgent,
    node: NodeSettings,
    listener: socket.socket,
    stopping: anyio.Event,
    listening: Callable[[], None],
    walls: Sequence[str],
) -> None:
    """Serve servers until asked to stop; then open no more desks, and give the open ones a grace period."""
    agent.tasks.start(lambda: agent.serve(listener))
    agent.tasks.start(lambda: agent.burn_orphans(node.orphan_seconds))
    LOG.write("start", f"node {agent.name} accepts requests for desks", walls=",".join(walls))
    listening()
    await stopping.wait()
    agent.is_cordoned = True
    LOG.write("stop", f"node {agent.name} is draining: it opens no more desks", desks=agent.count_desks())
    with anyio.move_on_after(node.drain_seconds):
        while agent.count_desks():  # noqa: ASYNC110 - several owners end desks
            await anyio.sleep(_POLL_S)
    await agent.burn_desks()


async def follow_own_certificate(context: ClusterContext, voucher: Voucher) -> None:
    """Use this node's certificate from the files whenever they change; warn before it ends."""
    await follow_certificates(context, lambda: {OWN: context.expires}, log, voucher.reload)


async def _bury(settings: Config, registry: Tenants) -> None:
    """Burn the desks left by a killed agent and its killed keepers."""
    names = [DEFAULT_TENANT, *sorted(each.name for each in (settings.run / "tenants").glob("*"))]
    for name in names:
        try:
            if any((get_tenant_settings(settings, name).run / "desks").glob("*")):
                await registry.get_tenant(name)
        except (HotdeskError, OSError) as e:
            log(e)
