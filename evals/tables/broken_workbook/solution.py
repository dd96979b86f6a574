"""The reference solution: one program rewrites the formulas. This script runs outside the desk."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = Path(__file__).with_name("solve.py")


async def repair(hands: Hands) -> Done:
    """Repair the workbook, and have it calculated."""
    await hands.write("solve.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "solve.py"], timeout=180)


PLAN = (step(repair, files=["TASK.md", "Budget.xlsx"], makes=["Repaired.xlsx"]),)
