"""The reference solution: one program reads all contracts. This script runs outside the desk."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = Path(__file__).with_name("solve.py")


async def extract(hands: Hands) -> Done:
    """Find the clauses in every contract, and write the table."""
    await hands.write("solve.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "solve.py"], timeout=120)


PLAN = (step(extract, files=["contracts"], makes=["clauses.csv"]),)
