"""The reference solution: one program converts and sums. This script runs outside the desk."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = Path(__file__).with_name("solve.py")


async def convert(hands: Hands) -> Done:
    """Convert every expense, and write the workbook with its sums."""
    await hands.write("solve.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "solve.py"], timeout=120)


PLAN = (step(convert, files=["expenses.xlsx", "rates.csv"], makes=["Converted.xlsx"]),)
