"""Has what was made looked at where nothing else is: in clean desks of its own, judged here, written down.

What is only opened is looked at in one desk, with what else the job made; what is run has a desk to itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

import anyio

from hotdesk.brief.job import Deliverable
from hotdesk.checks import find
from hotdesk.checks.asked import checks_of
from hotdesk.checks.seam import Check, Evidence, Fault, Verdict
from hotdesk.checks.written import Seen, seen_of, to_json
from hotdesk.desk.seam import Desk
from hotdesk.drive.certificate import beside_digest
from hotdesk.errors import alone
from hotdesk.event import StepBegun, StepEnded, Verified
from hotdesk.job.desks import Desks
from hotdesk.job.log import JobLog
from hotdesk.job.said import said

UNDISTURBED = "undisturbed"
"""The rule that what looks at a file ends by itself and leaves nothing running: the host's to see, not a check's."""
SETTLING = 10.0
"""Seconds in which what is ending ends, on a busy machine, too."""
BASE, OFFICE = "base", "office"
"""The smallest image, and one with an office that stands on it: what is looked at in the one can be in the other."""
STAYS = {OFFICE: 2}
"""How many processes looking leaves in a desk of an image: office and looker wait for the next file."""
ABREAST = 2
"""Files that are looked at or judged at once."""


@dataclass(frozen=True, slots=True)
class Made:
    """A deliverable as it was taken from the desk: these bytes are looked at, and these are kept."""

    item: Deliverable
    data: bytes = b""
    lacks: str = ""
    """Why there is none."""
    seen: tuple[Seen, ...] = ()
    """What its checks found, once they have."""

    @property
    def sha256(self) -> str:
        """Give the hash of what was taken."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def passed(self) -> bool:
        """Say whether it is what was asked for."""
        return not self.lacks and all(each.passed for each in self.seen)

    @property
    def told(self) -> str:
        """Say what is wrong with it, so that it can be mended."""
        if self.lacks:
            return f"there is no {self.item.path} to take: {self.lacks}"
        return f"{self.item.path} failed its checks: {'; '.join(self.faults)}"

    @property
    def faults(self) -> list[str]:
        """Say what its checks found wrong."""
        return [str(fault) for each in self.seen for fault in each.faults]


def most_at_once(items: Sequence[Deliverable]) -> int:
    """Say how many clean desks may be open at once while deliverables are looked at."""
    checks = [[find(name, expect) for name, expect in checks_of(item)] for item in items]
    shared = {check.image for each in checks for check in each if not check.alone}
    return len(shared) + min(ABREAST, sum(any(check.alone for check in each) for each in checks))


@dataclass(slots=True)
class Place:
    """A clean desk, and what ran in it when it was opened."""

    desk: Desk
    stack: AsyncExitStack
    """Burns it."""
    image: str
    processes: int

    async def left_behind(self) -> str:
        """Say whether more runs here than should, by the kernel's count; what is ending is given a moment."""
        most = self.processes + STAYS.get(self.image, 0)
        with anyio.move_on_after(SETTLING):
            while (running := (await self.desk.usage()).processes) > most:  # noqa: ASYNC110 - it is counted, not told
                await anyio.sleep(0.02)
            return ""
        return f"it left {running - most} more running than it may"


@dataclass(slots=True)
class Verifying:
    """One look at everything a job made."""

    desks: Desks
    log: JobLog
    stack: AsyncExitStack
    shared: dict[str, Place] = field(default_factory=dict)
    """The desk of each image in which files are only opened."""
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    """Whose file is being opened."""

    async def verify_all(self, made: Sequence[Made]) -> list[Made]:
        """Have everything looked at: while one file is judged, the next is opened."""
        proven, abreast = list(made), anyio.Semaphore(ABREAST)

        async def one(place: int) -> None:
            async with abreast:
                proven[place] = await self.verify(place + 1, made[place])

        try:
            async with anyio.create_task_group() as tasks:
                for place in range(len(made)):
                    tasks.start_soon(one, place)
        except BaseExceptionGroup as e:
            raise alone(e) from None
        return proven

    async def verify(self, place: int, made: Made) -> Made:
        """Have a deliverable looked at by every check it must pass; give it with what they found."""
        if made.lacks:
            return made
        wanted = [(name, expect, find(name, expect)) for name, expect in checks_of(made.item)]
        office = any(check.image == OFFICE and not check.alone for _, _, check in wanted)
        seen = [await self.look(place, made, *each, office=office) for each in wanted]
        return replace(made, seen=tuple(seen))

    async def look(
        self, place: int, made: Made, name: str, expect: Mapping[str, object], check: Check, *, office: bool
    ) -> Seen:
        """Have one check look at it, in an office where one is needed anyway; judge what it saw."""
        async with AsyncExitStack() as own:
            if not check.alone:
                await own.enter_async_context(self.turn)
            at = await self.place(check, own, office=office)
            self.log.note(StepBegun(self.log.job, "verify", f"{made.item.path} by {name}", at.desk.id))
            try:
                evidence, beside = await self.gathered(check, at, place, made)
            except BaseException as e:
                self.log.note(StepEnded(self.log.job, "verify", "failed", said(e), at.desk.id))
                raise
        verdict, seen = await anyio.to_thread.run_sync(judged, check, evidence, name, at.image, expect)
        seen = replace(seen, beside=beside)
        self.write_down(made, verdict, seen, at.desk)
        return seen

    async def place(self, check: Check, own: AsyncExitStack, *, office: bool) -> Place:
        """Give a clean desk: one of its own to what is run, one for all to what is only opened."""
        if check.alone:
            return await self.opened(check.image, own)
        image = OFFICE if check.image == BASE and (office or OFFICE in self.shared) else check.image
        if image not in self.shared:
            self.shared[image] = await self.opened(image, await self.stack.enter_async_context(AsyncExitStack()))
        return self.shared[image]

    async def opened(self, image: str, stack: AsyncExitStack) -> Place:
        """Open a clean desk, and count what runs in it before anything of the job's is there."""
        desk = await stack.enter_async_context(self.desks.sterile(image))
        return Place(desk, stack, image, (await desk.usage()).processes)

    async def gathered(self, check: Check, at: Place, place: int, made: Made) -> tuple[Evidence, Mapping[str, str]]:
        """Bring the file and what its check needs, and have it looked at; give also the digests of the latter.

        A look that did not end by itself, or that left something running, proves nothing, and its desk is burnt.
        """
        name = f"deliverable-{place}{PurePosixPath(made.item.path).suffix}"
        await at.desk.write(name, made.data)
        beside = await self.desks.bring_beside(at.desk, check.beside)
        evidence = await check.gather(at.desk, name)
        trouble = evidence.trouble or await at.left_behind()
        if trouble:
            self.shared = {image: each for image, each in self.shared.items() if each is not at}
            await at.stack.aclose()
        return replace(evidence, trouble=trouble), beside

    def write_down(self, made: Made, verdict: Verdict, seen: Seen, desk: Desk) -> None:
        """Write a verdict down."""
        outcome: Literal["passed", "failed"] = "passed" if verdict.passed else "failed"
        paper = self.log.papers.write(to_json(seen))
        job, path = self.log.job, made.item.path
        self.log.note(
            Verified(
                job,
                desk.id,
                path,
                made.sha256,
                seen.check,
                outcome,
                verdict.findings,
                paper,
                beside_digest(seen.beside),
            ),
            StepEnded(job, "verify", "done", "", desk.id),
        )


def judged(
    check: Check, evidence: Evidence, name: str, image: str, expect: Mapping[str, object]
) -> tuple[Verdict, Seen]:
    """Judge what was seen, and give the verdict also as it is kept."""
    verdict = check.judge(evidence)
    if evidence.trouble:
        verdict = disturbed(verdict, evidence.trouble)
    if verdict.looked_for:
        verdict = replace(verdict, looked_for=(*verdict.looked_for, UNDISTURBED))
    return verdict, seen_of(verdict, name, image, expect, check.not_checked)


def disturbed(verdict: Verdict, trouble: str) -> Verdict:
    """Give the verdict on a file that did something to whoever looked at it."""
    fault = Fault(UNDISTURBED, "", "a file that can be looked at, and nothing left running by it", trouble)
    return replace(verdict, faults=(fault, *verdict.faults))
