"""Conversations of any length, as a worker has them."""

from __future__ import annotations

from hotdesk.brain.models.seam import Item, OurMessage, Reply, Results
from hotdesk.tool import Call, Observation

FIRST = OurMessage("Add up the invoices of March.")


def turn(number: int, size: int = 3000, image: bytes = b"", thought: int = 300) -> list[Item]:
    calls = (
        Call(f"c{number}a", "shell", {"command": f"cat invoice-{number}.txt"}),
        Call(f"c{number}b", "file_view", {"path": f"notes-{number}.md"}),
    )
    native = ({"type": "thinking", "thinking": "t" * thought, "signature": f"signed {number}"},)
    body = f"invoice {number} lists many things\n" + "row of goods\n" * (size // 13)
    seen = (
        (calls[0], Observation(body, image=image, media="image/png" if image else "")),
        (calls[1], Observation(f"note {number}", ok=number % 5 != 0)),
    )
    return [Reply(calls=calls, stop="calls", dialect="anthropic", native=native), Results(seen)]


def conversation(turns: int, size: int = 3000, image: bytes = b"") -> list[Item]:
    return [FIRST, *(item for number in range(turns) for item in turn(number, size, image))]
