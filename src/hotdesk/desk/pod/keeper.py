"""Answers what a keeper answers, for desks that are pods: the cluster does what the keeper's system calls do.

Requests for keys, doors and readers go to the child process that starts them, without privileges, as on a server.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import anyio

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper import state
from hotdesk.desk.keeper.spawn import Started
from hotdesk.desk.owner.keeper_client import ANSWER_SECONDS, Answer, KeeperClient
from hotdesk.desk.pod.catalog import PodCatalog
from hotdesk.desk.pod.door_setup import build_pod_environment, build_pod_files
from hotdesk.desk.pod.fleet import Pod, PodFleet
from hotdesk.desk.pod.manifest import PodState
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError, DeskGone, HostError, HotdeskError
from hotdesk.ipc.tasks import Background

_LOOK_INTERVAL_S = 0.25
_REFUSED = {
    "pause": "be paused",
    "resume": "be paused",
    "suspend": "be stopped while a person has control",
    "halt": "be restarted",
    "boot": "be restarted",
    "snapshot": "be snapshotted",
    "forget": "be snapshotted",
    "save": "be saved as images",
    "checkpoint": "be copied with their memory",
    "hibernate": "be hibernated",
    "recall": "be hibernated",
    "may_save": "be hibernated",
    "root": "have programs that run as root",
}


@dataclass(slots=True)
class PodDesk:
    """A desk of this keeper."""

    spec: Spec
    record: state.DeskRecord
    opened: float
    used: float
    pod: Pod | None = None
    gate: str = ""
    ending: anyio.Event | None = None
    """Set when its burning, which has begun, is complete."""


class PodKeeper(KeeperClient):
    """One tenant's desks as pods."""

    peer = "the process that starts keys and doors"
    gone = "the process that starts keys and doors ended unexpectedly; its desks are being burnt, open others"

    def __init__(
        self, started: Started, config: Config, fleet: PodFleet, catalog: PodCatalog, tasks: Background
    ) -> None:
        super().__init__(started)
        self.config = config
        self.fleet = fleet
        self.catalog = catalog
        self.tasks = tasks
        self.open_desks: dict[str, PodDesk] = {}
        (config.run / "desks").mkdir(mode=0o700, parents=True, exist_ok=True)

    async def ask(self, request: KeeperRequest, descriptors: int = 0, seconds: float = ANSWER_SECONDS) -> Answer:
        try:
            return await self.carry_out(request, descriptors, seconds)
        except OSError as e:  # a full disk, or no free descriptor
            raise HostError(f"the agent cannot carry out '{request.verb}' for desk {request.desk}: {e}") from e

    async def carry_out(self, request: KeeperRequest, descriptors: int, seconds: float) -> Answer:
        match request.verb:
            case "open":
                return await self.open_pod(request)
            case "claim":
                await self.claim_pod(request)
            case "burn":
                await self.burn(request.desk, "asked")
            case "strike":
                self.find(request.desk)
                self.tasks.start(lambda: self.burn_quietly(request.desk, "asked"))
            case "usage":
                self.find(request.desk)
            case verb if verb in _REFUSED:
                raise BriefError(f"desks that are pods cannot {_REFUSED[verb]}; open another desk instead")
            case _:
                return await super().ask(request, descriptors, seconds)
        return {}, []

    async def post(self, request: KeeperRequest, refused: Callable[[HotdeskError], None]) -> None:
        """Carry a request out beside the caller; `refused` is called if that fails."""

        async def work() -> None:
            try:
                await self.ask(request)
            except HotdeskError as e:
                refused(e)

        self.tasks.start(work)

    async def tell(self, request: KeeperRequest) -> None:
        if request.verb != "touch":
            await super().tell(request)
        elif (desk := self.open_desks.get(request.desk)) is not None:
            desk.used = time.monotonic()

    def find(self, name: str) -> PodDesk:
        if (desk := self.open_desks.get(name)) is None:
            raise DeskGone(f"desk {name} is not open here; `hotdesk ps` lists open desks")
        return desk

    # -- opening ------------------------------------------------------------------------------------------------------

    async def open_pod(self, request: KeeperRequest) -> Answer:
        """Create a desk's pod; return its facts, and the descriptor of the link to its guest."""
        if request.origin or request.snapshot or request.memory:
            raise BriefError("desks that are pods cannot be forked; open another desk instead")
        name, spec = request.desk, request.spec
        template = self.catalog.find_template(spec)
        if name in self.open_desks:
            raise BriefError(f"desk {name} exists already")
        facts = {
            "image": spec.image,
            "wall": spec.wall,
            "owner": os.getpid(),
            "keeper": self.pid,
            "opened": time.time(),
        }
        record = state.enter(self.config, name, facts)
        now = time.monotonic()
        desk = self.open_desks[name] = PodDesk(spec, record, now, now)
        try:
            if request.ca:
                desk.gate = await self.open_gate(name, spec)
            env = {**build_pod_environment(bool(request.ca)), **spec.env}
            files = build_pod_files(request.ca)
            pod_state: PodState = "ready" if request.spare else "claimed"
            desk.pod = await self.fleet.start(name, spec, template, env, files, pod_state, lambda: self.note_end(name))
        except BaseException:
            await self.forget_desk(name, desk)
            raise
        streams = desk.pod.streams
        assert streams is not None
        streams.gate = desk.gate
        record.note(
            state="ready" if request.spare else "open", deadline=spec.deadline, memory=spec.memory, cpus=spec.cpus
        )
        desk.used = time.monotonic()
        link = streams.take_link().detach()
        return {"image": template.image, "pid": 0, "can_dial": False}, [link, os.open("/dev/null", os.O_RDONLY)]

    async def open_gate(self, name: str, spec: Spec) -> str:
        """Have a door listen for a desk; return the path of its socket."""
        reply, _ = await super().ask(KeeperRequest("gate", name, spec))
        return str(reply["path"])

    async def claim_pod(self, request: KeeperRequest) -> None:
        """Turn a ready desk into the requested one. Its size is that of the request: the pool compares it."""
        desk, spec = self.find(request.desk), request.spec
        assert desk.pod is not None
        if request.ca and not desk.gate:
            desk.gate = await self.open_gate(request.desk, spec)
            if desk.pod.streams is not None:
                desk.pod.streams.gate = desk.gate
        desk.spec = spec
        desk.opened = desk.used = time.monotonic()
        await self.fleet.claim(desk.pod, spec.deadline)
        desk.record.note(state="open", opened=time.time(), deadline=spec.deadline)

    # -- the end --------------------------------------------------------------------------------------------------

    def note_end(self, name: str) -> None:
        """Burn a desk whose guest has disconnected."""
        desk = self.open_desks.get(name)
        if desk is not None and desk.ending is None and desk.pod is not None:
            ended = desk.pod.streams.failure if desk.pod.streams is not None else ""
            failure = desk.pod.failure or ended or "hotdesk's process in the desk ended"
            self.tasks.start(lambda: self.burn_quietly(name, failure))

    async def burn(self, name: str, why: str) -> None:
        """Delete a desk's pod and everything that belongs to it. A second call waits for the first."""
        desk = self.open_desks.get(name)
        if desk is None:
            return
        if desk.ending is not None:
            await desk.ending.wait()
            return
        desk.ending = anyio.Event()
        self.report_end(name, why)
        try:
            with anyio.CancelScope(shield=True):
                if desk.pod is not None:
                    await self.fleet.end(desk.pod)
        finally:
            with anyio.CancelScope(shield=True):
                await self.forget_desk(name, desk)
            desk.ending.set()

    async def burn_quietly(self, name: str, why: str) -> None:
        try:
            await self.burn(name, why)
        except (HotdeskError, OSError) as e:
            self.fleet.listener.log(e)

    def report_end(self, name: str, why: str) -> None:
        self.take({"event": "ended", "desk": name, "why": why})

    async def forget_desk(self, name: str, desk: PodDesk) -> None:
        self.open_desks.pop(name, None)
        desk.record.leave()
        if desk.gate and self.failure is None:
            await super().tell(KeeperRequest("ungate", name))

    async def enforce(self) -> None:
        """Burn desks whose deadline has passed or that were not used for too long."""
        while True:
            await anyio.sleep(_LOOK_INTERVAL_S)
            now = time.monotonic()
            for name, desk in list(self.open_desks.items()):
                if desk.pod is None or desk.pod.streams is None or desk.ending is not None:
                    continue
                is_spare = desk.record.facts.get("state") == "ready"
                if now > desk.opened + desk.spec.deadline:
                    self.tasks.start(lambda name=name: self.burn_quietly(name, "deadline"))  # type: ignore[misc]
                elif not is_spare and now > desk.used + desk.spec.idle:
                    self.tasks.start(lambda name=name: self.burn_quietly(name, "idle"))  # type: ignore[misc]

    async def close(self) -> None:
        """Burn every desk, and end the child process."""
        async with anyio.create_task_group() as tasks:
            for name in list(self.open_desks):
                tasks.start_soon(self.burn_quietly, name, "its owner ended")
        await super().close()
