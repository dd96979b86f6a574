"""The reference solution: one program exports, cleans and imports. This script runs outside the desk."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = Path(__file__).with_name("solve.py")


async def transfer(hands: Hands) -> Done:
    """Export the members, and import those who may get the letter."""
    await hands.write("solve.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "solve.py"], timeout=300)


PLAN = (step(transfer, files=["countries.csv"], makes=["import.csv"]),)
