"""Tests of how pods end: the cluster may refuse to delete one, or not report its end."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from hotdesk.desk.pod.cluster import PodReport
from hotdesk.desk.pod.fleet import Pod, PodFleet
from hotdesk.desk.pod.listener import GuestListener
from hotdesk.desk.pod.manifest import Document
from hotdesk.desk.pod.pool_trust import PoolTrust
from hotdesk.desk.pod.preflight import PreflightReport
from hotdesk.errors import DeskGone, HostError
from hotdesk.ipc.tasks import background

pytestmark = pytest.mark.anyio
NAME = "i" + "a" * 20


class SlowCluster:
    """A cluster with one pod, which ends when a test says so."""

    def __init__(self) -> None:
        self.stored: dict[str, Document] = {NAME: {"metadata": {"uid": "u1"}}}
        self.deletions = 0
        self.failures = 0

    async def create(self, pod: Document) -> Document:
        raise NotImplementedError

    async def claim(self, name: str, version: str, seconds: int) -> Document:
        raise NotImplementedError

    async def read(self, name: str) -> Document:
        if name not in self.stored:
            raise DeskGone("the cluster refused to read a pod (status 404)")
        return self.stored[name]

    async def delete(self, name: str, uid: str) -> None:
        if self.failures:
            self.failures -= 1
            raise HostError("the API server of the cluster cannot be reached")
        self.deletions += 1

    async def delete_all(self) -> None:
        raise NotImplementedError

    async def follow(self, note: Callable[[PodReport], None]) -> None:
        await anyio.sleep(math.inf)


async def refuse_preflight() -> PreflightReport:
    raise NotImplementedError


@asynccontextmanager
async def open_fleet(cluster: SlowCluster, problems: list[str]) -> AsyncIterator[tuple[PodFleet, Pod]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with background() as tasks:
            listener = GuestListener(listening, "127.0.0.1:1", tasks, lambda e: problems.append(str(e)))
            fleet = PodFleet(cluster, listener, PoolTrust(refuse_preflight, lambda e: problems.append(str(e))))
            fleet.gone_seconds = 0.05
            guest = listener.expect(NAME, lambda python: python, lambda: None)
            pod = fleet.pods[NAME] = Pod(NAME, {}, guest, time.monotonic(), uid="u1")
            yield fleet, pod


async def test_a_pod_whose_end_is_not_reported_is_deleted_until_it_is_gone() -> None:
    cluster, problems = SlowCluster(), list[str]()
    async with open_fleet(cluster, problems) as (fleet, pod):
        with pytest.raises(HostError, match="has not reported its end"):
            await fleet.end(pod)
        await fleet.delete_leftover(pod)
        assert (cluster.deletions, list(fleet.pods)) == (2, [NAME])
        cluster.stored.clear()
        await fleet.delete_leftover(pod)
        assert (fleet.pods, problems) == ({}, [])


async def test_a_pod_that_could_not_be_deleted_is_deleted_later() -> None:
    cluster, problems = SlowCluster(), list[str]()
    async with open_fleet(cluster, problems) as (fleet, pod):
        cluster.failures = 2
        await fleet.clean_up(pod)
        await fleet.delete_leftover(pod)
        assert (cluster.deletions, list(fleet.pods)) == (0, [NAME])
        cluster.stored[NAME] = {"metadata": {"uid": "another pod of this name"}}
        await fleet.delete_leftover(pod)
        assert (cluster.deletions, fleet.pods) == (1, {})


async def test_a_pod_that_never_ends_is_reported_and_forgotten() -> None:
    cluster, problems = SlowCluster(), list[str]()
    async with open_fleet(cluster, problems) as (fleet, pod):
        with pytest.raises(HostError):
            await fleet.end(pod)
        pod.ended = time.monotonic() - 3601
        await fleet.delete_leftover(pod)
        assert fleet.pods == {}
        assert [f"kubectl describe pod {NAME}" in each for each in problems] == [True]
