"""Tests of a room's sockets, which programs of the desk use as they like."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import cast

from hotdesk.desk.room.room import Room


class Crowd:
    """A listening socket at which a program calls again as soon as a call is accepted."""

    def __init__(self) -> None:
        self.accepted = 0

    def accept(self) -> tuple[socket.socket, str]:
        self.accepted += 1
        assert self.accepted < 10_000, "whoever serves this socket serves nothing else"
        return socket.socket(socket.AF_UNIX), ""


def test_a_program_that_never_stops_calling_sudo_is_not_waited_for() -> None:
    crowd = Crowd()
    Room.drop_knocks(cast(Room, SimpleNamespace(has_own_network=True, sudo=crowd)))
    assert 16 <= crowd.accepted <= 1000
