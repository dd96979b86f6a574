"""Tests of an owner's control over root acts in a desk: nothing is allowed that is not recorded."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from hotdesk.desk.link.channel import Body
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner import root
from hotdesk.desk.owner.root import RootLedger, note_programs, supervise
from hotdesk.errors import HostError
from hotdesk.event import Event, RootAct, RootActEnded, to_json
from hotdesk_guest import wire

pytestmark = pytest.mark.timeout(30)


class Guest:
    """A scripted guest of root: sends what the test says, and records the decisions."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.reader = wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT)
        self.orders: list[object] = []
        sock.sendall(wire.encode_frame(wire.HELLO, 0, wire.encode({"version": wire.VERSION, "home": "/root"})))

    def tell(self, value: object) -> None:
        self.sock.sendall(wire.encode_frame(wire.EVENT, 1, wire.encode(value)))

    async def hear(self, count: int) -> list[object]:
        """Wait until a number of decisions have arrived."""
        with anyio.fail_after(30):
            while len(self.orders) < count:
                await anyio.wait_readable(self.sock)
                for kind, _, payload in self.reader.feed(self.sock.recv(65536)):
                    if kind == wire.SIGNAL:
                        self.orders.append(wire.decode(payload))
        return self.orders


@asynccontextmanager
async def supervised(ledger: RootLedger) -> AsyncIterator[tuple[Guest, Link]]:
    ours, theirs = socket.socketpair()
    link = Link(ours)
    with theirs:
        guest = Guest(theirs)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            await link.wait_for_hello()
            note_programs(link, ledger)
            tasks.start_soon(supervise, link, ledger)
            yield guest, link
            link.hang_up()


def act(number: int, *argv: str) -> dict[str, object]:
    return {"act": number, "argv": list(argv), "cwd": "/"}


async def test_an_act_is_recorded_then_allowed() -> None:
    events: list[Event] = []
    async with supervised(RootLedger("i1", events.append)) as (guest, _):
        guest.tell(act(1, "x"))
        assert await guest.hear(1) == [{"act": 1, "allow": True}]
        guest.tell({"act": 1, "code": 3})
        guest.tell(act(2, "y"))
        await guest.hear(2)
    assert events == [
        RootAct("i1", "sudo", ("x",), "/", 1),
        RootActEnded("i1", 1, 3),
        RootAct("i1", "sudo", ("y",), "/", 2),
    ]


async def test_an_act_that_cannot_be_recorded_is_not_allowed() -> None:
    def full(event: Event) -> None:
        raise HostError("no room")

    async with supervised(RootLedger("i1", full)) as (guest, link):
        guest.tell(act(1, "x"))
        assert await guest.hear(1) == [{"act": 1, "allow": False}]
        with pytest.raises(HostError):
            await link.open({"op": "exec", "argv": ["x"]})
        assert link.failure is None


async def test_other_requests_are_answered_while_an_act_is_recorded() -> None:
    goes_on = threading.Event()

    def slow(event: Event) -> None:
        if not goes_on.wait(10):
            raise HostError("nobody else had a turn")

    async with supervised(RootLedger("i1", slow)) as (guest, link), anyio.create_task_group() as tasks:
        guest.tell(act(1, "x"))
        ask: Body = {"op": "exec", "argv": ["x"]}
        tasks.start_soon(link.open, ask)
        await anyio.sleep(0.05)
        goes_on.set()
        assert await guest.hear(1) == [{"act": 1, "allow": True}]


async def test_a_desk_that_used_up_its_share_stays_refused() -> None:
    events: list[Event] = []
    ledger = RootLedger("i1", events.append)
    ledger.room = 500
    for _ in range(2):
        async with supervised(ledger) as (guest, _):
            for number in range(1, 11):
                guest.tell(act(number, "x"))
            await guest.hear(10)
    assert 0 < len(events) < 10
    assert sum(len(to_json(event)) for event in events) <= 500


@pytest.mark.parametrize(
    "value",
    [
        {"act": 0, "argv": [], "cwd": "/"},
        {"act": -5, "argv": [], "cwd": "/"},
        {"act": root.MAX_ACTS, "argv": [], "cwd": "/"},
        {"act": 10**18, "argv": [], "cwd": "/"},
        {"act": "1", "argv": [], "cwd": "/"},
        {"act": 1, "argv": "x", "cwd": "/"},
        {"act": 1, "argv": []},
        {"act": 9, "code": 0},
        {"act": 9},
        [],
        None,
        5,
    ],
)
async def test_a_guest_that_sends_malformed_frames_loses_its_link(value: object) -> None:
    events: list[Event] = []
    async with supervised(RootLedger("i1", events.append)) as (guest, link):
        guest.tell(value)
        with anyio.fail_after(30):
            await link.ended.wait()
        assert "malformed" in str(link.failure)
    assert events == []


async def test_an_end_is_noted_once_and_only_of_what_began() -> None:
    events: list[Event] = []
    async with supervised(RootLedger("i1", events.append)) as (guest, link):
        guest.tell(act(1, "x"))
        await guest.hear(1)
        guest.tell({"act": 1, "code": 0})
        guest.tell({"act": 1, "code": 0})
        with anyio.fail_after(30):
            await link.ended.wait()
    assert events[1:] == [RootActEnded("i1", 1, 0)]


async def test_only_programs_of_the_owner_are_recorded() -> None:
    events: list[Event] = []
    async with supervised(RootLedger("i1", events.append)) as (_, link):
        await link.open({"op": "exec", "argv": ["a", "b"], "cwd": "/x"})
        await link.open({"op": "list", "path": "/"})
        await link.open({"op": "exec", "argv": [1, None, ["x"]]})
    assert events == [RootAct("i1", "owner", ("a", "b"), "/x"), RootAct("i1", "owner", ("1", "None", "['x']"), "")]
