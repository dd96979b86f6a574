"""A watched folder of a desk, told of over a channel of its link."""

from __future__ import annotations

from hotdesk.config import MIB
from hotdesk.desk.link.channel import LISTED, Channel, GuestEvent, GuestReply
from hotdesk.desk.link.replies import as_change, check
from hotdesk.desk.seam import Change
from hotdesk.errors import FileError, LinkError

CHANGES = 100_000
"""Changes one look at a watched folder may give."""


class LinkedWatch:
    """A watched folder, told of over a channel."""

    def __init__(self, channel: Channel, path: str) -> None:
        self.channel = channel
        self.path = path
        self.asked = 0
        self.heard = 0
        """Bytes the guest told."""

    async def changes(self) -> list[Change]:
        """Give all that happened up to this moment: the guest looks once more, and marks where that look ends."""
        self.asked += 1
        await self.channel.order({"drain": self.asked})
        found: list[Change] = []
        begun = self.heard
        while True:
            told, marks = await self.next(timely=True)
            if len(found) + len(told) > CHANGES or self.heard - begun > LISTED:
                most = f"{CHANGES} changes" if len(found) + len(told) > CHANGES else f"{LISTED // MIB} MiB of changes"
                raise FileError(f"more than {most} in {self.path}; ask more often", "other")
            found += told
            if self.asked in marks:
                return found

    async def wait(self) -> list[Change]:
        """Wait until something happens, and give it."""
        while not (told := (await self.next(timely=False))[0]):
            pass
        return told

    async def next(self, timely: bool) -> tuple[list[Change], list[int]]:
        """Take the guest's next word: changes, and marks it was asked to set."""
        item = await (self.channel.answer() if timely else self.channel.receive())
        if isinstance(item, GuestReply):
            check(self.path, item.body)
        if not isinstance(item, GuestEvent) or not isinstance(item.value, list):
            raise LinkError("the guest spoke out of turn")
        self.heard += item.size
        marks = [one["drained"] for one in item.value if isinstance(one, dict) and "drained" in one]
        return [as_change(one) for one in item.value if not (isinstance(one, dict) and "drained" in one)], marks

    async def close(self) -> None:
        """Stop watching."""
        await self.channel.drop()
