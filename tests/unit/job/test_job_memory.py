"""Tests of memory across jobs: entries are offered to the next job only once the deliverables have passed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.scripted import Failed, Hands, ScriptedModel
from hotdesk.brain.models.seam import ModelRequest, OurMessage, Reply
from hotdesk.brain.seam import PlanningTask
from hotdesk.brief.load import parse_job
from hotdesk.config import Config
from hotdesk.desk.seam import new_id
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.identity import get_current_user
from hotdesk.drive.journal import read
from hotdesk.drive.keep import Drive
from hotdesk.drive.memory import MAX_AGE_DAYS, MAX_FACT_CHARS, MAX_FACTS, MAX_FILE_BYTES, MemoryStore
from hotdesk.event import Event, MemoryDropped, MemoryKept, MemoryOffered, MemoryStaged
from hotdesk.job.local import local_machine
from hotdesk.job.record.receipt import Receipt
from hotdesk.plan import Plan
from hotdesk.work import JobContext, work

pytestmark = pytest.mark.slow

BRIEF = """
goal = "Count."
wall = "local"
memory = "orders"
deliverables = [{path = "count.txt", checks = []}]
"""
FACT = "The export is under Archive > CSV."
PARSER = b"print('parsed')\n"


class Listener:
    """A script that notes what it was asked and told."""

    def __init__(self, *scenes: Any) -> None:
        self.script = ScriptedModel.of(*scenes)
        self.name, self.window, self.native_screen, self.sees = "listener", self.script.window, False, True
        self.tasks: list[PlanningTask] = []
        self.requests: list[ModelRequest] = []

    def provide_plan(self, task: PlanningTask) -> Plan:
        self.tasks.append(task)
        return self.script.provide_plan(task)

    async def ask(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        return await self.script.ask(request)

    async def close(self) -> None:
        await self.script.close()

    def told(self, step: str) -> str:
        first = next(each.history[0] for each in self.requests if each.step == step)
        assert isinstance(first, OurMessage)
        return first.text


def settings_in(folder: Path) -> Config:
    return Config(run=folder / "run", lib=folder / "lib", images=folder / "images")


async def carry_out(folder: Path, *acts: Any, brief: str = BRIEF) -> tuple[Receipt, Listener, list[Event]]:
    """Carry the brief out with these steps; return its receipt, its model, and its events."""
    job = parse_job(brief.encode(), folder, scope_of)
    model = Listener(*acts)
    async with local_machine(settings_in(folder)) as machine:
        order = JobContext(machine, job, exact=True)
        receipt = await work(order, ModelBrain(job, [model], [model]))
        return receipt, model, [row.read_event() for row in read(order.journal, order.id)]


def store_of(folder: Path) -> MemoryStore:
    return MemoryStore(Drive(settings_in(folder).lib / "drive"), get_current_user())


def of_kind(events: Sequence[Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def leave(hands: Hands) -> None:
    await hands.write("count.txt", b"right")
    await hands.write("work/parse.py", PARSER)
    await hands.remember(FACT, keep=True)
    await hands.keep_file("work/parse.py")


async def find(hands: Hands) -> None:
    assert await hands.read("memory/parse.py") == PARSER
    assert FACT in (await hands.read("memory/facts.md")).decode()
    assert (await hands.run(["stat", "-c", "%a", "memory/parse.py"])).text == "444\n"
    await hands.write("count.txt", b"right again")


async def test_the_next_job_gets_what_one_left(tmp_path: Path) -> None:
    receipt, first, events = await carry_out(tmp_path, leave)
    assert (receipt.outcome, receipt.why) == ("done", "")
    assert first.tasks[0].memory == ()
    assert of_kind(events, MemoryOffered) == [MemoryOffered(receipt.job, "orders", (), ())]
    kept = of_kind(events, MemoryKept)
    assert [(each.kind, each.step, each.version) for each in kept] == [("fact", "leave", 1), ("file", "leave", 1)]
    assert kept[1].sha256 == hashlib.sha256(PARSER).hexdigest()
    assert receipt.cleanup is not None
    assert sum("in the memory orders" in each for each in receipt.cleanup.kept) == 2

    receipt, second, events = await carry_out(tmp_path, find)
    assert (receipt.outcome, receipt.why) == ("done", "")
    (offered,) = of_kind(events, MemoryOffered)
    assert sorted(each.rpartition("/")[0] for each in offered.items) == ["memory/orders/facts", "memory/orders/files"]
    told = second.told("find")
    assert f"\n> {FACT}\n" in told
    assert "memory/parse.py: a file of 16 bytes" in told
    assert [line.partition(", stored on")[0] for line in second.tasks[0].memory] == [
        "memory/facts.md: 1 fact, 34 bytes",
        "memory/parse.py: a file of 16 bytes",
    ]


async def test_a_planner_is_told_names_and_sizes_and_no_word_of_what_was_left(tmp_path: Path) -> None:
    await carry_out(tmp_path, leave)
    _, model, _ = await carry_out(tmp_path, find)
    task = repr(model.tasks[0])
    assert "Archive" not in task
    assert "parsed" not in task


async def test_a_job_without_a_memory_neither_sees_nor_leaves_one(tmp_path: Path) -> None:
    async def look(hands: Hands) -> None:
        assert (await hands.run(["ls", "memory"])).exit_code != 0
        for asked in (hands.remember("x", keep=True), hands.keep_file("count.txt")):
            with pytest.raises(Failed):
                await asked
        await hands.write("count.txt", b"right")

    await carry_out(tmp_path, leave)
    without = BRIEF.replace('memory = "orders"\n', "")
    receipt, model, events = await carry_out(tmp_path, look, brief=without)
    assert receipt.outcome == "done"
    assert (model.tasks[0].memory, model.tasks[0].keeps_memory) == ((), False)
    assert "earlier jobs" not in model.told("look")
    assert not of_kind(events, MemoryOffered)


async def test_a_job_whose_deliverables_fail_leaves_nothing(tmp_path: Path) -> None:
    async def stop(hands: Hands) -> None:
        await hands.remember(FACT, keep=True)
        raise ValueError("it cannot be done")

    receipt, _, events = await carry_out(tmp_path, stop)
    assert receipt.outcome == "failed"
    assert of_kind(events, MemoryStaged)
    assert store_of(tmp_path).list_items() == []


async def test_the_same_fact_again_is_one_fact_of_the_newer_job(tmp_path: Path) -> None:
    first, _, _ = await carry_out(tmp_path, leave)
    second, _, _ = await carry_out(tmp_path, leave)
    items = sorted(store_of(tmp_path).list_items("orders"), key=lambda item: item.kind)
    assert [(item.kind, item.version.number, item.version.job) for item in items] == [
        ("fact", 2, second.job),
        ("file", 2, second.job),
    ]
    drive = store_of(tmp_path).drive
    assert [len(drive.list_history(item.version.name, who=get_current_user())) for item in items] == [1, 1]
    assert first.job != second.job


async def test_a_job_that_continues_keeps_nothing_twice_and_is_offered_what_it_was(tmp_path: Path) -> None:
    await carry_out(tmp_path, leave)
    stopped: list[JobContext] = []

    async def halt(hands: Hands) -> None:
        await hands.remember("Another fact.", keep=True)
        assert stopped[-1].log is not None
        if len(stopped) == 1:
            stopped[-1].log.halt()
        await hands.run(["true"])

    async def end(hands: Hands) -> None:
        assert FACT in (await hands.read("memory/facts.md")).decode()
        await hands.write("count.txt", b"right")

    job = parse_job(BRIEF.encode(), tmp_path, scope_of)
    async with local_machine(settings_in(tmp_path)) as machine:
        receipts = []
        for goes_on in (False, True):
            name = stopped[0].id if stopped else new_id()
            stopped.append(JobContext(machine, job, id=name, exact=True, goes_on=goes_on))
            model = Listener(halt, end)
            receipts.append(await work(stopped[-1], ModelBrain(job, [model], [model])))
            if not goes_on:  # what comes meanwhile is not for a job that began before
                other = Listener(newer)
                await work(JobContext(machine, job, exact=True), ModelBrain(job, [other], [other]))
        events = [row.read_event() for row in read(stopped[0].journal, stopped[0].id)]
    assert [each.outcome for each in receipts] == ["paused", "done"]
    assert len(of_kind(events, MemoryOffered)) == 1
    assert len(of_kind(events, MemoryStaged)) == 1
    assert len(of_kind(events, MemoryKept)) == 1
    assert "newer" not in model.told("end")


async def newer(hands: Hands) -> None:
    await hands.remember("This is newer.", keep=True)
    await hands.write("count.txt", b"right")


async def test_too_long_too_large_and_too_many_entries_are_refused_and_reported(tmp_path: Path) -> None:
    told: list[str] = []

    async def overdo(hands: Hands) -> None:
        await hands.write("large", b"x" * (MAX_FILE_BYTES + 1))
        await hands.write("small", b"x")
        await hands.run(["ln", "-s", "/etc/passwd", "link"])
        for use in (
            hands.use("remember", text="x" * (MAX_FACT_CHARS + 1), keep=True),
            hands.use("keep_file", path="large"),
            hands.use("keep_file", path="missing"),
            hands.use("keep_file", path="link"),
            hands.use("keep_file", path="."),
            *(
                hands.use("keep_file", path="small", name=name)
                for name in ("../up", "a/b", "a\x1b[2J", ".hidden", "facts.md")
            ),
        ):
            seen = await use
            assert not seen.ok
            told.append(seen.text.partition("\n")[0])
        for number in range(MAX_FACTS):
            assert (await hands.use("remember", text=f"fact {number}", keep=True)).ok
        assert not (await hands.use("remember", text="one too many", keep=True)).ok
        assert (await hands.use("remember", text="fact 0", keep=True)).ok
        await hands.write("count.txt", b"right")

    receipt, _, events = await carry_out(tmp_path, overdo)
    assert (receipt.outcome, receipt.why) == ("done", "")
    assert all(each.startswith("Not stored for later jobs: ") and each.isprintable() for each in told)
    assert len(of_kind(events, MemoryKept)) == MAX_FACTS


async def test_old_entries_are_not_offered_and_are_removed(tmp_path: Path) -> None:
    await carry_out(tmp_path, leave)
    store = store_of(tmp_path)
    now = store.list_items()[0].version.at
    old = now + (MAX_AGE_DAYS + 1) * 86_400_000
    assert len(store.select_current("orders", now)) == 2
    assert store.select_current("orders", old) == []
    dropped: list[str] = []
    store.prune("orders", old, lambda item: dropped.append(item.name))
    assert sorted(dropped)[-1] == "parse.py"
    assert store.list_items() == []


async def test_a_file_that_was_changed_since_is_not_offered(tmp_path: Path) -> None:
    await carry_out(tmp_path, leave)
    store = store_of(tmp_path)
    (item,) = [each for each in store.list_items() if each.kind == "file"]
    item.version.path.chmod(0o600)
    item.version.path.write_bytes(b"print('trojan')\n")

    async def look(hands: Hands) -> None:
        assert (await hands.run(["ls", "memory"])).text == "facts.md\n"
        await hands.write("count.txt", b"right")

    receipt, _, events = await carry_out(tmp_path, look)
    assert receipt.outcome == "done"
    (dropped,) = of_kind(events, MemoryDropped)
    assert (dropped.name, "was changed; restore" in dropped.why) == ("parse.py", True)


async def test_past_the_quota_nothing_is_kept_and_the_job_is_done_all_the_same(tmp_path: Path) -> None:
    settings = replace(settings_in(tmp_path), drive_quota=10)
    job = parse_job(BRIEF.encode(), tmp_path, scope_of)
    model = Listener(leave)
    async with local_machine(settings) as machine:
        order = JobContext(machine, job, exact=True)
        receipt = await work(order, ModelBrain(job, [model], [model]))
        events = [row.read_event() for row in read(order.journal, order.id)]
    assert receipt.outcome == "done"
    assert {each.name for each in of_kind(events, MemoryDropped)} >= {"parse.py"}


async def test_files_added_by_hand_are_not_offered(tmp_path: Path) -> None:
    drive = Drive(settings_in(tmp_path).lib / "drive")
    drive.keep("memory/orders/files/mine.py", b"x", owner=get_current_user())
    drive.keep("memory/orders/facts/x", b"x", owner=get_current_user(), job="i1")
    drive.keep("memory/orders/files/theirs.py", b"x", owner="uid:4711", job="i1")
    assert MemoryStore(drive, get_current_user()).list_items() == []
