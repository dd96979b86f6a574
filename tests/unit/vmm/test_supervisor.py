"""Tests of the process around a microVM: which connection gets the guest for root."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hotdesk_vmm.supervisor import MachineSupervisor

pytestmark = pytest.mark.timeout(30)


class Machine:
    """A supervisor without a machine, and stand-ins for its guest for root."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.supervisor = MachineSupervisor(cast(Any, None))
        self.supervisor.await_root(self.path)
        self.heard: list[dict[str, object]] = []
        self.supervisor.mux = cast(Any, SimpleNamespace(tell=self.heard.append))

    def stand_in(self) -> socket.socket:
        """Request the guest for root, as `hotdesk_vmm.root` does."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(self.path)
        self.supervisor.take_root()
        return sock

    def connect(self) -> socket.socket:
        """Connect as the guest for root does."""
        found = self.supervisor.connect("root")
        assert found is not None
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "root.sock")
    yield made
    made.supervisor.listener.close()
    made.supervisor.saves.listener.close()
    made.supervisor.poll.close()


@pytest.mark.parametrize("aborted", [0, 1, 3])
def test_root_works_after_starts_that_were_aborted(machine: Machine, aborted: int) -> None:
    for _ in range(aborted):
        machine.stand_in().close()
    with machine.stand_in() as ours, machine.connect() as guest:
        guest.sendall(b"hello")
        assert ours.recv(5) == b"hello"
    assert machine.supervisor.connect("root") is None
    assert machine.heard == [{"root": True}] * (aborted + 1)


def test_an_event_without_a_caller_keeps_the_stand_in(machine: Machine) -> None:
    with machine.stand_in() as ours:
        machine.supervisor.take_root()
        with machine.connect() as guest:
            guest.sendall(b"hello")
            assert ours.recv(5) == b"hello"
