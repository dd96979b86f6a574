"""Tests against a real API server: claims, comparison, rights, reports; and whole desks with a stand-in kubelet."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from tests.kube_server import BINARIES, NAMESPACE, ApiServer, StandInKubelet, apply_deployment, run_api_server
from tests.pod_cluster import make_bridge, make_trust

from hotdesk.config import Config
from hotdesk.desk.pod.catalog import PodCatalog
from hotdesk.desk.pod.cluster import PodReport, StaleError
from hotdesk.desk.pod.fleet import PodFleet
from hotdesk.desk.pod.listener import GuestListener
from hotdesk.desk.pod.manifest import PodOrder, PodTemplate, build_pod, find_differences
from hotdesk.desk.pod.runtime import PodRuntime, pod_runtime
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError, DeskGone, HostError, WallError
from hotdesk.ipc.tasks import background

if TYPE_CHECKING:
    from hotdesk.desk.pod.kubernetes_api import KubernetesNamespace

pytest.importorskip("kubernetes", reason="the extra kube")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not BINARIES or os.geteuid() != 0, reason="HOTDESK_KUBE_BINARIES is not set, or no root"),
]
SMALL = Spec(cpus=0.5, memory=256 << 20, disk=64 << 20)
TEMPLATE = PodTemplate(NAMESPACE, "base:1", agent="a1")
ORDER = PodOrder("i" + "a" * 20, 0.5, 256 << 20, 64 << 20, 600, "10.0.0.1:3720", "t", "c", "ready")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with run_api_server(tmp_path_factory.mktemp("kube")) as server:
        anyio.run(apply_deployment, server.write_kubeconfig("admin"))
        yield server


@asynccontextmanager
async def connect(server: ApiServer, user: str = "agent") -> AsyncIterator[KubernetesNamespace]:
    from hotdesk.desk.pod.kubernetes_api import open_namespace

    async with open_namespace(NAMESPACE, "a1", print, server.write_kubeconfig(user)) as found:
        yield found


async def clear(cluster: KubernetesNamespace) -> None:
    for each in (await cluster.call(cluster.pods.list_namespaced_pod_without_preload_content))[1]["items"]:
        await cluster.delete(each["metadata"]["name"], each["metadata"]["uid"])


async def test_the_stored_pod_equals_the_manifest(server: ApiServer) -> None:
    async with connect(server) as cluster:
        sent = build_pod(TEMPLATE, ORDER)
        stored = await cluster.create(sent)
        try:
            assert find_differences(sent, stored) == []
        finally:
            await clear(cluster)


async def test_an_old_server_drops_host_users_and_that_is_noticed(server: ApiServer) -> None:
    async with connect(server) as cluster:
        sent = build_pod(replace(TEMPLATE, own_user_namespace=True), ORDER)
        stored = await cluster.create(sent)
        try:
            assert find_differences(sent, stored) == ["spec.hostUsers is missing"]
        finally:
            await clear(cluster)


async def test_one_of_many_claims_wins(server: ApiServer) -> None:
    async with connect(server) as cluster:
        stored = await cluster.create(build_pod(TEMPLATE, ORDER))
        version = stored["metadata"]["resourceVersion"]
        won, lost = [], []

        async def claim() -> None:
            try:
                won.append(await cluster.claim(ORDER.name, version, 300))
            except StaleError:
                lost.append(1)

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(claim)
        try:
            assert (len(won), len(lost)) == (1, 9)
            assert won[0]["spec"]["activeDeadlineSeconds"] == 300
            assert find_differences(build_pod(TEMPLATE, ORDER), won[0]) == []
            with pytest.raises(StaleError):
                await cluster.claim(ORDER.name, won[0]["metadata"]["resourceVersion"], 300)
        finally:
            await clear(cluster)


async def test_errors_of_the_server_are_named(server: ApiServer) -> None:
    async with connect(server) as cluster:
        bad = build_pod(TEMPLATE, ORDER)
        bad["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Ti"
        with pytest.raises(BriefError, match="must be less than or equal to memory limit"):
            await cluster.create(bad)
        with pytest.raises(HostError, match="RuntimeClass"):
            await cluster.create(build_pod(replace(TEMPLATE, runtime_class="absent"), ORDER))
        with pytest.raises(DeskGone):
            await cluster.read("absent")
        await cluster.delete("absent", "")


async def test_another_pod_of_the_same_name_is_not_deleted(server: ApiServer) -> None:
    async with connect(server) as cluster:
        await cluster.create(build_pod(TEMPLATE, ORDER))
        try:
            await cluster.delete(ORDER.name, "00000000-0000-0000-0000-000000000000")
            assert await cluster.read(ORDER.name)
        finally:
            await clear(cluster)


async def test_the_agent_may_do_nothing_but_its_work(server: ApiServer) -> None:
    async with connect(server) as cluster:
        core = cluster.pods
        for refused in (
            core.list_namespaced_secret_without_preload_content(NAMESPACE),
            core.list_namespaced_pod_without_preload_content("default"),
            core.list_node_without_preload_content(),
            core.list_namespaced_config_map_without_preload_content(NAMESPACE),
            core.connect_get_namespaced_pod_exec_without_preload_content("x", NAMESPACE, command=["sh"]),
        ):
            assert (await refused).status == 403


async def test_reports_follow_pods_and_only_this_agents(server: ApiServer) -> None:
    async with connect(server) as cluster, anyio.create_task_group() as tasks:
        reports: list[PodReport] = []
        tasks.start_soon(cluster.follow, reports.append)
        await cluster.create(build_pod(replace(TEMPLATE, agent="a2"), replace(ORDER, name="i" + "b" * 20)))
        await cluster.create(build_pod(TEMPLATE, ORDER))
        with anyio.fail_after(20):
            while not reports:
                await anyio.sleep(0.02)
            await clear(cluster)
            while not reports[-1].is_deleted:
                await anyio.sleep(0.02)
        assert {each.name for each in reports} == {ORDER.name}
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_agent(server: ApiServer, folder: Path) -> AsyncIterator[tuple[PodRuntime, KubernetesNamespace]]:
    config = Config(run=folder / "run", lib=folder / "lib", images=folder / "images")
    catalog = PodCatalog(TEMPLATE, {"base": "base:1"})
    kubelet = StandInKubelet(server.write_kubeconfig("admin"))
    with make_bridge() as address, socket.create_server((address, 0)) as listening:
        where = f"{address}:{listening.getsockname()[1]}"
        async with connect(server) as cluster, background() as tasks:
            listener = GuestListener(listening, where, tasks, print)
            fleet = PodFleet(cluster, listener, await make_trust())
            for work in (kubelet.run, listener.serve, fleet.follow):
                tasks.start(work)
            while not cluster.calls:
                await anyio.sleep(0.02)
            async with pod_runtime(config, fleet, catalog) as runtime:
                yield runtime, cluster
            assert fleet.pods == {}
            assert (await cluster.call(cluster.pods.list_namespaced_pod_without_preload_content))[1]["items"] == []


async def test_a_desk_costs_two_requests_and_a_ready_one_three(server: ApiServer, tmp_path: Path) -> None:
    async with open_agent(server, tmp_path) as (runtime, cluster):
        before = cluster.calls
        desk = await runtime.open(SMALL)
        assert (await desk.run(["id", "-u"])).text == "1000\n"
        await runtime.burn(desk.id)
        assert cluster.calls - before == 2
        runtime.pool.keep(SMALL, 1)
        with anyio.fail_after(60):
            await runtime.pool.wait_until_full()
        runtime.pool.keep(SMALL, 0)
        await anyio.sleep(0.5)
        before = cluster.calls
        desk = await runtime.open(replace(SMALL, env={"A": "b"}))
        assert (await desk.run(["sh", "-c", "echo $A"])).text == "b\n"
        assert cluster.calls - before == 1
        await runtime.burn(desk.id)
        assert cluster.calls - before == 2


async def test_a_pod_deleted_by_somebody_else_ends_its_desk(server: ApiServer, tmp_path: Path) -> None:
    async with open_agent(server, tmp_path) as (runtime, cluster):
        desk = await runtime.open(SMALL)
        await cluster.delete(desk.id, "")
        with pytest.raises(DeskGone), anyio.fail_after(20):
            await desk.run(["sleep", "60"])


async def test_a_namespace_that_drops_a_field_gives_no_desk(server: ApiServer, tmp_path: Path) -> None:
    async with open_agent(server, tmp_path) as (runtime, cluster):
        runtime.catalog = replace(runtime.catalog, template=replace(TEMPLATE, own_user_namespace=True))
        runtime.keeper.catalog = runtime.catalog  # type: ignore[attr-defined]
        with pytest.raises(WallError, match="hostUsers is missing"):
            await runtime.open(SMALL)
        assert (await cluster.call(cluster.pods.list_namespaced_pod_without_preload_content))[1]["items"] == []
