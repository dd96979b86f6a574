"""Tests of relaying a guest's link to one owner after another."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotdesk_vmm.link import CALL, LinkRelay


class Relayed:
    """A relay, the machine's end of its port, and an owner that may listen."""

    def __init__(self, folder: Path, *, is_parked: bool) -> None:
        self.path = str(folder / "link.sock")
        self.poll = select.epoll()
        ours, self.machine = socket.socketpair()
        self.machine.setblocking(False)
        self.relay = LinkRelay(self.poll, ours, is_parked=is_parked)
        self.listener: socket.socket | None = None

    def listen(self) -> None:
        self.deafen()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()

    def deafen(self) -> None:
        if self.listener is not None:
            self.listener.close()
            Path(self.path).unlink()
            self.listener = None

    def accept(self) -> socket.socket:
        assert self.listener is not None
        owner, _ = self.listener.accept()
        owner.setblocking(False)
        return owner

    def settle(self) -> None:
        while events := self.poll.poll(0.02):
            for fd, event in events:
                assert self.relay.handle_event(fd, event)

    def close(self) -> None:
        self.relay.part()
        self.deafen()
        self.relay.machine.sock.close()
        self.machine.close()
        self.poll.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Relayed]:
    found = Relayed(tmp_path, is_parked=False)
    found.listen()
    yield found
    found.close()


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[Relayed]:
    found = Relayed(tmp_path, is_parked=True)
    found.listen()
    yield found
    found.close()


def test_bytes_pass_both_ways_and_a_new_guest_is_not_called(fresh: Relayed) -> None:
    assert fresh.relay.join(fresh.path)
    with fresh.accept() as owner:
        fresh.machine.send(b"hello")
        owner.send(b"open")
        fresh.settle()
        assert (owner.recv(100), fresh.machine.recv(100)) == (b"hello", b"open")


def test_an_owner_that_parked_the_guest_is_disconnected_and_the_machine_is_not(fresh: Relayed) -> None:
    fresh.relay.join(fresh.path)
    with fresh.accept() as owner:
        owner.shutdown(socket.SHUT_WR)
        fresh.settle()
        assert owner.recv(100) == b""
    with pytest.raises(BlockingIOError):
        fresh.machine.recv(1)
    fresh.deafen()
    assert not fresh.relay.join(fresh.path), "nobody listens yet"
    with pytest.raises(BlockingIOError):
        fresh.machine.recv(1)
    fresh.listen()
    assert fresh.relay.join(fresh.path)
    assert fresh.machine.recv(100) == CALL
    with fresh.accept() as owner:
        fresh.machine.send(b"hello again")
        fresh.settle()
        assert owner.recv(100) == b"hello again"


def test_a_guest_that_greets_late_is_called_once_and_its_greeting_waits_for_the_next_owner(restored: Relayed) -> None:
    restored.relay.join(restored.path)
    restored.accept().close()
    restored.settle()
    assert not restored.relay.join(restored.path), "it was called and has not answered"
    restored.machine.send(b"hello")
    assert restored.relay.join(restored.path)
    with restored.accept() as owner:
        restored.settle()
        assert owner.recv(100) == b"hello"
    assert restored.machine.recv(100) == CALL


def test_the_end_of_the_machine_is_reported(fresh: Relayed) -> None:
    fresh.relay.join(fresh.path)
    owner = fresh.accept()
    fresh.machine.close()
    with owner, pytest.raises(EOFError):
        fresh.settle()


def test_an_owner_that_ends_without_parking_the_guest_ends_the_machine(fresh: Relayed) -> None:
    fresh.relay.join(fresh.path)
    with fresh.accept() as owner:
        fresh.machine.send(b"hello")
        fresh.settle()
        assert owner.recv(100) == b"hello"
    with pytest.raises(EOFError, match="owner"):
        fresh.settle()
    with pytest.raises(BlockingIOError):
        fresh.machine.recv(1)
