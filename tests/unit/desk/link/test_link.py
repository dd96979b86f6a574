"""Tests of a link against a misbehaving peer: callers soon get LinkError or DeskGone, and nothing else."""

from __future__ import annotations

import socket
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from hotdesk.config import MIB
from hotdesk.desk.link.channel import MAX_CREDIT, Channel, GuestReply
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.seam import new_id
from hotdesk.errors import DeskError, DeskGone, FileError, LinkError
from hotdesk_guest import wire
from hotdesk_guest.wire import CREDIT, DATA, EVENT, HELLO, OPEN, REPLY, encode, encode_frame

pytestmark = pytest.mark.timeout(30)

GREETING = encode_frame(HELLO, 0, encode({"version": wire.VERSION, "pid": 1, "home": "/home/user"}))
PID = encode({"pid": 7})
DONE = encode({"code": 0, "signal": None, "timed_out": False, "text": ""})


class Peer:
    """A guest that may break every rule."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.reader = wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT)

    async def say(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self.sock.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(self.sock)
            except OSError:
                return

    async def hear(self) -> list[tuple[int, int, bytes]]:
        """Wait for frames; an empty list means that the host disconnected."""
        while True:
            try:
                data = self.sock.recv(1 << 16)
            except BlockingIOError:
                await anyio.wait_readable(self.sock)
                continue
            except OSError:
                return []
            if frames := self.reader.feed(data):
                return frames
            if not data:
                return []

    async def opened(self) -> int:
        """Wait until the host opens a channel; return its number."""
        while True:
            for kind, number, _ in await self.hear():
                if kind == OPEN:
                    return number


@asynccontextmanager
async def linked(greeting: bytes = GREETING) -> AsyncIterator[tuple[Link, Peer]]:
    ours, theirs = socket.socketpair()
    with theirs:
        peer, link = Peer(theirs), Link(ours)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            await peer.say(greeting)
            with anyio.fail_after(10):
                yield link, peer
            link.hang_up()


async def ending(channel: Channel) -> DeskError:
    while True:
        try:
            await channel.receive()
        except (LinkError, DeskGone) as e:
            return e


# -- an honest peer -----------------------------------------------------------------------------------------------


async def test_an_honest_exchange_works() -> None:
    async with linked() as (link, peer):
        assert (await link.wait_for_hello())["home"] == "/home/user"
        channel = await link.open({"op": "x"})
        assert await peer.hear() == [(OPEN, 1, encode({"op": "x"}))]
        await peer.say(encode_frame(EVENT, 1, PID) + encode_frame(DATA, 1, b"\1out") + encode_frame(REPLY, 1, DONE))
        items = [await channel.receive() for _ in range(3)]
        assert isinstance(items[2], GuestReply)


async def test_a_reader_that_keeps_up_returns_credit() -> None:
    async with linked() as (link, peer):
        channel = await link.open({})
        for _ in range(100):
            await peer.say(encode_frame(DATA, 1, b"\1" + bytes(30_000)))
            await channel.receive()
        credit = 0
        while credit < 100 * 30_000 - wire.WINDOW:
            credit += sum(int.from_bytes(payload, "big") for kind, _, payload in await peer.hear() if kind == CREDIT)


@pytest.mark.slow
async def test_a_host_sends_no_more_than_it_was_allowed() -> None:
    async with linked() as (link, peer), anyio.create_task_group() as tasks:
        channel = await link.open({})
        tasks.start_soon(channel.send, bytes(MIB))
        got = 0
        with anyio.move_on_after(0.5):
            while True:
                got += sum(len(payload) - 1 for kind, _, payload in await peer.hear() if kind == DATA)
        assert got == wire.WINDOW
        await peer.say(encode_frame(CREDIT, 1, (1000).to_bytes(4, "big")))
        assert sum(len(payload) - 1 for kind, _, payload in await peer.hear() if kind == DATA) == 1000
        tasks.cancel_scope.cancel()


# -- a peer that breaks the rules ---------------------------------------------------------------------------------

HOSTILE: dict[str, bytes] = {
    "a frame over the limit": (wire.GUEST_LIMIT + 1).to_bytes(4, "big") + bytes([DATA, 0, 0, 0, 1]),
    "the largest length there is": b"\xff\xff\xff\xff" + bytes([DATA, 0, 0, 0, 1]),
    "an unknown kind": encode_frame(99, 1),
    "kind zero": encode_frame(0, 1),
    "a host's kind": encode_frame(OPEN, 1, encode({})),
    "a channel nobody opened": encode_frame(DATA, 5, b"\1x"),
    "channel zero": encode_frame(DATA, 0, b"\1x"),
    "the highest channel": encode_frame(REPLY, 0xFFFFFFFF, encode({})),
    "more than its window": encode_frame(DATA, 1, b"\1" + bytes(60_000)) * 6,
    "many tiny frames": encode_frame(EVENT, 1, b"n") * 5000,
    "many frames of one byte": encode_frame(DATA, 1, b"\1x") * 5000,
    "an empty DATA": encode_frame(DATA, 1, b""),
    "a DATA without bytes": encode_frame(DATA, 1, b"\1"),
    "an EVENT that is no value": encode_frame(EVENT, 1, b"?"),
    "an EVENT too deep": encode_frame(EVENT, 1, b"l" * 60_000),
    "an EVENT with a huge number": encode_frame(EVENT, 1, b"i" + b"9" * 60_000 + b";"),
    "credit that overflows": encode_frame(CREDIT, 1, b"\xff\xff\xff\xff") * 2,
    "credit beyond what there is": encode_frame(CREDIT, 1, MAX_CREDIT.to_bytes(4, "big")),
    "a reply that is a list": encode_frame(REPLY, 1, b"le"),
    "a reply that is nothing": encode_frame(REPLY, 1, b"n"),
    "a reply that is garbage": encode_frame(REPLY, 1, b"\xff"),
    "an empty reply": encode_frame(REPLY, 1, b""),
    "a second greeting": GREETING,
    "noise": bytes(range(256)) * 50,
}


@pytest.mark.parametrize("bytes_", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_broken_rule_ends_the_link(bytes_: bytes) -> None:
    async with linked() as (link, peer):
        channel, bystander = await link.open({"op": "x"}), await link.open({"op": "y"})
        await peer.say(bytes_)
        for _ in range(300):  # the link's reader runs ahead of the consumer
            if link.failure is not None:
                break
            await anyio.sleep(0.01)
        assert isinstance(await ending(channel), LinkError)
        assert isinstance(await ending(bystander), LinkError)
        with pytest.raises(LinkError):
            await link.open({})
        with pytest.raises(LinkError):
            await channel.send(bytes(MIB))


@pytest.mark.parametrize(
    "last", [b"", encode_frame(DATA, 1, b"\1abc")[:-1], b"\0\0"], ids=["nothing", "half a frame", "half a header"]
)
async def test_a_peer_that_disconnects_is_gone(last: bytes) -> None:
    async with linked() as (link, peer):
        channel = await link.open({})
        await peer.say(last)
        peer.sock.close()
        assert isinstance(await ending(channel), DeskGone)
        with pytest.raises(DeskGone):
            await channel.send(bytes(MIB))


async def test_data_that_arrived_before_the_end_is_still_read() -> None:
    async with linked() as (link, peer):
        channel = await link.open({})
        await peer.say(encode_frame(DATA, 1, b"\1last words"))
        peer.sock.close()
        await anyio.sleep(0.05)
        assert await channel.receive()
        with pytest.raises(DeskGone):
            await channel.receive()


@pytest.mark.parametrize(
    "greeting",
    [
        encode_frame(HELLO, 0, b"garbage"),
        encode_frame(HELLO, 0, b""),
        encode_frame(HELLO, 0, encode([1, 2])),
        encode_frame(HELLO, 0, encode({})),
        encode_frame(HELLO, 0, encode({"version": wire.VERSION + 1})),
        encode_frame(HELLO, 0, encode({"version": "1"})),
        encode_frame(DATA, 0, b"\1x"),
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
    ],
    ids=lambda data: repr(data[9:25]),
)
async def test_a_wrong_greeting_is_refused(greeting: bytes) -> None:
    async with linked(greeting) as (link, _):
        with pytest.raises(LinkError):
            await link.wait_for_hello()


async def test_a_peer_that_disconnects_before_greeting_is_gone() -> None:
    async with linked(b"") as (link, peer):
        peer.sock.close()
        with pytest.raises(DeskGone):
            await link.wait_for_hello()


@pytest.mark.long
@pytest.mark.timeout(20)
async def test_a_peer_that_never_greets_is_given_up() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        link = Link(ours)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            with anyio.fail_after(15), pytest.raises(LinkError, match="in time"):
                await link.wait_for_hello()
            link.hang_up()


async def test_frames_on_a_dropped_channel_are_ignored() -> None:
    async with linked() as (link, peer):
        channel, other = await link.open({}), await link.open({})
        await channel.drop()
        await channel.drop()
        await peer.say(
            encode_frame(DATA, 1, b"\1late") * 10_000 + encode_frame(REPLY, 1, DONE) + encode_frame(REPLY, 2, DONE)
        )
        assert isinstance(await other.receive(), GuestReply)
        assert list(link.channels) == [2]


async def test_frames_after_the_final_frame_are_ignored() -> None:
    async with linked() as (link, peer):
        channel, other = await link.open({}), await link.open({})
        await peer.say(encode_frame(REPLY, 1, DONE) * 3 + encode_frame(DATA, 1, b"\1x") + encode_frame(REPLY, 2, DONE))
        assert isinstance(await other.receive(), GuestReply)
        assert isinstance(await channel.receive(), GuestReply)
        assert not channel.items


async def test_a_flood_takes_little_memory() -> None:
    async with linked() as (link, peer):
        channel = await link.open({})
        tracemalloc.start()
        try:
            for _ in range(200):
                await peer.say(
                    encode_frame(EVENT, 1, b"l" + b"le" * 30_000 + b"e") + encode_frame(CREDIT, 1, bytes(4)) * 1000
                )
            assert isinstance(await ending(channel), LinkError)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 40 * MIB


@pytest.mark.slow
async def test_a_cancelled_writer_is_not_blocked_by_a_peer_that_stopped_reading() -> None:
    async with linked() as (link, _), anyio.create_task_group() as tasks:
        over = anyio.Event()

        async def write() -> None:
            try:
                with anyio.move_on_after(0.2):
                    await link.open({"op": "x", "filler": bytes(4 * MIB)})
            except DeskError:
                pass  # giving the link up is acceptable too
            over.set()

        tasks.start_soon(write)
        with anyio.move_on_after(4) as patience:
            await over.wait()
        link.hang_up()  # frees a writer that cannot be cancelled
        assert not patience.cancelled_caught


async def test_a_disconnect_releases_waiting_writers() -> None:
    async with linked() as (link, _), anyio.create_task_group() as tasks:
        freed: list[Exception] = []

        async def write() -> None:
            try:
                await link.open({"op": "x", "filler": bytes(4 * MIB)})
            except DeskGone as e:
                freed.append(e)

        tasks.start_soon(write)
        await anyio.sleep(0.1)
        link.hang_up()
    assert len(freed) == 1


async def test_a_request_that_is_too_large_leaves_no_channel_behind() -> None:
    async with linked() as (link, _):
        with pytest.raises(Exception, match="too large for a desk"):
            await link.open({"filler": bytes(wire.HOST_LIMIT)})
        assert link.channels == {}


# -- a desk whose guest lies --------------------------------------------------------------------------------------

Call = Callable[[LinkedDesk], Awaitable[object]]
ENTRY = {"name": "n", "path": "/n", "kind": "file", "size": 1, "mode": 1, "uid": 1, "gid": 1, "modified": 1}


async def answered(call: Call, answer: bytes) -> object:
    async with linked() as (link, peer):
        desk = LinkedDesk(new_id(), link, "/home/user")
        outcome: list[object] = []
        over = anyio.Event()

        async def ask() -> None:
            try:
                outcome.append(await call(desk))
            except Exception as e:  # noqa: BLE001 - its type is what the test looks at
                outcome.append(e)
            over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await peer.opened()
            await peer.say(answer)
            with anyio.move_on_after(3):
                await over.wait()
            tasks.cancel_scope.cancel()
        assert outcome, "the caller still waits"
        return outcome[0]


STRANGE_EXITS = [
    {},
    {"code": "0", "signal": None, "text": ""},
    {"code": True, "signal": None, "text": ""},
    {"code": -1, "signal": None, "text": ""},
    {"code": 256, "signal": None, "text": ""},
    {"code": 0, "signal": 0, "text": ""},
    {"code": 0, "signal": 128, "text": ""},
    {"code": 0, "signal": "KILL", "text": ""},
    {"code": 0, "signal": None, "text": 5},
]


@pytest.mark.parametrize("body", STRANGE_EXITS, ids=str)
async def test_a_malformed_exit_is_a_link_error(body: dict[str, object]) -> None:
    assert isinstance(await answered(lambda desk: desk.run(["x"]), encode_frame(REPLY, 1, encode(body))), LinkError)
    told = encode_frame(EVENT, 1, PID) + encode_frame(REPLY, 1, encode(body))
    assert isinstance(await answered(lambda desk: desk.run(["x"]), told), LinkError)


@pytest.mark.parametrize(
    "answer",
    [
        encode_frame(DATA, 1, b"\1early"),
        encode_frame(EVENT, 1, b"n"),
        encode_frame(EVENT, 1, encode({"pid": "7"})),
        encode_frame(EVENT, 1, encode({"pid": True})),
        encode_frame(EVENT, 1, PID) + encode_frame(DATA, 1, b"\x09unknown stream"),
        encode_frame(EVENT, 1, PID) + encode_frame(DATA, 1, b"\0stdin"),
        encode_frame(EVENT, 1, PID) * 2,
    ],
    ids=lambda data: repr(data[9:30]),
)
async def test_a_malformed_start_of_a_program_is_a_link_error(answer: bytes) -> None:
    async def started(desk: LinkedDesk) -> None:
        await (await desk.start(["x"])).wait()

    assert isinstance(await answered(started, answer), LinkError)


STRANGE_ENTRIES: list[object] = [
    None,
    [],
    {},
    {**ENTRY, "name": b"n"},
    {**ENTRY, "path": None},
    {**ENTRY, "size": "1"},
    {**ENTRY, "size": True},
    {**ENTRY, "mode": None},
    {**ENTRY, "target": 5},
    {**ENTRY, "kind": ["file"]},
    {**ENTRY, "kind": {"a": "b"}},
]


@pytest.mark.parametrize("entry", STRANGE_ENTRIES, ids=str)
async def test_a_malformed_description_is_a_link_error(entry: object) -> None:
    stat = await answered(lambda desk: desk.stat("n"), encode_frame(REPLY, 1, encode({"entry": entry})))
    listed = await answered(
        lambda desk: desk.list("n"), encode_frame(EVENT, 1, encode([entry])) + encode_frame(REPLY, 1, encode({}))
    )
    for outcome in (stat, listed):
        if isinstance(entry, dict) and not isinstance(entry.get("kind", ""), str):
            assert not isinstance(outcome, Exception) or isinstance(outcome, LinkError)  # `other` is acceptable too
        else:
            assert isinstance(outcome, LinkError)


async def test_an_honest_description_is_taken() -> None:
    outcome = await answered(lambda desk: desk.stat("n"), encode_frame(REPLY, 1, encode({"entry": ENTRY})))
    assert not isinstance(outcome, Exception)


@pytest.mark.parametrize(
    "told", [None, 5, {"pid": 1}, [5], [{}], [{"pid": "1", "argv": []}], [{"pid": 1, "argv": [5]}]], ids=str
)
async def test_a_malformed_list_of_programs_is_a_link_error(told: object) -> None:
    answer = encode_frame(EVENT, 1, encode(told)) + encode_frame(REPLY, 1, encode({}))
    assert isinstance(await answered(lambda desk: desk.processes(), answer), LinkError)


async def test_an_endless_list_is_cut() -> None:
    batch = encode_frame(EVENT, 1, encode([{"pid": 1, "argv": []}] * 500))
    outcome = await answered(lambda desk: desk.processes(), batch * 30)
    assert isinstance(outcome, (LinkError, FileError))


@pytest.mark.parametrize("reason", ["missing", "no-such-reason", 5, None, ["missing"], "__class__"], ids=str)
async def test_an_error_is_only_ever_one_of_ours(reason: object) -> None:
    body = {"error": reason, "text": "x" * 10_000}
    calls: list[Call] = [
        lambda desk: desk.read("x"),
        lambda desk: desk.write("x", b"data"),
        lambda desk: desk.mkdir("x"),
        lambda desk: desk.attach(7),
    ]
    for call in calls:
        outcome = await answered(call, encode_frame(REPLY, 1, encode(body)))
        assert isinstance(outcome, FileError)
        assert outcome.reason == ("missing" if reason == "missing" else "other")
        assert len(str(outcome)) < 700


async def test_events_in_a_file_are_a_link_error() -> None:
    assert isinstance(await answered(lambda desk: desk.read("x"), encode_frame(EVENT, 1, b"n")), LinkError)
    assert isinstance(await answered(lambda desk: desk.stat("x"), encode_frame(DATA, 1, b"\1x")), LinkError)
    assert isinstance(await answered(lambda desk: desk.list("x"), encode_frame(DATA, 1, b"\1x")), LinkError)
    assert isinstance(await answered(lambda desk: desk.write("x", b""), encode_frame(EVENT, 1, b"n")), LinkError)


@pytest.mark.slow
async def test_a_guest_that_lets_a_timeout_pass_is_not_waited_for() -> None:
    async with linked() as (link, peer), anyio.create_task_group() as tasks:
        desk = LinkedDesk(new_id(), link, "/home/user")

        async def silent() -> None:
            number = await peer.opened()
            await peer.say(encode_frame(EVENT, number, PID))

        tasks.start_soon(silent)
        process = await desk.start(["x"], timeout=0.1)
        with anyio.fail_after(30):
            done = await process.wait()
        assert (done.timed_out, done.exit_code) == (True, 137)


@pytest.mark.parametrize("payload", [b"", b"\0\0\1", b"\0" * 5, b"\0" * 60000], ids=len)
async def test_credit_is_four_bytes_or_the_link_ends(payload: bytes) -> None:
    answer = encode_frame(CREDIT, 1, payload)
    assert isinstance(await answered(lambda desk: desk.run(["x"]), answer), LinkError)
