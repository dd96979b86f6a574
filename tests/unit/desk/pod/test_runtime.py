"""Tests of desks as pods: real processes in namespaces, behind the runtime that an agent uses."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.pod_cluster import NamespacePods, make_bridge, make_trust

from hotdesk.config import Config
from hotdesk.desk.pod.catalog import PodCatalog
from hotdesk.desk.pod.fleet import PodFleet
from hotdesk.desk.pod.listener import GuestListener
from hotdesk.desk.pod.manifest import PodTemplate
from hotdesk.desk.pod.pool_trust import PoolTrust
from hotdesk.desk.pod.runtime import PodRuntime, pod_runtime
from hotdesk.desk.records import list_desks
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError, DeskError, DeskGone, HostError, HotdeskError, ImageError, WallError
from hotdesk.ipc.tasks import background

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")]
SMALL = Spec(cpus=0.5, memory=256 << 20, disk=64 << 20)


class PodAgent:
    """The parts of an agent for pods, with pods that are processes."""

    def __init__(self, runtime: PodRuntime, pods: NamespacePods, fleet: PodFleet, problems: list[str]) -> None:
        self.runtime = runtime
        self.pods = pods
        self.fleet = fleet
        self.problems = problems


@asynccontextmanager
async def open_agent(folder: Path, trust: PoolTrust | None = None) -> AsyncIterator[PodAgent]:
    config = Config(run=folder / "run", lib=folder / "lib", images=folder / "images")
    catalog = PodCatalog(PodTemplate("desks", ""), {"base": "base:1"}, {"container": ""})
    problems: list[str] = []
    pods = NamespacePods()
    with make_bridge() as address, socket.create_server((address, 0)) as listening:
        async with background() as tasks:
            where = f"{address}:{listening.getsockname()[1]}"
            listener = GuestListener(listening, where, tasks, lambda e: problems.append(str(e)))
            fleet = PodFleet(pods, listener, trust or await make_trust())
            tasks.start(listener.serve)
            tasks.start(fleet.follow)
            async with pod_runtime(config, fleet, catalog) as runtime:
                yield PodAgent(runtime, pods, fleet, problems)
            assert pods.stored == {}
            assert fleet.pods == {}


async def test_a_desk_runs_programs_and_is_burnt(tmp_path: Path) -> None:
    async with open_agent(tmp_path) as agent:
        desk = await agent.runtime.open(SMALL)
        done = await desk.run(["sh", "-c", "id -u; grep -c . /proc/net/route; cat /proc/self/status | grep CapEff"])
        assert done.text.split() == ["1000", "2", "CapEff:", "0000000000000000"]
        assert [each["state"] for each in list_desks(agent.runtime.config.run)] == ["open"]
        await agent.runtime.burn(desk.id)
        assert list_desks(agent.runtime.config.run) == []
        with pytest.raises(DeskGone, match="burnt"):
            await desk.run(["true"])
        assert agent.pods.calls == ["create", "delete"]


async def test_a_ready_pod_is_claimed_with_one_request(tmp_path: Path) -> None:
    async with open_agent(tmp_path) as agent:
        agent.runtime.pool.keep(SMALL, 1)
        with anyio.fail_after(30):
            await agent.runtime.pool.wait_until_full()
        agent.runtime.pool.keep(SMALL, 0)
        desk = await agent.runtime.open(Spec(cpus=0.5, memory=256 << 20, disk=64 << 20, deadline=100, env={"A": "1"}))
        assert (await desk.run(["sh", "-c", "echo $A"])).text == "1\n"
        assert agent.pods.calls == ["create", "claim"]
        pod = agent.pods.stored[desk.id]
        assert pod["metadata"]["labels"]["hotdesk/state"] == "claimed"
        assert 160 <= pod["spec"]["activeDeadlineSeconds"] <= 200
        await agent.runtime.burn(desk.id)
        assert agent.pods.calls == ["create", "claim", "delete"]


async def test_a_ready_pod_of_another_size_is_not_claimed(tmp_path: Path) -> None:
    async with open_agent(tmp_path) as agent:
        agent.runtime.pool.keep(SMALL, 1)
        with anyio.fail_after(30):
            await agent.runtime.pool.wait_until_full()
        await agent.runtime.open(Spec(cpus=0.5, memory=512 << 20, disk=64 << 20))
        assert "claim" not in agent.pods.calls


async def test_a_ready_pod_that_was_changed_meanwhile_is_replaced(tmp_path: Path) -> None:
    async with open_agent(tmp_path) as agent:
        agent.runtime.pool.keep(SMALL, 1)
        with anyio.fail_after(30):
            await agent.runtime.pool.wait_until_full()
        agent.runtime.pool.keep(SMALL, 0)
        (name,) = agent.pods.stored
        agent.pods.stored[name]["metadata"]["labels"]["hotdesk/state"] = "claimed"
        desk = await agent.runtime.open(Spec(cpus=0.5, memory=256 << 20, disk=64 << 20, env={"A": "1"}))
        assert desk.id != name
        assert name not in agent.pods.stored


async def test_a_pod_that_ends_is_reported(tmp_path: Path) -> None:
    async with open_agent(tmp_path) as agent:
        desk = await agent.runtime.open(SMALL)
        agent.pods.processes[desk.id].kill()
        with pytest.raises(HotdeskError), anyio.fail_after(20):
            await desk.run(["sleep", "30"])
        with anyio.fail_after(20):
            while desk.id in agent.runtime.desks:
                await anyio.sleep(0.05)
                agent.runtime.list_live()


async def test_deadline_and_idle_time_are_enforced(tmp_path: Path) -> None:
    async with open_agent(tmp_path) as agent:
        short = await agent.runtime.open(Spec(cpus=0.5, memory=256 << 20, disk=64 << 20, deadline=3))
        idle = await agent.runtime.open(Spec(cpus=0.5, memory=256 << 20, disk=64 << 20, idle=2))
        with anyio.fail_after(30):
            while agent.pods.stored:
                await anyio.sleep(0.1)
        assert agent.runtime.keeper.ended[short.id] == "deadline"
        assert agent.runtime.keeper.ended[idle.id] == "idle"


@pytest.mark.parametrize(
    ("spec", "error", "why"),
    [
        (Spec(sterile=True), BriefError, "sterile"),
        (Spec(wall="gvisor"), WallError, "walls container here"),
        (Spec(image="other"), ImageError, "images here are base"),
        (Spec(disk_in="memory"), BriefError, "disk_in"),
    ],
)
async def test_what_no_pod_can_do_is_refused(tmp_path: Path, spec: Spec, error: type[HotdeskError], why: str) -> None:
    async with open_agent(tmp_path) as agent:
        with pytest.raises(error, match=why):
            await agent.runtime.open(spec)
        assert agent.pods.calls == []


async def test_pause_snapshot_and_fork_are_refused_and_the_desk_goes_on(tmp_path: Path) -> None:
    async with open_agent(tmp_path) as agent:
        desk = await agent.runtime.open(SMALL)
        for refused in (desk.pause, desk.snapshot, desk.fork):
            with pytest.raises(BriefError, match="pods cannot"):
                await refused()
        with pytest.raises(DeskError, match="nothing listens"):
            await desk.dial(9)
        with pytest.raises(BriefError, match="pods cannot have programs that run as root"):
            await desk.run(["true"], user="root")
        assert (await desk.run(["true"])).ok
        assert (await desk.run(["false"])).exit_code == 1


async def test_a_state_directory_that_cannot_be_written_fails_the_desk_and_no_other(tmp_path: Path) -> None:
    async with open_agent(tmp_path) as agent:
        desk = await agent.runtime.open(SMALL)
        records = agent.runtime.config.run / "desks"
        records.rename(records.with_name("away"))
        records.touch()
        with pytest.raises(HostError, match="the agent cannot carry out 'open'"):
            await agent.runtime.open(SMALL)
        agent.runtime.pool.keep(SMALL, 1)
        with pytest.raises(HostError, match="the agent cannot carry out 'open'"), anyio.fail_after(10):
            await agent.runtime.pool.wait_until_full()
        agent.runtime.pool.keep(SMALL, 0)
        records.unlink()
        records.with_name("away").rename(records)
        assert (await desk.run(["true"])).ok


def test_a_wall_is_not_taken_from_the_nodes_usual_runtime() -> None:
    with pytest.raises(BriefError, match="gvisor needs the name of a RuntimeClass"):
        PodCatalog(PodTemplate("desks", ""), {"base": "base:1"}, {"container": "", "gvisor": ""})
    PodCatalog(PodTemplate("desks", ""), {"base": "base:1"}, {"container": "", "gvisor": "gvisor"})
