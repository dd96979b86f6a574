"""The readers of an owner's desks, and spare readers for desks that have none yet."""

from __future__ import annotations

import socket
from contextlib import suppress

from hotdesk.desk.owner.parts import Parts
from hotdesk.desk.seam import Desk, DeskId, new_id
from hotdesk.errors import HotdeskError
from hotdesk.hands.screen.reader_client import DeskSeat, Lines
from hotdesk.ipc.tasks import Background


class Seats:
    """One seat for each desk, from its first use to the desk's end."""

    def __init__(self, parts: Parts, tasks: Background) -> None:
        self.parts = parts
        self.tasks = tasks
        self.seats: dict[DeskId, DeskSeat] = {}
        self.spare: list[Lines] = []
        self.names: dict[socket.socket, DeskId] = {}
        """Ids of readers, by our ends of their message sockets."""
        self.spare_count = 0
        """Number of spare readers: starting a reader takes longer than a picture of a screen."""

    def of(self, desk: Desk) -> DeskSeat:
        if desk.id not in self.seats:
            self.seats[desk.id] = DeskSeat(desk, self.take_lines, self.tasks, self.dismiss)
        return self.seats[desk.id]

    async def take_lines(self) -> Lines:
        """Return the sockets of a reader: a spare one, or one started now."""
        if not self.spare:
            return await self.begin()
        lines = self.spare.pop()
        self.tasks.start(self.refill)
        return lines

    async def keep_ready(self, count: int) -> None:
        self.spare_count = count
        await self.refill()

    async def refill(self) -> None:
        """Start readers until enough are spare; a failure is ignored here, and reported when a reader is needed."""
        with suppress(HotdeskError):
            while len(self.spare) < self.spare_count:
                self.spare.append(await self.begin())

    async def begin(self) -> Lines:
        name = new_id()
        talk, hand = (socket.socket(fileno=fd) for fd in await self.parts.start_reader(name))
        self.names[talk] = name
        return talk, hand

    async def dismiss(self, talk: socket.socket) -> None:
        """End a released reader: one that a desk took over would not end by itself."""
        if (name := self.names.pop(talk, None)) is not None:
            with suppress(HotdeskError):
                await self.parts.end_reader(name)

    def renew(self, desk: DeskId) -> None:
        """Replace a desk's reader: users of the seat get another one at the next request."""
        if (seat := self.seats.get(desk)) is not None:
            seat.close()

    def leave(self, desk: DeskId) -> None:
        if (seat := self.seats.pop(desk, None)) is not None:
            seat.end()

    def close(self) -> None:
        for desk in list(self.seats):
            self.leave(desk)
        for talk, hand in self.spare:
            talk.close()
            hand.close()
        self.spare.clear()
