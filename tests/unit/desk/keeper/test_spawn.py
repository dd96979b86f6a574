"""Tests of messages between a keeper and a process that has stopped reading."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.desk.keeper.spawn import decode_settings, encode_settings
from hotdesk.ipc.child import send_now


def fill(sock: socket.socket, fds: list[int]) -> None:
    """Send until the other end's queue is full."""
    for _ in range(100_000):
        send_now(sock, b"x" * 1000, fds)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("with_descriptor", [False, True])
def test_a_full_queue_fails_at_once_instead_of_stopping_the_sender(with_descriptor: bool) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        fds = [ours.fileno()] if with_descriptor else []
        with pytest.raises(BlockingIOError):
            fill(ours, fds)


def test_descriptors_arrive() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        send_now(ours, b"here", [0])
        data, fds, _, _ = socket.recv_fds(theirs, 100, 4)
        assert data == b"here"
        assert len(fds) == 1
        os.close(fds[0])


def test_settings_of_desks_reach_a_keeper_unchanged() -> None:
    home = Path("/srv/x")
    plain = Config(run=home / "run", lib=home / "lib", images=home / "images")
    full = Config(
        run=home, lib=home, images=home, runtime="runsc", disk="ext4", disk_floor=1, memory_floor=2, pids_floor=3,
        ceiling=("read a.test",), names={"a.internal": "127.0.0.1:1"}, ca="/x", proxy="http://a:1",
        approval_seconds=1.5,
    )  # fmt: skip
    assert decode_settings(encode_settings(plain)) == plain
    assert decode_settings(encode_settings(full)) == full
