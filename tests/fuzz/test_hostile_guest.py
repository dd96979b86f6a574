"""Tests of guests that send corrupted data: every call ends in time, with a value or a HotdeskError."""

from __future__ import annotations

import gc
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import anyio
import pytest

from hotdesk.config import MIB
from hotdesk.desk.link.channel import Channel
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.link.process import LinkedProcess
from hotdesk.desk.owner.transfer import Fetch
from hotdesk.desk.seam import Change, Done, Entry, Running, Size, new_id
from hotdesk.errors import DeskGone, HotdeskError
from hotdesk_guest import wire
from tests.fuzz.conftest import Seeds
from tests.fuzz.hostile import HEARD, IGNORED, Corpus, Flood, HostileGuest, RealLoop, Watch, memory_within, run

pytestmark = pytest.mark.timeout(60)

Call = Callable[[LinkedDesk, Path], Awaitable[object]]
BOUND = 4000.0
"""Seconds in which any case must end, on a clock that skips idle time."""
SHORT = 250
"""Cases in a short run."""


# -- the calls of an owner -------------------------------------------------------------------------------------------


async def run_with_input(desk: LinkedDesk, _: Path) -> object:
    return await desk.run(["cat"], stdin=bytes(300_000), timeout=20)


async def start_and_talk(desk: LinkedDesk, _: Path) -> object:
    return await talk(await desk.start(["x"], timeout=20))


async def attach_and_talk(desk: LinkedDesk, _: Path) -> object:
    return await talk(await desk.attach(7))


async def talk(process: LinkedProcess, size: Size | None = None) -> Done:
    try:
        if size is not None:
            await process.resize(size)
        await process.send(bytes(1000))
        await process.signal(10)
        async for _, data in process.output():
            assert data
            await process.send(b"x")
        await process.close_stdin()
        return await process.wait()
    finally:
        with anyio.move_on_after(10, shield=True):
            await process.detach()


async def kill(desk: LinkedDesk, _: Path) -> object:
    await (await desk.start(["x"])).kill()
    return None


async def talk_in_terminal(desk: LinkedDesk, _: Path) -> object:
    return await talk(await desk.start(["x"], timeout=20, pty=Size(24, 80)), Size(1, 1))


async def watch(desk: LinkedDesk, _: Path) -> object:
    watched = await desk.watch("home")
    try:
        found = await watched.changes()
        if not found:
            found = await watched.wait()
        return [*found, *await watched.changes()]
    finally:
        with anyio.move_on_after(10, shield=True):
            await watched.close()


async def write_stream(desk: LinkedDesk, _: Path) -> object:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield bytes(100_000)

    await desk.write("file", parts(), mode=0o600)
    return None


async def fetch(desk: LinkedDesk, folder: Path) -> object:
    """Copy out the files that the guest claims to have; only plain files and folders may result."""
    found = await desk.stat("home")
    above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        await Fetch(desk, lambda _: None, remaining_bytes=MIB, remaining_entries=60).copy_entry(
            found, "home", above, "out", 0
        )
    finally:
        os.close(above)
        for place, folders, names in os.walk(folder):
            assert not any(os.path.islink(os.path.join(place, name)) for name in (*folders, *names))
    return None


CALLS: dict[str, Call] = {
    "run": lambda desk, _: desk.run(["x"], timeout=20),
    "run with input": run_with_input,
    "start": start_and_talk,
    "attach": attach_and_talk,
    "kill": kill,
    "terminal": talk_in_terminal,
    "watch": watch,
    "processes": lambda desk, _: desk.processes(),
    "read": lambda desk, _: desk.read("file", limit=150_000),
    "write": lambda desk, _: desk.write("file", bytes(400_000)),
    "write stream": write_stream,
    "list": lambda desk, _: desk.list("home", depth=3, limit=1000),
    "stat": lambda desk, _: desk.stat("file"),
    "mkdir": lambda desk, _: desk.mkdir("home/made"),
    "move": lambda desk, _: desk.move("a", "b"),
    "remove": lambda desk, _: desk.remove("a"),
    "fetch": fetch,
}


def check_value(value: object) -> None:
    match value:
        case Done():
            assert 0 <= value.exit_code <= 255
            assert len(value.reason) <= 500
        case Entry():
            assert type(value.size) is int
            assert isinstance(value.name, str)
            assert 0 <= value.mode <= 0o7777
            assert value.kind in ("file", "directory", "symlink", "other")
        case Running():
            assert type(value.pid) is int
            assert all(isinstance(text, str) for text in value.argv)
        case Change():
            assert isinstance(value.path, str)
        case list():
            for each in value:
                check_value(each)
        case _:
            assert value is None or type(value) in (bytes, bool)


# -- one case ----------------------------------------------------------------------------------------------------


class Case:
    """One link to one hostile guest, and the calls an owner makes over it."""

    def __init__(self, corpus: Corpus, seed: int, malice: float, folder: Path) -> None:
        self.corpus = corpus
        self.chance = Random(seed)
        self.malice = malice
        self.folder = folder
        self.outcomes: list[object] = []
        self.said = 0

    async def play(self) -> None:
        ours, theirs = socket.socketpair()
        guest = HostileGuest(theirs, self.corpus, self.chance, self.malice)
        link = Link(ours)
        with anyio.fail_after(BOUND):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(link.run)
                tasks.start_soon(guest.run)
                await self.use(link)
                assert link.channels == {} or link.failure, "a channel is left of a call that ended"
                link.hang_up()
        self.said = guest.said
        assert link.sock.fileno() == theirs.fileno() == -1
        assert link.channels == {}

    async def use(self, link: Link) -> None:
        """Make several calls, some of them at once."""
        try:
            await link.wait_for_hello()
        except HotdeskError as e:
            self.outcomes.append(e)
        desk = LinkedDesk(new_id(), link, "/home/user")
        for _ in range(self.chance.randint(1, 2)):
            async with anyio.create_task_group() as tasks:
                for name in self.chance.choices(sorted(CALLS), k=self.chance.randint(1, 3)):
                    tasks.start_soon(self.attempt, name, desk)

    async def attempt(self, name: str, desk: LinkedDesk) -> None:
        """Make one call; a HotdeskError is a valid outcome."""
        try:
            if self.chance.random() < 0.1:
                with anyio.move_on_after(self.chance.random()):
                    await CALLS[name](desk, self.folder)
                return
            value = await CALLS[name](desk, self.folder)
        except HotdeskError as e:
            self.outcomes.append(e)
        else:
            check_value(value)
            self.outcomes.append(value)


def play(corpus: Corpus, seed: int, malice: float, folder: Path) -> tuple[Case, Watch]:
    """Run the case of one seed; a failure names the seed."""
    case = Case(corpus, seed, malice, folder)
    try:
        return case, run(case.play)
    except BaseException as e:
        raise AssertionError(f"HOTDESK_FUZZ_SEED={seed}") from e


# -- the fuzzers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
def test_the_fuzzers_guest_without_malice_is_a_good_guest(corpus: Corpus, name: str, tmp_path: Path) -> None:
    async def honest() -> None:
        ours, theirs = socket.socketpair()
        link = Link(ours)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            tasks.start_soon(HostileGuest(theirs, corpus, Random(0), 0.0).run)
            check_value(await CALLS[name](LinkedDesk(new_id(), link, "/"), tmp_path))
            link.hang_up()

    run(honest)


def test_every_call_ends_whatever_its_guest_sends(corpus: Corpus, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    failed = worked = 0
    with memory_within(64 * MIB):
        for seed in range(SHORT):
            case, _ = play(corpus, seed, 0.05 + seed % 5 * 0.15, tmp_path)
            failed += sum(isinstance(each, HotdeskError) for each in case.outcomes)
            worked += sum(not isinstance(each, HotdeskError) for each in case.outcomes)
    assert min(failed, worked) > SHORT // 4  # a fuzzer that only ever breaks the greeting finds nothing
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.long
def test_every_call_ends_whatever_its_guest_sends_for_long(corpus: Corpus, tmp_path: Path, seeds: Seeds) -> None:
    said = 0
    longest = 0.0
    before = len(os.listdir("/proc/self/fd"))
    with memory_within(128 * MIB):
        for seed in seeds():
            case, watch = play(corpus, seed, Random(seed).random() * 0.8, tmp_path)
            said += case.said
            longest = max(longest, watch.longest)
    assert len(os.listdir("/proc/self/fd")) == before
    print(f"{said} answers; longest turn of the loop {longest * 1000:.1f} ms")


# -- floods ------------------------------------------------------------------------------------------------------


async def flooded(corpus: Corpus, noise: bytes, heard: bool, seconds: float) -> int:
    """Let one guest flood its link while another is used; return how often the other one answered."""
    (ours, theirs), (others, good) = socket.socketpair(), socket.socketpair()
    flood, link, other = Flood(theirs, noise, patient=heard), Link(ours), Link(others)
    flood.start()
    answers = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        tasks.start_soon(other.run)
        tasks.start_soon(HostileGuest(good, corpus, Random(0), 0.0).run)
        await link.wait_for_hello()
        channel, neighbour = await link.open({"op": "x"}), LinkedDesk(new_id(), other, "/")
        if heard:
            tasks.start_soon(listen, channel)
        else:
            await channel.drop()
        end = time.monotonic() + seconds
        while time.monotonic() < end or (flood.sent <= wire.WINDOW and time.monotonic() < end + 20):
            with anyio.fail_after(10):
                await neighbour.stat("x")
            answers += 1
        for each in (link, other):
            each.hang_up()
    await anyio.to_thread.run_sync(flood.join, 10)
    assert flood.sent > wire.WINDOW
    return answers


async def listen(channel: Channel) -> None:
    """Consume frames until the link ends."""
    with suppress(DeskGone):
        while True:
            await channel.receive()


@pytest.fixture
def _no_collector() -> Iterator[None]:
    """Disable the garbage collector during the measurement: it scans everything the tests have imported."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("name", [*IGNORED, *HEARD])
def test_a_flood_leaves_its_neighbours_their_turn(corpus: Corpus, name: str) -> None:
    answers: list[int] = []

    async def play() -> None:
        answers.append(await flooded(corpus, {**IGNORED, **HEARD}[name], name in HEARD, 0.4))

    with memory_within(32 * MIB):
        watch = run(play, loop=RealLoop)
    print(f"{name}: {answers[0]} answers beside it, longest turn {watch.longest * 1000:.1f} ms")
    assert answers[0] > 2
    assert watch.longest < 0.02
