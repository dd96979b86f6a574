"""The reference solution: one program reads, decides and reports. This script runs outside the desk."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = Path(__file__).with_name("solve.py")


async def decide(hands: Hands) -> Done:
    """Decide every pending claim by the policy."""
    await hands.write("solve.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "solve.py"], timeout=300)


PLAN = (step(decide, files=["policy.docx"], makes=["decisions.csv"]),)
