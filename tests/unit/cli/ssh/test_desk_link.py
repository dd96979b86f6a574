"""Tests of reading a desk's frames for `hotdesk ssh`: within windows, on open channels, or the link ends."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotdesk.cli.ssh.desk_link import DeskLink
from hotdesk.errors import DeskGone, LinkError
from hotdesk_guest import wire

HELLO = wire.encode_frame(wire.HELLO, 0, wire.encode({"version": wire.VERSION}))
STARTED = wire.encode_frame(wire.EVENT, 1, wire.encode({"pid": 7}))
BLOCK = wire.encode_frame(wire.DATA, 1, b"\1" + bytes(32768))


class Watcher:
    """Follows a program and records what it receives."""

    def __init__(self) -> None:
        self.output: list[tuple[int, bytes]] = []
        self.room = 0
        self.end: tuple[int, str] | None = None

    def take_output(self, stream: int, data: bytes, cost: int) -> None:
        self.output.append((stream, data))

    def take_room(self, count: int) -> None:
        self.room += count

    def take_end(self, code: int, text: str) -> None:
        self.end = code, text


@pytest.fixture
def link() -> Iterator[DeskLink]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield DeskLink(ours, b"")


def feed(link: DeskLink, *frames: bytes) -> Watcher:
    watcher = Watcher()
    link.start(watcher, {"argv": ["true"]})
    link.reader.buffer += b"".join(frames)
    link.take_frames()
    return watcher


def test_a_program_is_followed_from_its_start_to_its_end(link: DeskLink) -> None:
    said = wire.encode_frame(wire.DATA, 1, b"\2oops")
    watcher = feed(link, HELLO, STARTED, said, wire.encode_frame(wire.REPLY, 1, wire.encode({"code": 3})))
    assert (watcher.output, watcher.end) == ([(2, b"oops")], (3, ""))
    assert not link.channels


def test_credit_is_returned_once_output_is_passed_on(link: DeskLink) -> None:
    feed(link, HELLO, STARTED, BLOCK)
    channel = link.channels[1]
    link.out.clear()
    channel.give_back(wire.WINDOW // 4)
    assert link.out == wire.encode_frame(
        wire.CREDIT, 1, channel_credit(wire.WINDOW // 4 + wire.compute_cost(wire.encode({"pid": 7})))
    )


def channel_credit(count: int) -> bytes:
    return count.to_bytes(4, "big")


LIES = {
    "another version": wire.encode_frame(wire.HELLO, 0, wire.encode({"version": 99})),
    "two greetings": HELLO * 2,
    "output before the start": HELLO + BLOCK,
    "more than its window": HELLO + STARTED + BLOCK * 9,
    "an unknown stream": HELLO + STARTED + wire.encode_frame(wire.DATA, 1, b"\3x"),
    "an empty frame": HELLO + STARTED + wire.encode_frame(wire.DATA, 1, b"\1"),
    "a channel nobody opened": HELLO + wire.encode_frame(wire.DATA, 5, b"\1x"),
    "more flow-control credit than allowed": HELLO + STARTED + wire.encode_frame(wire.CREDIT, 1, b"\0\0\0\1"),
    "credit of another size": HELLO + STARTED + wire.encode_frame(wire.CREDIT, 1, b"\0"),
    "a start that is none": HELLO + wire.encode_frame(wire.EVENT, 1, wire.encode(["pid"])),
    "two starts": HELLO + STARTED * 2,
    "an end that is none": HELLO + wire.encode_frame(wire.REPLY, 1, wire.encode({"code": 999})),
    "an end that is a list": HELLO + wire.encode_frame(wire.REPLY, 1, wire.encode([])),
    "a huge frame": HELLO + (1 << 30).to_bytes(4, "big") + bytes(5),
    "a frame that hosts send": HELLO + wire.encode_frame(wire.OPEN, 1, b""),
}


@pytest.mark.parametrize("case", LIES)
def test_a_desk_that_breaks_the_protocol_loses_its_link(link: DeskLink, case: str) -> None:
    with pytest.raises(LinkError, match=r"broke the protocol|another protocol version"):
        feed(link, LIES[case])


def test_a_desk_that_disconnects_is_gone() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        with pytest.raises(DeskGone, match="closed the connection"):
            DeskLink(ours, b"").receive()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(sorted(wire.GUEST_KINDS)), st.integers(0, 2), st.binary(max_size=40))))
def test_no_frames_do_more_than_end_a_link(link: DeskLink, frames: list[tuple[int, int, bytes]]) -> None:
    fresh = DeskLink(link.sock, b"")
    try:
        feed(fresh, *(wire.encode_frame(*each) for each in frames))
    except LinkError:
        pass
