"""A job's vision model: every question is recorded with its cost and counts against the job's budget."""

from __future__ import annotations

import time

from hotdesk.brain.vision import Eyes
from hotdesk.errors import HostError
from hotdesk.job.record.log import JobLog


class MeteredVision:
    """A vision model whose cost is charged to a job."""

    def __init__(self, eyes: Eyes, log: JobLog) -> None:
        self.eyes = eyes
        self.log = log

    async def ask(self, image: bytes, media: str, question: str) -> str:
        """Answer a question about a picture; raise `HostError` if the budget is spent or the model refuses."""
        if why := self.log.find_spent_budget():
            raise HostError(why)
        began = time.monotonic()
        reply = await self.eyes.look(image, media, question)
        self.log.note_look(question, reply, int((time.monotonic() - began) * 1000))
        if reply.stop == "refused":
            raise HostError(reply.text)
        return reply.text
