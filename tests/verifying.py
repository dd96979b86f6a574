"""A machine that verifies files in clean desks as a job does, but without a job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotdesk.brief import Scope, parse_rule
from hotdesk.brief.brief import Brief, Deliverable, JobBudget, RequiredCheck
from hotdesk.config import Config
from hotdesk.desk.image import image, sterilize
from hotdesk.desk.seam import Desk, new_id
from hotdesk.event import Event, Verified
from hotdesk.host import Host
from hotdesk.job.desks import Desks
from hotdesk.job.record import papers
from hotdesk.job.record.log import JobLog
from hotdesk.job.verify import Candidate, DeliverableVerifier


@dataclass
class Verifier:
    """Has files verified, and records the events."""

    verifying: DeliverableVerifier
    host: Host
    events: list[Event] = field(default_factory=list)
    count: int = 0

    async def look(self, path: str, data: bytes, check: str, *active: str, **expect: object) -> Candidate:
        self.count += 1
        kind = path.rpartition(".")[2]
        item = Deliverable(path, kind, (RequiredCheck(check, expect),), active)
        return await self.verifying.verify(self.count, Candidate(item, data))

    def shared(self, name: str = "base") -> Desk | None:
        found = self.verifying.shared.get(name)
        return found.desk if found else None

    def verdicts(self) -> list[Verified]:
        return [event for event in self.events if isinstance(event, Verified)]


@asynccontextmanager
async def verifier(
    settings: Config, home: Path, folder: Path, *images: str, wall: str = "container"
) -> AsyncIterator[Verifier]:
    config = replace(settings, run=home / "run", lib=home / "lib")
    home.mkdir(mode=0o755, exist_ok=True)
    for name in ("base", *images):
        sterilize.make(config.images, image.find(config.images, name), lambda _: None)
    inputs = tuple(each.name for each in folder.glob("input*"))
    job, id = Brief("goal", (), folder, "", inputs, Scope((parse_rule("read example.test"),))), new_id()
    async with Host(config, control=False) as host:
        await host.prepare()
        events: list[Event] = []
        log = JobLog(id, host, papers.create(config.lib / "jobs", id), events.append, JobBudget(), 300.0)
        async with AsyncExitStack() as stack:
            desks = Desks(host, replace(job, wall=wall), id, log.note, 300.0)
            verifying = DeliverableVerifier(desks, log, stack)
            for name in ("base", *images):
                inner = await stack.enter_async_context(AsyncExitStack())
                verifying.shared[name] = await verifying.open_desk(name, inner)
            yield Verifier(verifying, host, events)
