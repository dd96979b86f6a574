"""A swarm in Python: `async for record in hotdesk.swarm("brief.toml", script="brain.py")`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from os import PathLike
from pathlib import Path

import anyio

from hotdesk import config
from hotdesk.brain.models.seam import LanguageModel
from hotdesk.brief.brief import Brief
from hotdesk.brief.load import read_job
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.keep import Drive
from hotdesk.errors import BriefError, unwrap_group
from hotdesk.event import Event, ItemEnded
from hotdesk.host import Host
from hotdesk.job.machine import Machine
from hotdesk.swarm.brains import Brains, ModelBrains, ScriptBrains
from hotdesk.swarm.receipt import SwarmReceipt
from hotdesk.swarm.run import SwarmContext, run_swarm
from hotdesk.work import JobContext

_MAX_WAITING = 100_000


class Swarm:
    """One swarm. Iterate over it for the records of its items as they end; `receipt` is set when the swarm is over."""

    def __init__(self, brief: Brief, brains: Brains, machine: Machine | None, *, pilot: int, most: int) -> None:
        self.brief, self.brains, self.machine = brief, brains, machine
        self.pilot, self.most = pilot, most
        self.receipt: SwarmReceipt | None = None
        self.id = ""

    async def __aiter__(self) -> AsyncIterator[ItemEnded]:
        """Carry out the swarm; yield each item's record once it is on disk. Leaving the loop burns the open desks."""
        send, receive = anyio.create_memory_object_stream[ItemEnded](_MAX_WAITING)

        def hear(event: Event) -> None:
            if isinstance(event, ItemEnded):
                send.send_nowait(event)

        async def carry_out() -> None:
            with send:
                if self.machine is not None:
                    await self.carry_out(self.machine, hear)
                else:
                    async with Host(config.load()) as host:
                        await self.carry_out(host, hear)

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(carry_out)
                with receive:
                    async for record in receive:
                        yield record
        except BaseExceptionGroup as group:
            raise unwrap_group(group) from None

    async def carry_out(self, machine: Machine, listener: object) -> None:
        Drive(machine.config.lib / "drive")
        order = JobContext(machine, self.brief, listener=listener, exact=self.brains.exact)  # type: ignore[arg-type]
        self.id, doors = order.id, machine.doors if isinstance(machine, Host) else None
        self.receipt = await run_swarm(SwarmContext(order, self.brains, self.pilot, most=self.most, doors=doors))


def swarm(
    brief: Brief | PathLike[str] | str,
    *,
    script: PathLike[str] | str | None = None,
    models: Sequence[LanguageModel] = (),
    machine: Machine | None = None,
    pilot: int = 0,
    most: int = 64,
) -> Swarm:
    """Carry out a brief for all its items with a script or with models; iterate over the result.

    `machine` is a `Host` that you opened; without one, the swarm opens a `Host` for as long as it lasts.
    """
    job = brief if isinstance(brief, Brief) else read_job(Path(brief), scope_of)
    if script is not None:
        path = Path(script).absolute()
        return Swarm(job, ScriptBrains(path.read_bytes(), path), machine, pilot=pilot, most=most)
    if not models:
        raise BriefError("no worker is configured; pass script= or models=")
    return Swarm(job, ModelBrains(models, models), machine, pilot=pilot, most=most)
