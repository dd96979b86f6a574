"""Tests of multiplexing connections over one byte stream: both ends, with real sockets."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from hotdesk_guest import mux, wire
from hotdesk_guest.mux import (
    CHUNK,
    CLOSE,
    DATA,
    HIGH,
    HOST_LIMIT,
    MAX_STREAMS,
    OPEN,
    POD_WINDOW,
    VM_LIMIT,
    WINDOW,
    WORD,
    Mux,
)


class Pair:
    """A machine's end and its supervisor's, in one loop; `far` are the ends of what streams are connected to."""

    def __init__(self, first: int = WINDOW, spare: int = 0) -> None:
        self.poll = select.epoll()
        self.carriers = socket.socketpair()
        self.words: list[dict[str, Any]] = []
        self.far: list[socket.socket] = []
        self.names: list[str] = []
        self.inside = Mux(self.poll, self.carriers[0].fileno(), HOST_LIMIT, self.words.append, first=first)
        self.outside = Mux(
            self.poll, self.carriers[1].fileno(), VM_LIMIT, self.words.append, self.connect, first=first, spare=spare
        )

    def connect(self, name: str) -> socket.socket | None:
        self.names.append(name)
        if name != "gate":
            return None
        near, far = socket.socketpair()
        far.setblocking(False)
        self.far.append(far)
        return near

    def call(self, name: str = "gate") -> socket.socket:
        """Open a stream; return the program's end."""
        program, ours = socket.socketpair()
        program.setblocking(False)
        self.inside.open(ours, name)
        self.settle()
        return program

    def settle(self) -> None:
        while events := self.poll.poll(0.02):
            for fd, event in events:
                assert self.inside.handle_event(fd, event) or self.outside.handle_event(fd, event)

    def fill(self, program: socket.socket) -> int:
        """Send on a stream until nothing more is taken; return how much waits outside."""
        with suppress(BlockingIOError):
            while True:
                program.send(bytes(CHUNK))
                self.settle()
        return self.count_waiting()

    def count_waiting(self) -> int:
        return sum(len(stream.end.out) for stream in self.outside.by_number.values())

    def close(self) -> None:
        for side in (self.inside, self.outside):
            for stream in list(side.by_number.values()):
                side.forget(stream)
        for sock in (*self.carriers, *self.far):
            sock.close()
        self.poll.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    found = Pair()
    yield found
    found.close()


@pytest.fixture
def narrow() -> Iterator[Pair]:
    """Ends whose streams begin with a small window, and share a spare of one that is wide."""
    found = Pair(POD_WINDOW, WINDOW)
    yield found
    found.close()


def test_a_stream_carries_bytes_both_ways_and_ends_by_halves(pair: Pair) -> None:
    program = pair.call()
    assert pair.names == ["gate"]
    program.send(b"to the gate")
    program.shutdown(socket.SHUT_WR)
    pair.settle()
    assert (pair.far[0].recv(100), pair.far[0].recv(100)) == (b"to the gate", b"")
    pair.far[0].send(b"from the gate")
    pair.far[0].close()
    pair.settle()
    assert (program.recv(100), program.recv(100)) == (b"from the gate", b"")
    assert not pair.inside.by_number
    assert not pair.outside.by_number
    program.close()


def test_windows_grow_with_use_and_share_what_is_spare(narrow: Pair) -> None:
    programs = [narrow.call() for _ in range(4)]
    waiting = [narrow.fill(program) for program in programs]
    assert waiting[0] == WINDOW
    assert WINDOW + 3 * POD_WINDOW <= waiting[-1] <= WINDOW + 4 * POD_WINDOW
    programs[0].close()
    narrow.far[0].close()
    narrow.settle()
    assert narrow.outside.spare == WINDOW - POD_WINDOW
    for far in narrow.far[1:]:  # the others continue, with what is spare again
        with suppress(BlockingIOError):
            while far.recv(1 << 20):
                narrow.settle()
    assert narrow.fill(programs[1]) == WINDOW
    for program in programs[1:]:
        program.close()


def test_more_than_a_narrow_window_is_refused(narrow: Pair) -> None:
    narrow.outside.take(OPEN, 7, b"gate")
    narrow.outside.by_number[7].end.out += bytes(POD_WINDOW)
    with pytest.raises(wire.WireError, match="flow-control"):
        narrow.outside.take(DATA, 7, b"x")


def test_a_carrier_that_takes_nothing_is_given_one_read_more_than_the_limit_and_then_all(pair: Pair) -> None:
    programs = [pair.call() for _ in range(80)]
    pair.outside.hold()
    for far in pair.far:
        far.send(bytes(CHUNK))
    pair.settle()
    assert HIGH <= len(pair.outside.carrier.out) <= HIGH + CHUNK + 100
    pair.outside.go_on()
    pair.settle()
    assert sum(len(program.recv(1 << 20)) for program in programs) == 80 * CHUNK
    for program in programs:
        program.close()


@pytest.mark.slow
def test_an_unread_stream_blocks_only_its_own_writer(pair: Pair) -> None:
    slow, quick = pair.call(), pair.call()
    sent = 0
    with suppress(BlockingIOError):
        while sent < 100 * WINDOW:
            sent += slow.send(bytes(CHUNK))
            pair.settle()
    assert WINDOW <= sent < 8 * WINDOW
    quick.send(b"still here")
    pair.settle()
    assert pair.far[1].recv(100) == b"still here"
    received = 0
    while received < sent:
        received += len(pair.far[0].recv(1 << 20))
        pair.settle()
    assert received == sent
    slow.close()
    quick.close()


def test_a_stream_that_cannot_be_connected_is_closed(pair: Pair) -> None:
    program = pair.call("vault")
    assert program.recv(1) == b""
    assert not pair.inside.by_number
    program.close()


def test_messages_travel_both_ways(pair: Pair) -> None:
    pair.inside.tell({"ready": True})
    pair.outside.tell({"seed": {"files": {"etc/hostname": [0o644, b"x" * VM_LIMIT]}}})
    pair.settle()
    assert pair.words[0] == {"ready": True}
    assert pair.words[1]["seed"]["files"]["etc/hostname"][0] == 0o644


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param(wire.encode_frame(WORD, 0, b"l"), id="half a word"),
        pytest.param(wire.encode_frame(WORD, 0, wire.encode([1])), id="a word that is no table"),
        pytest.param(
            wire.encode_frame(WORD, 0, wire.encode({str(n): n for n in range(5000)})), id="a word of many parts"
        ),
        pytest.param((VM_LIMIT + 1).to_bytes(4, "big") + bytes((DATA,)) + bytes(4), id="a frame too large"),
        pytest.param(wire.encode_frame(99, 0), id="a kind that is none"),
        pytest.param(wire.encode_frame(OPEN, 7, b"gate") * 2, id="a stream twice"),
        pytest.param(
            b"".join(wire.encode_frame(OPEN, n, b"gate") for n in range(MAX_STREAMS + 1)), id="too many streams"
        ),
        pytest.param(
            wire.encode_frame(OPEN, 7, b"gate") + wire.encode_frame(DATA, 7, bytes(VM_LIMIT)) * 20,
            id="more than there is credit for",
        ),
    ],
)
def test_a_machine_that_breaks_the_protocol_is_not_listened_to(pair: Pair, frames: bytes) -> None:
    def receive() -> None:
        for kind, number, payload in pair.outside.carrier.reader.feed(frames):
            pair.outside.take(kind, number, payload)

    with pytest.raises(wire.WireError):
        receive()


def test_no_stream_can_be_opened_into_a_machine(pair: Pair) -> None:
    with pytest.raises(wire.WireError):
        pair.inside.take(OPEN, 1, b"gate")


def test_frames_of_ended_streams_are_ignored(pair: Pair) -> None:
    for kind in (DATA, CLOSE, mux.CREDIT, mux.END):
        pair.outside.take(kind, 12345, b"late")
    assert not pair.outside.by_number


def test_a_side_on_hold_stops_between_two_frames_and_continues_where_it_was(pair: Pair) -> None:
    program = pair.call()
    pair.inside.tell({"still": True})
    pair.inside.hold()
    program.send(b"waits")
    pair.settle()
    assert pair.words == [{"still": True}]
    pair.far[0].setblocking(False)
    with pytest.raises(BlockingIOError):
        pair.far[0].recv(100)
    pair.inside.go_on()
    pair.settle()
    assert pair.far[0].recv(100) == b"waits"
    program.close()


def test_what_waits_when_a_side_is_put_on_hold_is_still_written(pair: Pair) -> None:
    pair.outside.tell({"seed": {"files": {"etc/hostname": [0o644, b"x" * (VM_LIMIT << 4)]}}})
    pair.outside.hold()
    pair.outside.tell({"late": True})
    pair.settle()
    assert [*pair.words[0]] == ["seed"]
    assert len(pair.words) == 1


def test_a_copy_forgets_its_origins_streams_and_what_they_would_have_sent(pair: Pair) -> None:
    program = pair.call()
    pair.inside.tell({"still": True})
    pair.inside.hold()
    program.send(b"never arrives")
    pair.settle()
    pair.inside.reset()
    assert program.recv(1) == b""
    pair.inside.tell({"up": True})
    pair.settle()
    assert pair.words == [{"still": True}, {"up": True}]
    with pytest.raises(BlockingIOError):
        pair.far[0].recv(100)
    program.close()
