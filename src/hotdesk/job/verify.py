"""Verifies deliverables in clean desks, judges the evidence on the host, and records the verdicts.

Files that are only opened share one desk with the job's other files; a file that is run has a desk of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import field, replace
from pathlib import PurePosixPath
from typing import Literal

import anyio

from hotdesk.brief.brief import Deliverable
from hotdesk.checks import find
from hotdesk.checks.active import NAME as ACTIVE
from hotdesk.checks.active import REACHING
from hotdesk.checks.required import is_opened, list_checks
from hotdesk.checks.seam import Check, Evidence, Fault, Verdict, count_staying
from hotdesk.checks.verdict_json import StoredVerdict, make_stored_verdict, to_json
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.drive.certificate import digest_beside
from hotdesk.errors import ImageError, unwrap_group
from hotdesk.event import StepBegun, StepEnded, Verified
from hotdesk.job.desks import Desks
from hotdesk.job.error_text import describe_error
from hotdesk.job.record.log import JobLog

UNDISTURBED = "undisturbed"
"""Rule of the host, not of a check: opening a file must end by itself and leave no process running."""
OUTGOING = "outgoing"
"""Rule of the host: an opened file must make no network request, by the kernel's count in its desk."""
_UNDISTURBED_REMEDY = (
    "Make the file smaller or simpler. If it is a program, it must end by itself and leave no process running."
)
_OUTGOING_REMEDY = "Put the content into the file itself instead of linking it."
_SETTLE_TIMEOUT_S = 10.0
"""Seconds for ending processes to end, sufficient for a busy machine."""
BASE, OFFICE = "base", "office"
"""The smallest image, and one built on it with an office suite. Checks for the first can run in the second."""
_ABREAST = 2
"""Number of files that are checked in parallel."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A deliverable as it was read from the desk: these bytes are checked and stored."""

    item: Deliverable
    data: bytes = b""
    lacks: str = ""
    """Reason why it could not be read, or `""`."""
    verdicts: tuple[StoredVerdict, ...] = ()
    """Verdicts of its checks, once they have run."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def passed(self) -> bool:
        return not self.lacks and all(each.passed for each in self.verdicts)

    @property
    def objection(self) -> str:
        """The faults as instructions for the author, one per line; hotdesk's words except for quotations."""
        if self.lacks:
            return f"{self.item.path} cannot be delivered: {self.lacks}. Write the file at exactly this path."
        lines = "\n".join(f"- {line}" for line in self.faults)
        return f"{self.item.path} failed its checks: correct exactly what is listed here, then finish again.\n{lines}"

    @property
    def reason(self) -> str:
        if self.lacks:
            return f"{self.item.path} cannot be delivered: {self.lacks}"
        return f"{self.item.path} failed its checks: {'; '.join(self.faults)}"

    @property
    def faults(self) -> list[str]:
        """Each fault once, though several checks of a file may find it."""
        found = [line for each in self.verdicts if not each.passed for line in each.findings]
        return list(dict.fromkeys(found))


def count_concurrent_desks(items: Sequence[Deliverable]) -> int:
    """Return how many clean desks may be open at once while deliverables are checked."""
    checks = [[find(name, expect) for name, expect in list_checks(item, office=True)] for item in items]
    shared = {check.image for each in checks for check in each if not check.alone}
    return len(shared) + min(_ABREAST, sum(any(check.alone for check in each) for each in checks))


@dataclass(slots=True)
class CleanDesk:
    """A clean desk, and the process count from when it was opened."""

    desk: Desk
    stack: AsyncExitStack
    """Burns the desk when closed."""
    image: str
    processes: int
    outgoing: int = 0
    """The kernel's count of send attempts when it was last read."""
    last: int = 0
    """Number of the file that was opened in it last."""
    stays: int = 0
    """Processes that checks started in it for later files: an office suite and its helper."""

    async def count_send_attempts(self) -> int:
        """Return the kernel's count of send attempts since the last call."""
        before, self.outgoing = self.outgoing, (await self.desk.usage()).outgoing
        return self.outgoing - before

    async def check_leftovers(self, check: Check | None = None) -> str:
        """Describe processes left running above the allowed number, after a wait; return `""` if none.

        `check` is the one that just ended.
        """
        self.stays = max(self.stays, count_staying(check))
        most = self.processes + self.stays
        with anyio.move_on_after(_SETTLE_TIMEOUT_S):
            while (running := (await self.desk.usage()).processes) > most:  # noqa: ASYNC110 - it is counted, not told
                await anyio.sleep(0.02)
            return ""
        return f"checking the file left {running - most} more processes running than allowed"


@dataclass(slots=True)
class DeliverableVerifier:
    """One verification of all deliverables of a job."""

    desks: Desks
    log: JobLog
    stack: AsyncExitStack
    shared: dict[str, CleanDesk] = field(default_factory=dict)
    """The shared desk of each image, in which files are only opened."""
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a file is opened in a shared desk."""
    late: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Send attempts counted after a file's check, with the desk's id, by the file's number."""

    async def verify_all(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Verify all files; while one is judged, the next is opened."""
        proven, abreast = list(candidates), anyio.Semaphore(_ABREAST)

        async def one(place: int) -> None:
            async with abreast:
                proven[place] = await self.verify(place + 1, candidates[place])

        try:
            async with anyio.create_task_group() as tasks:
                for place in range(len(candidates)):
                    tasks.start_soon(one, place)
        except BaseExceptionGroup as e:
            raise unwrap_group(e) from None
        for at in self.shared.values():
            await self.count_late(at)
        return [self.fail_late_sender(place, each) for place, each in enumerate(proven, 1)]

    async def count_late(self, at: CleanDesk) -> None:
        """Attribute the send attempts since the last check to the file that was open before."""
        if late := await at.count_send_attempts():
            self.late[at.last] = (late, at.desk.id)

    def fail_late_sender(self, place: int, candidate: Candidate) -> Candidate:
        """Return a file with a failed verdict if it tried to send after its check."""
        if place not in self.late or _may_reach(candidate.item):
            return candidate
        attempts, desk = self.late[place]
        verdict = Verdict((OUTGOING,), (_make_outgoing_fault(attempts),))
        stored = make_stored_verdict(verdict, ACTIVE, OFFICE, {}, ())
        self.write_down(candidate, verdict, stored, desk)
        return replace(candidate, verdicts=(*candidate.verdicts, stored))

    async def has_office(self) -> bool:
        """Return whether documents can be opened: not without walls, nor without an image that has an office suite."""
        if self.desks.job.wall == "local":
            return False
        try:
            async with self.turn:
                await self.open_shared_desk(OFFICE)
        except ImageError:
            return False
        return True

    async def verify(self, place: int, candidate: Candidate) -> Candidate:
        """Run every check of a deliverable; return it with the verdicts."""
        if candidate.lacks:
            return candidate
        opens = is_opened(candidate.item) and await self.has_office()
        checks = [(name, expect, find(name, expect)) for name, expect in list_checks(candidate.item, office=opens)]
        office = any(check.image == OFFICE and not check.alone for _, _, check in checks)
        verdicts = [await self.look(place, candidate, *each, office=office) for each in checks]
        return replace(candidate, verdicts=tuple(verdicts))

    async def look(
        self, place: int, candidate: Candidate, name: str, expect: Mapping[str, object], check: Check, *, office: bool
    ) -> StoredVerdict:
        """Run one check, in the office image if another check needs that anyway, and judge its evidence."""
        async with AsyncExitStack() as own:
            if not check.alone:
                await own.enter_async_context(self.turn)
            at = await self.get_clean_desk(check, own, office=office)
            self.log.note(StepBegun(self.log.job, "verify", f"{candidate.item.path} by {name}", at.desk.id))
            try:
                evidence, beside = await self.gather_evidence(check, at, place, candidate)
            except BaseException as e:
                self.log.note(StepEnded(self.log.job, "verify", "failed", describe_error(e), at.desk.id))
                raise
        verdict, stored = await anyio.to_thread.run_sync(judge_evidence, check, evidence, name, at.image, expect)
        stored = replace(stored, beside=beside)
        self.write_down(candidate, verdict, stored, at.desk.id)
        return stored

    async def get_clean_desk(self, check: Check, own: AsyncExitStack, *, office: bool) -> CleanDesk:
        """Return a clean desk: one of its own for a file that is run, a shared one for a file that is only opened."""
        if check.alone:
            return await self.open_desk(check.image, own)
        return await self.open_shared_desk(
            OFFICE if check.image == BASE and (office or OFFICE in self.shared) else check.image
        )

    async def open_shared_desk(self, image: str) -> CleanDesk:
        """Return the shared desk of an image; open it if there is none."""
        if image not in self.shared:
            self.shared[image] = await self.open_desk(image, await self.stack.enter_async_context(AsyncExitStack()))
        return self.shared[image]

    async def open_desk(self, image: str, stack: AsyncExitStack) -> CleanDesk:
        """Open a clean desk, and count its processes before any file of the job is in it."""
        desk = await stack.enter_async_context(self.desks.sterile(image))
        usage = await desk.usage()
        return CleanDesk(desk, stack, image, usage.processes, usage.outgoing)

    async def gather_evidence(
        self, check: Check, at: CleanDesk, place: int, candidate: Candidate
    ) -> tuple[Evidence, Mapping[str, str]]:
        """Copy the file and its check's extra inputs to the desk and gather evidence; return it with the inputs'
        digests.

        A check that did not end by itself or left processes running proves nothing, and its desk is burnt. So is the
        desk of a file that tried to send, because programs remember unreachable hosts and do not try again. A desk
        without a process count is not used a second time.
        """
        await self.count_late(at)
        at.last = place
        name = f"deliverable-{place}{PurePosixPath(candidate.item.path).suffix}"
        await at.desk.write(name, candidate.data)
        beside = await self.desks.bring_beside(at.desk, check.beside)
        evidence = await check.gather(at.desk, name)
        trouble = evidence.trouble or await at.check_leftovers(check)
        counted = bool(at.processes) and not check.alone and not _may_reach(candidate.item)
        attempts = await at.count_send_attempts() if counted else None
        if trouble or attempts or not at.processes:
            self.shared = {image: each for image, each in self.shared.items() if each is not at}
            await at.stack.aclose()
        return replace(evidence, trouble=trouble, attempts=attempts), beside

    def write_down(self, candidate: Candidate, verdict: Verdict, stored: StoredVerdict, desk: str) -> None:
        outcome: Literal["passed", "failed"] = "passed" if verdict.passed else "failed"
        paper = self.log.papers.write(to_json(stored))
        job, path = self.log.job, candidate.item.path
        self.log.note(
            Verified(
                job,
                desk,
                path,
                candidate.sha256,
                stored.check,
                outcome,
                verdict.findings,
                paper,
                digest_beside(stored.beside),
            ),
            StepEnded(job, "verify", "done", "", desk),
        )


def judge_evidence(
    check: Check, evidence: Evidence, name: str, image: str, expect: Mapping[str, object]
) -> tuple[Verdict, StoredVerdict]:
    verdict = check.judge(evidence)
    if evidence.trouble:
        verdict = _add_trouble(verdict, evidence.trouble)
    if evidence.attempts:
        verdict = replace(verdict, faults=(_make_outgoing_fault(evidence.attempts), *verdict.faults))
    if verdict.looked_for:
        counted = () if evidence.attempts is None else (OUTGOING,)
        verdict = replace(verdict, looked_for=(*verdict.looked_for, UNDISTURBED, *counted))
    return verdict, make_stored_verdict(verdict, name, image, expect, check.not_checked)


def _add_trouble(verdict: Verdict, trouble: str) -> Verdict:
    """Return the verdict with the fault that checking the file left trouble behind."""
    expected = "a file that can be checked without leaving processes running"
    fault = Fault(UNDISTURBED, "", expected, trouble, _UNDISTURBED_REMEDY)
    return replace(verdict, faults=(fault, *verdict.faults))


def _make_outgoing_fault(attempts: int) -> Fault:
    expected = "a file that makes no network request when it is opened"
    found = f"{attempts} network attempts, as counted by the kernel"
    return Fault(OUTGOING, "", expected, found, _OUTGOING_REMEDY)


def _may_reach(item: Deliverable) -> bool:
    return bool(REACHING & set(item.active))
