"""Tests of the link's rules under random actions of both sides: windows, credit, numbers, order, ends."""

from __future__ import annotations

import asyncio
import select
import socket
import time
import traceback
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from hotdesk.desk.link.channel import Channel, Data, GuestEvent, GuestReply
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner.root import MAX_NOTED_BYTES, RootLedger, supervise
from hotdesk.errors import DeskGone, HostError, LinkError
from hotdesk.event import Event, RootAct
from hotdesk_guest import wire
from hotdesk_guest.wire import (
    CREDIT,
    DATA,
    DROP,
    END,
    EVENT,
    HELLO,
    OPEN,
    REPLY,
    SIGNAL,
    WINDOW,
    compute_cost,
    encode,
    encode_frame,
)

pytestmark = pytest.mark.timeout(60)

GREETING = encode_frame(HELLO, 0, encode({"version": wire.VERSION, "pid": 1, "home": "/"}))


# -- a link against a model of its guest ---------------------------------------------------------------------------


@dataclass(slots=True)
class Model:
    """One channel as an honest guest and an observer see it."""

    number: int
    channel: Channel
    window: int = WINDOW
    """What the guest may still send."""
    said: list[bytes] = field(default_factory=list)
    """What the guest sent, in order."""
    heard: list[bytes] = field(default_factory=list)
    """What was read from the channel."""
    sent: bytes = b""
    """What the owner was asked to send."""
    arrived: bytes = b""
    """What of it reached the guest."""
    owed: int = 0
    """What reached the guest and was not yet returned as credit."""
    replied: bool = False
    dropped: bool = False
    ended: int = 0
    orders: int = 0
    reading: asyncio.Task[None] | None = None
    writing: asyncio.Task[None] | None = None

    def alive(self) -> bool:
        return not self.replied and not self.dropped


class Protocol(RuleBasedStateMachine):
    """A real link, and a guest that keeps the rules; what either does is chosen at random."""

    channels: Bundle[Model] = Bundle("channels")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.trouble: list[object] = []
        self.loop.set_exception_handler(lambda _, what: self.trouble.append(what))
        ours, self.guest = socket.socketpair()
        self.guest.setblocking(False)
        self.guest.sendall(GREETING)
        self.reader = wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT)
        self.models: dict[int, Model] = {}
        self.link = self.wait(self.made(ours))
        self.running = self.loop.create_task(self.link.run())
        self.settle()
        assert self.link.hello is not None

    async def made(self, sock: socket.socket) -> Link:
        return Link(sock)

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 10))

    def settle(self) -> None:
        async def turns() -> None:
            for _ in range(12):
                await asyncio.sleep(0)
                self.hear()

        self.wait(turns())

    def hear(self) -> None:
        try:
            data = self.guest.recv(1 << 20)
        except BlockingIOError:
            return
        for kind, number, payload in self.reader.feed(data):
            if kind == OPEN:
                assert number == len(self.models) + 1, "channel numbers count up, and none is used twice"
                continue
            model = self.models[number]
            assert not model.dropped or kind == DROP, "nothing is said on a channel after it was dropped"
            if kind == DATA:
                model.arrived += payload[1:]
                model.owed += len(payload) - 1
            elif kind == CREDIT:
                model.window += int.from_bytes(payload, "big")
            elif kind == END:
                model.ended += 1
            elif kind == SIGNAL:
                model.orders += 1

    # -- what the owner does

    @rule(target=channels)
    def open(self) -> Model:
        task = self.loop.create_task(self.link.open({"op": "x"}))
        channel: Channel = self.wait(asyncio.wait_for(task, 10))
        model = Model(channel.number, channel)
        self.settle_open(model)
        return model

    def settle_open(self, model: Model) -> None:
        assert model.number == len(self.models) + 1
        self.settle()
        self.models[model.number] = model

    @rule(model=channels)
    def receive(self, model: Model) -> None:
        """Request the next item, unless a request is pending."""
        if model.dropped or (model.reading is not None and not model.reading.done()):
            return
        if not model.channel.items and model.replied:
            return
        model.reading = self.loop.create_task(self.read(model))
        self.settle()

    async def read(self, model: Model) -> None:
        item = await model.channel.receive()
        assert not model.dropped, "nothing is delivered to a channel that was dropped"
        match item:
            case Data(stream, data):
                model.heard.append(bytes((stream,)) + data)
            case GuestEvent(value, size):
                model.heard.append(encode(value))
                assert size == len(model.heard[-1])
            case GuestReply(body):
                model.heard.append(encode(body))

    @rule(model=channels, size=st.sampled_from([0, 1, 1000, wire.CHUNK, wire.CHUNK + 1, WINDOW, 3 * WINDOW]))
    def send(self, model: Model, size: int) -> None:
        if not model.alive() or (model.writing is not None and not model.writing.done()):
            return
        data = Random(len(model.sent) + size).randbytes(size)
        model.sent += data
        model.writing = self.loop.create_task(model.channel.send(data))
        self.settle()

    @rule(model=channels)
    def end(self, model: Model) -> None:
        before = model.ended
        if not model.dropped:
            self.wait(model.channel.end())
            self.settle()
            assert model.ended == before + (0 if model.replied else 1)

    @rule(model=channels)
    def order(self, model: Model) -> None:
        before = model.orders
        if not model.dropped:
            self.wait(model.channel.order({"signal": 15, "tree": False}))
            self.settle()
            assert model.orders == before + (0 if model.replied else 1)

    @rule(model=consumes(channels))
    def drop(self, model: Model) -> None:
        for task in (model.reading, model.writing):
            if task is not None:
                task.cancel()
        self.settle()
        self.wait(model.channel.drop())
        model.dropped = True
        self.settle()
        self.wait(model.channel.drop())

    # -- what the guest does

    def say(self, kind: int, model: Model, payload: bytes) -> None:
        self.guest.sendall(encode_frame(kind, model.number, payload))
        self.settle()

    @rule(model=channels, size=st.sampled_from([1, 2, 1000, wire.CHUNK, 60_000]), stream=st.sampled_from([0, 1, 2]))
    def speak(self, model: Model, size: int, stream: int) -> None:
        """Send bytes, within the window."""
        payload = bytes((stream,)) + Random(len(model.said)).randbytes(size)
        if model.alive() and compute_cost(payload) <= model.window:
            model.window -= compute_cost(payload)
            model.said.append(payload)
            self.say(DATA, model, payload)

    @rule(model=channels, value=st.one_of(st.none(), st.integers(-9, 9), st.text(max_size=5), st.lists(st.booleans())))
    def tell(self, model: Model, value: object) -> None:
        payload = encode(value)
        if model.alive() and compute_cost(payload) <= model.window:
            model.window -= compute_cost(payload)
            model.said.append(payload)
            self.say(EVENT, model, payload)

    @rule(model=channels, part=st.sampled_from([1, 2, 3]))
    def allow(self, model: Model, part: int) -> None:
        if model.alive() and (given_back := model.owed // part):
            model.owed -= given_back
            self.say(CREDIT, model, given_back.to_bytes(4, "big"))

    @rule(model=channels)
    def reply(self, model: Model) -> None:
        if model.alive():
            model.replied = True
            model.said.append(encode({"code": 0}))
            self.say(REPLY, model, encode({"code": 0}))

    @rule(model=channels)
    def speak_too_late(self, model: Model) -> None:
        """Send a frame on a channel that has ended, which must have no effect."""
        if not model.alive():
            items = len(model.channel.items)
            self.say(DATA, model, b"\1late")
            self.say(CREDIT, model, bytes(4))
            self.say(EVENT, model, b"n")
            assert len(model.channel.items) == items

    # -- what holds whatever happens

    @invariant()
    def the_link_stands(self) -> None:
        assert self.link.failure is None
        assert self.trouble == []

    @invariant()
    def windows_hold_and_credit_is_conserved(self) -> None:
        for model in self.models.values():
            channel = model.channel
            if not model.alive():
                continue
            waiting = sum(price for _, price in channel.items)
            assert channel.window + channel.eaten + waiting == WINDOW
            assert 0 <= channel.window == model.window
            assert channel.credit + model.owed == WINDOW
            assert channel.credit >= 0

    @invariant()
    def everything_comes_in_order_and_once(self) -> None:
        for model in self.models.values():
            assert model.said[: len(model.heard)] == model.heard
            assert model.sent[: len(model.arrived)] == model.arrived
            idle = model.writing is None or model.writing.done()
            assert idle or not model.replied, "a writer on a channel that is over ends"
            if model.alive() and idle:
                assert model.arrived == model.sent

    @invariant()
    def only_dropped_channels_are_forgotten(self) -> None:
        assert set(self.link.channels) == {number for number, model in self.models.items() if not model.dropped}

    def teardown(self) -> None:
        """End the link: every waiting caller is notified, and nothing is left."""
        self.link.hang_up()
        tasks = [task for model in self.models.values() for task in (model.reading, model.writing) if task is not None]
        self.wait(asyncio.wait_for(self.running, 10))
        for task in tasks:
            try:
                self.wait(asyncio.wait_for(task, 10))
            except DeskGone:
                pass
            except asyncio.CancelledError:
                assert task.cancelled()
        assert self.link.sock.fileno() == -1
        self.guest.close()
        assert self.trouble == []
        self.loop.close()


QUICK = settings(max_examples=40, stateful_step_count=40, deadline=None, derandomize=True)


@pytest.mark.slow
def test_windows_order_and_ends_hold_whatever_both_sides_do() -> None:
    run_state_machine_as_test(Protocol, settings=QUICK)


# -- what a link does in the end -----------------------------------------------------------------------------------


@asynccontextmanager
async def linked() -> AsyncIterator[tuple[Link, socket.socket]]:
    ours, theirs = socket.socketpair()
    link = Link(ours)
    with theirs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            theirs.sendall(GREETING)
            with anyio.fail_after(20):
                await link.wait_for_hello()
                yield link, theirs
            link.hang_up()


async def test_a_link_whose_guest_disconnected_waits_for_the_reason_without_spinning() -> None:
    async def slow() -> DeskGone:
        await anyio.sleep(0.3)
        return DeskGone("burnt for a reason")

    async with linked() as (link, guest):
        link.explain_end = slow
        channel = await link.open({})
        before = time.thread_time()
        guest.shutdown(socket.SHUT_WR)
        with pytest.raises(DeskGone, match="for a reason"):
            await channel.receive()
        assert time.thread_time() - before < 0.15


async def test_repeated_requests_to_a_dead_desk_leak_nothing() -> None:
    async with linked() as (link, guest):
        guest.close()
        with pytest.raises(DeskGone):
            await (await link.open({})).receive()
        await anyio.sleep(0.02)
        depths = []
        for _ in range(50):
            try:
                await (await link.open({})).receive()
            except DeskGone as e:
                depths.append(len(traceback.extract_tb(e.__traceback__)))
        assert len(depths) == 50
        assert max(depths) < 20


async def test_a_burst_of_small_frames_is_taken_in_slices_and_in_order() -> None:
    async with linked() as (link, guest):
        channel = await link.open({})
        numbers = range(2500)
        burst = b"".join(encode_frame(EVENT, 1, encode(number)) for number in numbers) + encode_frame(
            REPLY, 1, encode({})
        )
        guest.sendall(burst)
        items = [await channel.receive() for _ in numbers]
        assert [item.value for item in items if isinstance(item, GuestEvent)] == list(numbers)
        assert isinstance(await channel.receive(), GuestReply)


async def test_credit_beyond_the_used_amount_is_refused() -> None:
    async with linked() as (link, guest):
        channel = await link.open({})
        await channel.send(bytes(1000))
        guest.sendall(encode_frame(CREDIT, 1, (1000).to_bytes(4, "big")))
        await anyio.sleep(0.02)
        assert channel.credit == WINDOW
        guest.sendall(encode_frame(CREDIT, 1, (1).to_bytes(4, "big")))
        with pytest.raises(LinkError, match="more flow-control credit than allowed"):
            await channel.receive()


# -- root's guest, which tells of acts -------------------------------------------------------------------------------


async def supervised(*said: bytes, full: bool = False, room: int = MAX_NOTED_BYTES) -> tuple[list[Event], list[bytes]]:
    """Process what a guest of root reports about acts; return what was recorded, and the answers."""
    noted: list[Event] = []

    def note(event: Event) -> None:
        if full:
            raise HostError("no space left")
        noted.append(event)

    async with linked() as (link, guest):
        guest.settimeout(10)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(supervise, link, RootLedger("desk", note, room))
            await anyio.sleep(0.02)
            reader = wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT)
            orders: list[bytes] = []
            for data in said:
                await anyio.to_thread.run_sync(guest.sendall, data)
                await anyio.sleep(0.02)
                heard = reader.feed(guest.recv(1 << 20)) if readable(guest) else []
                orders += [payload for kind, _, payload in heard if kind == SIGNAL]
            link.hang_up()
    return noted, orders


def readable(sock: socket.socket) -> bool:
    return bool(select.select([sock], [], [], 0)[0])


def act(**words: object) -> bytes:
    return encode_frame(EVENT, 1, encode(words))


STRANGE_ACTS: dict[str, bytes] = {
    "a number of twenty digits": encode_frame(EVENT, 1, b"ds3:acti99999999999999999999;s4:argvles3:cwds0:e"),
    "a code of twenty digits": encode_frame(EVENT, 1, b"ds3:acti1;s4:codei-99999999999999999999;e"),
    "a command that is text": act(act=1, argv="sh", cwd=""),
    "words of all kinds": act(act=1, argv=[None, 1, b"x", ["y"], {}], cwd="\udc80\ud7ff"),
    "nothing": encode_frame(EVENT, 1, b"n"),
    "a yes for a number": act(act=True, argv=[], cwd=""),
    "bytes": encode_frame(DATA, 1, b"\1x"),
    "a last word": encode_frame(REPLY, 1, encode({"error": "other"})),
}


@pytest.mark.parametrize("name", STRANGE_ACTS)
async def test_a_malformed_act_harms_no_owner(name: str) -> None:
    await supervised(STRANGE_ACTS[name])


async def test_an_act_is_recorded_before_it_is_allowed() -> None:
    noted, orders = await supervised(act(act=1, argv=["id"], cwd="/"))
    assert noted == [RootAct("desk", "sudo", ("id",), "/", 1)]
    assert orders == [encode({"act": 1, "allow": True})]


async def test_an_act_that_cannot_be_recorded_is_not_allowed() -> None:
    noted, orders = await supervised(act(act=1, argv=["id"], cwd="/"), full=True)
    assert noted == []
    assert orders in ([], [encode({"act": 1, "allow": False})])


@pytest.mark.slow
async def test_a_desk_cannot_fill_its_owners_journal() -> None:
    noted, orders = await supervised(*(act(act=number, argv=["id"], cwd="/") for number in range(1, 21)), room=1000)
    assert 0 < len(noted) < 20
    assert orders[0] == encode({"act": 1, "allow": True})
    assert orders[-1] == encode({"act": 20, "allow": False})


async def test_the_end_of_an_act_that_never_began_is_not_recorded() -> None:
    noted, orders = await supervised(act(act=1, code=0))
    assert (noted, orders) == ([], [])


# -- frames and values ---------------------------------------------------------------------------------------------

PARTS_OF_VALUES = [
    b"l",
    b"e",
    b"d",
    b"n",
    b"t",
    b"i1;",
    b"i-7;",
    b"s0:",
    b"s1:a",
    b"b3:abc",
    b"s2:\xff\xfe",
    b"s9",
    b":",
    b"x",
]


@pytest.mark.slow
@given(st.lists(st.sampled_from(PARTS_OF_VALUES), max_size=60).map(b"".join), st.integers(0, 40))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_a_value_has_no_more_parts_than_allowed(data: bytes, most: int) -> None:
    try:
        value = wire.decode(data, most)
    except wire.WireError:
        return
    assert parts(value) <= most
    assert wire.decode(encode(value)) == value


def parts(value: object) -> int:
    if isinstance(value, list):
        return 1 + sum(map(parts, value))
    if isinstance(value, dict):
        return 1 + len(value) + sum(map(parts, value.values()))
    return 1


@pytest.mark.parametrize("part", [b"le", b"n", b"i1;", b"s0:", b"de", b"b0:", b"lllleeee", b"ds0:ne"])
def test_a_value_too_large_to_read_quickly_is_refused_quickly(part: bytes) -> None:
    data = b"l" + part * ((wire.GUEST_LIMIT - 2) // len(part)) + b"e"
    begun = time.thread_time()
    with pytest.raises(wire.WireError, match="too many parts"):
        wire.decode(data, wire.MAX_PARTS)
    assert time.thread_time() - begun < 0.1


def test_what_an_honest_guest_lists_at_once_has_few_parts() -> None:
    entry = {"name": "a", "path": "/a", "kind": "file", "size": 0, "mode": 0, "uid": 0, "gid": 0, "modified": 0}
    entry["target"] = None
    batch = [entry] * (8192 // len(encode(entry)) + 1)
    assert wire.decode(encode(batch), wire.MAX_PARTS) == batch


@pytest.mark.slow
@given(st.binary(max_size=400), st.lists(st.integers(1, 60), max_size=20))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_bytes_mean_the_same_in_any_pieces(data: bytes, sizes: list[int]) -> None:
    assert frames(data, [len(data)]) == frames(data, sizes)


def frames(data: bytes, sizes: list[int]) -> tuple[list[tuple[int, int, bytes]], bool]:
    """Read bytes in pieces of these sizes, then the rest; return whether they broke a rule."""
    reader = wire.FrameReader(wire.GUEST_KINDS | {0}, 100)
    found: list[tuple[int, int, bytes]] = []
    at = 0
    for size in (*sizes, len(data)):
        reader.buffer += data[at : at + size]
        at += size
        try:
            while (said := reader.read_next()) is not None:
                found.append(said)
        except wire.WireError:
            return found, True
    assert len(reader.buffer) < wire.HEADER + 100
    return found, False
