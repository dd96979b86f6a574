"""A watched folder of a desk: changes arrive over a channel of its link."""

from __future__ import annotations

from hotdesk.config import MIB
from hotdesk.desk.link.channel import MAX_LISTING_BYTES, UNEXPECTED_FRAME, Channel, GuestEvent, GuestReply
from hotdesk.desk.link.replies import as_change, check
from hotdesk.desk.seam import Change
from hotdesk.errors import FileError, LinkError

_MAX_CHANGES = 100_000
"""Maximum changes returned at a time."""


class LinkedWatch:
    """A watched folder; changes arrive over a channel."""

    def __init__(self, channel: Channel, path: str) -> None:
        self.channel = channel
        self.path = path
        self.drains = 0
        self.received = 0
        """Bytes received from the guest."""

    async def changes(self) -> list[Change]:
        """Return all changes up to now: the guest checks once more, and marks the end of that check."""
        self.drains += 1
        await self.channel.order({"drain": self.drains})
        found: list[Change] = []
        begun = self.received
        while True:
            batch, marks = await self.read_next(timely=True)
            if len(found) + len(batch) > _MAX_CHANGES or self.received - begun > MAX_LISTING_BYTES:
                most = (
                    f"{_MAX_CHANGES} changes"
                    if len(found) + len(batch) > _MAX_CHANGES
                    else f"{MAX_LISTING_BYTES // MIB} MiB of changes"
                )
                raise FileError(
                    f"{self.path} has more than {most} since they were last read; read the changes more often", "other"
                )
            found += batch
            if self.drains in marks:
                return found

    async def wait(self) -> list[Change]:
        while not (batch := (await self.read_next(timely=False))[0]):
            pass
        return batch

    async def read_next(self, timely: bool) -> tuple[list[Change], list[int]]:
        """Return the guest's next message: changes, and the numbers of completed checks."""
        item = await (self.channel.answer() if timely else self.channel.receive())
        if isinstance(item, GuestReply):
            check(self.path, item.body)
        if not isinstance(item, GuestEvent) or not isinstance(item.value, list):
            raise LinkError(UNEXPECTED_FRAME)
        self.received += item.size
        marks = [one["drained"] for one in item.value if isinstance(one, dict) and "drained" in one]
        return [as_change(one) for one in item.value if not (isinstance(one, dict) and "drained" in one)], marks

    async def close(self) -> None:
        await self.channel.drop()
