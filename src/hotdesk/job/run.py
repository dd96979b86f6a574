"""Runs a job from start to end and delivers its results, with an event before and after each part."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager

from hotdesk.brain.permits import find_makers
from hotdesk.brain.seam import BudgetSpentError, JobHaltedError
from hotdesk.brief.brief import Brief, Deliverable
from hotdesk.dataclass import dataclass
from hotdesk.drive.catalog import Version
from hotdesk.drive.identity import OPERATOR, get_current_user
from hotdesk.drive.keep import Drive
from hotdesk.drive.memory import MAX_AGE_DAYS
from hotdesk.errors import DeskError, FileError, HotdeskError, ModelError, NodeLost, make_printable
from hotdesk.event import Certified, JobBurnt, JobEnded, JobPaused, Kept, SentBack, StepBegun, StepEnded
from hotdesk.job.certificate import describe_claim
from hotdesk.job.checkpoint import Checkpoints
from hotdesk.job.desks import Desks
from hotdesk.job.error_text import describe_error, shorten_words
from hotdesk.job.memory import JobMemory
from hotdesk.job.plans import JobStoppedError, Plans
from hotdesk.job.record.log import JobLog
from hotdesk.job.record.resume_state import ResumeState
from hotdesk.job.steps import ROUNDS, Steps
from hotdesk.job.verify import Candidate, DeliverableVerifier
from hotdesk.plan import Step

_MAX_DELIVERABLE_BYTES = 64 << 20
"""Maximum bytes of a deliverable."""


@dataclass(slots=True)
class JobRun:
    """One job, from its brief to its receipt."""

    job: Brief
    id: str
    log: JobLog
    past: ResumeState
    plans: Plans
    steps: Steps
    desks: Desks
    checkpoints: Checkpoints
    drive: Drive
    memory: JobMemory
    retention: float
    """Days that the job's stored data is kept."""

    @contextmanager
    def record_end(self) -> Iterator[None]:
        ended: JobEnded | JobPaused = JobEnded(self.id, "interrupted", "")
        try:
            yield
            ended = JobEnded(self.id, "done", "")
        except NodeLost as e:
            ended = JobPaused(self.id, describe_error(e), "machine")
            raise
        except (JobStoppedError, DeskError) as e:  # a broken desk was broken by its own content
            ended = JobEnded(self.id, "failed", describe_error(e))
        except JobHaltedError as e:
            ended = JobPaused(self.id, describe_error(e), "person")
        except BudgetSpentError as e:
            ended = JobPaused(self.id, describe_error(e), "budget")
        except ModelError as e:
            ended = JobPaused(self.id, describe_error(e), "model")
        except HotdeskError as e:  # the operator may be able to repair the machine, and the work so far is kept
            ended = JobPaused(self.id, describe_error(e), "machine")
            raise
        except Exception as e:
            ended = JobEnded(self.id, "broken", describe_error(e))
            raise
        finally:
            self.log.note(ended)
            self.bury(ended)

    def bury(self, ended: JobEnded | JobPaused) -> None:
        """Delete checkpoints that no job resumes, and write the receipt."""
        if isinstance(ended, JobEnded):
            self.checkpoints.destroy()
        self.log.note(self.make_burnt_event(ended))

    def make_burnt_event(self, ended: JobEnded | JobPaused) -> JobBurnt:
        desks = {**self.past.summary.course.desks, **dict.fromkeys(self.desks.opened, True)}
        leftovers = [desk for desk in desks if self.log.machine.has(desk)]  # type: ignore[arg-type]
        destroyed = [f"desk {desk}" for desk in desks if desk not in leftovers]
        retained = [
            f"{each.path} in the drive: a deliverable, until it is removed" for each in self.past.stored.values()
        ]
        retained += [
            f"{each.kind} {each.name} in the memory {each.memory}: for later jobs, {MAX_AGE_DAYS} days"
            for each in self.past.remembered.values()
        ]
        retained.append(
            f"its stored data in {self.log.papers.folder}: for `hotdesk show` and `hotdesk replay`, "
            f"at least {self.retention:g} days"
        )
        if isinstance(ended, JobPaused) and self.past.checkpoint is not None:
            retained.append(f"its home folder, saved and encrypted: for resuming, at least {self.retention:g} days")
        if isinstance(ended, JobEnded):
            destroyed.append("its home folder at the desk and the key of its saved states")
        return JobBurnt(self.id, tuple(destroyed), tuple(retained), tuple(f"desk {desk}" for desk in leftovers))

    async def plan(self) -> None:
        await self.plans.make()

    async def approve(self) -> None:
        await self.plans.approve()

    def hold_desks(self) -> AbstractAsyncContextManager[None]:
        """Return a context that burns the open desks at its end."""
        return self.desks.closing()

    def iterate_remaining(self) -> Iterator[Step]:
        return self.steps.iterate_remaining()

    async def act(self, step: Step) -> None:
        await self.steps.take(step)

    async def fetch(self) -> list[Candidate]:
        """Read the deliverables from the desk; their content is not interpreted."""
        if self.desks.main is None:
            await self.steps.open()
        async with self.desks.undriven():
            return [await self.fetch_one(item) for item in self.job.deliverables]

    async def fetch_one(self, item: Deliverable) -> Candidate:
        assert self.desks.main is not None
        try:
            return Candidate(item, await self.desks.main.read(item.path, limit=_MAX_DELIVERABLE_BYTES))
        except FileError as e:
            return Candidate(item, lacks=make_printable(e.reason))

    async def verify(self, candidates: list[Candidate]) -> list[Candidate] | None:
        """Check all deliverables in clean desks; return `None` if one failed, after sending each failure back.

        The worker gets what was expected, what was found and where, and repeats the step that made the file.
        """
        async with AsyncExitStack() as stack:
            proven = await DeliverableVerifier(self.desks, self.log, stack).verify_all(candidates)
        failed = [each for each in proven if not each.passed]
        for each in failed:
            self.send_back(each)
        return None if failed else proven

    def send_back(self, candidate: Candidate) -> None:
        """Send a file back to its step; raise `JobStoppedError` if that was done too often or changed nothing."""
        objection, before = candidate.objection, self.past.refused.get(candidate.item.path, [])
        if len(before) >= ROUNDS or candidate.sha256 in before:
            again = (
                "the step delivered the same file again; " if candidate.sha256 in before and not candidate.lacks else ""
            )
            raise JobStoppedError(shorten_words(again + candidate.reason))
        step = find_makers(self.plans.plan, candidate.item.path)[-1]
        event = SentBack(self.id, step.name, candidate.item.path, candidate.sha256, self.log.papers.write(objection))
        self.log.note(event)
        self.steps.take_back(event)

    def keep(self, candidates: list[Candidate]) -> None:
        for each in candidates:
            self.keep_one(each)

    def remember(self) -> None:
        self.memory.keep()

    def keep_one(self, candidate: Candidate) -> None:
        """Store a deliverable in the drive, owned by this user. The event is on disk before the name is visible.

        A file that this job has already stored is left as it is.
        """
        path, name = candidate.item.path, f"{self.id}/{candidate.item.path}"
        there = any(each.sha256 == candidate.sha256 for each in self.drive.ls(name, who=OPERATOR) if each.name == name)
        if there and path in self.past.stored:
            return

        def intent(version: Version) -> None:
            event = Kept(self.id, path, version.sha256, version.size, version.number)
            self.log.note(event)
            self.past.stored[path] = event

        with self.part("keep", path):
            proof, brief = self.certify(candidate), self.job.digest
            self.drive.keep(
                name,
                candidate.data,
                owner=get_current_user(),
                job=self.id,
                brief=brief,
                certificate=proof,
                intent=intent,
            )

    def certify(self, candidate: Candidate) -> bytes:
        """Have the evidence of a deliverable signed; return no bytes if it has no checks."""
        if not candidate.item.checks:
            return b""
        wall, facts = self.job.verify_wall or self.job.wall, self.log.machine.get_image_facts
        claim = describe_claim(candidate, self.id, wall, facts, recorded=self.steps.exact)
        proof = self.log.machine.certify(claim)
        self.log.listener(Certified(self.id, candidate.item.path, candidate.sha256, hashlib.sha256(proof).hexdigest()))
        return proof

    @contextmanager
    def part(self, name: str, what: str) -> Iterator[None]:
        """Record the start and the end of a part of the run."""
        self.log.note(StepBegun(self.id, name, what))
        try:
            yield
        except BaseException as e:
            self.log.note(StepEnded(self.id, name, "failed", describe_error(e)))
            raise
        self.log.note(StepEnded(self.id, name, "done"))
