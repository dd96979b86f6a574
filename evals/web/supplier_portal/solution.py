"""The reference solution: one program signs in and reads the portal. This script runs outside the desk."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = Path(__file__).with_name("solve.py")


async def collect(hands: Hands) -> Done:
    """Read every order of the portal, and write the table."""
    await hands.write("solve.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "solve.py"], timeout=300)


PLAN = (step(collect, makes=["payable.csv"]),)
