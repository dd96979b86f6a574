"""The pods of one agent: created, handed over once their guests have connected, claimed and deleted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.desk.owner.pool import MAX_AGE_S, PROVEN_SECONDS
from hotdesk.desk.pod.cluster import PodCluster, PodReport, StaleError
from hotdesk.desk.pod.listener import ExpectedGuest, GuestListener
from hotdesk.desk.pod.manifest import Document, PodOrder, PodState, PodTemplate, build_pod, find_differences
from hotdesk.desk.pod.pool_trust import PoolTrust
from hotdesk.desk.pod.seed import build_seed
from hotdesk.desk.pod.streams import DeskStreams
from hotdesk.desk.seam import Spec
from hotdesk.errors import DeskError, DeskGone, HostError, HotdeskError, WallError

START_SECONDS = 120.0
"""Seconds a pod may take until its guest connects: an image may have to be fetched."""
GONE_SECONDS = 15.0
"""Seconds to wait until the cluster reports that a deleted pod is gone."""
_DELETE_INTERVAL_S = 30.0
"""Seconds between two attempts to delete a pod whose end the cluster has not reported."""
_GIVE_UP_S = 3600.0
"""Seconds after which such a pod is reported and left to the cluster, which enforces its deadline."""
_MARGIN_S = 60.0
"""Seconds that Kubernetes lets a pod run beyond its deadline, which the agent enforces."""
_ATTEMPTS = 4


@dataclass(slots=True)
class Pod:
    """One desk's pod."""

    desk: str
    sent: Document
    guest: ExpectedGuest
    created: float
    uid: str = ""
    version: str = ""
    node: str = ""
    streams: DeskStreams | None = None
    failure: str = ""
    ended: float = math.inf
    """Monotonic time from which it must not run any more."""
    gone: anyio.Event = field(default_factory=anyio.Event)
    """Set when the cluster reports that the pod is gone."""

    def disconnect(self) -> None:
        """Close the connection to its guest, or stop waiting for it."""
        self.guest.located.set()
        self.guest.arrived.set()
        if self.streams is not None:
            self.streams.close()


class PodFleet:
    """All pods of one agent, of every tenant."""

    def __init__(self, cluster: PodCluster, listener: GuestListener, trust: PoolTrust) -> None:
        self.cluster = cluster
        self.listener = listener
        self.trust = trust
        self.pods: dict[str, Pod] = {}
        """Pods by desk, also those that were deleted and whose end the cluster has not reported."""
        self.gone_seconds = GONE_SECONDS
        trust.on_open = self.fail_all

    async def follow(self) -> None:
        """Note what becomes of the pods, and delete those again that have not ended, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.delete_leftovers)
            await self.cluster.follow(self.note)

    def note(self, report: PodReport) -> None:
        """Note one report. One about an earlier pod of the same name does not count."""
        pod = self.pods.get(report.name)
        if pod is None or (pod.uid and report.uid and report.uid != pod.uid):
            return
        if report.is_deleted:
            pod.failure = pod.failure or "its pod was deleted"
            pod.gone.set()
        elif report.failure:
            pod.failure = pod.failure or report.failure
        if report.version:
            pod.version = report.version
        pod.node = report.node or pod.node
        pod.guest.locate(report.address)
        if pod.failure:
            pod.disconnect()

    def fail_all(self, why: str) -> None:
        """Disconnect every pod; its keeper burns it then."""
        for pod in list(self.pods.values()):
            pod.failure = pod.failure or why
            pod.disconnect()

    async def start(
        self,
        desk: str,
        spec: Spec,
        template: PodTemplate,
        env: Mapping[str, str],
        files: Mapping[str, str],
        state: PodState,
        on_end: Callable[[], None],
    ) -> Pod:
        """Create a pod, compare what was stored, and wait for its guest. A pod that fails is deleted.

        Raise `HostError` if the preflight of the pool, or of the pod's node, has not passed.
        """
        self.trust.require()
        is_sentry = spec.wall == "gvisor"

        def build(python: bytes) -> bytes:
            self.trust.require_node(pod.node)  # nothing of a caller goes to a node that was not tested
            return build_seed(python, env, files, is_sentry=is_sentry)

        guest = self.listener.expect(desk, build, on_end)
        seconds = MAX_AGE_S + PROVEN_SECONDS if state == "ready" else spec.deadline
        order = PodOrder(
            desk, spec.cpus, spec.memory, spec.disk, seconds + _MARGIN_S, self.listener.address, guest.token,
            self.listener.certificate, state,
        )  # fmt: skip
        pod = self.pods[desk] = Pod(desk, build_pod(template, order), guest, time.monotonic())
        try:
            self.accept_stored(pod, await self.cluster.create(pod.sent))
            pod.streams = await self.listener.wait(guest, START_SECONDS)
            if pod.failure or pod.streams.is_over:  # it may break the protocol right behind its first message
                raise DeskGone(f"desk {desk} did not start: {pod.streams.failure}")
            self.trust.require_node(pod.node)
        except BaseException as e:
            await self.clean_up(pod)
            if isinstance(e, DeskGone) and pod.failure:
                raise DeskGone(f"desk {desk} did not start: {pod.failure}") from e
            raise
        return pod

    def accept_stored(self, pod: Pod, stored: Document) -> None:
        """Note a pod's identity; raise `WallError` if it is not the one that was sent."""
        metadata = stored.get("metadata") or {}
        pod.uid, pod.version = str(metadata.get("uid", "")), str(metadata.get("resourceVersion", ""))
        if differences := find_differences(pod.sent, stored):
            raise WallError(
                f"the cluster changed the pod of desk {pod.desk}, which was deleted: {'; '.join(differences)[:400]}. "
                "Exempt the namespace from the admission webhook that does this, or update the cluster"
            )

    async def claim(self, pod: Pod, seconds: float) -> None:
        """Mark a ready pod as claimed in the cluster, if it is unchanged; raise `DeskError` if it cannot be used."""
        self.trust.require()  # the preflight may have failed since the pod was created
        self.trust.require_node(pod.node)
        most = math.ceil(time.monotonic() - pod.created + seconds + _MARGIN_S)  # it counts from the pod's start
        if most > int(pod.sent["spec"]["activeDeadlineSeconds"]):
            raise DeskError(f"the pod of desk {pod.desk} may not run for another {seconds:.0f} s; open another desk")
        for _ in range(_ATTEMPTS):
            try:
                self.accept_stored(pod, await self.cluster.claim(pod.desk, pod.version, most))
            except StaleError:  # a kubelet may have reported its state meanwhile
                stored = await self.cluster.read(pod.desk)
                if str(stored["metadata"]["uid"]) != pod.uid:
                    break
                self.accept_stored(pod, stored)
            else:
                return
        raise DeskError(f"the pod of desk {pod.desk} was changed by another process; open another desk")

    async def end(self, pod: Pod) -> None:
        """Delete a pod; return when the cluster reports that it is gone, or raise `HostError` after some time.

        Until the cluster reports it, `follow` deletes the pod again.
        """
        await self.delete(pod, pod.streams)
        with anyio.move_on_after(self.gone_seconds) as scope:
            await pod.gone.wait()
        if scope.cancelled_caught:
            raise HostError(
                f"the pod of desk {pod.desk} was deleted, but the cluster has not reported its end within "
                f"{self.gone_seconds:.0f} s; its node may not respond"
            )
        self.pods.pop(pod.desk, None)

    async def clean_up(self, pod: Pod) -> None:
        """Delete a pod that was not handed over, whatever state it is in."""
        with anyio.move_on_after(self.gone_seconds, shield=True), suppress(HotdeskError):
            await self.delete(pod, pod.guest.streams)
            self.pods.pop(pod.desk, None)

    async def delete(self, pod: Pod, streams: DeskStreams | None) -> None:
        pod.ended = time.monotonic()
        self.listener.forget(pod.desk)
        if streams is not None:
            streams.close()
        await self.cluster.delete(pod.desk, pod.uid)

    async def delete_leftovers(self) -> None:
        while True:
            await anyio.sleep(_DELETE_INTERVAL_S)
            for pod in list(self.pods.values()):
                if time.monotonic() - pod.ended > self.gone_seconds:
                    await self.delete_leftover(pod)

    async def delete_leftover(self, pod: Pod) -> None:
        """Delete a pod again whose end was not reported; after `_GIVE_UP_S`, report and forget it."""
        with suppress(HotdeskError):  # `end` has reported it
            await self.cluster.delete(pod.desk, pod.uid)
            if await self.is_gone(pod):
                self.pods.pop(pod.desk, None)
                return
        if time.monotonic() - pod.ended > _GIVE_UP_S:
            self.pods.pop(pod.desk, None)
            self.listener.log(
                HostError(
                    f"the cluster has not reported the end of the pod of desk {pod.desk}, which was to be deleted "
                    f"{_GIVE_UP_S / 60:.0f} minutes ago; `kubectl describe pod {pod.desk}` shows its state. It may run "
                    "until its deadline"
                )
            )

    async def is_gone(self, pod: Pod) -> bool:
        try:
            stored = await self.cluster.read(pod.desk)
        except DeskGone:
            return True
        return bool(pod.uid) and (stored.get("metadata") or {}).get("uid") != pod.uid
