"""Tests of control over a desk: a scripted reader, and people who take control and return it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import pytest

from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.local.runtime import local_runtime
from hotdesk.errors import BriefError, DeskError, DeskGone, HostError
from hotdesk.event import Event, HandedBack, TookOver
from hotdesk.hands.reader import VerbResult
from hotdesk.hands.screen.takeover import LOOK_TIMEOUT_S, Wheel, describe_differences, read_changed_share
from hotdesk.ipc.tasks import background

ME, YOU = "uid 0 pid 1", "uid 0 pid 2"


class Script:
    """Answers as a reader would, and records the requests to it and to the keeper."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.asked: list[str] = []
        self.failing = ""
        self.refusals = 0
        """How often the keeper reports that the desk does not stop."""
        self.input: object = None

    async def ask(self, verb: str, /, **arguments: object) -> VerbResult:
        self.asked.append(f"{verb} {arguments.get('number', '')}".strip())
        self.input = arguments.get("events", self.input)
        if verb == self.failing:
            raise DeskError("no")
        values: dict[str, Any] = {"view.acted": {"clicks": 2, "keys": 5}, "screen.difference": {"changed": 0.25}}
        return VerbResult(values.get(verb), b"PNG" if verb == "screen.shot" else b"")

    def close(self) -> None:
        self.asked.append("close")

    async def suspend(self, suspended: bool) -> None:
        self.asked.append(f"suspend {suspended}")
        if suspended and self.refusals:
            self.refusals -= 1
            raise DeskError("the desk does not hold still")


class Drive:
    """The control of a desk, and everything it touches."""

    def __init__(self, script: Script, wheel: Wheel, events: list[Event]) -> None:
        self.script, self.wheel, self.events = script, wheel, events


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not true():
            await anyio.sleep(0.002)


@pytest.fixture
async def drive() -> AsyncIterator[Drive]:
    async with local_runtime() as runtime, background() as tasks:
        script = Script(await runtime.open(Spec()))
        events: list[Event] = []
        yield Drive(script, Wheel(script, script.suspend, events.append, tasks, {"erp-token": "hd-1"}), events)
        await runtime.burn(script.desk.id)


async def test_while_a_person_drives_tools_are_refused(drive: Drive) -> None:
    assert drive.wheel.explain_refusal() is None
    await drive.wheel.take(7, ME)
    assert "try again when they hand it back" in (drive.wheel.explain_refusal() or "")
    await drive.wheel.hand_back(7, ME)
    assert drive.wheel.explain_refusal() is None


async def test_the_journal_is_written_in_a_thread_because_it_waits_for_the_disk(drive: Drive) -> None:
    loop, writers = threading.get_ident(), list[int]()
    drive.wheel.note = lambda *_: writers.append(threading.get_ident())
    await drive.wheel.take(7, ME)
    await drive.wheel.hand_back(7, ME)
    assert len(writers) == 2
    assert loop not in writers


async def test_a_call_stopped_with_its_desk_is_not_cancelled_by_a_takeover(drive: Drive) -> None:
    frozen, outcomes = anyio.Event(), list[str]()

    async def work() -> None:
        await frozen.wait()
        outcomes.append("done")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(drive.wheel.drive, work, stands_still=True, repeatable=False))
        await until(lambda: bool(drive.wheel.under_way))
        await drive.wheel.take(7, ME)
        assert len(drive.wheel.under_way) == 1
        await drive.wheel.hand_back(7, ME)
        frozen.set()
    assert outcomes == ["done"]


async def test_a_click_under_way_ends_by_itself_before_a_person_is_let_at_the_desk(drive: Drive) -> None:
    async def work() -> None:
        await until(lambda: drive.wheel.holder is not None)
        drive.script.asked.append("clicked")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(drive.wheel.drive, work, stands_still=False, repeatable=False))
        await until(lambda: bool(drive.wheel.under_way))
        await drive.wheel.take(7, ME)
    assert drive.script.asked.index("clicked") < drive.script.asked.index("suspend True")
    await drive.wheel.hand_back(7, ME)


@pytest.mark.slow
async def test_a_wait_in_the_browser_is_cancelled_before_a_person_is_let_at_the_desk(drive: Drive) -> None:
    outcomes: list[str] = []

    async def work() -> None:
        await anyio.sleep(60)
        outcomes.append("done")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(drive.wheel.drive, work, stands_still=False, repeatable=True))
        await until(lambda: bool(drive.wheel.under_way))
        await drive.wheel.take(7, ME)
        assert drive.wheel.under_way == set()
    assert outcomes == []
    await drive.wheel.hand_back(7, ME)


async def test_the_workers_clock_is_stopped_while_a_person_drives(drive: Drive) -> None:
    clock: list[str] = []

    @contextmanager
    def stop() -> Iterator[None]:
        clock.append("stopped")
        yield
        clock.append("goes on")

    drive.wheel.worker_clock = stop
    await drive.wheel.take(7, ME)
    assert clock == ["stopped"]
    await drive.wheel.hand_back(7, ME)
    assert clock == ["stopped", "goes on"]


async def test_takeover_and_reservation_of_a_desk_exclude_each_other(
    drive: Drive,
) -> None:
    order: list[str] = []

    async def reserve() -> None:
        async with drive.wheel.reserve():
            order.append("reserved")

    async with anyio.create_task_group() as tasks:
        async with drive.wheel.reserve():
            tasks.start_soon(drive.wheel.take, 7, ME)
            await anyio.wait_all_tasks_blocked()
            assert drive.wheel.explain_refusal() is None
        await until(lambda: drive.wheel.holder is not None and drive.wheel.holder.drives)
        tasks.start_soon(reserve)
        await anyio.wait_all_tasks_blocked()
        order.append("handed back")
        await drive.wheel.hand_back(7, ME)
    assert order == ["handed back", "reserved"]


async def test_a_viewer_whose_screen_is_gone_does_not_stop_the_worker(drive: Drive) -> None:
    drive.script.failing = "view.present"
    with pytest.raises(DeskError):
        await drive.wheel.take(7, ME)
    assert drive.wheel.explain_refusal() is None
    assert drive.events == []


async def test_a_busy_desk_that_does_not_stop_at_once_is_stopped_a_little_later(drive: Drive) -> None:
    drive.script.refusals = 3
    await drive.wheel.take(7, ME)
    assert drive.wheel.desk_suspended
    assert drive.script.asked.count("suspend True") == 4
    await drive.wheel.hand_back(7, ME)


async def test_programs_of_a_desk_that_no_worker_uses_are_not_stopped(drive: Drive) -> None:
    drive.wheel.has_worker = lambda: False
    await drive.wheel.take(7, ME)
    await drive.wheel.hand_back(7, ME)
    acts = [each for each in drive.script.asked if each.startswith(("suspend", "view.lease"))]
    assert acts == ["view.lease 7", "view.lease 0"]


async def test_a_desk_that_ends_while_a_person_drives_lets_its_worker_learn_it(drive: Drive) -> None:
    await drive.wheel.take(7, ME)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(drive.wheel.wait_until_free)
        await anyio.wait_all_tasks_blocked()
        drive.wheel.leave()
    back = drive.events[-1]
    assert isinstance(back, HandedBack)
    assert back.note == "its desk ended"


async def test_the_desk_is_suspended_before_a_key_reaches_it_and_continues_after_the_last(drive: Drive) -> None:
    await drive.wheel.take(7, ME)
    await drive.wheel.hand_back(7, ME)
    acts = [each for each in drive.script.asked if each.startswith(("suspend", "view"))]
    assert acts == ["view.present 7", "suspend True", "view.lease 7", "view.lease 0", "view.acted", "suspend False"]


async def test_acts_of_a_person_are_recorded_as_theirs(drive: Drive) -> None:
    await drive.wheel.take(7, ME)
    await drive.wheel.hand_back(7, ME)
    took, back = drive.events
    assert took == TookOver(drive.script.desk.id, 7, ME)
    assert isinstance(back, HandedBack)
    assert (back.viewer, back.by, back.clicks, back.keys) == (7, ME, 2, 5)


async def test_one_person_drives_at_a_time(drive: Drive) -> None:
    await drive.wheel.take(7, ME)
    with pytest.raises(BriefError, match=ME):
        await drive.wheel.take(8, YOU)
    await drive.wheel.take(7, ME)
    await drive.wheel.hand_back(8, YOU)
    assert drive.wheel.explain_refusal()
    await drive.wheel.hand_back(7, ME)
    await drive.wheel.take(8, YOU)
    await drive.wheel.hand_back(8, YOU)
    assert [type(event) for event in drive.events] == [TookOver, HandedBack] * 2


@pytest.mark.parametrize("failing", ["suspend", "view.lease"])
async def test_a_desk_that_cannot_be_frozen_cannot_be_taken_over(drive: Drive, failing: str) -> None:
    drive.script.failing = failing
    drive.script.refusals = 10**6 if failing == "suspend" else 0
    drive.wheel.stopping = 0.05
    with pytest.raises(DeskError):
        await drive.wheel.take(7, ME)
    assert drive.wheel.explain_refusal() is None
    assert drive.script.asked[-1] == "suspend False"
    assert [type(event) for event in drive.events] == [TookOver, HandedBack]


async def test_a_takeover_that_cannot_be_recorded_is_refused(drive: Drive) -> None:
    def full(event: Event) -> None:
        raise DeskError("the journal is full")

    drive.wheel.note = full
    with pytest.raises(DeskError, match="journal"):
        await drive.wheel.take(7, ME)
    assert "suspend True" not in drive.script.asked
    assert drive.wheel.explain_refusal() is None


@pytest.mark.slow
async def test_a_silent_viewer_loses_control(drive: Drive) -> None:
    drive.wheel.lease = 0.2
    await drive.wheel.take(7, ME)
    for _ in range(4):
        await anyio.sleep(0.1)
        drive.wheel.keep(7)
    assert drive.wheel.explain_refusal()
    drive.wheel.keep(8)
    with anyio.fail_after(30):
        while drive.wheel.explain_refusal():
            await anyio.sleep(0.01)
    back = drive.events[-1]
    assert isinstance(back, HandedBack)
    assert (back.by, back.note) == ("", "the person's viewer did not respond")


async def test_changes_are_reported_to_the_worker_once(drive: Drive) -> None:
    assert await drive.wheel.welcome() is None
    await drive.wheel.take(7, ME)
    await drive.wheel.hand_back(7, ME)
    told = await drive.wheel.welcome()
    assert told is not None
    assert "2 clicks, 5 keys" in told.text
    assert "25% of the screen" in told.text
    assert (told.image, told.media) == (b"PNG", "image/png")
    assert await drive.wheel.welcome() is None


async def test_unreported_takeovers_are_reported_together(drive: Drive) -> None:
    for _ in range(3):
        await drive.wheel.take(7, ME)
        await drive.wheel.hand_back(7, ME)
    told = await drive.wheel.welcome()
    assert told is not None
    assert "6 clicks, 15 keys" in told.text
    assert drive.script.asked.count("screen.mark") == 1


async def test_a_desk_that_says_nothing_still_gets_its_worker_back(drive: Drive) -> None:
    await drive.wheel.take(7, ME)
    drive.script.failing = "view.lease"
    await drive.wheel.hand_back(7, ME)
    drive.script.failing = "screen.difference"
    assert drive.wheel.explain_refusal() is None
    told = await drive.wheel.welcome()
    assert told is not None
    assert told.media == ""


async def test_a_desk_that_is_gone_is_handed_back_all_the_same(drive: Drive) -> None:
    await drive.wheel.take(7, ME)

    async def gone(suspended: bool) -> None:
        raise DeskGone("it burnt")

    drive.wheel.suspend_desk = gone
    await drive.wheel.hand_back(7, ME)
    assert drive.wheel.explain_refusal() is None


class Stubborn:
    """Fails, or takes for ever, to continue a desk until it is told otherwise."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.attempts = 0

    async def suspend(self, suspended: bool) -> None:
        self.attempts += not suspended
        if not suspended and self.how == "fails":
            raise HostError("the keeper is busy")
        if not suspended and self.how == "hangs":
            await anyio.sleep(3600)


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_a_desk_that_does_not_continue_is_tried_again_until_it_does(drive: Drive, how: str) -> None:
    drive.wheel.returning, drive.wheel.thawing = 0.1, 0.01
    await drive.wheel.take(7, ME)
    desk = Stubborn(how)
    drive.wheel.suspend_desk = desk.suspend
    with anyio.fail_after(30):
        await drive.wheel.hand_back(7, ME)
    assert drive.wheel.explain_refusal() is None
    assert isinstance(drive.events[-1], HandedBack)
    await until(lambda: desk.attempts > 2)
    assert drive.wheel.desk_suspended
    desk.how = ""
    await until(lambda: not drive.wheel.desk_suspended)


async def test_a_desk_is_not_continued_while_the_next_person_has_control(drive: Drive) -> None:
    drive.wheel.thawing = 0.01
    await drive.wheel.take(7, ME)
    desk = Stubborn("fails")
    drive.wheel.suspend_desk = desk.suspend
    await drive.wheel.hand_back(7, ME)
    await drive.wheel.take(8, YOU)
    desk.how = ""
    before = desk.attempts
    await anyio.sleep(0.1)
    assert desk.attempts == before
    assert drive.wheel.desk_suspended
    await drive.wheel.hand_back(8, YOU)
    assert not drive.wheel.desk_suspended


async def test_hand_backs_that_fail_do_not_add_up_attempts(drive: Drive) -> None:
    drive.wheel.thawing = 0.3
    desk = Stubborn("fails")
    drive.wheel.suspend_desk = desk.suspend
    for _ in range(8):
        await drive.wheel.take(7, ME)
        await drive.wheel.hand_back(7, ME)
    before = desk.attempts
    await anyio.sleep(1)
    assert 0 < desk.attempts - before < 8
    desk.how = ""
    await until(lambda: not drive.wheel.desk_suspended)


@pytest.mark.slow
async def test_a_stuck_reader_does_not_delay_the_worker(drive: Drive) -> None:
    """A request that is being sent to a reader cannot be cancelled; it ends with the reader."""
    await drive.wheel.take(7, ME)
    closed = anyio.Event()

    async def stuck(verb: str, /, **arguments: object) -> VerbResult:
        with anyio.CancelScope(shield=True):
            await closed.wait()
        raise DeskError("the reader ended")

    drive.script.ask, drive.script.close = stuck, closed.set  # type: ignore[method-assign]
    with anyio.fail_after(LOOK_TIMEOUT_S + 2):
        await drive.wheel.hand_back(7, ME)
    assert drive.script.asked[-1] == "suspend False"
    assert not drive.wheel.desk_suspended


async def test_a_slow_journal_does_not_hold_up_the_worker(drive: Drive) -> None:
    written = threading.Event()

    def wait(event: Event) -> None:
        written.wait(20)

    await drive.wheel.take(7, ME)
    drive.wheel.note, drive.wheel.returning = wait, 0.1
    try:
        with anyio.fail_after(30):
            await drive.wheel.hand_back(7, ME)
    finally:
        written.set()
    assert drive.wheel.explain_refusal() is None


async def test_a_return_that_cannot_be_recorded_ends_no_other_desk(drive: Drive) -> None:
    def full(event: Event) -> None:
        raise DeskError("the journal is full")

    await drive.wheel.take(7, ME)
    drive.wheel.note, drive.wheel.lease = full, 0.0
    holder = drive.wheel.holder
    assert holder is not None
    await drive.wheel.guard(holder)
    assert drive.wheel.explain_refusal() is None


@pytest.mark.parametrize("told", [None, [], {"changed": "all"}, {"changed": -4}, {}])
def test_a_malformed_share_of_changes_counts_as_zero(told: object) -> None:
    assert read_changed_share(told) == 0.0
    assert read_changed_share({"changed": 7}) == 1.0


def test_added_and_removed_files_are_reported() -> None:
    came = describe_differences("Windows", frozenset({"a", "b"}), frozenset({"b", "c"}))
    assert came == ["Windows that appeared: c.", "Windows that disappeared: a."]
    assert describe_differences("Windows", frozenset({"a"}), frozenset({"a"})) == []


async def test_a_reader_that_does_not_return_control_is_ended(drive: Drive) -> None:
    await drive.wheel.take(7, ME)
    drive.script.failing = "view.lease"
    await drive.wheel.hand_back(7, ME)
    assert drive.script.asked[-2:] == ["close", "suspend False"]
    assert drive.wheel.explain_refusal() is None


async def test_a_secret_is_typed_as_its_placeholder_for_who_drives(drive: Drive) -> None:
    with pytest.raises(BriefError, match="has control"):
        await drive.wheel.type_secret(7, "erp-token")
    await drive.wheel.take(7, ME)
    with pytest.raises(BriefError, match="has control"):
        await drive.wheel.type_secret(8, "erp-token")
    with pytest.raises(BriefError, match=r"this desk was granted no secret .* its secrets are: erp-token"):
        await drive.wheel.type_secret(7, "other")
    await drive.wheel.type_secret(7, "erp-token")
    assert drive.script.input == [["key", ord(each), down] for each in "hd-1" for down in (True, False)]
    await drive.wheel.hand_back(7, ME)
