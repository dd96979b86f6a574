"""Tests of the records of sandboxes on nodes: some cannot be written, and some nodes join late."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from tests.conftest import settings_in

from hotdesk.api.cluster_host import ClusterHost
from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.hibernate import SavedSandboxes
from hotdesk.api.e2b.live import LiveRecords, get_folder
from hotdesk.api.e2b.ports.traffic import Traffic
from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes, SandboxOrder
from hotdesk.api.http.dispatch import Aim
from hotdesk.api.quotas import Quotas
from hotdesk.api.settings import Serving
from hotdesk.api.tenants import Tenant, Tenants, get_settings
from hotdesk.api.walls import TenantWalls
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.cluster.dialer import NodeDialer
from hotdesk.cluster.discovery import Address
from hotdesk.cluster.names import new_node_id
from hotdesk.cluster.nodes import ClusterNode, Nodes
from hotdesk.cluster.report import NodeReport
from hotdesk.cluster.runtime import ClusterDesk, ClusterRuntime, TenantNode
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.errors import HostError
from hotdesk.ipc.tasks import Background, background

pytestmark = pytest.mark.anyio
IDS = [DeskId("i" + letter * 20) for letter in "abc"]


@dataclass
class Machine:
    """A tenant's machine; its desks are only names."""

    ended: list[DeskId] = field(default_factory=list)

    def has_ended(self, desk: DeskId) -> bool:
        return desk in self.ended

    def route(self, spec: Spec) -> Spec:
        return spec

    async def open(self, spec: Spec, scope: object) -> object:
        return SimpleNamespace(id=IDS[0])

    async def fork(self, desk: object, count: int, *, memory: bool) -> list[object]:
        return [SimpleNamespace(id=each) for each in IDS[1 : count + 1]]

    async def end(self, desk: DeskId) -> None:
        self.ended.append(desk)


def tenant_in(lib: Path) -> Any:
    return SimpleNamespace(name=lib.name, settings=SimpleNamespace(lib=lib), host=Machine())


def sandbox_of(tenant: Any, desk: DeskId) -> Sandbox:
    now = time.time()
    return Sandbox(cast(Any, SimpleNamespace(id=desk)), tenant, "base", Spec(), CLOSED, "token", now, now + 60)


def records_of(tasks: Any) -> LiveRecords:
    sandboxes = Sandboxes(Serving(), tasks, Defaults(CLOSED, {}))
    sandboxes.live = LiveRecords(sandboxes, cast(Any, None), cast(Any, None))
    return sandboxes.live


async def until_there(*paths: Path) -> None:
    with anyio.fail_after(10):
        while not all(each.exists() for each in paths):
            await anyio.sleep(0.005)


def block(tenant: Any) -> None:
    """Have the server refuse to write records of a tenant."""
    get_folder(tenant).mkdir(parents=True, exist_ok=True)
    get_folder(tenant).chmod(0o755)


async def test_a_record_that_cannot_be_written_affects_no_other_and_is_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full, other = tenant_in(tmp_path / "full"), tenant_in(tmp_path / "other")
    block(full)
    async with anyio.create_task_group() as tasks:
        live = records_of(tasks)
        for tenant, desk in zip((full, other), IDS, strict=False):
            live.sandboxes.add(sandbox_of(tenant, desk))
        tasks.start_soon(live.run)
        await until_there(get_folder(other) / f"{IDS[1]}.json")
        assert not list(get_folder(full).iterdir())
        get_folder(full).chmod(0o700)
        await until_there(get_folder(full) / f"{IDS[0]}.json")
        tasks.cancel_scope.cancel()
    assert capsys.readouterr().err.count("other users can enter") == 1


async def test_a_record_that_cannot_be_removed_is_removed_later(tmp_path: Path) -> None:
    tenant = tenant_in(tmp_path)
    async with anyio.create_task_group() as tasks:
        live = records_of(tasks)
        sandbox = sandbox_of(tenant, IDS[0])
        live.sandboxes.add(sandbox)
        await live.write(sandbox)
        block(tenant)
        await live.sandboxes.kill(sandbox)
        await live.update()
        assert list(get_folder(tenant).iterdir())
        get_folder(tenant).chmod(0o700)
        await live.update()
    assert not list(get_folder(tenant).iterdir())


async def test_a_sandbox_whose_record_cannot_be_written_is_not_left_open(tmp_path: Path) -> None:
    tenant = tenant_in(tmp_path)
    block(tenant)
    async with anyio.create_task_group() as tasks:
        sandboxes = records_of(tasks).sandboxes
        with pytest.raises(HostError, match="other users can enter"):
            await sandboxes.create(tenant, SandboxOrder("base", "base", 60.0, CLOSED))
        assert (sandboxes.by_id, tenant.host.ended) == ({}, IDS[:1])


async def test_forks_whose_records_cannot_be_written_are_not_left_open(tmp_path: Path) -> None:
    tenant = tenant_in(tmp_path)
    block(tenant)
    async with anyio.create_task_group() as tasks:
        sandboxes = records_of(tasks).sandboxes
        origin = sandbox_of(tenant, IDS[0])
        sandboxes.add(origin)
        with pytest.raises(HostError, match="other users can enter"):
            await sandboxes.fork(origin, 2, 60.0)
        assert (list(sandboxes.by_id), tenant.host.ended) == (IDS[:1], IDS[1:])


class LateNode(TenantNode):
    """The calls to a node whose desks a test chooses."""

    found: set[str]

    async def has_desk(self, desk: DeskId) -> bool:
        return desk in self.found


class LateCluster(ClusterRuntime):
    """A tenant's desks on nodes; adopting one fails as often as the test says."""

    failures = 0
    found: set[str]
    burnt: list[DeskId]

    async def burn(self, desk: DeskId) -> None:
        self.burnt.append(desk)

    def on(self, node: ClusterNode) -> LateNode:
        calls = LateNode(node, self.tenant, self.owner, self.seal)
        calls.found = self.found
        return calls

    async def adopt(self, desk: DeskId) -> ClusterDesk:
        if self.failures:
            self.failures -= 1
            raise HostError("the node is too slow")
        self.desks[desk] = found = cast(ClusterDesk, SimpleNamespace(id=desk))
        return found


@dataclass
class Restart:
    """A server that was started again, and a record of its earlier process."""

    live: LiveRecords
    cluster: LateCluster
    file: Path
    tasks: Background

    def join(self, *desks: str) -> None:
        self.cluster.found = {*desks}
        report = NodeReport("n1", "1" * 32, 2, 0, 0, ("container",), ())
        dialer = NodeDialer(Address("127.0.0.1", 1), ssl.create_default_context(), self.tasks)
        self.cluster.nodes.join(ClusterNode(report, dialer))

    async def look(self) -> None:
        for each in list(self.live.missing.values()):
            await self.live.look_for(each)


@asynccontextmanager
async def restarted(folder: Path, desk: DeskId) -> AsyncIterator[Restart]:
    config = settings_in(folder)
    async with background() as tasks, anyio.create_task_group() as group:
        nodes = Nodes([], ssl.create_default_context(), tasks, print)
        host = ClusterHost(config, "default", Quotas(), TenantWalls(), nodes)
        host.cluster = host.runtime = cluster = LateCluster(config, nodes, "default", tasks)
        cluster.found, cluster.burnt = set(), []
        host.cluster.departed = lambda desk: None
        sandboxes = Sandboxes(Serving(), group, Defaults(CLOSED, {}))
        tenant = Tenant("default", config, host)
        registry = Tenants(config, group, nodes=nodes, open={"default": tenant})
        live = LiveRecords(sandboxes, SavedSandboxes(sandboxes, cast(Any, None), registry), registry)
        live.settle_seconds = 0.01
        sandboxes.live = live
        await LiveRecords(sandboxes, live.saved, registry).write(sandbox_of(tenant, desk))
        await live.restore_by_name("default")
        yield Restart(live, cluster, get_folder(tenant) / f"{desk}.json", tasks)
        group.cancel_scope.cancel()


async def test_a_sandbox_whose_node_joins_after_the_restart_is_restored(tmp_path: Path) -> None:
    desk = new_node_id("n1")
    async with restarted(tmp_path, desk) as restart:
        await restart.look()
        assert restart.file.exists()
        restart.join(desk)
        await restart.look()
        assert list(restart.live.sandboxes.by_id) == [desk]
        assert not restart.live.missing
        assert not restart.cluster.expected


async def test_a_sandbox_that_cannot_be_adopted_at_first_is_restored_later(tmp_path: Path) -> None:
    desk = new_node_id("n1")
    async with restarted(tmp_path, desk) as restart:
        restart.cluster.failures = 2
        restart.join(desk)
        for _ in range(2):
            await restart.look()
            assert restart.file.exists()
            assert desk in restart.cluster.expected
        await restart.look()
        assert list(restart.live.sandboxes.by_id) == [desk]


async def test_a_request_for_a_sandbox_whose_node_has_not_joined_yet_may_be_repeated(tmp_path: Path) -> None:
    desk = new_node_id("n1")
    async with restarted(tmp_path, desk) as restart:
        sandboxes = restart.live.sandboxes
        traffic = Traffic(sandboxes)
        with pytest.raises(E2bError) as refused:
            sandboxes.get("default", desk)
        assert (refused.value.status, refused.value.make_response().headers["retry-after"]) == (503, "2")
        with pytest.raises(E2bError) as refused:
            await traffic.find(Aim(desk, 8000), {})
        assert (refused.value.status, refused.value.make_response().headers["retry-after"]) == (503, "2")
        with pytest.raises(E2bError, match="not found") as refused:
            sandboxes.get("another-tenant", desk)
        assert refused.value.status == 404
        restart.join()
        await restart.look()
        with pytest.raises(E2bError, match="not found") as refused:
            sandboxes.get("default", desk)
        assert refused.value.status == 404


async def test_requests_of_a_tenant_whose_records_are_not_read_yet_may_be_repeated(tmp_path: Path) -> None:
    async with restarted(tmp_path, new_node_id("n1")) as restart:
        restart.live.unread.add("late")
        with pytest.raises(E2bError) as refused:
            restart.live.sandboxes.get("late", new_node_id("n1"))
        assert refused.value.status == 503


@dataclass
class FailingScopes:
    """Computes scopes; fails with the errors that a test chooses."""

    errors: list[Exception]

    async def find_scope(self, record: object, tenant: str) -> Scope:
        if self.errors:
            raise self.errors.pop(0)
        return CLOSED


@pytest.mark.parametrize("error", [HostError("the machine has no memory"), OSError(24, "Too many open files")])
async def test_a_sandbox_is_not_burnt_because_this_server_fails_for_a_moment(tmp_path: Path, error: Exception) -> None:
    desk = new_node_id("n1")
    async with restarted(tmp_path, desk) as restart:
        restart.live.saved = cast(Any, FailingScopes([error, error]))
        restart.join(desk)
        for _ in range(2):
            await restart.look()
            assert restart.file.exists()
            assert desk in restart.cluster.expected
        await restart.look()
        assert list(restart.live.sandboxes.by_id) == [desk]
        assert not restart.live.missing
        assert not restart.cluster.expected


async def test_a_sandbox_that_is_no_longer_allowed_is_burnt(tmp_path: Path) -> None:
    desk = new_node_id("n1")
    async with restarted(tmp_path, desk) as restart:
        restart.live.saved = cast(Any, FailingScopes([E2bError(400, "this network is not allowed any more")]))
        restart.join(desk)
        await restart.look()
        assert restart.cluster.burnt == [desk]
        assert not restart.file.exists()
        assert not restart.live.sandboxes.by_id


async def test_a_sandbox_whose_node_answers_without_its_desk_is_forgotten(tmp_path: Path) -> None:
    async with restarted(tmp_path, new_node_id("n1")) as restart:
        restart.join()
        await restart.look()
        assert not restart.file.exists()
        assert not restart.live.missing
        assert not restart.cluster.expected


async def test_a_sandbox_whose_node_does_not_return_is_forgotten_once_the_node_has_burnt_it(tmp_path: Path) -> None:
    async with restarted(tmp_path, new_node_id("n1")) as restart:
        for name, each in restart.live.missing.items():
            restart.live.missing[name] = replace(each, end=time.monotonic() - 1)
        await restart.look()
        assert not restart.file.exists()
        assert not restart.live.missing


async def test_tenants_are_restored_at_the_same_time(tmp_path: Path) -> None:
    async with anyio.create_task_group() as group, background() as tasks:
        config = settings_in(tmp_path)
        nodes = Nodes([], ssl.create_default_context(), tasks, print)
        registry = Tenants(config, group, nodes=nodes)
        sandboxes = Sandboxes(Serving(), group, Defaults(CLOSED, {}))
        live = LiveRecords(sandboxes, SavedSandboxes(sandboxes, cast(Any, None), registry), registry)
        for name in ("default", "t1", "t2"):
            settings = get_settings(config, name)
            settings.lib.mkdir(parents=True, exist_ok=True)
            host = ClusterHost(settings, name, Quotas(), TenantWalls(), nodes)
            host.cluster = LateCluster(settings, nodes, name, tasks)
            registry.open[name] = tenant = Tenant(name, settings, host)
            await LiveRecords(sandboxes, live.saved, registry).write(sandbox_of(tenant, new_node_id("n1")))
        live.settle_seconds = 3.0
        begun = time.monotonic()
        await live.restore()
        assert len(live.missing) == 3
        assert time.monotonic() - begun < 6.0
