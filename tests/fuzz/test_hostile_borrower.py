"""Tests of borrowers that send lies to the owner whose desk they use: they lose access, and the owner loses nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random

import anyio
import pytest

from hotdesk.config import MIB
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.lend import relay
from hotdesk.desk.link.link import Link
from hotdesk.desk.seam import new_id
from hotdesk.errors import HotdeskError
from hotdesk.linux.sockets import receive, send
from hotdesk_guest import wire
from hotdesk_guest.wire import CREDIT, DATA, DROP, END, OPEN, PING, SIGNAL, WINDOW, encode, encode_frame
from tests.fuzz.conftest import Seeds
from tests.fuzz.hostile import (
    STRANGE,
    Corpus,
    HostileGuest,
    RealLoop,
    memory_within,
    render,
    run,
    spoil_bytes,
)

pytestmark = pytest.mark.timeout(60)

SHORT = 100
RUN = encode({"op": "exec", "argv": ["x"]})


@asynccontextmanager
async def lent(corpus: Corpus, chance: Random, malice: float) -> AsyncIterator[tuple[Link, socket.socket]]:
    ours, theirs = socket.socketpair()
    lender, borrower = socket.socketpair()
    link = Link(ours)
    for end in (lender, borrower):
        end.setblocking(False)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        tasks.start_soon(HostileGuest(theirs, corpus, chance, malice).run)
        with suppress(HotdeskError):
            await link.wait_for_hello()
        tasks.start_soon(serve, lender, link)
        with borrower:
            yield link, borrower
        link.hang_up()


async def serve(sock: socket.socket, link: Link) -> None:
    with sock:
        if link.hello is not None:
            await relay(sock, link)
        anyio.notify_closing(sock)


async def hear(sock: socket.socket, reader: wire.FrameReader) -> list[tuple[int, int, bytes]]:
    """Return the next frames that the owner passes on; empty if it closed the connection."""
    while True:
        try:
            data = await receive(sock)
        except OSError:
            return []
        frames = reader.feed(data)
        if frames or not data:
            return frames


async def taken_back(sock: socket.socket) -> bool:
    with anyio.move_on_after(5):
        while await hear(sock, wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT)):
            pass
        return True
    return False


# -- lies --------------------------------------------------------------------------------------------------------

LIES: dict[str, bytes] = {
    "a channel opened twice": encode_frame(OPEN, 1, encode({"op": "none"})) * 2,
    "credit nobody used": encode_frame(OPEN, 1, encode({"op": "none"})) + encode_frame(CREDIT, 1, b"\0\0\0\1"),
    "credit of eight bytes": encode_frame(OPEN, 1, encode({"op": "none"}))
    + encode_frame(CREDIT, 1, b"\0\0\0\0\xff\xff\xff\xff"),
    "credit of none": encode_frame(OPEN, 1, encode({"op": "none"})) + encode_frame(CREDIT, 1, b""),
    "more than the guest has room for": encode_frame(OPEN, 1, encode({"op": "none"}))
    + encode_frame(DATA, 1, b"\0" + bytes(WINDOW + 1)),
    "a guest's kind": encode_frame(wire.REPLY, 1, encode({})),
    "a frame over the limit": (wire.HOST_LIMIT + 1).to_bytes(4, "big") + bytes([OPEN, 0, 0, 0, 1]),
    "noise": bytes(range(255, -1, -1)) * 40,
    "more channels than there are": b"".join(encode_frame(OPEN, n, encode({"op": "none"})) for n in range(1, 6000)),
}


@pytest.mark.parametrize("name", LIES)
def test_a_borrower_that_lies_loses_access_and_the_owner_loses_nothing(corpus: Corpus, name: str) -> None:
    async def play() -> None:
        async with lent(corpus, Random(0), 0.0) as (link, borrower):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(say, borrower, LIES[name])
                assert await taken_back(borrower)
                tasks.cancel_scope.cancel()
            assert (await LinkedDesk(new_id(), link, "/").stat("x")).name == "file"
            await anyio.sleep(0.01)
            assert link.channels == {}

    run(play, loop=RealLoop)


async def say(sock: socket.socket, data: bytes) -> None:
    try:
        await send(sock, data)
    except OSError:
        pass


def test_an_ended_call_is_freed_although_its_borrower_stays(corpus: Corpus) -> None:
    async def play() -> None:
        async with lent(corpus, Random(0), 0.0) as (link, borrower):
            reader = wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT)
            for number in range(1, 50):
                await send(borrower, encode_frame(OPEN, number, RUN))
                while not any(kind == wire.REPLY for kind, _, _ in await hear(borrower, reader)):
                    pass
            assert link.channels == {}

    run(play)


def test_data_for_a_borrower_that_reads_nothing_is_not_buffered(corpus: Corpus) -> None:
    """The borrower opens many channels to a guest that answers each with much data, and never reads."""
    ending = (wire.REPLY, 1, encode({"code": 0, "text": "x" * 60_000}))
    loud = {"exec": [*[(DATA, 1, b"\1" + bytes(60_000))] * 4, ending]}

    async def play() -> None:
        async with lent({**corpus, **loud}, Random(0), 0.0) as (link, borrower):
            try:
                with anyio.move_on_after(10):
                    for number in range(1, 4000):
                        await send(borrower, encode_frame(OPEN, number, RUN))
            except OSError:
                pass  # the owner closed its connection
            assert (await LinkedDesk(new_id(), link, "/").stat("x")).name == "file"

    with memory_within(160 * MIB):
        run(play, loop=RealLoop)


def test_a_borrower_that_floods_leaves_others_their_turn(corpus: Corpus) -> None:
    async def play() -> None:
        async with lent(corpus, Random(0), 0.0) as (link, borrower), anyio.create_task_group() as tasks:
            await send(borrower, encode_frame(OPEN, 1, encode({"op": "none"})))
            tasks.start_soon(say, borrower, encode_frame(SIGNAL, 1) * 100_000)
            answers = 0
            end = time.monotonic() + 0.4
            while time.monotonic() < end:
                await LinkedDesk(new_id(), link, "/").stat("x")
                answers += 1
            tasks.cancel_scope.cancel()
            assert answers > 2

    assert run(play, loop=RealLoop).longest < 0.05


# -- the fuzzer --------------------------------------------------------------------------------------------------


def sentence(chance: Random) -> bytes:
    asks = ["exec", "read", "list", "stat", "write", "attach", "none"]
    number = chance.choice((0, 1, 2, 3, 3, 4, 0xFFFFFFFF))
    ask = {"op": chance.choice(asks), "path": "x", "argv": ["x"], "pid": 7, "tell": chance.random() < 0.5}
    frames = [
        encode_frame(OPEN, number, encode(ask)),
        encode_frame(OPEN, number, render({**ask, chance.choice(sorted(ask)): chance.choice(STRANGE)})),
        encode_frame(DATA, number, b"\0" + bytes(chance.choice((0, 1, 1000, 40_000)))),
        encode_frame(CREDIT, number, chance.choice((0, 1, 64, 70_000, 1 << 31)).to_bytes(4, "big")),
        encode_frame(CREDIT, number, chance.randbytes(chance.randrange(9))),
        encode_frame(END, number),
        encode_frame(SIGNAL, number, encode({"signal": 9, "tree": True})),
        encode_frame(DROP, number),
        encode_frame(PING, number, b"x" * chance.randrange(100)),
    ]
    said = b"".join(chance.choices(frames, weights=(6, 1, 4, 3, 0.2, 2, 2, 3, 1), k=chance.randint(1, 8)))
    return spoil_bytes(chance, said) if chance.random() < 0.1 else said


async def case(corpus: Corpus, seed: int) -> None:
    """Run one borrower; the owner's own calls must then work as well as its guest allows."""
    chance = Random(seed)
    malice = chance.choice((0.0, 0.0, 0.0, 0.05, 0.3))
    with anyio.fail_after(4000):
        async with lent(corpus, chance, malice) as (link, borrower):
            with anyio.move_on_after(100):
                for _ in range(chance.randint(1, 10)):
                    await say(borrower, sentence(chance))
                    if chance.random() < 0.5:
                        with anyio.move_on_after(1), suppress(OSError):
                            await receive(borrower)
            if chance.random() < 0.5:
                borrower.close()
            desk = LinkedDesk(new_id(), link, "/")
            try:
                await desk.run(["x"], timeout=5)
            except HotdeskError as e:
                assert malice, e  # noqa: PT017 - with an honest guest nothing a borrower says is felt
            borrower.close()
            await anyio.sleep(70)
            assert link.channels == {}


def play(corpus: Corpus, seed: int) -> None:
    """Run the case of one seed; a failure names the seed."""
    try:
        run(case, corpus, seed)
    except BaseException as e:
        raise AssertionError(f"HOTDESK_FUZZ_SEED={seed}") from e


def test_no_borrower_harms_an_owner(corpus: Corpus) -> None:
    with memory_within(64 * MIB):
        for seed in range(SHORT):
            play(corpus, seed)


@pytest.mark.long
def test_no_borrower_harms_an_owner_for_long(corpus: Corpus, seeds: Seeds) -> None:
    with memory_within(128 * MIB):
        for seed in seeds():
            play(corpus, seed)
