"""A worker that reads a contract. It cuts its quotes short at first, and is told so. Runs outside."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

HERE = Path(__file__).parent


async def read(hands: Hands) -> Done:
    """Find the six clauses, each with its page and the sentence that says so."""
    await hands.write("read.py", (HERE / "read.py").read_bytes())
    if hands.before:
        hands.say(f"I quote word for word this time: {hands.before[:200]}")
    return await hands.run(["python3", "read.py", *([] if hands.before else ["short"])], timeout=60)


PLAN = (step(read, files=["contract.pdf"], makes=["clauses.json"]),)
