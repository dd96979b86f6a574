"""Tests of waiting for people: the first answer counts, from any process, in time, and no question is repeated."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from hotdesk.brain.seam import JobHaltedError
from hotdesk.brief.brief import JobBudget
from hotdesk.config import Config
from hotdesk.drive.journal import FILE, read
from hotdesk.event import Decided, Event, Pending, ignore
from hotdesk.job.local import LocalMachine, local_machine
from hotdesk.job.people.people import People
from hotdesk.job.people.wait import Card, OpenQuestions, read_waiting
from hotdesk.job.record import papers
from hotdesk.job.record.log import JobLog
from hotdesk.job.record.resume_state import read_past

pytestmark = pytest.mark.anyio
JOB = "i" + "a1b2" * 5
CARD = Card("The worker asks", {"step": "one"}, (), "Which?", "one: Which?")


@dataclass(slots=True)
class Late(LocalMachine):
    """A log in which an answer arrives just before the expiry is recorded."""

    def note(self, *events: Event) -> None:
        for event in events:
            if isinstance(event, Decided) and event.answer == "expired":
                super(Late, self).note(Decided(JOB, event.id, event.digest, "approved", "uid 0 pid 7"))
        super(Late, self).note(*events)


@dataclass(slots=True)
class Office:
    """One job and the person who answers for it."""

    machine: LocalMachine
    journal: Path
    kept: papers.Papers
    given_back: list[float] = field(default_factory=list)
    driven: int = 0
    """How many more checks report that a person is driving."""

    def people(self, seconds: float = 60.0, patience: float = 60.0, waiting: OpenQuestions | None = None) -> People:
        log = JobLog(JOB, self.machine, self.kept, ignore, JobBudget(), 600.0)
        return People(log, self.journal, seconds, patience, waiting or OpenQuestions(), give_back=self.give_back)

    async def give_back(self) -> bool:
        """Record that desks were returned, unless a person is driving them."""
        self.driven -= 1
        if self.driven < 0:
            self.given_back.append(time.monotonic())
        return self.driven < 0

    def say(self, pending: Pending, answer: str, by: str = "uid 0 pid 9") -> None:
        self.machine.note(Decided(JOB, pending.id, pending.digest, answer, by))  # type: ignore[arg-type]

    async def asked(self) -> Pending:
        with anyio.fail_after(30):
            while not (found := read_waiting(self.journal, JOB).open):
                await anyio.sleep(0.01)
        return found[0]

    def events(self, kind: type[Event]) -> list[Event]:
        return [event for row in read(self.journal, JOB) if isinstance(event := row.read_event(), kind)]


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    settings = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")
    (tmp_path / "lib").mkdir()
    kept = papers.create(settings.lib / "jobs", JOB)
    async with local_machine(settings) as machine:
        yield Office(machine, settings.lib / "keys" / FILE, kept)


async def test_the_first_answer_counts_and_the_same_is_not_asked_again(office: Office) -> None:
    people = office.people()

    async def answer() -> None:
        pending = await office.asked()
        office.say(pending, "answered", "first")
        office.say(pending, "refused", "second")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer)
        decided = await people.decide("question", CARD, "one")
    assert (decided.answer, decided.by) == ("answered", "first")
    assert await people.decide("question", CARD, "one") == decided
    later = office.people(waiting=read_past(office.journal, JOB).summary.waiting)
    assert await later.decide("question", CARD, "one") == decided
    assert len(office.events(Pending)) == 1


async def test_another_step_or_other_words_are_asked_again(office: Office) -> None:
    people = office.people(seconds=0.0)
    for card, step in ((CARD, "one"), (CARD, "two"), (Card("", {}, subject="one: What?"), "one")):
        assert (await people.decide("question", card, step)).answer == "expired"
    assert len(office.events(Pending)) == 3


@pytest.mark.slow
async def test_an_answer_that_was_there_in_time_counts_whenever_it_is_found(office: Office) -> None:
    people = office.people(seconds=1.0)
    with anyio.move_on_after(0.01):
        await people.decide("plan", CARD)
    office.say(await office.asked(), "approved")
    await anyio.sleep(1.1)
    later = office.people(waiting=read_waiting(office.journal, JOB))
    assert (await later.decide("plan", CARD)).answer == "approved"


@pytest.mark.slow
async def test_a_question_that_expired_while_the_job_was_stopped_is_asked_anew(office: Office) -> None:
    people = office.people(seconds=1.0)
    people.log.halted = True
    with pytest.raises(JobHaltedError):
        await people.decide("plan", CARD)
    await anyio.sleep(1.1)
    later = office.people(waiting=read_past(office.journal, JOB).summary.waiting)

    async def answer() -> None:
        office.say(await office.asked(), "approved")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer)
        decided = await later.decide("plan", CARD)
    assert decided.answer == "approved"
    assert len(office.events(Pending)) == 2
    assert await later.decide("plan", CARD) == decided
    assert read_waiting(office.journal, JOB).open == []


async def test_an_expired_question_is_recorded_and_final(office: Office) -> None:
    people = office.people(seconds=0.0)
    assert (await people.decide("plan", CARD)).answer == "expired"
    assert [event.by for event in office.events(Decided) if isinstance(event, Decided)] == [""]
    assert (await office.people(waiting=read_waiting(office.journal, JOB)).decide("plan", CARD)).answer == "expired"


async def test_an_answer_after_the_time_limit_is_too_late_everywhere(office: Office) -> None:
    office.machine = Late(office.machine.config, office.machine.runtime, office.machine.journal)
    decided = await office.people(seconds=0.0).decide("plan", CARD)
    assert (decided.answer, decided.by) == ("expired", "")
    assert read_waiting(office.journal, JOB).decided[decided.id] == decided


async def test_asked_to_stop_a_job_waits_no_longer_and_the_question_stays(office: Office) -> None:
    people = office.people()
    people.log.halted = True
    with pytest.raises(JobHaltedError):
        await people.decide("question", CARD, "one")
    assert len(read_waiting(office.journal, JOB).open) == 1


@pytest.mark.slow
async def test_when_patience_ends_desks_are_given_back_once_and_waiting_is_not_work(office: Office) -> None:
    people = office.people(seconds=0.7, patience=0.05)
    assert (await people.decide("question", CARD, "one")).answer == "expired"
    assert len(office.given_back) == 1
    assert people.log.waited >= 0.7


@pytest.mark.slow
async def test_desks_that_a_person_drives_are_given_back_later(office: Office) -> None:
    office.driven = 2
    people = office.people(seconds=1.2, patience=0.05)
    assert (await people.decide("question", CARD, "one")).answer == "expired"
    assert len(office.given_back) == 1
    assert office.driven == -1


async def test_an_answer_at_the_terminal_goes_through_the_journal_too(office: Office) -> None:
    people = office.people()

    async def here(pending: Pending, card: Card) -> Decided | None:
        assert card == CARD
        return Decided(JOB, pending.id, pending.digest, "refused", "here")

    people.prompt = here
    assert (await people.decide("plan", CARD)).by == "here"
    assert len(office.events(Decided)) == 1


async def test_a_policys_decision_is_recorded_as_question_and_answer(office: Office) -> None:
    office.people().settle("plan", CARD, "policy auto")
    found = read_waiting(office.journal, JOB)
    assert found.open == []
    assert [each.by for each in found.decided.values()] == ["policy auto"]


@pytest.mark.parametrize(("kind", "counts"), [("cohort", True), ("pilot", False), ("plan", False), ("review", False)])
async def test_waiting_counts_as_the_jobs_time_only_while_the_job_works_on(
    kind: str, counts: bool, office: Office
) -> None:
    people = office.people()
    left: list[float] = []

    async def answer() -> None:
        pending = await office.asked()
        left.append(people.log.seconds_left)
        await anyio.sleep(0.3)
        left.append(people.log.seconds_left)
        office.say(pending, "approved")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer)
        await people.decide(kind, CARD)
    assert (left[0] - left[1] >= 0.3, left[0] == left[1]) == (counts, not counts)
