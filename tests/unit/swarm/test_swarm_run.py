"""Tests of whole swarms on a machine without walls: items, quarantine, the report, resuming after a stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.swarm_room import SCRIPT, SwarmRoom

from hotdesk.brain.models.scripted import ScriptedModel
from hotdesk.brain.models.seam import ModelRequest, Reply
from hotdesk.brain.seam import BudgetSpentError
from hotdesk.drive.identity import get_current_user
from hotdesk.drive.keep import Drive
from hotdesk.drive.swarm_certificate import compute_root, prove, read, read_proof, write_proof
from hotdesk.errors import BriefError, ModelError
from hotdesk.event import (
    Asked,
    Decided,
    Event,
    ItemEnded,
    ItemsAdded,
    ItemsBegun,
    ItemsOffered,
    JobPaused,
    Pending,
    PilotEnded,
    Planned,
    ReduceBegun,
    Reduced,
    SwarmBegun,
    ignore,
)
from hotdesk.job.local import local_machine
from hotdesk.job.people.wait import Card, decide
from hotdesk.job.record import papers
from hotdesk.job.record.paper_log import HEAD
from hotdesk.job.record.resume_state import read_past
from hotdesk.swarm.ending import CERTIFICATE, RECORDS
from hotdesk.swarm.run import SwarmRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
WORDS = ["one", "three", "seven", "eleven"]


def ends(room: SwarmRoom) -> dict[str, ItemEnded]:
    return {event.item: event for event in room.events if isinstance(event, ItemEnded)}


async def test_each_item_is_taken_at_its_own_desk_and_the_report_is_built_from_all(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, WORDS)
    receipt = await room.carry_out()
    assert (receipt.outcome, receipt.done, receipt.quarantined) == ("done", 4, 0), receipt.why
    records = ends(room)
    assert len({each.desk for each in records.values()}) == 4
    assert not {each.desk for each in records.values()} & {each.clean for each in records.values()}
    assert sum(isinstance(event, Planned) for event in room.events) == 1
    drive = Drive(room.settings.lib / "drive")
    assert json.loads(drive.find(f"{receipt.report}/total.json", who=get_current_user())) == {"total": 19}


@pytest.mark.long
async def test_the_certificate_proves_each_item_with_a_few_hundred_bytes(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, WORDS)
    receipt = await room.carry_out()
    drive = Drive(room.settings.lib / "drive")
    claim, _ = read(drive.find(f"{room.job}/{CERTIFICATE}", who=get_current_user()))
    records = sorted(ends(room).values(), key=lambda each: each.index)
    assert claim["items"] == {
        "count": 4, "done": 4, "quarantined": 0, "root": compute_root(records), "manifest": claim["items"]["manifest"],
    }  # fmt: skip
    assert receipt.root == claim["items"]["root"]
    assert [each["name"] for each in claim["report"]] == ["total.json"]
    assert len(drive.find(f"{room.job}/{RECORDS}", who=get_current_user()).splitlines()) == 4
    for index in range(4):
        assert read_proof(write_proof(prove(records, index))).leads_to(receipt.root)


async def test_failed_items_go_to_quarantine_with_evidence_and_block_no_other(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, [*WORDS, "broken"], each="quarantine = 0.5")
    receipt = await room.carry_out()
    assert (receipt.outcome, receipt.done, receipt.quarantined) == ("done", 4, 1), receipt.why
    failed = ends(room)["line-000005"]
    assert (failed.cause, failed.attempt) == ("step", 2)
    assert receipt.failures == (("step", "step count failed: the worker gave up", 1),)


async def test_a_result_that_fails_its_check_is_told_so_and_made_again(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["one", "wrong"])
    receipt = await room.carry_out()
    assert (receipt.outcome, receipt.done) == ("done", 2), receipt.why
    assert ends(room)["line-000002"].attempt == 2


async def test_a_swarm_that_was_stopped_continues_and_repeats_no_item(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, [f"word{number}" for number in range(12)])
    runs: list[SwarmRun] = []

    def stop(event: Event) -> None:
        if isinstance(event, PilotEnded):
            runs[0].line.log.halt()

    receipt = await room.carry_out(stop, runs.append, pilot=3)
    assert receipt.outcome == "paused"
    before = ends(room)
    assert sorted(before) == ["line-000001", "line-000005", "line-000009"]
    receipt = await room.carry_out()
    assert (receipt.outcome, receipt.done) == ("done", 12), receipt.why
    assert all(ends(room)[item] == record for item, record in before.items())
    assert sum(isinstance(event, ItemEnded) for event in room.events) == 12
    assert sum(isinstance(event, SwarmBegun) for event in room.events) == 1


@pytest.mark.long
async def test_too_much_in_quarantine_pauses_and_is_retried_or_accepted(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["one", "broken"])
    receipt = await room.carry_out()
    assert (receipt.outcome, receipt.quarantined) == ("paused", 1)
    assert "--retry-failed" in receipt.why
    assert (await room.carry_out(retry_failed=True)).outcome == "paused"
    assert sum(isinstance(event, ItemEnded) for event in room.events) == 3
    receipt = await room.carry_out(accept_failed=True)
    assert (receipt.outcome, receipt.quarantined) == ("done", 1), receipt.why


@pytest.mark.long
async def test_other_items_than_it_began_with_are_refused(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["one", "broken"])
    await room.carry_out()
    (tmp_path / "words.txt").write_text("one\nanother\n")
    with pytest.raises(BriefError, match="line-000002 of the swarm was changed"):
        await room.carry_out(add_items=True)
    (tmp_path / "words.txt").write_text("one\nbroken\nthree\n")
    with pytest.raises(BriefError, match="--add-items"):
        await room.carry_out()


async def test_items_are_added_to_a_swarm_that_is_done_and_the_report_is_built_again(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["one", "three"])
    first = await room.carry_out()
    assert (first.outcome, first.items) == ("done", 2)
    before = ends(room)
    (tmp_path / "words.txt").write_text("one\nthree\nseven\n")
    receipt = await room.carry_out(add_items=True)
    assert (receipt.outcome, receipt.items, receipt.done) == ("done", 3, 3), receipt.why
    assert all(ends(room)[item] == record for item, record in before.items())
    assert [type(event) for event in room.events if isinstance(event, SwarmBegun | ItemsAdded)] == [
        SwarmBegun,
        ItemsAdded,
    ]
    drive = Drive(room.settings.lib / "drive")
    assert json.loads(drive.find(f"{receipt.report}/total.json", who=get_current_user())) == {"total": 13}
    claim, _ = read(drive.find(f"{room.job}/{CERTIFICATE}", who=get_current_user()))
    assert (claim["items"]["count"], claim["items"]["root"]) == (3, receipt.root)
    assert receipt.root != first.root


@pytest.mark.long
async def test_items_that_are_offered_to_a_swarm_that_runs_are_taken_in_once(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["one", "three"])
    offered: list[str] = []

    def offer(event: Event) -> None:
        if isinstance(event, ItemEnded) and not offered:
            (tmp_path / "words.txt").write_text("one\nthree\nseven\n")
            offered.append(event.job)
            runs[0].machine.note(ItemsOffered(event.job, "somebody"))

    runs: list[SwarmRun] = []
    receipt = await room.carry_out(offer, runs.append)
    assert (receipt.outcome, receipt.items, receipt.done) == ("done", 3, 3), receipt.why
    assert sum(isinstance(event, ItemsAdded) for event in room.events) == 1
    assert len(ends(room)) == sum(isinstance(event, ItemEnded) for event in room.events) == 3


async def test_what_reports_used_counts_for_items_that_are_added_later(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["one", "three"], top="budget = {acts = 100}")
    runs: list[SwarmRun] = []
    await room.carry_out(on_run=runs.append)
    of_items = sum(each.acts for each in ends(room).values())
    (report,) = (event.reduce for event in room.events if isinstance(event, ReduceBegun))
    of_report = read_past(runs[0].context.order.journal, report).spent.acts
    assert of_report
    assert runs[0].ledger.measure_use("acts") == of_items + of_report
    (tmp_path / "words.txt").write_text("one\nthree\nseven\n")
    await room.carry_out(on_run=runs.append, add_items=True)
    assert runs[1].ledger.measure_use("acts") == sum(each.acts for each in ends(room).values()) + 2 * of_report


async def test_a_failed_item_is_not_tried_again_after_the_swarms_time(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["wrong", "one"])
    runs: list[SwarmRun] = []

    def end_time() -> bool:
        """Let the swarm's time be over once the model is asked about the item that fails."""
        runs[0].ledger.measure_seconds_left = lambda: 0.0
        return True

    room.turn = partial(Slow, item="line-000001", is_free=end_time)
    receipt = await room.carry_out(on_run=runs.append, most=1)
    assert receipt.outcome == "paused", receipt.why
    assert "time limit" in receipt.why
    assert "line-000001" not in ends(room), "it is pending, and not failed"
    room.turn = None
    receipt = await room.carry_out()
    assert (receipt.outcome, receipt.done) == ("done", 2), receipt.why


@pytest.mark.long
async def test_items_in_quarantine_can_be_retried_after_the_swarm_was_done(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["one", "broken"], each="quarantine = 0.5")
    assert (await room.carry_out()).quarantined == 1
    room.script = room.script.replace('word == "broken"', 'word == "mended"')
    receipt = await room.carry_out(retry_failed=True)
    assert (receipt.outcome, receipt.done, receipt.quarantined) == ("done", 2, 0), receipt.why
    with pytest.raises(BriefError, match="has ended"):
        await room.carry_out()


async def test_a_budget_stops_it_before_it_is_passed(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, [f"word{number}" for number in range(8)], top="budget = {acts = 20}", each="acts = 5")
    receipt = await room.carry_out()
    assert receipt.outcome == "paused"
    assert "20 acts" in receipt.why
    assert receipt.acts <= 20
    assert any(isinstance(event, JobPaused) for event in room.events)


@pytest.mark.long
async def test_an_item_that_uses_up_its_own_budget_goes_to_quarantine(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["one", "two"], each="acts = 1")
    receipt = await room.carry_out()
    assert receipt.outcome == "paused"
    assert "no item passed" in receipt.why
    assert {each.cause for each in ends(room).values()} == {"budget"}


async def test_nothing_is_begun_twice_that_may_have_changed_something_outside(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, WORDS, top='egress = ["write https://erp.example.test/orders/{item}"]')
    runs: list[SwarmRun] = []

    def stop(event: Event) -> None:
        if isinstance(event, SwarmBegun):
            runs[0].line.log.halt()

    assert (await room.carry_out(stop, runs.append)).outcome == "paused"
    async with local_machine(room.settings) as machine:
        machine.note(ItemsBegun(room.job, ("line-000002",)))  # as a process leaves it that was killed amid the item
    receipt = await room.carry_out()
    assert receipt.outcome == "paused"
    assert {item: (each.outcome, each.cause) for item, each in ends(room).items()} == {
        "line-000001": ("done", ""),
        "line-000002": ("quarantined", "unknown"),
        "line-000003": ("done", ""),
        "line-000004": ("done", ""),
    }
    begun = [item for event in room.events if isinstance(event, ItemsBegun) for item in event.items]
    assert sorted(begun) == [f"line-00000{number}" for number in (1, 2, 3, 4)]
    receipt = await room.carry_out(retry_failed=True)
    assert (receipt.outcome, receipt.done) == ("done", 4), receipt.why


@pytest.mark.parametrize(
    ("top", "outcome"),
    [("", ("done", "")), ('egress = ["write https://erp.example.test/orders/{item}"]', ("quarantined", "unknown"))],
    ids=["that only reads", "that may write"],
)
async def test_an_item_whose_results_were_lost_is_repeated_unless_it_may_have_written(
    top: str, outcome: tuple[str, str], tmp_path: Path
) -> None:
    room = SwarmRoom(tmp_path, WORDS, top=top, each="quarantine = 0.5")
    runs: list[SwarmRun] = []

    def stop(event: Event) -> None:
        if isinstance(event, PilotEnded):
            runs[0].line.log.halt()

    assert (await room.carry_out(stop, runs.append, pilot=2)).outcome == "paused"
    [one, two] = ends(room)
    pile = papers.find(room.settings.lib / "jobs", room.job).pile
    pile.look()
    name, begins, size = pile.places[ends(room)[two].files[0]]
    data = (pile.folder / name).read_bytes()  # a power failure keeps the event, but not the paper
    (pile.folder / name).write_bytes(data[: begins - HEAD] + data[begins + size :])
    before = ends(room)[one]
    receipt = await room.carry_out(retry_failed=True)
    assert receipt.outcome == "done", receipt.why
    assert (ends(room)[two].outcome, ends(room)[two].cause) == outcome
    assert ends(room)[one] == before


async def test_the_time_in_which_people_are_asked_does_not_count_and_interrupted_items_do(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, WORDS)
    runs: list[SwarmRun] = []
    left: list[float] = []

    async def answer(pending: Pending, card: Card) -> Decided:
        if pending.kind == "pilot":
            left.append(runs[0].ledger.measure_seconds_left())
            await anyio.sleep(0.2)
            left.append(runs[0].ledger.measure_seconds_left())
            runs[0].ledger.begin("line-000004").tokens = 7  # it was interrupted
            runs[0].line.log.halt()
        return decide(pending, card, papers.find(room.settings.lib / "jobs", room.job), "approved", "a person")

    assert (await room.carry_out(on_run=runs.append, prompt=answer, pilot=2)).tokens == 7
    assert left[0] == left[1]
    receipt = await room.carry_out(on_run=runs.append)
    assert (receipt.outcome, receipt.tokens) == ("done", 7), receipt.why
    assert ends(room)["line-000004"].tokens == 7
    assert runs[1].ledger.measure_use("tokens") == 7


class Slow(ScriptedModel):
    """A model that answers about one item only once it may, or fails then."""

    def __init__(
        self, script: ScriptedModel, item: str, is_free: Callable[[], bool], error: Exception | None = None
    ) -> None:
        super().__init__(script.source, script.path, script.scenes, script.player.item)
        self.item, self.is_free, self.error = item, is_free, error

    async def ask(self, request: ModelRequest) -> Reply:
        while self.player.item == self.item:
            if not self.is_free():
                await anyio.sleep(0.01)
            elif self.error is not None:
                raise self.error
            else:
                break
        return await super().ask(request)


class Doors:
    """Doors at which no desk asks anything of itself."""

    def __init__(self) -> None:
        self.on_question: Callable[[Asked], None] = ignore
        self.gathers = False

    async def answer(self, number: str, approved: bool, by: str, digest: str = "") -> Asked:
        raise BriefError("its desk is gone")


async def test_the_time_in_which_people_are_asked_counts_while_items_are_in_progress(tmp_path: Path) -> None:
    answered = anyio.Event()
    room = SwarmRoom(tmp_path, ["one", "slow"])
    room.turn = partial(Slow, item="line-000002", is_free=answered.is_set)
    runs: list[SwarmRun] = []
    left: list[float] = []
    doors = Doors()

    def ask(event: Event) -> None:
        if isinstance(event, ItemEnded) and event.item == "line-000001":
            url = "POST https://erp.example.test/orders"
            doors.on_question(Asked("d", "q", "digest", url, "POST", "erp.example.test", "/orders", 60.0))

    async def answer(pending: Pending, card: Card) -> Decided:
        left.append(runs[0].ledger.measure_seconds_left())
        await anyio.sleep(0.2)
        left.append(runs[0].ledger.measure_seconds_left())
        answered.set()
        return decide(pending, card, papers.find(room.settings.lib / "jobs", room.job), "approved", "a person")

    receipt = await room.carry_out(ask, runs.append, prompt=answer, doors=doors)
    assert (receipt.outcome, receipt.done) == ("done", 2), receipt.why
    assert left[1] <= left[0] - 0.2


async def test_an_item_that_ends_as_the_budget_is_used_up_is_recorded_and_not_repeated(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["one", "three"])
    runs: list[SwarmRun] = []

    def hold(run: SwarmRun) -> None:
        run.batch.interval = 60.0
        runs.append(run)

    def is_end_waiting() -> bool:
        return any(isinstance(event, ItemEnded) for event in runs[0].batch.events)

    room.turn = partial(Slow, item="line-000002", is_free=is_end_waiting, error=BudgetSpentError("it is used up"))
    assert (await room.carry_out(on_run=hold)).outcome == "paused"
    before = ends(room)
    assert {item: each.outcome for item, each in before.items()} == {"line-000001": "done"}
    room.turn = None
    receipt = await room.carry_out()
    assert (receipt.outcome, receipt.done) == ("done", 2), receipt.why
    assert sum(isinstance(event, ItemEnded) for event in room.events) == 2


async def test_an_item_that_was_about_to_begin_as_the_budget_was_used_up_is_taken_later(tmp_path: Path) -> None:
    top = 'egress = ["write https://erp.example.test/orders/{item}"]'
    room = SwarmRoom(tmp_path, ["one", "three"], top=top, each="quarantine = 0.5")
    runs: list[SwarmRun] = []

    def begin_second() -> bool:
        runs[0].batch.events.append(ItemsBegun(room.job, ("line-000002",)))
        return True

    room.turn = partial(Slow, item="line-000001", is_free=begin_second, error=BudgetSpentError("it is used up"))
    assert (await room.carry_out(on_run=runs.append, pilot=1)).outcome == "paused"
    room.turn = None
    await room.carry_out()
    begun = [item for event in room.events if isinstance(event, ItemsBegun) for item in event.items]
    assert sorted(begun) == ["line-000001", "line-000002"]
    outcomes = {item: each.outcome for item, each in ends(room).items()}
    assert outcomes == {"line-000001": "quarantined", "line-000002": "done"}


async def test_a_script_without_a_plan_for_the_report_is_refused_before_anything_begins(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, WORDS, script=SCRIPT.replace("REDUCE", "OTHER"))
    with pytest.raises(BriefError, match="REDUCE"):
        await room.carry_out()


@pytest.mark.long
async def test_the_report_is_not_built_twice(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, WORDS)
    await room.carry_out()
    assert sum(isinstance(event, Reduced) for event in room.events) == 1
    with pytest.raises(BriefError, match="has ended"):
        await room.carry_out()


@pytest.mark.long
async def test_a_person_decides_on_pilot_and_review_and_the_certificate_says_so(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, WORDS)

    async def answer(pending: Pending, card: Card) -> Decided:
        answer = "refused" if "line-000002" in card.title else "approved"
        return decide(pending, card, papers.find(room.settings.lib / "jobs", room.job), answer, "a person")

    receipt = await room.carry_out(prompt=answer, pilot=2, review=4)
    assert receipt.outcome == "done", receipt.why
    drive = Drive(room.settings.lib / "drive")
    claim, _ = read(drive.find(f"{room.job}/{CERTIFICATE}", who=get_current_user()))
    assert (claim["review"]["reviewed"], claim["review"]["wrong"]) == (4, 1)
    kinds = {each["kind"]: each["answer"] for each in claim["plan"]["approvals"]}
    assert kinds["pilot"] == "approved"


class SilentOnce(ScriptedModel):
    """A model that does not answer the first time it is asked about one item."""

    def __init__(self, script: ScriptedModel, asked: list[str]) -> None:
        super().__init__(script.source, script.path, script.scenes, script.player.item)
        self.asked = asked

    async def ask(self, request: ModelRequest) -> Reply:
        if self.player.item == "line-000002" and not self.asked:
            self.asked.append(request.step)
            raise ModelError("no answer")
        return await super().ask(request)


@pytest.mark.long
@pytest.mark.parametrize(
    ("top", "done", "causes"),
    [("", 4, set()), ('egress = ["write https://erp.example.test/orders/{item}"]', 3, {"unknown"})],
    ids=["that only reads", "that may write"],
)
async def test_an_item_whose_model_was_silent_is_taken_again_unless_it_may_have_written(
    top: str, done: int, causes: set[str], tmp_path: Path
) -> None:
    asked: list[str] = []
    room = SwarmRoom(tmp_path, WORDS, top=top, each="quarantine = 0.5")
    room.turn = partial(SilentOnce, asked=asked)
    receipt = await room.carry_out()
    assert (receipt.outcome, receipt.done, len(asked)) == ("done", done, 1), receipt
    assert {each.cause for each in ends(room).values() if each.outcome != "done"} == causes
