"""A node of a cluster whose desks are Kubernetes pods. It needs no privilege, and opens no desk on its own machine.

To servers it is a node like any other: the same calls, certificates, ids, events and reports.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import field
from pathlib import Path
from typing import Annotated

import anyio

from hotdesk.api.e2b.responses import log
from hotdesk.api.node import NodeSettings, follow_own_certificate, lend
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.cluster.agent import NodeAgent
from hotdesk.cluster.certificates import make_tls_context
from hotdesk.cluster.pull import has_work
from hotdesk.cluster.report import NodeReport
from hotdesk.cluster.vouching import Voucher
from hotdesk.config import Config, get_tenant_settings
from hotdesk.dataclass import dataclass
from hotdesk.desk.image.description import ImageFacts
from hotdesk.desk.keeper.state import find_shortages
from hotdesk.desk.owner.parts import Parts
from hotdesk.desk.pod.catalog import PodCatalog, refuse_abilities
from hotdesk.desk.pod.door_setup import CERTIFICATE
from hotdesk.desk.pod.fleet import PodFleet
from hotdesk.desk.pod.kubernetes_api import open_namespace
from hotdesk.desk.pod.listener import GuestListener
from hotdesk.desk.pod.manifest import PodTemplate
from hotdesk.desk.pod.pool_trust import PoolTrust
from hotdesk.desk.pod.preflight import PreflightReport
from hotdesk.desk.pod.probe_pods import run_preflight
from hotdesk.desk.pod.probed_pool import PoolSearch
from hotdesk.desk.pod.runtime import pod_runtime
from hotdesk.desk.seam import Desk, Spec
from hotdesk.door import selftest
from hotdesk.door.canary import Canary
from hotdesk.errors import BriefError, HostError
from hotdesk.host import Host
from hotdesk.ipc.tasks import Background, background
from hotdesk.keys.doors import Doors
from hotdesk.strict import Range, StrictError, read
from hotdesk.walls import TRAITS, WallCatalog
from hotdesk_guest import canaries

GUEST_PORT = 3720
_MEMORY = 1 << 40
"""Bytes that are reported as available: the cluster's quota decides, and the agent cannot see its nodes."""
_CANARIES = f"{Path(canaries.__file__).read_text()}\nmain(*sys.argv[1:])\n"
_PLACE = selftest.CanaryPlace(_CANARIES, CERTIFICATE, ())
"""A pod has routes: whether its policies hold is what the probes of `preflight.py` show."""


@dataclass(frozen=True, slots=True)
class PodSettings:
    """The table `[pods]`."""

    namespace: str
    images: Mapping[str, str]
    """References of container images, by the names of images."""
    walls: Mapping[str, str] = field(default_factory=lambda: {"container": ""})
    """RuntimeClasses by wall; empty: the nodes' usual runtime."""
    python: str = "/usr/bin/python3"
    user: Annotated[int, Range(1, 1 << 31)] = 1000
    node_selector: Mapping[str, str] = field(default_factory=lambda: {"hotdesk": "pods"})
    own_user_namespace: bool = False
    """Whether pods have user namespaces of their own: Kubernetes 1.33 and newer."""
    address: str = ""
    """The address at which pods reach this agent; empty: that of the agent's own pod."""
    port: Annotated[int, Range(0, 65535)] = GUEST_PORT
    kubeconfig: str = ""
    """A file for `kubectl`; empty: the service account of the agent's own pod."""
    pull_policy: str = "IfNotPresent"
    cpus: Annotated[int, Range(1, 1 << 16)] = 64
    """Processors that the desks may use together, for servers that compare nodes."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """The addresses of the nodes for desks, by name, for the preflight; empty: the API server is asked for them."""
    accept_open_network: bool = False
    """Whether desks are opened although the preflight of the network fails."""


def _parse_pod_settings(table: Mapping[str, object]) -> PodSettings:
    """Parse `[pods]`; raise `BriefError` for anything unknown."""
    try:
        settings = read(PodSettings, dict(table))
    except StrictError as e:
        raise BriefError(f"[pods] in config.toml: {e}") from None
    if unknown := [each for each in settings.walls if each not in TRAITS or TRAITS[each].stage]:
        raise BriefError(f"[pods] walls: a pod cannot have the wall {unknown[0]!r}; use container or gvisor")
    if settings.pull_policy not in ("Always", "IfNotPresent", "Never"):
        raise BriefError("[pods] pull_policy must be Always, IfNotPresent or Never")
    return settings


def _make_catalog(settings: PodSettings, agent: str, environ: Mapping[str, str]) -> PodCatalog:
    template = PodTemplate(
        namespace=settings.namespace,
        image="",
        agent=agent,
        python=settings.python,
        user=settings.user,
        pull_policy=settings.pull_policy,  # type: ignore[arg-type]
        node_selector=settings.node_selector,
        own_user_namespace=settings.own_user_namespace,
        owner=(environ.get("HOTDESK_POD_NAME", ""), environ.get("HOTDESK_POD_UID", "")),
    )
    return PodCatalog(template, settings.images, settings.walls)


class PodDoors(Doors):
    """The doors of desks that are pods."""

    python = "/usr/bin/python3"

    async def test_door(self, desk: Desk, spec: Spec, scope: Scope, canary: Canary) -> selftest.CanaryReport:
        return await selftest.prove(desk, self.python, scope, canary, _PLACE)


class PodMachine(Host):
    """One tenant's desks as pods."""

    def __init__(self, settings: Config, fleet: PodFleet, catalog: PodCatalog) -> None:
        super().__init__(settings, control=False)
        self.fleet = fleet
        self.catalog = catalog

    async def __aenter__(self) -> PodMachine:
        await self.stack.__aenter__()
        try:
            runtime = pod_runtime(self.config, self.fleet, self.catalog, self.note, self.supervise)
            self.runtime = self.own_runtime = await self.stack.enter_async_context(runtime)
        except BaseException as e:
            await self.stack.__aexit__(type(e), e, e.__traceback__)
            raise
        return self

    def supervise(self, parts: Parts, tasks: Background) -> Doors:
        doors = PodDoors(self.config, parts, tasks)
        doors.python = self.catalog.template.python
        doors.in_use = self.get_keeper_runtime().used.add
        self.stack.callback(doors.close)
        return doors

    @property
    def walls(self) -> WallCatalog:
        return self.catalog.list_walls()

    def get_image_facts(self, name: str) -> ImageFacts:
        return ImageFacts(self.catalog.images.get(name, "")[-128:], "")

    def has_screen(self, name: str) -> bool:
        """Return False: pods have no screen so far."""
        return False

    async def open(self, spec: Spec | None = None, scope: Scope = CLOSED) -> Desk:
        refuse_abilities(spec or Spec())
        return await super().open(spec, scope)


@dataclass(slots=True)
class PodTenant:
    host: PodMachine


class PodTenants:
    """The tenants of this agent, each with a state directory, keys and a door of its own."""

    def __init__(self, settings: Config, fleet: PodFleet, catalog: PodCatalog) -> None:
        self.settings = settings
        self.fleet = fleet
        self.catalog = catalog
        self.tenants: dict[str, PodTenant] = {}
        self.starting = anyio.Lock()

    async def get_tenant(self, name: str) -> PodTenant:
        """Return a tenant's machine, started."""
        async with self.starting:
            found = self.tenants.get(name)
            if found is None or found.host.get_keeper_runtime().keeper.failure is not None:
                if found is not None:
                    await found.host.close()
                machine = PodMachine(get_tenant_settings(self.settings, name), self.fleet, self.catalog)
                await machine.start()
                found = self.tenants[name] = PodTenant(machine)
            return found

    def find_idle(self, name: str) -> Config | None:
        """Return the settings of a tenant that is not started and has nothing to do, `None` if it is or may have."""
        settings = get_tenant_settings(self.settings, name)
        return None if name in self.tenants or has_work(settings) else settings

    async def close(self) -> None:
        """Burn every desk, and end every tenant's processes."""
        with anyio.CancelScope(shield=True):
            for each in self.tenants.values():
                await each.host.close()


async def serve_pod_node(
    settings: Config, node: NodeSettings, listener: socket.socket, stopping: anyio.Event, listening: Callable[[], None]
) -> None:
    """Lend desks that are pods until asked to stop. Pods of an earlier agent of this name are deleted first."""
    name, context = node.find_name(), make_tls_context(node.identity, "node")
    vouch, chosen = Voucher(node.identity), _parse_pod_settings(settings.pods)
    catalog = _make_catalog(chosen, name, os.environ)
    address = chosen.address or os.environ.get("HOTDESK_POD_ADDRESS", "")
    if not address:
        raise HostError("pods must reach this agent at an address; set `[pods] address`, or HOTDESK_POD_ADDRESS")
    settings.run.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(open_namespace(chosen.namespace, name, log, chosen.kubeconfig))
        guests = stack.enter_context(_listen_for_guests(chosen.port))
        await cluster.delete_all()
        tasks = await stack.enter_async_context(background())
        port = guests.getsockname()[1]
        search = PoolSearch(catalog.find_probe_template(), (address, port), listener.getsockname()[1], chosen.nodes)

        async def test_network() -> PreflightReport:
            return await run_preflight(cluster.pods, await search.find_pool(cluster))

        trust = PoolTrust(test_network, log, accepts_open=chosen.accept_open_network)
        fleet = PodFleet(cluster, GuestListener(guests, f"{address}:{port}", tasks, log), trust)
        for work in (fleet.listener.serve, fleet.follow, trust.follow):
            tasks.start(work)
        registry = PodTenants(settings, fleet, catalog)
        stack.push_async_callback(registry.close)
        boot = os.urandom(16).hex()

        def measure(desks: int, cordoned: bool) -> NodeReport:
            lacks = tuple(each for each in find_shortages(settings) if each != "processes")
            lacks += ("network-policy",) * trust.is_refused
            images = tuple(catalog.images)
            return NodeReport(
                name, boot, chosen.cpus, _MEMORY, desks, tuple(catalog.walls), images, (), cordoned, lacks,
                open_network=trust.has_open_network,
            )  # fmt: skip

        tasks.start(lambda: follow_own_certificate(context, vouch))
        agent = NodeAgent(name, registry, context, tasks, measure, log, vouch)
        await lend(agent, node, listener, stopping, listening, tuple(catalog.walls))


def _listen_for_guests(port: int) -> socket.socket:
    try:
        return socket.create_server(("", port), backlog=512)
    except OSError as e:
        raise HostError(f"port {port} for guests of pods cannot be opened ({e.strerror}); set `[pods] port`") from e
